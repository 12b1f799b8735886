"""`SQLiteStore`: the parts of a record store over one file, and its opening and closing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memkit_core.errors import BackendUnavailableError
from memkit_core.models import MEMORIES, Target
from memkit_core.ports import (
    MovedRow,
    Problem,
    Received,
    Selection,
    StoreSnapshot,
    VectorSource,
    VectorSpace,
)
from memkit_core.sequences import chunked
from memkit_core.stores.changes import DIGEST_VERSION, digest
from memkit_core.stores.sqlite import schema
from memkit_core.stores.sqlite.arriving import receive_rows
from memkit_core.stores.sqlite.checking import repair_file, verify_file
from memkit_core.stores.sqlite.copying import copy_file
from memkit_core.stores.sqlite.database import Database, empty_log
from memkit_core.stores.sqlite.departing import SQLiteSnapshot
from memkit_core.stores.sqlite.filters import register_functions
from memkit_core.stores.sqlite.jobs import SQLiteJobs
from memkit_core.stores.sqlite.keywords import Postings, SQLiteKeywords
from memkit_core.stores.sqlite.log import SQLiteLog
from memkit_core.stores.sqlite.outbox import SQLiteOutbox
from memkit_core.stores.sqlite.partitions import SQLitePartitions
from memkit_core.stores.sqlite.recalls import SQLiteRecalls
from memkit_core.stores.sqlite.records import SQLiteRecords
from memkit_core.stores.sqlite.rows import SELECT_RECORD, read_record
from memkit_core.stores.sqlite.scopes import ensure_vector_space, find_place, find_vector_space
from memkit_core.stores.sqlite.settling import settle_keys
from memkit_core.stores.sqlite.spaces import SQLiteSpaces
from memkit_core.stores.sqlite.tracking import mark_all
from memkit_core.stores.sqlite.values import SQLiteValues
from memkit_core.stores.sqlite.vectors import SQLiteVectors
from memkit_core.text.tokenizer import TOKENIZER_VERSION, keyword_terms

_PAUSE = 0.001


class SQLiteStore:
    """`RecordStore` in one SQLite file; safe from threads, several processes, fork and SIGKILL.

    A commit survives a killed process; with `synchronous="NORMAL"` a power cut may lose the last
    commits, with `"FULL"` it does not. After `close` the one file is a complete copy of the store.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        busy_timeout: float = 5.0,
        synchronous: str = "NORMAL",
        checkpoint_bytes: int = 4 * 1024 * 1024,
    ) -> None:
        """Open the store at `path`, made or brought up to date as needed.

        Raises:
            ConfigError: the folder is missing or on a network file system, or SQLite is too old.
            SchemaError: the file is not memkit's, or a newer memkit wrote it.
        """
        # Through every symbolic link: two names of one file must share one lock and one index.
        self.path = Path(path).resolve()
        self._busy_timeout = busy_timeout
        self._database = Database(
            self.path,
            busy_timeout=busy_timeout,
            synchronous=synchronous,
            checkpoint_bytes=checkpoint_bytes,
            prepare=register_functions,
        )
        self.records = SQLiteRecords(self._database)
        self.keywords = SQLiteKeywords(self._database)
        self.vectors = SQLiteVectors(self._database)
        self.outbox = SQLiteOutbox(self._database)
        self.partitions = SQLitePartitions(self._database)
        self.spaces = SQLiteSpaces(self._database, self)
        self.log = SQLiteLog(self._database)
        self.values = SQLiteValues(self._database)
        self.recalls = SQLiteRecalls(self._database)
        self.jobs = SQLiteJobs(self._database)
        try:
            with self._database.write("open") as connection:
                schema.migrate(connection)
                _refresh_keywords(connection)
                _refresh_digests(connection)
                row = connection.execute("SELECT value FROM meta WHERE key = 'store_id'").fetchone()
        except BaseException:
            self._database.close()
            raise
        self.store_id: str = row[0]
        self.durable = True

    def given(self, space: VectorSpace) -> VectorSource:
        """See `RecordStore.given`; notes a space that is new."""
        with self._database.connection() as connection:
            number = find_vector_space(connection, space)
        if number is None:
            with self._database.write("note vector space") as connection:
                number = ensure_vector_space(connection, space)
        return _Given(
            store_id=self.store_id,
            vectors=SQLiteVectors(self._database, space, number),
            outbox=SQLiteOutbox(self._database, number),
        )

    def space_of(self, target: Target) -> VectorSpace | None:
        """See `RecordStore.space_of`."""
        with self._database.snapshot() as connection:
            place = find_place(connection, target)
            if place is None:
                return None
            row = connection.execute(
                "SELECT v.model, v.revision, v.dimension, v.in_use FROM partitions p JOIN vector_spaces v "
                "ON v.id = p.vector_space_id OR (p.vector_space_id IS NULL AND v.in_use = 1) WHERE p.id = ?",
                (place.partition_id,),
            ).fetchone()
        if row is None:
            return None
        model, revision, dimension, in_use = row
        return VectorSpace(model=model, revision=revision, dimension=dimension, given=not in_use)

    def given_spaces(self) -> list[VectorSpace]:
        """See `RecordStore.given_spaces`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT model, revision, dimension FROM vector_spaces WHERE in_use = 0 ORDER BY id"
            ).fetchall()
        return [VectorSpace(model=m, revision=r, dimension=d, given=True) for m, r, d in rows]

    @contextmanager
    def snapshot(self, selection: Selection) -> Iterator[StoreSnapshot]:
        """See `Portable.snapshot`; the write-ahead log grows for as long as it lasts."""
        with self._database.snapshot() as connection:
            yield SQLiteSnapshot(connection, selection)

    def receive(self, rows: Sequence[MovedRow]) -> list[Received]:
        """See `Portable.receive`."""
        return receive_rows(self._database, rows)

    def settle_keys(self, *, now: datetime, limit: int) -> int:
        """See `Portable.settle_keys`."""
        return settle_keys(self._database, now=now, limit=limit)

    def copy_to(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """See `Copyable.copy_to`; a progress counts pages."""
        copy_file(self._database, path, progress)

    def verify(self) -> list[Problem]:
        """See `RecordStore.verify`; each kind is looked for in one consistent state."""
        return verify_file(self._database)

    def repair(self) -> list[Problem]:
        """See `RecordStore.repair`; other writers wait while one kind is mended."""
        return repair_file(self._database)

    def purge(self) -> None:
        """See `RecordStore.purge`; other writers wait. Needs room for a copy of the file meanwhile."""
        with self._database.exclusive("purge") as connection:
            # Pages that were freed are cleared, also inside what is still in use.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("VACUUM")
            deadline = time.monotonic() + self._busy_timeout
            while not (emptied := empty_log(connection)) and time.monotonic() < deadline:
                time.sleep(_PAUSE)
        if not emptied:
            raise BackendUnavailableError(
                "a reader kept the write-ahead log from being emptied; try again when nobody reads",
                backend="sqlite",
                operation="purge",
            )

    def in_place(self) -> bool:
        """Whether `path` still is the file that was opened: not deleted, moved or replaced."""
        return self._database.in_place()

    def log_bytes(self) -> int:
        """See `Logged.log_bytes`."""
        return self._database.log_bytes()

    def checkpoint(self) -> bool:
        """See `Logged.checkpoint`."""
        return self._database.checkpoint()

    def close(self) -> None:
        """Checkpoint and close; safe to call twice."""
        self._database.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """`VectorSource` of a given space."""

    store_id: str
    vectors: SQLiteVectors
    outbox: SQLiteOutbox


def _refresh_keywords(connection: sqlite3.Connection) -> None:
    """Index all text anew when another version of the tokenizer made the keyword rows."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer'").fetchone()
    if row is not None and row[0] == TOKENIZER_VERSION:
        return
    connection.execute("DELETE FROM postings")
    connection.execute("UPDATE partitions SET documents = 0, terms = 0")
    mark_all(connection)
    rows = connection.execute(f"SELECT r.partition_id, r.seq, {SELECT_RECORD} FROM records r")
    for chunk in chunked(rows.fetchall(), 500):
        postings = Postings()
        for partition_id, seq, *rest in chunk:
            terms = keyword_terms(read_record(rest).index_text)
            postings.add(partition_id, seq, terms)
            connection.execute("UPDATE records SET terms = ? WHERE seq = ?", (len(terms), seq))
        postings.write(connection)
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('tokenizer', ?)", (TOKENIZER_VERSION,))


def _refresh_digests(connection: sqlite3.Connection) -> None:
    """Compute anew what duplicates share when another version of the rule, or none, made it."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'digests'").fetchone()
    if row is not None and row[0] == DIGEST_VERSION:
        return
    rows = connection.execute(
        f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.space = ?", (MEMORIES,)
    ).fetchall()
    connection.executemany(
        "UPDATE records SET digest = ? WHERE seq = ?",
        ((digest(read_record(rest)), seq) for seq, *rest in rows),
    )
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('digests', ?)", (DIGEST_VERSION,))
