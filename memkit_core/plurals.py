"""A word beside its number."""

from __future__ import annotations

import re

_Y = re.compile(r"(?<=[^aeiou])y$")


def plural(number: object, one: str, many: str | None = None) -> str:
    """`one` for exactly one, else `many`; without it as English forms it: records, memories, days."""
    if number == 1:
        return one
    return many or (_Y.sub("ies", one) if _Y.search(one) else f"{one}s")
