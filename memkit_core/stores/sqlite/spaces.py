"""`SpaceTable` over SQLite: vectors of another model beside those in use, and the switch to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from memkit_core.errors import ConfigError
from memkit_core.ports import Matrix, Outbox, Unembedded, VectorSource, VectorSpace
from memkit_core.stores.checks import check_vectors, not_coming
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.rows import SELECT_RECORD, read_record
from memkit_core.stores.sqlite.scopes import find_vector_space
from memkit_core.stores.sqlite.vectors import COMING, RETIRED, USED, SQLiteVectors, write_vector
from memkit_core.stores.sqlite.writing import enqueue_rows

# In the order of the rows' numbers, so that a page reads no more than it returns.
_OWN = "FROM records r CROSS JOIN partitions p ON p.id = r.partition_id AND p.vector_space_id IS NULL"
_BARE = "NOT EXISTS (SELECT 1 FROM vectors v WHERE v.seq = r.seq AND v.vector_space_id = :space)"


class SQLiteSpaces:
    """The memory's own vector spaces in one file."""

    def __init__(self, database: Database, store: VectorSource) -> None:
        """Read and write in `database`, which is that of `store`."""
        self._database = database
        self._store = store

    def begin(self, space: VectorSpace) -> VectorSource:
        """See `SpaceTable.begin`."""
        with self._database.write("begin vector space") as connection:
            connection.execute(
                "UPDATE vector_spaces SET in_use = ? WHERE in_use = ? AND fingerprint <> ?",
                (RETIRED, COMING, space.fingerprint),
            )
            connection.execute(
                "INSERT INTO vector_spaces(fingerprint, model, revision, dimension, in_use) VALUES (?, ?, ?, ?, ?) "
                f"ON CONFLICT (fingerprint) DO UPDATE SET in_use = excluded.in_use WHERE in_use = {RETIRED}",
                (space.fingerprint, space.model, space.revision, space.dimension, COMING),
            )
            number = find_vector_space(connection, space)
        return _Coming(
            store_id=self._store.store_id,
            vectors=SQLiteVectors(self._database, space, number),
            outbox=self._store.outbox,
        )

    def waiting(self, space: VectorSpace, *, after: int, limit: int) -> list[Unembedded]:
        """See `SpaceTable.waiting`."""
        with self._database.snapshot() as connection:
            number = find_vector_space(connection, space)
            rows = connection.execute(
                f"SELECT r.seq, r.changed, {SELECT_RECORD} {_OWN} WHERE r.seq > :after AND {_BARE} "
                "ORDER BY r.seq LIMIT :limit",
                {"space": number, "after": after, "limit": limit},
            ).fetchall()
        return [Unembedded(seq, changed, read_record(rest)) for seq, changed, *rest in rows]

    def count(self, space: VectorSpace) -> tuple[int, int]:
        """See `SpaceTable.count`."""
        with self._database.snapshot() as connection:
            (rows,) = connection.execute(f"SELECT count(*) {_OWN}").fetchone()
            (embedded,) = connection.execute(
                "SELECT count(*) FROM vectors WHERE vector_space_id = ?",
                (find_vector_space(connection, space),),
            ).fetchone()
        return rows, embedded

    def keep(self, space: VectorSpace, rows: Sequence[Unembedded], vectors: Matrix) -> int:
        """See `SpaceTable.keep`."""
        check_vectors(vectors, space, backend="sqlite")
        with self._database.write("keep vectors") as connection:
            number = _checked(connection, space)
            # A vector that is there was made from this text: with another it would have gone.
            kept = connection.executemany(
                "INSERT OR REPLACE INTO vectors(vector_space_id, seq, vector) "
                "SELECT ?, seq, ? FROM records WHERE seq = ? AND changed = ?",
                [
                    (number, write_vector(vector), row.row, row.change)
                    for row, vector in zip(rows, vectors, strict=True)
                ],
            )
            return kept.rowcount

    def switch(self, space: VectorSpace, *, tell: Sequence[int] = ()) -> int:
        """See `SpaceTable.switch`."""
        with self._database.write("switch vector space") as connection:
            number = _checked(connection, space)
            bare = connection.execute(f"SELECT r.seq {_OWN} WHERE {_BARE}", {"space": number}).fetchall()
            connection.execute(
                "UPDATE vector_spaces SET in_use = CASE id WHEN ? THEN ? ELSE ? END WHERE id = ? OR in_use = ?",
                (number, USED, RETIRED, number, USED),
            )
            enqueue_rows(connection, list({*tell, *(row[0] for row in bare)}))
        return len(bare)

    def retired(self) -> list[VectorSpace]:
        """See `SpaceTable.retired`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT model, revision, dimension FROM vector_spaces WHERE in_use = ? ORDER BY id",
                (RETIRED,),
            ).fetchall()
        return [VectorSpace(model=m, revision=r, dimension=d) for m, r, d in rows]

    def drop(self, space: VectorSpace, *, limit: int) -> int:
        """See `SpaceTable.drop`."""
        with self._database.write("drop vectors") as connection:
            return connection.execute(
                "DELETE FROM vectors WHERE rowid IN (SELECT v.rowid FROM vectors v WHERE v.vector_space_id = "
                "(SELECT id FROM vector_spaces WHERE fingerprint = ? AND in_use = ?) LIMIT ?)",
                (space.fingerprint, RETIRED, limit),
            ).rowcount

    def forget(self, space: VectorSpace) -> None:
        """See `SpaceTable.forget`."""
        with self._database.write("forget vector space") as connection:
            connection.execute(
                "DELETE FROM vector_spaces WHERE fingerprint = ? AND in_use = ? "
                "AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.vector_space_id = vector_spaces.id)",
                (space.fingerprint, RETIRED),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coming:
    """`VectorSource` of the coming space: the changes it waits for are those of the one in use."""

    store_id: str
    vectors: SQLiteVectors
    outbox: Outbox


def _checked(connection: sqlite3.Connection, space: VectorSpace) -> int:
    """The number of the coming space; raises `ConfigError` when it is not coming."""
    row = connection.execute(
        "SELECT id FROM vector_spaces WHERE fingerprint = ? AND in_use = ?", (space.fingerprint, COMING)
    ).fetchone()
    if row is None:
        raise ConfigError(not_coming(space))
    return int(row[0])
