"""Hypothesis strategies for what memkit stores and how it is asked for.

Values come from small pools, so that filters hit, and hold what engines get wrong: 1 beside 1.0,
True and "1", numbers that do not fit a float, keys with dots and quotes, empty lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from memkit_core.errors import FilterError
from memkit_core.filters import (
    FIELDS,
    And,
    Condition,
    FieldKind,
    Filter,
    Not,
    Op,
    Or,
    condition,
    metadata_key,
)
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import MEMORIES, MemoryRecord, Origin, RecordType, Status
from memkit_core.scope import Scope
from memkit_core.testing.samples import HOSTILE_IDS, INJECTIONS, NOW
from memkit_core.times import to_ms

_KEYS = (
    "a", "b", "a.b", "", " ", "a[0]", "$", "user_id", "scope", "id", "Ä", "鍵", 'a"b', "a'b", "metadata",
    *INJECTIONS[:4],
)  # fmt: skip
_NUMBERS: tuple[int | float, ...] = (
    0, 1, 1.0, 0.5, 2, 9, 10, 100, -5, 1.5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1e300, -0.0, 5e-324,
)  # fmt: skip
_TEXTS = (
    "", "a", "A", "ab", "b", "10", "1", "1.0", "true", "null", "ä", "a\u0308", "鍵", "🦉", "owl", "[]", "{}",
    *INJECTIONS[:4],
)  # fmt: skip
_TAGS = ("a", "b", "diet", "鍵", "x y", *INJECTIONS[:2])
_TIMES = tuple(NOW + timedelta(milliseconds=ms) for ms in (-86_400_000, -1, 0, 1, 86_400_000))
_NAMED: dict[str, list[str]] = {
    "type": [one.value for one in RecordType],
    "status": [one.value for one in Status],
    "origin": [one.value for one in Origin],
}
_ANY_VALUES: tuple[object, ...] = (
    None, True, False, 0, 0.5, 1, "", "a", "fact", "active", to_ms(NOW), [], [None], ["a"], ["fact", "a"],
    [0.5, None], [to_ms(NOW)], [to_ms(NOW), None], [True],
)  # fmt: skip
_ORDERED = (Op.GT, Op.GTE, Op.LT, Op.LTE)
_EQUAL = (Op.EQ, Op.NE)
_LISTED = (Op.IN, Op.NIN)


def ids() -> SearchStrategy[str]:
    """Ids that are legal and awkward."""
    any_text = st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
    )
    return st.sampled_from(HOSTILE_IDS) | any_text


def json_values() -> SearchStrategy[JsonValue]:
    """What free metadata may hold: scalars, lists and dicts of them."""
    return st.recursive(
        _scalars(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)
        ),
        max_leaves=6,
    )


def metadata() -> SearchStrategy[dict[str, JsonValue]]:
    """Free metadata of a record."""
    return st.dictionaries(st.sampled_from(_KEYS), json_values(), max_size=4)


def _scalars() -> SearchStrategy[JsonValue]:
    return st.none() | st.booleans() | st.sampled_from(_NUMBERS) | st.sampled_from(_TEXTS)


def records(scope: Scope, *, space: str = MEMORIES) -> SearchStrategy[MemoryRecord]:
    """Records of one scope, with any id; every field a filter can name varies."""
    maybe_time = st.none() | st.sampled_from(_TIMES)
    maybe_text = st.none() | st.sampled_from([text for text in _TEXTS if text])
    return st.builds(
        MemoryRecord,
        id=ids(),
        scope=st.just(scope),
        space=st.just(space),
        content=st.sampled_from([text for text in _TEXTS if text.strip()]),
        created_at=st.sampled_from(_TIMES),
        updated_at=st.sampled_from(_TIMES),
        type=st.sampled_from(RecordType),
        key=maybe_text,
        importance=st.sampled_from([0.0, 0.5, 1.0]),
        pinned=st.booleans(),
        status=st.sampled_from(Status),
        tags=st.lists(st.sampled_from(_TAGS), max_size=3, unique=True).map(tuple),
        metadata=metadata(),
        occurred_at=maybe_time,
        last_accessed_at=maybe_time,
        access_count=st.sampled_from([0, 1, 9, 10]),
        expires_at=maybe_time,
        valid_from=maybe_time,
        valid_until=maybe_time,
        version=st.just(1),
        mentions=st.sampled_from([1, 2, 10]),
        agent_id=maybe_text,
        source=maybe_text,
        confidence=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
        created_in_session_id=maybe_text,
        promoted_from_id=maybe_text,
        origin=st.sampled_from(Origin),
    )


def filters(
    *, fields: Collection[str] = tuple(FIELDS), free_metadata: bool = True, max_leaves: int = 6
) -> SearchStrategy[Filter]:
    """Filters over the given record fields and, unless told otherwise, over free metadata."""
    leaves = [_field_condition(name) for name in sorted(fields)]
    if free_metadata:
        leaves += [_metadata_condition()] * max(1, len(leaves) // 2)
    return st.recursive(
        st.one_of(leaves),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts)))
            | st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts)))
            | inner.map(Not)
        ),
        max_leaves=max_leaves,
    )


def every_field_condition(fields: Collection[str] = tuple(FIELDS)) -> list[Condition]:
    """Each field with each operator and each kind of value the grammar takes there: a fixed list."""
    tried = (
        _tried(name, op, value) for name, op, value in itertools.product(sorted(fields), Op, _ANY_VALUES)
    )
    return [one for one in tried if one is not None]


def _tried(name: str, op: Op, value: object) -> Condition | None:
    try:
        return condition(name, op, value)
    except FilterError:
        return None


def _field_condition(name: str) -> SearchStrategy[Condition]:
    kind = FIELDS[name]
    values = _field_values(name)
    orderable = values.filter(lambda value: isinstance(value, str | int | float))
    whole = st.lists(values, max_size=2) if kind is FieldKind.LIST else values
    kinds: list[SearchStrategy[Condition]] = [
        _conditions(name, _EQUAL, st.none() | whole),
        _conditions(name, _LISTED, st.lists(st.none() | values, max_size=3)),
        _conditions(name, (Op.EXISTS,), st.booleans()),
    ]
    if kind is not FieldKind.BOOL:
        kinds.append(_conditions(name, _ORDERED, orderable))
    if kind in (FieldKind.TEXT, FieldKind.LIST):
        kinds.append(_conditions(name, (Op.CONTAINS,), values))
    return st.one_of(kinds)


def _field_values(name: str) -> SearchStrategy[JsonValue]:
    if name in _NAMED:
        return st.sampled_from(_NAMED[name])
    match FIELDS[name]:
        case FieldKind.TEXT:
            return st.sampled_from(_TEXTS)
        case FieldKind.NUMBER:
            return st.sampled_from(_NUMBERS)
        case FieldKind.BOOL:
            return st.booleans()
        case FieldKind.TIME:
            return st.sampled_from([to_ms(moment) for moment in _TIMES])
        case FieldKind.LIST:
            return st.sampled_from(_TAGS)


def _metadata_condition() -> SearchStrategy[Condition]:
    keys = st.lists(st.sampled_from(_KEYS), min_size=1, max_size=2).map(lambda names: metadata_key(*names))
    orderable = st.sampled_from(_NUMBERS) | st.sampled_from(_TEXTS)
    return st.one_of(
        st.builds(condition, keys, st.sampled_from(_EQUAL), json_values()),
        st.builds(condition, keys, st.sampled_from(_ORDERED), orderable),
        st.builds(condition, keys, st.sampled_from(_LISTED), st.lists(json_values(), max_size=3)),
        st.builds(condition, keys, st.just(Op.CONTAINS), json_values()),
        st.builds(condition, keys, st.just(Op.EXISTS), st.booleans()),
    )


def _conditions(
    name: str, operators: tuple[Op, ...], values: SearchStrategy[JsonValue] | SearchStrategy[list[JsonValue]]
) -> SearchStrategy[Condition]:
    return st.builds(condition, st.just(name), st.sampled_from(operators), values)
