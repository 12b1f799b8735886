"""Connections, transactions and checkpoints: how memkit uses one SQLite file safely.

- Every write transaction of every process takes one `flock` first, and checkpoints run only under
  it with `wal_autocheckpoint` off: SQLite before 3.51.3 can lose a commit when a checkpoint races
  it (https://sqlite.org/wal.html, "the WAL-reset bug").
- Connections are pooled, not tied to threads, so any thread may call at any time.
- No connection is open across a fork: SQLite keeps one table of locks a file and process, so a
  child's own connections would count on locks that only its parent holds, and lose commits when
  the parent closes. Idle connections are closed before a fork, running calls are waited for.
- A forked child never touches an inherited connection (https://sqlite.org/howtocorrupt.html §2.6).
- The file, `-wal` and `-shm` are never opened by other means than SQLite while it is open: closing
  such a descriptor would drop SQLite's own locks. Sizes come from `os.stat`.
"""

from __future__ import annotations

import functools
import logging
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memkit_core.errors import BackendTimeoutError, BackendUnavailableError, ClosedError
from memkit_core.locks import ProcessLock, ThreadLock
from memkit_core.stores.sqlite.looking import check_log, look
from memkit_core.stores.sqlite.places import check_place, check_sqlite_version, inode, log_of
from memkit_core.stores.sqlite.schema import version
from memkit_core.stores.sqlite.translating import translated

_log = logging.getLogger("memkit.sqlite")

_PAUSE = 0.001

# Every open database of this process, by its id().
_open_databases: weakref.WeakValueDictionary[int, Database] = weakref.WeakValueDictionary()

# Connections that a forked child inherited: kept referenced so that nothing ever closes them.
_inherited: list[sqlite3.Connection] = []


