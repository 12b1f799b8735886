"""The thread that works off the outbox behind the caller's back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from memkit_core.errors import BackendError, ClosedError, MemkitError
from memkit_core.indexing import Indexers
from memkit_core.locks import ThreadLock
from memkit_core.models import MemoryRecord
from memkit_core.observing import Observer, carried, use
from memkit_core.recall.noting import Noted

_log = logging.getLogger("memkit.index")

_GATHERED_SECONDS = 0.2
"""How long `Worker.soon` lets changes gather: a batch is written to the index at a fraction of the price."""


class Worker:
    """A thread that syncs the `Indexers` every `interval` seconds, at once when woken, or soon.

    It writes down what recall returned first. Started by the first write or recall; daemonic, so that
    it never keeps a process alive. In a forked child the first of these starts a new one.
    """

    def __init__(
        self, indexers: Indexers, noted: Noted, *, interval: float, observer: Observer | None = None
    ) -> None:
        """Nothing runs yet; `observer` counts what the thread asks of an embedder."""
        self._observer = observer
        self._indexers = indexers
        self._noted = noted
        self._interval = interval
        self._mutex = ThreadLock()
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._hurried = threading.Event()
        self._stopped = False

    def index(
        self,
        stored: Sequence[MemoryRecord],
        *,
        verb: str,
        embedded: bool = False,
        background: bool = False,
    ) -> None:
        """Bring records that were written into the index, now or in the thread; never fails for it.

        `embedded` says that their vectors were written with them, `verb` who wrote them, for the log.
        """
        if embedded and not background:
            # Recall compares those vectors until the thread has written them to the index, many together,
            # which is a fraction of the price of one by one.
            self.soon()
            return
        if not background:
            try:
                self._indexers.own.sync([record.point_id for record in stored])
            except BackendError as error:
                # The records are safe; the outbox knows what is left, and the thread goes on with it.
                _log.warning("%s: stored, but not indexed yet: %s", verb, error)
                background = True
        if background:
            self.wake()
        else:
            self.start()

    def wake(self) -> None:
        """Have the outbox worked off, and the index confirmed, now."""
        self.start()
        self._hurried.set()
        self._woken.set()

    def soon(self) -> None:
        """Have the outbox worked off within a moment, with what else comes until then."""
        self.start()
        self._woken.set()

    def start(self) -> None:
        """Have the outbox worked off, and the index confirmed, within `interval` seconds."""
        with self._mutex:
            if self._stopped:
                return
            if self._thread is None or not self._thread.is_alive():
                # New ones: in a forked child a thread that is not there may hold the old ones' locks.
                self._woken, self._hurried = threading.Event(), threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._woken, self._hurried), name="memkit-outbox", daemon=True
                )
                self._thread.start()

    def stop(self, timeout: float) -> bool:
        """End the thread, waiting for its present batch at most `timeout` seconds; whether it ended."""
        with self._mutex:
            self._stopped = True
            thread = self._thread
            if thread is None or not thread.is_alive():
                # The events of a forked child may be locked by the parent's thread, see `start`.
                return True
            self._hurried.set()
            self._woken.set()
        if thread is threading.current_thread():
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, woken: threading.Event, hurried: threading.Event) -> None:
        use(self._observer)
        next_round = time.monotonic() + self._interval
        while not self._stopped:
            if woken.wait(max(next_round - time.monotonic(), 0.0)):
                hurried.wait(_GATHERED_SECONDS)
            woken.clear()
            whole = hurried.is_set() or time.monotonic() >= next_round
            if whole:
                hurried.clear()
                next_round = time.monotonic() + self._interval
            try:
                self._work(whole=whole)
            except ClosedError:
                return
            except MemkitError as error:
                _log.warning("the outbox waits: %s", error)

    def _work(self, *, whole: bool) -> None:
        """Work off the outbox; in a whole round also what takes as long for few changes as for many."""
        if whole:
            write_down(self._noted)
        self._indexers.sync()
        if whole:
            self._indexers.flush()


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

    thread = threading.Thread(target=carried(run), name="memkit-flush", daemon=True)
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
