"""Small things the standard library gives only to newer Pythons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def chunked(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in slices of `size`, the last one shorter (`itertools.batched` of Python 3.12)."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