class Database:
    """A pool of connections to one file, and its transactions. Safe from all threads and after fork."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout: float,
        synchronous: str,
        checkpoint_bytes: int,
        prepare: Callable[[sqlite3.Connection], None],
    ) -> None:
        """Open or create `path`; `prepare` is run on every new connection."""
        check_sqlite_version(sqlite3.sqlite_version_info)
        check_place(path)
        check_log(path)
        if not path.with_name(path.name + ".lock").exists():
            # Before anything is made beside it: another program's file is refused and left as it was.
            look(path)
        _check_apart(path)
        self.path = path
        self._busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._checkpoint_bytes = checkpoint_bytes
        self._prepare = prepare
        self._lock = ProcessLock(path.with_name(path.name + ".lock"))
        self._idle: list[sqlite3.Connection] = []
        self._mutex = ThreadLock()
        self._pid = os.getpid()
        self._closed = False
        self._in_use = 0
        self._inode: int | None = None
        self._log_inode: int | None = None
        _watch_forks()
        _open_databases[id(self)] = self

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for reading; each statement sees one consistent state."""
        connection = self._take()
        try:
            with translated("read"):
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def write(self, operation: str) -> Iterator[sqlite3.Connection]:
        """One write transaction: committed at the end of the block, rolled back on any exception.

        Raises:
            BackendTimeoutError: another process or thread kept writing for `busy_timeout` seconds.
            BackendUnavailableError: disk full, read-only, an I/O error, or a file that is not `in_place`;
                nothing was changed.
        """
        with self.exclusive(operation) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._log_inode = inode(log_of(self.path))
            self._checkpoint_if_large(connection)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection whose statements all see the same state."""
        with self.connection() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                # SQLite ends the transaction itself on some errors, which must not be hidden.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and empty it; False when a reader prevents it."""
        with self.exclusive("checkpoint") as connection:
            return empty_log(connection)

    @contextmanager
    def exclusive(self, operation: str) -> Iterator[sqlite3.Connection]:
        """A connection while nobody else writes, outside of any transaction."""
        with self._exclusive(operation):
            self._check_in_place(operation)
            connection = self._take()
            try:
                with translated(operation):
                    yield connection
            finally:
                self._give_back(connection)

    def _checkpoint_if_large(self, connection: sqlite3.Connection) -> None:
        try:
            if self.log_bytes() > self._checkpoint_bytes:
                empty_log(connection)
        except (sqlite3.Error, OSError) as error:
            # What was written is committed; emptying the log is the next writer's to try again.
            _log.warning("the write-ahead log of %s was not checkpointed: %s", self.path.name, error)

    def close(self) -> None:
        """Wait for running calls, checkpoint so that the one file is whole, and close; idempotent.

        A call that is still running after `busy_timeout` seconds closes its connection itself.
        """
        if self._closed:
            return
        self._after_fork()
        self._closed = True
        _open_databases.pop(id(self), None)
        deadline = time.monotonic() + self._busy_timeout
        while self._in_use and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        try:
            # Closing the last connection checkpoints too, so it happens under the lock as well.
            taken = self._lock.acquire(self._busy_timeout)
        except OSError:
            # Who cannot use the lock file wrote nothing: a folder that is only read.
            taken = False
        try:
            with translated("close"):
                self._close_idle(checkpoint=taken)
        finally:
            self._lock.close()

    def _close_idle(self, *, checkpoint: bool) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        try:
            if idle and checkpoint:
                empty_log(idle[0])
        finally:
            for connection in idle:
                connection.close()

    @contextmanager
    def _exclusive(self, operation: str) -> Iterator[None]:
        self._check_open()
        self._after_fork()
        with self._locked(operation) as taken:
            if not taken:
                raise BackendTimeoutError(
                    f"another writer held {self._lock.path.name} for {self._busy_timeout:g} s; try again, "
                    "or raise Config.busy_timeout",
                    backend="sqlite",
                    operation=operation,
                )
            yield

    @contextmanager
    def _locked(self, operation: str) -> Iterator[bool]:
        try:
            taken = self._lock.acquire(self._busy_timeout)
        except OSError as error:
            raise BackendUnavailableError(
                f"the lock file cannot be used: {error}", backend="sqlite", operation=operation
            ) from error
        try:
            yield taken
        finally:
            if taken:
                self._lock.release()

    def in_place(self) -> bool:
        """Whether the file at the path is still the one that was opened: not deleted, moved or replaced."""
        return self._inode is None or self._inode == inode(self.path)

    def left_log(self) -> bool:
        """Whether the file is gone from its path, and its write-ahead log still is beside that."""
        return (
            not self.in_place()
            and self._log_inode is not None
            and self._log_inode == inode(log_of(self.path))
        )

    def _check_in_place(self, operation: str) -> None:
        if not self.in_place():
            raise BackendUnavailableError(
                f"{self.path} was deleted, moved or replaced while it was open, so nothing can be kept there; "
                "close this memory and open it again",
                backend="sqlite",
                operation=operation,
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self.path.name} was closed; open the memory again")

    def _take(self) -> sqlite3.Connection:
        self._after_fork()
        self._check_open()
        with self._mutex:
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        try:
            with translated("open"):
                return self._connect()
        except BaseException:
            with self._mutex:
                self._in_use -= 1
            raise

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._mutex:
            self._in_use -= 1
            if not self._closed and self._pid == os.getpid():
                self._idle.append(connection)
                return
        connection.close()

    def before_fork(self) -> None:
        """Leave no connection open, and let none be opened until `after_fork_in_parent`.

        Waits for running calls as long as a writer would; a call of the forking thread itself is
        left alone after that time.
        """
        deadline = time.monotonic() + self._busy_timeout
        with self._lock.hold(self._busy_timeout):
            self._mutex.__enter__()
            while self._in_use and time.monotonic() < deadline:
                self._mutex.__exit__()
                time.sleep(_PAUSE)
                self._mutex.__enter__()
            for connection in self._idle:
                connection.close()
            self._idle = []

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._mutex.__exit__()

    def _connect(self) -> sqlite3.Connection:
        # Opening would make a new file, or mix the connections of two.
        self._check_in_place("open")
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            # Looked at before anything is set: a file that is not ours must stay as it is.
            version(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -8000")
            connection.execute("PRAGMA secure_delete = FAST")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        # Only now: in a container the first connection that writes may give the file another one.
        self._inode = self._inode or inode(self.path)
        return connection

    def _after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        _inherited.extend(self._idle)
        self._idle, self._pid, self._in_use = [], os.getpid(), 0

    def log_bytes(self) -> int:
        """How long the write-ahead log is."""
        try:
            return log_of(self.path).stat().st_size
        except FileNotFoundError:
            return 0


def _all_open() -> list[Database]:
    # The references are listed in one step, so that other threads may open and close meanwhile.
    return [one for reference in _open_databases.valuerefs() if (one := reference()) is not None]


def _check_apart(path: Path) -> None:
    """Refuse a file that would take the write-ahead log of another one for its own."""
    if any(other.path == path and other.left_log() for other in _all_open()):
        raise BackendUnavailableError(
            f"the file at {path} was moved or replaced while a memory of this process has it open; close that "
            "memory first",
            backend="sqlite",
            operation="open",
        )


_forking: list[Database] = []


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forking.clear)


def _before_fork() -> None:
    # One order for all, so that two threads that fork at once do not wait for each other.
    for database in sorted(_all_open(), key=id):
        database.before_fork()
        _forking.append(database)


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork_in_parent()


def empty_log(connection: sqlite3.Connection) -> bool:
    """Copy the write-ahead log into the file and empty it; False when a reader prevents it. Under the lock."""
    # TRUNCATE waits for readers as long as the busy timeout; with 0 it gives up at once and the
    # next writer tries again, instead of holding up all writers behind one long read.
    (timeout,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        (blocked, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        blocked = 1
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(timeout)}")
    return not blocked
