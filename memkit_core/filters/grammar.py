"""What a filter is made of, and how the dict form is read; see `memkit_core.filters` for the grammar."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from memkit_core.errors import FilterError, InvalidInputError, shown
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.models import Origin, RecordType, Status
from memkit_core.sequences import iterated
from memkit_core.times import to_ms, to_utc


class Op(enum.StrEnum):
    """The operators."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"
    EXISTS = "exists"
    CONTAINS = "contains"


class FieldKind(enum.Enum):
    """What a record field holds; decides which values a filter may compare it with."""

    TEXT = "text"
    NUMBER = "number"
    BOOL = "bool"
    TIME = "time"
    LIST = "list"


FIELDS: Mapping[str, FieldKind] = {
    "id": FieldKind.TEXT,
    "space": FieldKind.TEXT,
    "content": FieldKind.TEXT,
    "type": FieldKind.TEXT,
    "key": FieldKind.TEXT,
    "status": FieldKind.TEXT,
    "agent_id": FieldKind.TEXT,
    "source": FieldKind.TEXT,
    "origin": FieldKind.TEXT,
    "created_in_session_id": FieldKind.TEXT,
    "promoted_from_id": FieldKind.TEXT,
    "importance": FieldKind.NUMBER,
    "confidence": FieldKind.NUMBER,
    "access_count": FieldKind.NUMBER,
    "version": FieldKind.NUMBER,
    "mentions": FieldKind.NUMBER,
    "pinned": FieldKind.BOOL,
    "created_at": FieldKind.TIME,
    "updated_at": FieldKind.TIME,
    "occurred_at": FieldKind.TIME,
    "last_accessed_at": FieldKind.TIME,
    "expires_at": FieldKind.TIME,
    "valid_from": FieldKind.TIME,
    "valid_until": FieldKind.TIME,
    "tags": FieldKind.LIST,
}
"""The record fields a filter can name, and what they hold."""

METADATA = "metadata"
_CHOICES: Mapping[str, type[enum.StrEnum]] = {"type": RecordType, "status": Status, "origin": Origin}
_MAX_DEPTH, _MAX_CONDITIONS = 32, 500
_LIST_OPS = {Op.IN, Op.NIN}
ORDER_OPS = {Op.GT, Op.GTE, Op.LT, Op.LTE}
"""The operators that compare by order."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEGMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^."\s\[\]]+')


@dataclass(frozen=True, slots=True)
class Condition:
    """`key op value`. Times are held as integer milliseconds; build with `condition`."""

    path: tuple[str, ...]
    op: Op
    value: JsonValue

    @property
    def field(self) -> str | None:
        """The record field it names, None for metadata."""
        return None if self.path[0] == METADATA else self.path[0]


@dataclass(frozen=True, slots=True)
class And:
    """All of them match; true when empty."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them matches; false when empty."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """It does not match."""

    part: Filter


Filter: TypeAlias = Condition | And | Or | Not
FilterLike: TypeAlias = Condition | And | Or | Not | Mapping[str, object]


def condition(key: str, op: str, value: object) -> Condition:
    """One checked condition.

    Raises:
        FilterError: unknown operator, unknown or malformed key, or a value that this operator or
            field cannot be compared with.
    """
    path = parse_key(key)
    try:
        known = Op(op if isinstance(op, str) else "")
    except ValueError:
        raise FilterError(
            f"unknown filter operator {shown(op)} on {key!r}; use one of {', '.join(Op)}, or and, or, not"
        ) from None
    return Condition(path, known, _checked_value(key, path, known, value))


