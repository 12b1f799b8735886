"""The thread that works off the outbox behind the caller's back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from memkit_core.errors import ClosedError, MemkitError
from memkit_core.indexing import Indexers
from memkit_core.locks import ThreadLock
from memkit_core.recall.noting import Noted

_log = logging.getLogger("memkit.index")


class Worker:
    """A thread that syncs the `Indexers` every `interval` seconds, and at once when woken.

    It writes down what recall returned first. Started by the first write or recall; daemonic, so that
    it never keeps a process alive. In a forked child the first of these starts a new one.
    """

    def __init__(self, indexers: Indexers, noted: Noted, *, interval: float) -> None:
        """Nothing runs yet."""
        self._indexers = indexers
        self._noted = noted
        self._interval = interval
        self._mutex = ThreadLock()
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._stopped = False

    def wake(self) -> None:
        """Have the outbox worked off now."""
        self.start()
        self._woken.set()

    def start(self) -> None:
        """Have the outbox worked off, and the index confirmed, within `interval` seconds."""
        with self._mutex:
            if self._stopped:
                return
            if self._thread is None or not self._thread.is_alive():
                self._woken = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._woken,), name="memkit-outbox", daemon=True
                )
                self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End the thread, waiting for its present batch at most `timeout` seconds; whether it ended."""
        with self._mutex:
            self._stopped = True
            thread = self._thread
            self._woken.set()
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)
            return not thread.is_alive()
        return True

    def _run(self, woken: threading.Event) -> None:
        while not self._stopped:
            woken.wait(self._interval)
            woken.clear()
            try:
                write_down(self._noted)
                self._indexers.sync()
                self._indexers.flush()
            except ClosedError:
                return
            except MemkitError as error:
                _log.warning("the outbox waits: %s", error)


def write_down(noted: Noted) -> None:
    """Write what was noted of recalls; a store that fails gets it the next time.

    Raises:
        ClosedError: the store was closed.
    """
    try:
        noted.write()
    except ClosedError:
        raise
    except MemkitError as error:
        _log.warning("what recall returned is not written down yet: %s", error)


def run_within(seconds: float, work: Callable[[], None]) -> bool:
    """Do `work`, waiting for it at most so many seconds; whether it ended.

    What did not end goes on in its thread, which keeps no process alive.

    Raises:
        MemkitError: `work` ended with it.
    """
    failed: list[MemkitError] = []

    def run() -> None:
        try:
            work()
        except MemkitError as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="memkit-flush", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter is shutting down and starts no more threads.
        work()
        return True
    thread.join(seconds)
    if failed:
        raise failed[0]
    return not thread.is_alive()
