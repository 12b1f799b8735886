"""`PartitionTable` over SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from memkit_core.models import Target
from memkit_core.ports import Candidate, PartitionChanges, PartitionMark, PartitionRow, Postings, VectorSpace
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.keywords import term_number
from memkit_core.stores.sqlite.rows import select_candidate

_PARTITION = """
SELECT p.id, p.changed, p.removed, p.renewed, p.documents, p.terms, v.model, v.revision, v.dimension, v.in_use, v.id
FROM scopes s JOIN partitions p ON p.scope_id = s.id AND p.space = ?
LEFT JOIN vector_spaces v
  ON v.id = coalesce(p.vector_space_id, (SELECT id FROM vector_spaces WHERE in_use = 1))
WHERE s.digest = ?
"""
_CHANGED = "FROM records r WHERE r.partition_id = :partition AND r.changed > :after"
_POSTINGS = "SELECT seq, count FROM postings WHERE partition_id = ? AND term = ?"
_DECIDING = 7
"""Columns behind those of the candidate."""


class SQLitePartitions:
    """The partitions of one file."""

    def __init__(self, database: Database) -> None:
        """Read in `database`."""
        self._database = database

    def changes(
        self,
        target: Target,
        *,
        after: PartitionMark | None,
        most: int,
        terms: Sequence[str],
        held: Collection[str] = (),
    ) -> PartitionChanges | None:
        """See `PartitionTable.changes`."""
        with self._database.snapshot() as connection:
            row = connection.execute(_PARTITION, (target.space, target.owner.digest)).fetchone()
            if row is None:
                return None
            partition, changed, removed, renewed, documents, total, *space, space_id = row
            mark = PartitionMark(partition, changed, _space(space))
            if mark == after:
                wanted = [term for term in terms if term not in held]
                return PartitionChanges(
                    mark=mark,
                    documents=documents,
                    terms=total,
                    rows=[],
                    postings=_postings(connection, partition, wanted),
                )
            known = -1
            if after is not None and (after.partition, after.space) == (partition, mark.space):
                known = after.change
            seen = known if renewed <= known else -1
            return PartitionChanges(
                mark=mark,
                documents=documents,
                terms=total,
                rows=_rows(connection, target.space, partition, space_id, seen, most),
                present=_present(connection, partition) if 0 <= known < removed else None,
                postings=_postings(connection, partition, terms),
            )


def _space(columns: Sequence[object]) -> VectorSpace | None:
    model, revision, dimension, in_use = columns
    if model is None:
        return None
    return VectorSpace(
        model=str(model), revision=str(revision), dimension=int(str(dimension)), given=not in_use
    )


def _rows(
    connection: sqlite3.Connection, space: str, partition: int, space_id: int | None, after: int, most: int
) -> list[PartitionRow] | None:
    values = {"partition": partition, "after": after, "space": space_id}
    (many,) = connection.execute(f"SELECT count(*) {_CHANGED}", values).fetchone()
    if many > most:
        return None
    rows = connection.execute(
        f"SELECT {select_candidate(space)}, (SELECT digest FROM scopes s WHERE s.id = r.scope_id), r.status, "
        "r.type, iif(r.pinned, NULL, r.expires_at), coalesce(r.valid_from, r.created_at), r.valid_until, "
        "(SELECT vector FROM vectors v WHERE v.seq = r.seq AND v.vector_space_id = :space) "
        f"{_CHANGED} ORDER BY r.seq",
        values,
    )
    return [PartitionRow(Candidate(*row[:-_DECIDING]), *row[-_DECIDING:]) for row in rows]


def _present(connection: sqlite3.Connection, partition: int) -> list[int]:
    rows = connection.execute("SELECT seq FROM records WHERE partition_id = ? ORDER BY seq", (partition,))
    return [row[0] for row in rows]


def _postings(connection: sqlite3.Connection, partition: int, terms: Iterable[str]) -> dict[str, Postings]:
    found = {}
    for term in terms:
        rows = connection.execute(_POSTINGS, (partition, term_number(term))).fetchall()
        flat = np.array(rows, np.int64).reshape(-1, 2)
        found[term] = Postings(flat[:, 0].copy(), flat[:, 1].copy())
    return found