def parse_key(key: object) -> tuple[str, ...]:
    """`"metadata.a.b"` as `("metadata", "a", "b")`, `"type"` as `("type",)`.

    Raises:
        FilterError: not a field and not `metadata.…`; the message lists the fields.
    """
    if not isinstance(key, str) or _SURROGATE.search(key):
        raise FilterError(f"a filter key must be text without lone surrogates, got {shown(key)}")
    if key in FIELDS:
        return (key,)
    prefix, dot, rest = key.partition(".")
    if prefix != METADATA or not dot:
        raise FilterError(
            f"unknown filter key {shown(key)}; use metadata.<key> for free metadata, or one of "
            f"{', '.join(FIELDS)}"
        )
    segments: list[str] = []
    position = 0
    while position <= len(rest):
        match = _SEGMENT.match(rest, position)
        if match is None or (match.end() < len(rest) and rest[match.end()] != "."):
            raise FilterError(f'filter key {shown(key)} is malformed; quote unusual names: metadata."a.b"')
        segments.append(_unquoted(match.group(), key))
        position = match.end() + 1
    return (METADATA, *segments)


def _unquoted(segment: str, key: str) -> str:
    if not segment.startswith('"'):
        return segment
    try:
        return str(json.loads(segment))
    except ValueError:
        raise FilterError(f"filter key {shown(key)} holds a badly quoted name {segment}") from None


def metadata_key(*names: str) -> str:
    """The filter key of nested metadata `names`, quoted where needed: `metadata_key("a.b")`."""
    if not names:
        raise FilterError("metadata_key needs at least one name")
    plain = (n if _SEGMENT.fullmatch(n) and n[0] != '"' else json.dumps(n) for n in names)
    return ".".join((METADATA, *plain))


def _checked_value(key: str, path: tuple[str, ...], op: Op, value: object) -> JsonValue:
    if op is Op.EXISTS:
        if not isinstance(value, bool):
            raise FilterError(f"{key}: exists takes True or False, got {shown(value)}")
        return value
    if op in _LIST_OPS:
        items = iterated(value)
        if items is None:
            raise FilterError(f"{key}: {op} takes a list of values, got {shown(value)}")
        return [_checked_one(key, path, op, item) for item in items]
    return _checked_one(key, path, op, value)


def _checked_one(key: str, path: tuple[str, ...], op: Op, value: object) -> JsonValue:
    kind = FIELDS.get(path[0])
    if kind is FieldKind.TIME:
        return _time_value(key, op, value)
    if isinstance(value, enum.StrEnum):
        value = value.value
    try:
        checked = checked_metadata({"value": value}, name=key)["value"]
    except InvalidInputError as error:
        raise FilterError(f"filter value cannot be compared: {error}") from None
    if op in ORDER_OPS and (isinstance(checked, bool) or not isinstance(checked, int | float | str)):
        raise FilterError(f"{key}: {op} takes a number or a text, got {shown(value)}")
    if kind is not None:
        _check_field_value(key, kind, op, checked)
    if path[0] in _CHOICES and op not in ORDER_OPS and op is not Op.CONTAINS and checked is not None:
        _check_choice(key, _CHOICES[path[0]], checked)
    return _lowered(checked) if kind is FieldKind.LIST else checked


def _check_choice(key: str, choices: type[enum.StrEnum], value: JsonValue) -> None:
    if value not in set(choices):
        raise FilterError(f"{key} is one of {', '.join(choices)}; nothing can equal {shown(value)}")


def _lowered(value: JsonValue) -> JsonValue:
    # Tags are stored in lower case, so they are looked for in lower case.
    if isinstance(value, list):
        return [_lowered(item) for item in value]
    return value.lower() if isinstance(value, str) else value


def _time_value(key: str, op: Op, value: object) -> JsonValue:
    if op is Op.CONTAINS:
        raise FilterError(f"{key}: contains does not apply to a time")
    if value is None and op not in ORDER_OPS:
        return None
    try:
        return to_ms(to_utc(value, name=key))  # type: ignore[arg-type]  # any object: to_utc refuses what is no time
    except InvalidInputError as error:
        raise FilterError(str(error)) from None


