"""What memkit is measured against: a bare Qdrant Edge shard and bare SQLite."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge

from memkit_core.ports import Matrix, Vector

_BATCH = 250
LIMIT = 30


class RawEngine:
    """The same points in a shard of their own: dense and the engine's own sparse BM25, never optimised."""

    def __init__(self, folder: Path, dimension: int) -> None:
        """Load the shard in `folder`, or make one there."""
        self._bm25 = edge.Bm25()
        if folder.exists():
            self._shard = edge.EdgeShard.load(str(folder))
            return
        folder.mkdir(parents=True)
        config = edge.EdgeConfig(
            vectors={"dense": edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)},
            sparse_vectors={"words": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        )
        self._shard = edge.EdgeShard.create(str(folder), config)
        for name in ("partition", "status"):
            kind = edge.PayloadSchemaType.Keyword
            self._shard.update(edge.UpdateOperation.create_field_index(name, kind))

    def fill(self, user: str, texts: Sequence[str], vectors: Matrix) -> None:
        """Add the records of one user."""
        for start in range(0, len(texts), _BATCH):
            chunk = range(start, min(start + _BATCH, len(texts)))
            points = [
                edge.Point(
                    str(uuid.uuid4()),
                    {"dense": vectors[i].tolist(), "words": self._bm25.embed_document(texts[i])},
                    {"partition": user, "status": "active"},
                )
                for i in chunk
            ]
            self._shard.update(edge.UpdateOperation.upsert_points(points))

    def dense(self, user: str, query: Vector) -> int:
        """The nearest points of a user; how many."""
        return self._query(user, edge.Query.Nearest(query.tolist(), using="dense"))

    def keyword(self, user: str, text: str) -> int:
        """The best points of a user by the engine's BM25; how many."""
        return self._query(user, edge.Query.Nearest(self._bm25.embed_query(text), using="words"))

    def _query(self, user: str, query: edge.Query) -> int:
        conditions = {"partition": user, "status": "active"}
        owned: list[Any] = [
            edge.FieldCondition(key=key, match=edge.MatchValue(value)) for key, value in conditions.items()
        ]
        request = edge.QueryRequest(
            query=query, filter=edge.Filter(must=owned), limit=LIMIT, with_payload=False, with_vector=False
        )
        return len(self._shard.query(request))

    def close(self) -> None:
        """Write all that waits, and let go of the folder."""
        self._shard.flush()
        self._shard.close()


class RawTable:
    """One table in SQLite with the settings memkit uses: a commit a row."""

    def __init__(self, path: Path) -> None:
        """Open or make the file."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS messages(session INTEGER, position INTEGER, role TEXT, text TEXT, "
            "PRIMARY KEY(session, position))"
        )

    def fill(self, session: int, texts: Sequence[str]) -> None:
        """Put many rows in one transaction."""
        rows = [(session, position, "user", text) for position, text in enumerate(texts)]
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO messages VALUES (?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def append(self, session: int, text: str) -> None:
        """Write one row and commit it."""
        self._connection.execute(
            "INSERT INTO messages SELECT :session, coalesce(max(position), -1) + 1, 'user', :text "
            "FROM messages WHERE session = :session",
            {"session": session, "text": text},
        )

    def last(self, session: int, count: int) -> list[tuple[str, str]]:
        """The newest rows, oldest first."""
        rows = self._connection.execute(
            "SELECT role, text FROM messages WHERE session = ? ORDER BY position DESC LIMIT ?",
            (session, count),
        )
        return rows.fetchall()[::-1]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def read_vectors(path: Path, *, first: int, count: int, dimension: int) -> Matrix:
    """`count` rows of a file of float32, without the rest of it in memory."""
    size = np.dtype(np.float32).itemsize * dimension
    flat = np.fromfile(path, np.float32, count * dimension, offset=first * size)
    return flat.reshape(count, dimension)
