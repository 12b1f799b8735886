"""How a memory works off what waits and closes, also when it was dropped."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from memkit_core.errors import MemkitError
from memkit_core.worker import run_within, write_down

if TYPE_CHECKING:
    from memkit_core.connect import Parts
    from memkit_core.conversation.queue import PersistQueue
    from memkit_core.indexing import Indexers
    from memkit_core.recall.noting import Noted
    from memkit_core.stores.handle import StoreHandle
    from memkit_core.upkeep import Upkeep
    from memkit_core.worker import Worker

_log = logging.getLogger("memkit")

_CLOSE_SECONDS = 5.0
_DROPPED_SECONDS = 1.0
_END_SECONDS = 4 * _CLOSE_SECONDS
"""How long the end of a process waits for memories to close: for all that `shut` itself waits for."""
_NAME = "memkit-close"


def work_off(indexers: Indexers, timeout: float | None, *, retry: bool = False) -> None:
    """Work off the outboxes and confirm them, waiting for it at most `timeout` seconds.

    With `retry` also what failed before and waits for its next try.
    """
    deadline = None if timeout is None else time.monotonic() + timeout

    def work() -> None:
        if retry:
            indexers.retry(settled=True)
        indexers.sync(deadline=deadline)
        indexers.flush()

    if timeout is None:
        work()
    else:
        run_within(timeout, work)


def shut(
    queue: PersistQueue,
    upkeep: Upkeep,
    store: StoreHandle,
    worker: Worker,
    noted: Noted,
    parts: Parts,
    pid: int,
) -> None:
    """Finish and close; in a forked child only what the child itself opened."""
    queue.close(_CLOSE_SECONDS)
    ended = upkeep.stop(_CLOSE_SECONDS)
    store.close()
    ended = worker.stop(_CLOSE_SECONDS) and ended
    try:
        write_down(noted)
        if ended and pid == os.getpid():
            work_off(parts.indexers, _CLOSE_SECONDS)
    finally:
        parts.release()


def closed_when_dropped(
    memory: object, closing: Callable[[], None]
) -> weakref.finalize[[Callable[[], None]], object]:
    """Have a memory closed by `closing` once it is dropped, and at the end of the process."""
    finalizer = weakref.finalize(memory, _shut_elsewhere, closing)
    # Behind the first finalizer: at the end of a process, what was registered last runs first.
    _watch_the_end()
    return finalizer


def _shut_elsewhere(closing: Callable[[], None]) -> None:
    """Close a memory that was dropped, in a thread of its own.

    The garbage collector may run in any thread at any moment, also in one that holds a lock which
    closing needs; so that thread waits for a moment only. The end of the process holds none, and waits
    for all that closing does: a thread that is inside an engine when the interpreter goes is torn out
    of it, and the engine aborts the process ("exception not rethrown").
    """

    def shut_or_say_why() -> None:
        try:
            closing()
        except MemkitError as error:
            _log.warning("a memory that was dropped without close() was not closed well: %s", error)

    thread = threading.Thread(target=shut_or_say_why, name=_NAME, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter is shutting down and starts no more threads; nothing else runs then.
        closing()
    else:
        thread.join(_END_SECONDS if _ending.is_set() else _DROPPED_SECONDS)


_ending = threading.Event()


@functools.cache
def _watch_the_end() -> None:
    atexit.register(_end)


def _end() -> None:
    _ending.set()
    ends = time.monotonic() + _END_SECONDS
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(max(ends - time.monotonic(), 0.0))
