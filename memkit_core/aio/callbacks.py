"""A caller's function that may be a coroutine function, called from a worker thread."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

from memkit_core.models import MemoryRecord, Message

AsyncSummarize = Callable[[list[MemoryRecord]], str | Awaitable[str]]
"""As `Summarize`, or its coroutine function."""
AsyncSummarizer = Callable[[str, Sequence[Message], int], str | Awaitable[str]]
"""As `Summarizer`, or its coroutine function."""

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def in_thread(function: Callable[_Given, _Made | Awaitable[_Made]]) -> Callable[_Given, _Made]:
    """`function` as one for a worker thread: what it awaits runs in the loop of the caller."""
    loop = asyncio.get_running_loop()

    def called(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
        made = function(*args, **kwargs)
        if not inspect.isawaitable(made):
            return made
        answer: _Made = asyncio.run_coroutine_threadsafe(_awaited(made), loop).result()
        return answer

    return called


async def _awaited(made: Awaitable[_Made]) -> _Made:
    return await made
