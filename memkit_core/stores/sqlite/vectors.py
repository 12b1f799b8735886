"""`VectorTable` over SQLite: the vectors beside the records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np

from memkit_core.errors import ConfigError
from memkit_core.filters import Filter
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import Matrix, OutboxEntry, Vector, VectorSpace
from memkit_core.stores.checks import check_vectors, other_model
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.filters import Parameters, compile_filter
from memkit_core.stores.sqlite.rows import CHOSEN_RECORDS, SELECT_RECORD, VISIBLE, chosen, read_record
from memkit_core.stores.sqlite.scopes import find_place
from memkit_core.stores.sqlite.tracking import mark_changed, next_change
from memkit_core.times import to_ms

IN_USE = "(SELECT id FROM vector_spaces WHERE in_use = 1)"
"""The number of the memory's own vector space."""
GIVEN, USED, COMING, RETIRED = range(4)
"""What `vector_spaces.in_use` says of a space; see `SpaceTable`."""
_DTYPE = np.dtype("<f4")


def read_vector(blob: bytes) -> Vector:
    """The vector of a stored blob; a copy that may be changed."""
    return np.frombuffer(blob, dtype=_DTYPE).astype(np.float32)


def write_vector(vector: Vector) -> bytes:
    """The blob of a vector; empty for an all-zero one, which stands for nothing to embed."""
    return vector.astype(_DTYPE, copy=False).tobytes() if vector.any() else b""


def space_in_use(connection: sqlite3.Connection) -> VectorSpace | None:
    """The memory's own vector space, None before its first vector."""
    row = connection.execute(
        "SELECT model, revision, dimension FROM vector_spaces WHERE in_use = 1"
    ).fetchone()
    return None if row is None else VectorSpace(model=row[0], revision=row[1], dimension=row[2])


