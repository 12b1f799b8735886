"""A word beside its number."""

from __future__ import annotations


def plural(number: object, one: str, many: str | None = None) -> str:
    """`one` for exactly one, else `many`; without it as English forms it: records, memories, days."""
    if number == 1:
        return one
    if many is not None:
        return many
    return f"{one[:-1]}ies" if one.endswith("y") and one[-2] not in "aeiou" else f"{one}s"
