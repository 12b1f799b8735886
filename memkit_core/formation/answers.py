"""JSON out of what a chat model says: with prose or a fence around it, but never guessed at."""

from __future__ import annotations

import json
from collections.abc import Iterator

from memkit_core.errors import ModelError, shown
from memkit_core.text.clean import storable

_LONGEST = 2_000_000
_DEEPEST = 100


def json_object(answer: object, *, model: str) -> dict[str, object]:
    """The one JSON object of an answer.

    Raises:
        ModelError: the answer is no text, holds no whole object, or more than one.
    """
    if not isinstance(answer, str):
        raise ModelError(f"answered with {shown(answer)}, not with a text", model=model)
    found = list(_objects(answer[:_LONGEST]))
    if len(found) != 1 or len(answer) > _LONGEST:
        raise ModelError(
            f"answered with {len(found)} JSON objects where one was asked for: {shown(answer)}", model=model
        )
    return found[0]


def _objects(text: str) -> Iterator[dict[str, object]]:
    """Every whole JSON object that stands in the text, not those inside another one."""
    decoder = json.JSONDecoder(parse_constant=_refused)
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # From here on nothing is whole, or it is prose: an inner object is not what was asked for.
            end = _behind(text, at)
        else:
            if isinstance(value, dict) and _shallow(value, _DEEPEST):
                yield {str(key): _clean(item) for key, item in value.items()}
        at = text.find("{", end)


def _behind(text: str, start: int) -> int:
    """Behind the brace that closes the one at `start`, or the end of the text."""
    depth, quoted, escaped = 0, False, False
    for at in range(start, len(text)):
        char = text[at]
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if not depth:
                return at + 1
    return len(text)


def _refused(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _shallow(value: object, left: int) -> bool:
    if isinstance(value, dict):
        return left > 0 and all(_shallow(item, left - 1) for item in value.values())
    if isinstance(value, list):
        return left > 0 and all(_shallow(item, left - 1) for item in value)
    return True


def _clean(value: object) -> object:
    """The value with texts that a store can hold: a model may write half of a surrogate pair."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {storable(str(key)): _clean(item) for key, item in value.items()}
    return value
