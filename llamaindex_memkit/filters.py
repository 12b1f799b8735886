"""LlamaIndex's metadata filters as conditions on a collection.

The meaning is that of LlamaIndex's own `build_metadata_filter_fn` of 0.14.25, with nesting, whatever
version is installed (0.14.10 has `!=` miss nodes without the key): a key that is missing or null
matches `!=`, `nin` and `is_empty` alone, `in` compares whole values, True equals 1, `text_match` is a
substring, `not` means none of them. A filter that cannot be meant is a `FilterError`. A node whose
value an operator cannot be applied to, such as a text in `year > 2000`, where the reference raises a
`TypeError`, does not match that condition: one odd node must not stop every search.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from llamaindex_memkit.nodes import SOURCE_KEYS, SOURCE_PATH, path_of
from memkit_core import FilterError
from memkit_core.errors import shown
from memkit_core.filters import And, Condition, Filter, Not, Or, condition, metadata_key
from memkit_core.jsonvalues import JsonValue
from memkit_core.text.clean import storable

Given: TypeAlias = MetadataFilter | MetadataFilters
Check: TypeAlias = Callable[[Mapping[str, JsonValue]], bool]

_Op = FilterOperator
_TEXTS = (str,)
_LISTS = (list, str)
_NEEDS: Mapping[FilterOperator, tuple[type, ...]] = {
    _Op.GT: (int, float, str, list),
    _Op.GTE: (int, float, str, list),
    _Op.LT: (int, float, str, list),
    _Op.LTE: (int, float, str, list),
    _Op.IN: _LISTS,
    _Op.NIN: _LISTS,
    _Op.ANY: _LISTS,
    _Op.ALL: _LISTS,
    _Op.TEXT_MATCH: _TEXTS,
    _Op.TEXT_MATCH_INSENSITIVE: _TEXTS,
}
_OF_NOTHING = frozenset({_Op.NE, _Op.NIN, _Op.IS_EMPTY})
"""What a missing or null value satisfies."""
_MEANINGS: Mapping[FilterOperator, Callable[[Any, Any], bool]] = {
    _Op.EQ: operator.eq,
    _Op.NE: operator.ne,
    _Op.GT: operator.gt,
    _Op.GTE: operator.ge,
    _Op.LT: operator.lt,
    _Op.LTE: operator.le,
    _Op.IN: lambda found, value: found in value,
    _Op.NIN: lambda found, value: found not in value,
    _Op.CONTAINS: operator.contains,
    _Op.ANY: lambda found, value: any(one in found for one in value),
    _Op.ALL: lambda found, value: all(one in found for one in value),
    _Op.TEXT_MATCH: lambda found, value: isinstance(found, str) and value in found,
    _Op.TEXT_MATCH_INSENSITIVE: lambda found, value: (
        isinstance(found, str) and value.lower() in found.lower()
    ),
    _Op.IS_EMPTY: lambda found, _: found in ("", []),
}
# The core takes 500 conditions in one filter; longer lists are left to `_MEANINGS`.
_MOST = 50


@dataclass(frozen=True, slots=True)
class Plan:
    """A filter in two parts, all of which must hold.

    Attributes:
        where: what the store decides.
        rest: what the core's grammar cannot say, as functions of a node's metadata; to be decided
            before any cut.
    """

    where: Filter
    rest: tuple[Check, ...]


def planned(filters: MetadataFilters | None) -> Plan:
    """The plan for `filters`, None for no condition.

    Raises:
        FilterError: no `MetadataFilters`, or an operator with a value it cannot have.
    """
    if filters is None:
        return Plan(And(()), ())
    cleaned = _cleaned(filters)
    parts: list[Given] = list(cleaned.filters) if cleaned.condition is FilterCondition.AND else [cleaned]
    translated = [(part, _translated(part)) for part in parts]
    where = And(tuple(found for _, found in translated if found is not None))
    return Plan(where, tuple(_check(part) for part, found in translated if found is None))


def has_condition(filters: MetadataFilters | None) -> bool:
    """Whether there is any condition, at any depth."""
    parts = [] if filters is None else _cleaned(filters).filters
    return any(not isinstance(part, MetadataFilters) or has_condition(part) for part in parts)


def _cleaned(filters: MetadataFilters) -> MetadataFilters:
    """A checked copy, with text as it is stored and AND for no condition."""
    if not isinstance(filters, MetadataFilters):
        raise FilterError(f"filters must be MetadataFilters, got {shown(filters)}")
    parts = [_cleaned(part) if isinstance(part, MetadataFilters) else _leaf(part) for part in filters.filters]
    return MetadataFilters.model_construct(filters=parts, condition=filters.condition or FilterCondition.AND)


def _leaf(leaf: MetadataFilter) -> MetadataFilter:
    needs = _NEEDS.get(leaf.operator)
    if needs is not None and not isinstance(leaf.value, needs):
        raise FilterError(f"{leaf.key!r}: {leaf.operator.value} cannot be used with {shown(leaf.value)}")
    value = leaf.value
    if isinstance(value, list):
        value = [_stored(item) for item in value]  # type: ignore[assignment]  # a list of one kind stays one
    return MetadataFilter.model_construct(
        key=storable(leaf.key), operator=leaf.operator, value=_stored(value)
    )


def _stored(value: object) -> object:
    return storable(value) if isinstance(value, str) else value


def _check(one: Given) -> Check:
    if isinstance(one, MetadataFilters):
        checks = [_check(part) for part in one.filters]
        if not checks or one.condition is FilterCondition.AND:
            return lambda metadata: all(check(metadata) for check in checks)
        wanted = one.condition is FilterCondition.OR
        return lambda metadata: any(check(metadata) for check in checks) is wanted
    holds, key, value = _MEANINGS[one.operator], one.key, one.value

    def check(metadata: Mapping[str, JsonValue]) -> bool:
        found = metadata.get(key)
        if found is None:
            return one.operator in _OF_NOTHING
        try:
            return holds(found, value)
        except TypeError:
            # The value of this node is of a kind that the operator does not apply to.
            return False

    return check


def _translated(one: Given) -> Filter | None:
    """In the core's grammar, or None when it cannot say it."""
    if isinstance(one, MetadataFilters):
        parts = tuple(found for part in one.filters if (found := _translated(part)) is not None)
        if len(parts) < len(one.filters):
            return None
        if not parts or one.condition is FilterCondition.AND:
            return And(parts)
        return Or(parts) if one.condition is FilterCondition.OR else Not(Or(parts))
    translate = _TRANSLATIONS[one.operator]
    key = _Key(path_of(one.key))
    found = translate(key, one.value)
    if found is None or one.key not in SOURCE_KEYS:
        return found
    source = translate(_Key(SOURCE_PATH), one.value)
    assert source is not None
    return Or((And((key.has("exists", True), found)), And((key.has("exists", False), source))))


