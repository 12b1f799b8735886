"""LangChain's `filter=` on metadata, read as the one filter grammar of memkit."""

from __future__ import annotations

from collections.abc import Mapping

from memkit_core import FilterError, metadata_key, parse_filter
from memkit_core.errors import shown
from memkit_core.filters import METADATA, Filter

_COMBINATIONS = ("and", "or", "not")
_MAX_DEPTH = 32


def metadata_filter(given: object) -> Filter | None:
    """The filter that `given` describes, None for None.

    A dict has the form of `memkit_core.filters`, with one difference: its keys are keys of the
    metadata, so `{"source": "a.pdf"}` is short for `{"metadata.source": "a.pdf"}`, which may be
    written as well. `{"a.b": 1}` looks at the key `a.b` of a document that has one, and else at `b`
    inside of `a`; `{'"a.b"': 1}` means the first alone, `{"metadata.a.b": 1}` the second. `and`, `or` and `not` combine. A parsed filter (`parse_filter(...)`) is taken as
    it is; that is how to reach a field of the record, such as `created_at`.

    Raises:
        FilterError: an unknown operator or a key that cannot be used, operators of other grammars
            (`$and`, `$in`, `OR`) included; never an empty answer instead.
    """
    return parse_filter(_in_metadata(given, 0))  # type: ignore[arg-type]  # it refuses what is no filter


def _in_metadata(given: object, depth: int) -> object:
    # What is nested deeper is refused by parse_filter, which says so.
    if not isinstance(given, Mapping) or depth > _MAX_DEPTH:
        return given
    named: dict[object, object] = {}
    dotted: list[object] = []
    for key, value in given.items():
        if isinstance(key, str) and "." in key and not key.startswith(('"', "$", f"{METADATA}.")):
            dotted.append(_flat_or_nested(key, value))
            continue
        name, inner = _entry(key, value, depth)
        if name in named:
            raise FilterError(f"the filter names {shown(name)} twice; combine them with and")
        named[name] = inner
    return {"and": [named, *dotted]} if dotted else named


def _flat_or_nested(key: str, value: object) -> Mapping[str, object]:
    """The condition on the key of that very name where there is one, else on the path it stands for."""
    flat = metadata_key(key)
    return {
        "or": [
            {"and": [{flat: {"exists": True}}, {flat: value}]},
            {"and": [{flat: {"exists": False}}, {f"{METADATA}.{key}": value}]},
        ]
    }


def _entry(key: object, value: object, depth: int) -> tuple[object, object]:
    if key == "not":
        return key, _in_metadata(value, depth + 1)
    if key in _COMBINATIONS and isinstance(value, list | tuple):
        return key, [_in_metadata(part, depth + 1) for part in value]
    if not isinstance(key, str) or key in _COMBINATIONS:
        return key, value
    if key.startswith("$") or key.casefold() in _COMBINATIONS:
        raise FilterError(
            f"unknown filter key {shown(key)}; the operators are written without $ and in lower case; for a "
            f"metadata key of that name write {shown(f'{METADATA}.{key}')}"
        )
    if key.startswith(f"{METADATA}."):
        return key, value
    return f"{METADATA}.{key}" if key.startswith('"') else metadata_key(key), value