def _check_field_value(key: str, kind: FieldKind, op: Op, value: JsonValue) -> None:
    if value is None and op not in (Op.CONTAINS, *ORDER_OPS):
        return
    fits: dict[FieldKind, Callable[[JsonValue], bool]] = {
        FieldKind.TEXT: lambda v: isinstance(v, str),
        FieldKind.NUMBER: lambda v: isinstance(v, int | float) and not isinstance(v, bool),
        FieldKind.BOOL: lambda v: isinstance(v, bool),
        FieldKind.LIST: lambda v: isinstance(v, list if op in (Op.EQ, Op.NE) else str),
    }
    if not fits[kind](value) or (op is Op.CONTAINS and kind not in (FieldKind.TEXT, FieldKind.LIST)):
        raise FilterError(f"{key} holds {kind.value}; {op} cannot compare it with {shown(value)}")


def parse_filter(value: FilterLike | None) -> Filter | None:
    """The filter that `value` describes, None for None; filters are returned as they are.

    Raises:
        FilterError: anything that is not the documented grammar, more than 500 conditions, or
            nesting deeper than 32. Never an empty answer instead.
    """
    if value is None:
        return None
    parsed = _parsed(value, 0)
    if _size(parsed, 0) > _MAX_CONDITIONS:
        raise FilterError(f"a filter can have at most {_MAX_CONDITIONS} conditions")
    return parsed


def _size(where: Filter, depth: int) -> int:
    """How many conditions a filter has; also of filters that were built by hand."""
    if depth > _MAX_DEPTH:
        raise FilterError(f"a filter can be nested at most {_MAX_DEPTH} deep")
    match where:
        case Condition():
            return 1
        case Not(part):
            return _size(part, depth + 1)
        case And(parts) | Or(parts):
            return sum(_size(part, depth + 1) for part in parts)


def _parsed(value: object, depth: int) -> Filter:
    if isinstance(value, Condition):
        known = value.path[:1] == (METADATA,) and len(value.path) > 1
        if not known and not (len(value.path) == 1 and value.path[0] in FIELDS):
            raise FilterError(f"unknown filter key {shown(value.path)}; build conditions with parse_filter")
        return value
    if isinstance(value, And | Or | Not):
        return value
    if not isinstance(value, Mapping):
        raise FilterError(f"a filter must be a dict or a Filter, got {type(value).__name__} {shown(value)}")
    if depth > _MAX_DEPTH:
        raise FilterError(f"a filter can be nested at most {_MAX_DEPTH} deep")
    parts = tuple(_parse_entry(key, item, depth) for key, item in value.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _parse_entry(key: object, item: object, depth: int) -> Filter:
    if key in ("and", "or"):
        if not isinstance(item, list | tuple):
            raise FilterError(f"{key} takes a list of filters, got {shown(item)}")
        parts = tuple(_parsed(part, depth + 1) for part in item)
        return And(parts) if key == "and" else Or(parts)
    if key == "not":
        return Not(_parsed(item, depth + 1))
    if not isinstance(key, str):
        raise FilterError(f"a filter key must be a string, got {shown(key)}")
    if not isinstance(item, Mapping):
        return condition(key, "eq", item)
    if not item:
        raise FilterError(f"{key}: an empty dict holds no operator; to compare with it use {{'eq': {{}}}}")
    parts = tuple(condition(key, op, operand) for op, operand in item.items())
    return parts[0] if len(parts) == 1 else And(parts)


def conjunction(*filters: Filter | None) -> Filter | None:
    """All of the given filters together; None when none was given."""
    parts = tuple(part for part in filters if part is not None)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


def indexable(where: Filter, fields: frozenset[str]) -> bool:
    """Whether an index that holds `fields` can decide `where`.

    Comparing a tag list as a whole is left to the record store: an index knows single tags only.
    """
    match where:
        case Not(part):
            return indexable(part, fields)
        case And(parts) | Or(parts):
            return all(indexable(part, fields) for part in parts)
        case Condition():
            whole_list = where.field == "tags" and where.op not in (Op.CONTAINS, Op.IN, Op.NIN, Op.EXISTS)
            return where.field in fields and not whole_list
