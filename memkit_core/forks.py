"""What has to begin anew in a forked child."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

_watched: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def start_over_in_children(one: _T, start_over: Callable[[_T], None]) -> None:
    """Call `start_over(one)` in every child that is forked from now on, for as long as `one` is there.

    It runs before anything else in the child, which has no other thread then.
    """
    _watch_forks()
    _watched[one] = start_over


@functools.cache
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_start_all_over)


def _start_all_over() -> None:
    for one, start_over in list(_watched.items()):
        start_over(one)
