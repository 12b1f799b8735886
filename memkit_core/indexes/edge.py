"""`EdgeIndex`: Qdrant embedded in the process, in one folder.

What the engine is known to do (qdrant-edge-py 0.9) and what is done about it here:

- In a forked child the first call never returns, so a child gets `BackendUnavailableError` at once
  and never touches the inherited shard.
- A second open of a live folder can damage it: whoever makes an `EdgeIndex` holds a lock on the
  folder first (`memkit_core.indexes.keeper`).
- It holds the GIL in every call, so writes go in small batches with a pause for other threads.
- Errors are bare `Exception` and, on damaged files, `PanicException`, a `BaseException`. This is the
  one place that catches it; both become `BackendError`, and the keeper rebuilds the folder.
- Deleted payloads stay in its files, so a payload holds digests and times, never text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from memkit_core.errors import (
    BackendError,
    BackendUnavailableError,
    ClosedError,
    MissingDependencyError,
)
from memkit_core.filters import Filter
from memkit_core.indexes.checks import checked_hit, checked_query, unit_rows
from memkit_core.indexes.qdrant_points import INTEGER_FIELDS, KEYWORD_FIELDS, QdrantFilters, payload
from memkit_core.locks import ThreadLock
from memkit_core.models import Target
from memkit_core.ports import IndexHit, IndexPoint, Vector
from memkit_core.sequences import chunked

if TYPE_CHECKING:
    import qdrant_edge

_BACKEND = "qdrant-edge"
_VECTOR = "dense"


def _engine() -> Any:
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingDependencyError("qdrant-edge-py", extra=None) from error
    return qdrant_edge


class EdgeIndex:
    """Vectors in a Qdrant Edge shard, found by cosine. Thread-safe; one process a folder.

    Each write is on disk when it returns as far as a killed process goes; `flush` adds power cuts.
    """

    def __init__(self, folder: Path, dimension: int, *, batch: int = 250) -> None:
        """Load the shard in `folder`, or make one there. The caller holds the lock on the folder.

        Raises:
            BackendError: the folder cannot be loaded; it may be damaged.
            MissingDependencyError: qdrant-edge-py is not installed.
        """
        self._edge = edge = _engine()
        self._filters = QdrantFilters(
            edge, between=edge.RangeFloat, empty=edge.IsEmptyCondition, nothing=edge.HasIdCondition(set())
        )
        self._dimension = dimension
        self._batch = batch
        self._pid = os.getpid()
        self._mutex = ThreadLock()
        self._shard: qdrant_edge.EdgeShard | None = None
        with _guarded("open"):
            self._shard = self._load(folder) if any(folder.glob("*")) else self._create(folder)

    def _create(self, folder: Path) -> qdrant_edge.EdgeShard:
        edge = self._edge
        folder.mkdir(parents=True, exist_ok=True)
        shard: qdrant_edge.EdgeShard
        vectors = {_VECTOR: edge.EdgeVectorParams(size=self._dimension, distance=edge.Distance.Cosine)}
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors))
        for field in KEYWORD_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        for field in INTEGER_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Integer))
        return shard

    def _load(self, folder: Path) -> qdrant_edge.EdgeShard:
        shard: qdrant_edge.EdgeShard = self._edge.EdgeShard.load(str(folder))
        return shard

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""
        return self._dimension

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """See `VectorIndex.upsert`; batches are separate writes, each whole or not at all."""
        edge = self._edge
        rows = unit_rows(points, self._dimension, backend=_BACKEND)
        for number, chunk in enumerate(chunked(list(zip(points, rows, strict=True)), self._batch)):
            if number:
                _let_others_run()
            made = [
                edge.Point(point.point_id, {_VECTOR: row.tolist()}, payload(point)) for point, row in chunk
            ]
            with self._open("upsert") as shard:
                shard.update(edge.UpdateOperation.upsert_points(made))

    def delete(self, points: Sequence[UUID]) -> None:
        """See `VectorIndex.delete`."""
        for number, chunk in enumerate(chunked(points, self._batch)):
            if number:
                _let_others_run()
            with self._open("delete") as shard:
                shard.update(self._edge.UpdateOperation.delete_points(list(chunk)))

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        query = checked_query(vector, self._dimension, backend=_BACKEND)
        if query is None or limit <= 0:
            return []
        edge = self._edge
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist(), using=_VECTOR),
            filter=self._filters.within(target, where),
            limit=limit,
            with_payload=False,
            with_vector=False,
        )
        with self._open("search") as shard:
            found = shard.query(request)
        return [checked_hit(_known(hit.id, "search"), hit.score, backend=_BACKEND) for hit in found]

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """See `VectorIndex.get`."""
        with self._open("get") as shard:
            found = shard.retrieve(list(points), False, True)
        vectors = {}
        for record in found:
            stored: Any = record.vector
            if not stored or _VECTOR not in stored:
                raise BackendError(
                    f"point {record.id} has no vector; the files are damaged",
                    backend=_BACKEND,
                    operation="get",
                )
            vectors[_known(record.id, "get")] = np.asarray(stored[_VECTOR], dtype=np.float32)
        return vectors

    def count(self) -> int:
        """How many points it holds."""
        with self._open("count") as shard:
            return int(shard.count(self._edge.CountRequest(exact=True)))

    def clear(self) -> None:
        """Remove every point. Their payloads stay in the files until the folder is rebuilt."""
        with self._open("clear") as shard:
            shard.update(self._edge.UpdateOperation.delete_points_by_filter(self._edge.Filter()))

    def flush(self) -> None:
        """See `VectorIndex.flush`."""
        with self._open("flush") as shard:
            shard.flush()

    def close(self) -> None:
        """Let go of the folder; safe to call twice. In a forked child nothing is touched."""
        with self._mutex:
            shard, self._shard = self._shard, None
            if shard is None:
                return
            if self._pid != os.getpid():
                _never_collected.append(shard)
                return
            with _guarded("close"):
                shard.close()

    @contextmanager
    def _open(self, operation: str) -> Iterator[qdrant_edge.EdgeShard]:
        if self._pid != os.getpid():
            raise BackendUnavailableError(
                "this process was forked from the one that opened the index",
                backend=_BACKEND,
                operation=operation,
            )
        shard = self._shard
        if shard is None:
            raise ClosedError(f"{operation}: the index was closed; open the memory again")
        with _guarded(operation):
            yield shard


def _known(point: object, operation: str) -> UUID:
    """The id of a point as memkit made it; any other is not ours."""
    if isinstance(point, UUID):
        return point
    raise BackendError(
        f"point {point!r} is no UUID; the files are damaged", backend=_BACKEND, operation=operation
    )


def _let_others_run() -> None:
    time.sleep(0)


# A shard that a forked child inherited must not be closed by garbage collection either.
_never_collected: list[object] = []


@contextmanager
def _guarded(operation: str) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, BackendError):
        raise
    except BaseException as error:  # the engine's panics derive from BaseException
        raise BackendError(
            str(error) or type(error).__name__, backend=_BACKEND, operation=operation
        ) from error
