"""The `filter=` of a LangGraph store, read as the filter grammar of memkit.

What it means, for every store memkit has:

- `{"color": "red", "size": 3}`: all of them hold; a value is equal as JSON. 1 equals 1.0, also inside
  of lists and dicts; a number never equals a text, nor True a number.
- `{"size": {"$gt": 2, "$lte": 9}}`: `$eq $ne $gt $gte $lt $lte`. Order compares numbers with numbers
  and texts with texts (by code point); nothing else is above or below anything.
- `{"owner": {"name": "Ann"}}`: a dict without operators is compared key by key, so other keys may
  stand beside. `{"owner.name": "Ann"}` says the same; where a value has a key `owner.name`, that one is meant.
- `{"tags": ["a", "b"]}`: a list of that length whose elements match one by one.
- A key that is missing, or something that is no dict on the way to it, matches `$ne` alone (but within
  a dict that is compared key by key that dict must be there), also not None.

An unknown operator, or a value that cannot be JSON, is a `FilterError`, which is a `ValueError`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from memkit_core import FilterError, InvalidInputError
from memkit_core.errors import shown
from memkit_core.filters import MISSING, And, Condition, Filter, Op, Or, holds
from memkit_core.items.names import value_path
from memkit_core.jsonvalues import JsonValue, checked_metadata

_OPERATORS = {
    "$eq": Op.EQ, "$ne": Op.NE, "$gt": Op.GT, "$gte": Op.GTE, "$lt": Op.LT, "$lte": Op.LTE,
}  # fmt: skip
_MAX_DEPTH = 32
_NOTHING: Filter = Or(())
_ALL: Filter = And(())
_Path = tuple[str, ...]


class ValueFilter(NamedTuple):
    """A filter, and what decides where it says less than was asked: None when it says all of it."""

    where: Filter
    matching: Callable[[Mapping[str, JsonValue]], bool] | None


@dataclass(frozen=True, slots=True)
class _Test:
    """What is asked of one value: `where` holds wherever `matches` does, and when `exact` nowhere else."""

    where: Filter
    exact: bool
    matches: Callable[[object], bool]


def value_filter(given: object) -> ValueFilter | None:
    """The filter that `given` describes, None for None and for an empty one.

    Raises:
        FilterError: an unknown operator, a key that is no text, or a value nothing can be compared with.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise FilterError(f"filter must be a dict, got {shown(given)}")
    if not given:
        return None
    test = _dict(given, (), 0)
    return ValueFilter(test.where, None if test.exact else test.matches)


def _test(wanted: object, path: _Path, depth: int) -> _Test:
    if depth > _MAX_DEPTH:
        raise FilterError(f"a filter can be nested at most {_MAX_DEPTH} deep")
    if isinstance(wanted, Mapping):
        if any(isinstance(key, str) and key.startswith("$") for key in wanted):
            return _all([_operator(name, operand, path) for name, operand in wanted.items()])
        return _dict(wanted, path, depth)
    if isinstance(wanted, list | tuple):
        return _list(wanted, path, depth)
    return _equal(wanted, path)


def _all(tests: list[_Test]) -> _Test:
    return _Test(
        where=And(tuple(test.where for test in tests)),
        exact=all(test.exact for test in tests),
        matches=lambda found: all(test.matches(found) for test in tests),
    )


def _dict(wanted: Mapping[object, object], path: _Path, depth: int) -> _Test:
    """A dict whose entries match one by one."""
    tests = [_entry(key, inner, path, depth) for key, inner in wanted.items()]
    there = [] if not path else [Condition(value_path(*path), Op.EXISTS, True)]
    # Of what has the wanted key the filter knows that it is a dict; of what may lack it, it does not.
    is_dict = not path or any(not test.matches({}) for test in tests)
    return _Test(
        where=And((*there, *(test.where for test in tests))),
        exact=is_dict and all(test.exact for test in tests),
        matches=lambda found: isinstance(found, dict) and all(test.matches(found) for test in tests),
    )


