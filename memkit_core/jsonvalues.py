"""What free metadata may hold, checked when it is written so that nothing is lost on the way back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeAlias, Union

from memkit_core.errors import InvalidInputError, shown

JsonValue: TypeAlias = Union[  # noqa: UP007 - a recursive alias needs the forward form
    bool, int, float, str, list["JsonValue"], dict[str, "JsonValue"], None
]
"""None, bool, int (64 bits), finite float, str, and lists and string-keyed dicts of them."""

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_MAX_DEPTH = 32


def checked_metadata(value: object, *, name: str = "metadata") -> dict[str, JsonValue]:
    """A deep copy of `value` as plain JSON, equal to what every later read returns.

    Tuples become lists; everything else must be JSON already. The caller's object is not kept.

    Raises:
        InvalidInputError: names the key of the first value that is not JSON: a set, bytes,
            datetime, Enum, NaN, an integer beyond 64 bits, a non-string key, text with NUL or a
            lone surrogate, or nesting deeper than 32.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a dict, got {type(value).__name__} {shown(value)}")
    return {_checked_key(key, name): _checked(item, f"{name}.{key}", 1) for key, item in value.items()}


def _checked(value: object, path: str, depth: int) -> JsonValue:
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"{path[:200]} is nested deeper than {_MAX_DEPTH} levels")
    # Exact types: a subclass (an IntEnum, a str enum, numpy's float64) would come back as another
    # type than it went in, so it is refused here rather than changed silently.
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return _checked_text(value, path)
    if type(value) is int:
        if not _INT_MIN <= value <= _INT_MAX:
            raise InvalidInputError(f"{path} must fit in 64 bits, got {shown(value)}; store it as text")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise InvalidInputError(f"{path} must be finite, got {value!r}")
        return value
    if isinstance(value, list | tuple):
        return [_checked(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _checked_key(key, path): _checked(item, f"{path}.{key}", depth + 1) for key, item in value.items()
        }
    raise InvalidInputError(
        f"{path} must be JSON (None, bool, int, float, str, list, dict), got "
        f"{type(value).__name__} {shown(value)}; convert it before storing"
    )


def _checked_key(key: object, path: str) -> str:
    if type(key) is not str:
        raise InvalidInputError(f"keys of {path} must be strings, got {type(key).__name__} {shown(key)}")
    return _checked_text(key, path)


def _checked_text(value: str, path: str) -> str:
    if "\0" in value:
        raise InvalidInputError(f"{path} must not contain NUL, got {shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInputError(f"{path} must not contain lone surrogates, got {shown(value)}") from None
    return value


def canonical_json(value: JsonValue) -> str:
    """One text per value: sorted keys, no spaces, not escaped. Equal texts mean equal values.

    Deep equality in filters is equality of this text on every backend, so 1 and 1.0 are equal on
    their own (numbers compare as numbers) but differ inside a list or a dict.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
