"""How something is added to a working memory without losing what it says."""

from __future__ import annotations

from collections.abc import Mapping

from memkit_core.errors import InvalidInputError
from memkit_core.jsonvalues import JsonValue, canonical_json


def merged_objects(
    old: Mapping[str, JsonValue], new: Mapping[str, JsonValue], *, path: str = "content"
) -> dict[str, JsonValue]:
    """`old` with what `new` says besides: no key of `old` is lost, and neither is changed.

    Objects are merged key by key, lists are united without repeats (the old items first), other
    values are replaced. A None says nothing about a key that has a value. Merging the same again
    changes nothing.

    Raises:
        InvalidInputError: an object or a list would be replaced by a value of another kind.
    """
    both = dict(old)
    for key, value in new.items():
        both[key] = _merged(old.get(key), value, f"{path}.{key}")
    return both


def _merged(old: JsonValue, new: JsonValue, path: str) -> JsonValue:
    if new is None:
        return old
    kinds = (dict, list)
    if old is not None and [isinstance(old, k) for k in kinds] != [isinstance(new, k) for k in kinds]:
        raise InvalidInputError(
            f"{path} is {_kind(old)}, {_kind(new)} cannot be added to it; use mode='replace' to lose it"
        )
    if isinstance(new, dict):
        return merged_objects(old if isinstance(old, dict) else {}, new, path=path)
    if isinstance(new, list):
        return _united(old if isinstance(old, list) else [], new)
    return new


def _united(old: list[JsonValue], new: list[JsonValue]) -> list[JsonValue]:
    united, known = list(old), {canonical_json(item) for item in old}
    for item in new:
        text = canonical_json(item)
        if text not in known:
            known.add(text)
            united.append(item)
    return united


def _kind(value: JsonValue) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a single value"


def joined_texts(old: str, new: str) -> str:
    """`new` behind `old`, on a line of its own; `old` alone where these very lines stand in it already."""
    lines = new.strip("\n")
    if lines.strip() and f"\n{lines}\n" in f"\n{old}\n":
        return old
    return old + ("" if not old or old.endswith("\n") else "\n") + new