class SQLiteVectors:
    """The vectors of one file, in the memory's own vector space or in a given one."""

    def __init__(
        self, database: Database, given: VectorSpace | None = None, number: int | None = None
    ) -> None:
        """Read and write in `database`, in the space `given` that has this number; None for the own."""
        self._database = database
        self._given = given
        self._id = IN_USE if number is None else str(int(number))

    def use_space(self, space: VectorSpace) -> None:
        """See `VectorTable.use_space`."""
        if self._given is not None:
            _check_same(self._given, space)
            return
        with self._database.write("choose vector space") as connection:
            row = connection.execute(
                "SELECT model, revision, dimension, id FROM vector_spaces WHERE in_use = 1"
            ).fetchone()
            if row is None:
                connection.execute(
                    "INSERT INTO vector_spaces(fingerprint, model, revision, dimension, in_use) VALUES (?, ?, ?, ?, 1)",
                    (space.fingerprint, space.model, space.revision, space.dimension),
                )
                return
            found = VectorSpace(model=row[0], revision=row[1], dimension=row[2])
        _check_same(found, space)

    def space(self) -> VectorSpace | None:
        """See `VectorTable.space`."""
        if self._given is not None:
            return self._given
        with self._database.connection() as connection:
            return space_in_use(connection)

    def save(
        self, entries: Sequence[OutboxEntry], vectors: Matrix, *, space: VectorSpace | None = None
    ) -> list[bool]:
        """See `VectorTable.save`."""
        with self._database.write("save vectors") as connection:
            held = self._given or space_in_use(connection)
            if space is not None and held is not None:
                _check_same(held, space)
            check_vectors(vectors, held, backend="sqlite")
            newest = dict(
                connection.execute(
                    "SELECT number, seq FROM outbox WHERE seq IS NOT NULL "
                    "AND number IN (SELECT value FROM json_each(?))",
                    (json.dumps([entry.number for entry in entries]),),
                )
            )
            connection.executemany(
                f"INSERT OR REPLACE INTO vectors(vector_space_id, seq, vector) VALUES ({self._id}, ?, ?)",
                [
                    (newest[entry.number], write_vector(vector))
                    for entry, vector in zip(entries, vectors, strict=True)
                    if entry.number in newest
                ],
            )
            if newest:
                _note_change(connection, list(newest.values()))
        return [entry.number in newest for entry in entries]

    def scan(
        self,
        target: Target,
        *,
        where: Filter | None,
        now: datetime,
        points: Sequence[UUID] | None = None,
        space: VectorSpace | None = None,
    ) -> tuple[list[UUID], Matrix]:
        """See `VectorTable.scan`."""
        parameters = Parameters()
        filtered = compile_filter(where, parameters)
        rows: list[tuple[bytes, bytes]] = []
        with self._database.snapshot() as connection:
            place = find_place(connection, target)
            same = space is None or (self._given or space_in_use(connection)) == space
            if place is not None and same:
                source = "records r" if points is None else CHOSEN_RECORDS
                rows = connection.execute(
                    f"SELECT r.point_id, v.vector FROM {source} JOIN vectors v ON v.seq = r.seq "
                    f"AND v.vector_space_id = {self._id} "
                    f"WHERE {place.sql} AND {VISIBLE} AND v.vector <> x'' AND {filtered}",
                    {**chosen(points or ()), **place.parameters, **parameters.values, "now": to_ms(now)},
                ).fetchall()
        if not rows:
            return [], np.zeros((0, 0), np.float32)
        flat = np.frombuffer(b"".join(row[1] for row in rows), dtype=_DTYPE).astype(np.float32)
        return [UUID(bytes=row[0]) for row in rows], flat.reshape(len(rows), -1)

    def page(self, *, after: int, limit: int) -> list[tuple[int, MemoryRecord, Vector]]:
        """See `VectorTable.page`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                f"SELECT r.seq, v.vector, {SELECT_RECORD} FROM records r JOIN vectors v ON v.seq = r.seq "
                f"AND v.vector_space_id = {self._id} WHERE r.seq > ? AND v.vector <> x'' ORDER BY r.seq LIMIT ?",
                (after, limit),
            ).fetchall()
        return [(row[0], read_record(row[2:]), read_vector(row[1])) for row in rows]

    def counts(self) -> tuple[int, int]:
        """See `VectorTable.counts`."""
        with self._database.snapshot() as connection:
            (stored,) = connection.execute(
                f"SELECT count(*) FROM vectors WHERE vector_space_id = {self._id} AND vector <> x''"
            ).fetchone()
            (waiting,) = connection.execute(
                f"SELECT count(*) FROM outbox o JOIN vectors v ON v.seq = o.seq "
                f"AND v.vector_space_id = {self._id} WHERE v.vector <> x''"
            ).fetchone()
        return stored, waiting


def _note_change(connection: sqlite3.Connection, rows: list[int]) -> None:
    number = next_change(connection)
    partitions = connection.execute(
        "UPDATE records SET changed = ? WHERE seq IN (SELECT value FROM json_each(?)) RETURNING partition_id",
        (number, json.dumps(rows)),
    ).fetchall()
    mark_changed(connection, number, {row[0] for row in partitions})


def _check_same(found: VectorSpace, space: VectorSpace) -> None:
    if found != space:
        raise ConfigError(
            other_model(found, model=space.model, revision=space.revision, dimension=space.dimension)
        )


def write_given(
    connection: sqlite3.Connection, number: int | None, records: Sequence[MemoryRecord], vectors: Matrix
) -> None:
    """Keep the vectors that came with records which were just written; of one id the last one.

    They are of the given space with that number; None for the memory's own. A record that became one
    with another has no row, so its vector goes nowhere.
    """
    space = IN_USE if number is None else str(int(number))
    connection.executemany(
        "INSERT OR REPLACE INTO vectors(vector_space_id, seq, vector) "
        f"SELECT {space}, seq, ? FROM records WHERE point_id = ?",
        [
            (write_vector(vector), record.point_id.bytes)
            for record, vector in zip(records, vectors, strict=True)
        ],
    )