def _entry(key: object, wanted: object, path: _Path, depth: int) -> _Test:
    """What is asked of the dict that has, or lacks, `key`."""
    if not isinstance(key, str):
        raise FilterError(f"a filter key must be a text, got {shown(key)}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise FilterError(f"a filter key must be text without lone surrogates, got {shown(key)}") from None
    if not path and key.startswith("$"):
        raise FilterError(
            f"a filter begins with a key of the value, got the operator {shown(key)}; write "
            "{'key': {'$eq': ...}}"
        )
    flat = _test(wanted, (*path, key), depth + 1)
    if "." not in key:
        return _Test(flat.where, flat.exact, lambda found: flat.matches(_at(found, (key,))))
    names = tuple(key.split("."))
    nested = _test(wanted, (*path, *names), depth + 1)
    there = value_path(*path, key)
    return _Test(
        where=Or(
            (
                And((Condition(there, Op.EXISTS, True), flat.where)),
                And((Condition(there, Op.EXISTS, False), nested.where)),
            )
        ),
        exact=flat.exact and nested.exact,
        matches=lambda found: (
            flat.matches(_at(found, (key,)))
            if _at(found, (key,)) is not MISSING
            else nested.matches(_at(found, names))
        ),
    )


def _at(found: object, names: _Path) -> object:
    for name in names:
        if not isinstance(found, dict) or name not in found:
            return MISSING
        found = found[name]
    return found


def _list(wanted: list[object] | tuple[object, ...], path: _Path, depth: int) -> _Test:
    """A list of that length whose elements match one by one."""
    tests = [_test(one, path, depth + 1) for one in wanted]

    def matches(found: object) -> bool:
        if not isinstance(found, list) or len(found) != len(tests):
            return False
        return all(test.matches(one) for test, one in zip(tests, found, strict=True))

    if all(one is None or type(one) is bool or type(one) is str for one in wanted):
        return _Test(_equal([*wanted], path).where, exact=True, matches=matches)
    return _Test(Condition(value_path(*path), Op.EXISTS, True), exact=False, matches=matches)


def _operator(name: object, operand: object, path: _Path) -> _Test:
    op = _OPERATORS.get(name) if isinstance(name, str) else None
    if op is None:
        raise FilterError(f"unknown filter operator {shown(name)}; use one of {', '.join(_OPERATORS)}")
    if op is Op.EQ:
        return _equal(operand, path)
    if op is Op.NE:
        return _unequal(operand, path)
    value = _plain(operand, 0)
    if value is None or isinstance(value, bool | list | dict):
        raise FilterError(f"{name} compares with a number or a text, got {shown(operand)}")
    asked = Condition(value_path(*path), op, value)
    if _storable(value):
        return _Test(asked, exact=True, matches=lambda found: holds(asked, found))
    # Beyond all that is stored, such as infinity: no store has to be able to compare with it.
    there = Condition(value_path(*path), Op.EXISTS, True)
    return _Test(there, exact=False, matches=lambda found: holds(asked, found))


def _equal(wanted: object, path: _Path) -> _Test:
    value = _plain(wanted, 0)

    def matches(found: object) -> bool:
        return _same(found, value)

    if _storable(value):
        if _same_as_text(value):
            return _Test(Condition(value_path(*path), Op.EQ, value), exact=True, matches=matches)
    elif not isinstance(value, int | float):
        return _Test(_NOTHING, exact=True, matches=matches)
    return _Test(Condition(value_path(*path), Op.EXISTS, True), exact=False, matches=matches)


def _unequal(wanted: object, path: _Path) -> _Test:
    equal = _equal(wanted, path)
    value = _plain(wanted, 0)

    def matches(found: object) -> bool:
        return not equal.matches(found)

    if equal.where == _NOTHING:
        return _Test(_ALL, exact=True, matches=matches)
    if equal.exact:
        return _Test(Condition(value_path(*path), Op.NE, value), exact=True, matches=matches)
    return _Test(_ALL, exact=False, matches=matches)


def _plain(value: object, depth: int) -> JsonValue:
    """A value of a filter as JSON; numbers may be any."""
    if depth > _MAX_DEPTH:
        raise FilterError(f"a filter can be nested at most {_MAX_DEPTH} deep")
    if isinstance(value, enum.Enum):
        return _plain(value.value, depth + 1)
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):
            # Of a subclass, which may print itself as something else, the plain value.
            return kind.__str__(value) if kind is str else kind(value)
    if isinstance(value, list | tuple):
        return [_plain(one, depth + 1) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str.__str__(key): _plain(one, depth + 1) for key, one in value.items()}
    raise FilterError(
        f"a filter compares with what JSON has, got {type(value).__name__} {shown(value)}; give it in the form "
        "in which it is stored"
    )


def _storable(value: JsonValue) -> bool:
    try:
        checked_metadata({"value": value})
    except InvalidInputError:
        return False
    return True


def _same_as_text(value: JsonValue) -> bool:
    """Whether equality in `memkit_core.filters`, which is that of the text in containers, is ours."""
    if not isinstance(value, list | dict):
        return True
    inner = value if isinstance(value, list) else [*value.values()]
    return all(
        _same_as_text(one) and (isinstance(one, bool) or not isinstance(one, int | float)) for one in inner
    )


def _same(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right
