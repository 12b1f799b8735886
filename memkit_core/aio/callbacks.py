"""A caller's function that may be a coroutine function, called from a worker thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from memkit_core.life.life import Summarize
from memkit_core.models import MemoryRecord

AsyncSummarize = Callable[[list[MemoryRecord]], str | Awaitable[str]]
"""As `Summarize`, or its coroutine function."""


def in_thread(summarize: AsyncSummarize) -> Summarize:
    """`summarize` as a function for a worker thread: what it awaits runs in the loop of the caller."""
    loop = asyncio.get_running_loop()

    def called(records: list[MemoryRecord]) -> str:
        made = summarize(records)
        if inspect.isawaitable(made):
            return asyncio.run_coroutine_threadsafe(_awaited(made), loop).result()
        return made

    return called


async def _awaited(made: Awaitable[str]) -> str:
    return await made