@dataclass(frozen=True, slots=True)
class _Key:
    """A metadata key, nested or not."""

    names: tuple[str, ...]

    def has(self, op: str, value: object) -> Condition:
        return condition(metadata_key(*self.names), op, value)

    @property
    def text(self) -> Filter:
        """It holds text: every text is at least the empty one."""
        return self.has("gte", "")

    @property
    def single(self) -> Filter:
        """It holds a text, a number or a bool: nothing with elements."""
        bools = (self.has("eq", True), self.has("eq", False))
        return Or((self.text, self.has("gte", 0), self.has("lt", 0), *bools))


def _alike(value: object) -> list[object]:
    """What equals `value` in Python: to the core a bool is no number."""
    return [value, bool(value)] if isinstance(value, int | float) and value in (0, 1) else [value]


def _equal(key: _Key, value: object) -> Filter | None:
    if value is None:
        return Or(())
    if isinstance(value, list):
        # Lists of numbers are compared as text by the core, where 1 is not 1.0.
        return key.has("eq", value) if all(isinstance(item, str) for item in value) else None
    return Or(tuple(key.has("eq", one) for one in _alike(value)))


def _in(key: _Key, value: object) -> Filter | None:
    if not isinstance(value, list):
        return None
    return And((key.has("in", [one for item in value for one in _alike(item)]), key.single))


def _negated(positive: Callable[[_Key, object], Filter | None]) -> Callable[[_Key, object], Filter | None]:
    def negative(key: _Key, value: object) -> Filter | None:
        found = positive(key, value)
        return None if found is None else Not(found)

    return negative


def _ordered(op: str) -> Callable[[_Key, object], Filter | None]:
    compare = getattr(operator, {"gt": "gt", "gte": "ge", "lt": "lt", "lte": "le"}[op])

    def translate(key: _Key, value: object) -> Filter | None:
        if isinstance(value, list):
            return None
        bools = [] if isinstance(value, str) else [one for one in (True, False) if compare(one, value)]
        return Or((key.has(op, value), *(key.has("eq", one) for one in bools)))

    return translate


def _contains(key: _Key, value: object) -> Filter | None:
    if isinstance(value, list):
        return None
    found: list[Filter] = [key.has("contains", one) for one in _alike(value)]
    if isinstance(value, str):
        found.append(_Key((*key.names, value)).has("exists", True))
    return Or(tuple(found))


def _of_all(key: _Key, value: object) -> Filter | None:
    parts = _each_contained(key, value)
    return None if parts is None else And((key.has("exists", True), key.has("ne", None), *parts))


def _of_any(key: _Key, value: object) -> Filter | None:
    parts = _each_contained(key, value)
    return None if parts is None else Or(tuple(parts))


def _each_contained(key: _Key, value: object) -> list[Filter] | None:
    assert isinstance(value, Sequence)
    items = list(dict.fromkeys(value))
    if len(items) > _MOST:
        return None
    return [found for item in items if (found := _contains(key, item)) is not None]


def _text_match(key: _Key, value: object) -> Filter | None:
    return And((key.has("contains", value), key.text))


def _empty(key: _Key, _: object) -> Filter | None:
    nothing: tuple[object, ...] = (None, "", [])
    return Or((key.has("exists", False), *(key.has("eq", one) for one in nothing)))


def _unsaid(_: _Key, __: object) -> Filter | None:
    return None


_TRANSLATIONS: Mapping[FilterOperator, Callable[[_Key, object], Filter | None]] = {
    _Op.EQ: _equal,
    _Op.NE: _negated(_equal),
    _Op.GT: _ordered("gt"),
    _Op.GTE: _ordered("gte"),
    _Op.LT: _ordered("lt"),
    _Op.LTE: _ordered("lte"),
    _Op.IN: _in,
    _Op.NIN: _negated(_in),
    _Op.CONTAINS: _contains,
    _Op.ANY: _of_any,
    _Op.ALL: _of_all,
    _Op.TEXT_MATCH: _text_match,
    _Op.TEXT_MATCH_INSENSITIVE: _unsaid,
    _Op.IS_EMPTY: _empty,
}
