"""Small things about lists that the standard library does not give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def chunked(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """`items` in slices of `size`, the last one shorter (`itertools.batched` of Python 3.12)."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def iterated(given: object) -> Iterator[object] | None:
    """What goes through a list, None for text, bytes, dicts and what is no list."""
    if isinstance(given, str | bytes | Mapping):
        return None
    try:
        return iter(given)  # type: ignore[call-overload, no-any-return]  # any object: what is no list raises
    except TypeError:
        return None
