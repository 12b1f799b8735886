"""Locks that survive what processes do: kills and forks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memkit_core.errors import ConfigError
from memkit_core.forks import start_over_in_children

try:
    import fcntl
except ImportError as error:
    raise ConfigError(
        "memkit runs on Linux and macOS: this system has no fcntl, which its locks need; on Windows use WSL"
    ) from error

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.005
_CLOSE_SECONDS = 2.0


class ThreadLock:
    """A mutex that a forked child finds open, whoever held it in the parent."""

    def __init__(self) -> None:
        """An open lock."""
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Wait for it and take it."""
        self._forget_parent()
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        """Give it back."""
        self._lock.release()

    def _forget_parent(self) -> None:
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()


class ProcessLock:
    """An exclusive lock on a file, held by one object of one process at a time.

    `flock` is released by the kernel when its holder dies, so there is no stale lock. Also excludes
    other threads and other `ProcessLock` objects on the same path in this process. A child made
    by `fork` starts unlocked and lets go of the inherited file at once, so that it neither keeps
    the lock alive after the parent's death nor releases what the parent holds.

    Methods raise `OSError` when the file cannot be made or opened.
    """

    def __init__(self, path: Path) -> None:
        """Prepare a lock on `path`; the file is made on first use and stays (empty)."""
        self.path = path
        self._mutex = threading.Lock()
        self._descriptor: int | None = None
        self._held = False
        self._owner = 0
        self._pid = os.getpid()
        start_over_in_children(self, ProcessLock._forget_parent)

    @property
    def held(self) -> bool:
        """Whether this object holds it in this very process."""
        return self._held and self._pid == os.getpid()

    def acquire(self, timeout: float) -> bool:
        """Take the lock within `timeout` seconds, 0 for a single try; whether it was taken."""
        self._forget_parent()
        deadline = time.monotonic() + timeout
        if not self._mutex.acquire(timeout=max(timeout, 0.0)):
            return False
        pause = _FIRST_PAUSE
        try:
            while not self._try():
                if time.monotonic() + pause > deadline:
                    return False
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            self._held, self._owner = True, threading.get_ident()
        finally:
            if not self._held:
                self._mutex.release()
        return True

    def release(self) -> None:
        """Give the lock back; only the holder may call this."""
        if self.held and self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._held = False
            self._mutex.release()

    @contextmanager
    def hold(self, timeout: float) -> Iterator[bool]:
        """Hold the lock for a `with` block; yields whether it was taken in time."""
        taken = self.acquire(timeout)
        try:
            yield taken
        finally:
            if taken:
                self.release()

    def close(self) -> None:
        """Release the lock if this thread took it, wait a little for one that did, close the file."""
        self._forget_parent()
        if self.held and self._owner == threading.get_ident():
            self.release()
        waited = self._mutex.acquire(timeout=_CLOSE_SECONDS)
        try:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor, self._held = None, False
        finally:
            if waited:
                self._mutex.release()

    def _try(self) -> bool:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _forget_parent(self) -> None:
        """In a forked child: drop the inherited state without unlocking what the parent holds."""
        if self._pid == os.getpid():
            return
        # The descriptor shares the parent's lock: closing it leaves that lock alone, unlocking it
        # would not.
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._mutex = threading.Lock()
        self._descriptor, self._held, self._pid = None, False, os.getpid()


class SharedLock:
    """A `ProcessLock` that several objects of one process hold together; the last one gives it back."""

    def __init__(self, path: Path) -> None:
        """Prepare a lock on `path`."""
        self._lock = ProcessLock(path)
        self._mutex = ThreadLock()
        self._holders: set[int] = set()
        self._pid = os.getpid()

    def held_by(self, holder: object) -> bool:
        """Whether `holder` holds it, in this very process."""
        return self._pid == os.getpid() and id(holder) in self._holders

    def acquire(self, holder: object) -> bool:
        """Take it for `holder` if no other process has it; whether it was taken. Never waits."""
        with self._mutex:
            if self._pid != os.getpid():
                self._holders, self._pid = set(), os.getpid()
            if not self._lock.held and not self._lock.acquire(0.0):
                return False
            self._holders.add(id(holder))
            return True

    def release(self, holder: object) -> None:
        """Give it back for `holder`; nothing when it does not hold it."""
        with self._mutex:
            if self._pid != os.getpid() or id(holder) not in self._holders:
                return
            self._holders.discard(id(holder))
            if not self._holders:
                self._lock.release()

    def close(self) -> None:
        """Close the file once nobody holds the lock; safe to call twice."""
        with self._mutex:
            if self._pid != os.getpid() or not self._holders:
                self._lock.close()
