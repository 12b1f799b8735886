"""One worker-thread hop for a blocking call."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 64
"""Enough that calls waiting for a model do not hold up the rest; the loop's own pool has cores + 4."""


class Hops:
    """Runs blocking calls in threads of its own, with the caller's context variables.

    A forked child starts threads anew: those of its parent do not exist there.
    """

    def __init__(self) -> None:
        """No thread runs yet."""
        self._ended = False
        self._start_over()

    def _start_over(self) -> None:
        self._executor, self._pid = ThreadPoolExecutor(_THREADS, thread_name_prefix="memkit"), os.getpid()

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What `call` returns, or raises, once it ran in a thread."""
        if self._ended:
            # Of a closed memory: it says so itself, or does nothing when it is closed again.
            return await asyncio.to_thread(call, *args, **kwargs)
        if self._pid != os.getpid():
            self._start_over()
        bound = partial(contextvars.copy_context().run, partial(call, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, bound)

    def end(self) -> None:
        """Keep no threads any longer; calls that run go on."""
        self._ended = True
        # The threads of a parent are not here, and one of them may have held the executor's lock.
        if self._pid == os.getpid():
            self._executor.shutdown(wait=False)
