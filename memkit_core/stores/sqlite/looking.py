"""Looking at a file without changing it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memkit_core.errors import SchemaError
from memkit_core.ports import VectorSpace
from memkit_core.stores.sqlite.places import log_of
from memkit_core.stores.sqlite.schema import version
from memkit_core.stores.sqlite.translating import translated


def look(path: Path) -> Found | None:
    """What the file at `path` is, without changing it or leaving anything beside it; None when empty.

    Raises:
        SchemaError: it is not memkit's, or was written by a newer memkit.
    """
    try:
        if not path.stat().st_size:
            return None
    except FileNotFoundError:
        return None
    with translated("open"), reading(path) as connection:
        if not version(connection):
            return None
        row = connection.execute(
            "SELECT model, revision, dimension FROM vector_spaces WHERE in_use = 1"
        ).fetchone()
    return Found(None if row is None else VectorSpace(model=row[0], revision=row[1], dimension=row[2]))


def check_log(path: Path) -> None:
    """Refuse a file that stands beside the write-ahead log of another one; nothing is changed.

    A backup that is put in the place of a file that was not closed gets there. SQLite would take the
    old log for its own and write it into the backup.

    Raises:
        SchemaError: the two make no whole file.
    """
    try:
        file, log = path.stat(), log_of(path).stat()
    except FileNotFoundError:
        return
    # But for a checkpoint that was cut off or that a reader held up, the log is changed last. Equal times tell nothing:
    # file systems count them in steps of some milliseconds.
    if not log.st_size or file.st_ctime_ns < log.st_mtime_ns:
        return
    try:
        with reading(path) as connection:
            whole = connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return
        whole = False
    if not whole:
        raise SchemaError(
            f"{path.name} and the write-ahead log beside it make no whole file; if {path.name} was put there since, "
            f"such as a backup, delete {path.name}-wal and {path.name}-shm",
            backend="sqlite",
            operation="open",
        )


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing of the file at `path`, which others may use."""
    log, lock = log_of(path), path.with_name(path.name + ".lock")
    logged = log.exists() and log.stat().st_size > 0
    # Immutable, SQLite makes no file beside it, but must not be used where another process may write.
    how = "mode=ro" if logged or lock.exists() else "mode=ro&immutable=1"
    uri = f"{path.resolve().as_uri()}?{how}"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        yield connection


@dataclass(frozen=True, slots=True)
class Found:
    """A memkit file, and the vector space of its memories, None before the first vector."""

    space: VectorSpace | None
