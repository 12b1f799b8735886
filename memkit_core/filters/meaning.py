"""What a filter means: the one definition that every backend is held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from memkit_core.filters.grammar import (
    FIELDS,
    METADATA,
    ORDER_OPS,
    And,
    Condition,
    FieldKind,
    Filter,
    Not,
    Op,
    Or,
)
from memkit_core.jsonvalues import canonical_json
from memkit_core.models import MemoryRecord
from memkit_core.times import to_ms

MISSING: Final = object()
"""What a look-up returns for a key that has no value."""


def matches(where: Filter, record: MemoryRecord) -> bool:
    """Whether `record` satisfies `where`. This is the meaning every backend is held to."""
    return evaluate(where, lambda path: _lookup(record, path))


def evaluate(where: Filter, look_up: Callable[[tuple[str, ...]], object]) -> bool:
    """Whether the values that `look_up(path)` returns satisfy `where`; `MISSING` means no value."""
    match where:
        case Condition():
            return holds(where, look_up(where.path))
        case And(parts):
            return all(evaluate(part, look_up) for part in parts)
        case Or(parts):
            return any(evaluate(part, look_up) for part in parts)
        case Not(part):
            return not evaluate(part, look_up)


def _lookup(record: MemoryRecord, path: tuple[str, ...]) -> object:
    if path[0] == METADATA:
        value: object = record.metadata
        for name in path[1:]:
            if not isinstance(value, Mapping) or name not in value:
                return MISSING
            value = value[name]
        return value
    field = getattr(record, path[0])
    if field is None:
        return MISSING
    if FIELDS[path[0]] is FieldKind.TIME:
        return to_ms(field)
    return list(field) if path[0] == "tags" else field


def holds(where: Condition, found: object) -> bool:
    """Whether the value `found`, or `MISSING`, satisfies one condition."""
    op, value = where.op, where.value
    if op is Op.EXISTS:
        return (found is not MISSING) is value
    if found is MISSING:
        return op in (Op.NE, Op.NIN)
    if op in ORDER_OPS:
        return _ordered(op, found, value)
    if op is Op.EQ or op is Op.NE:
        return _same(found, value) is (op is Op.EQ)
    if op is Op.CONTAINS:
        return _contains(found, value)
    assert isinstance(value, list)
    candidates = found if isinstance(found, list) else [found]
    return any(_same(one, item) for one in candidates for item in value) is (op is Op.IN)


def _same(left: object, right: object) -> bool:
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        return type(left) is type(right) and canonical_json(left) == canonical_json(right)  # type: ignore[arg-type]
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _ordered(op: Op, found: object, value: object) -> bool:
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return False
    if isinstance(found, str) is not isinstance(value, str):
        return False
    if isinstance(found, float) and not math.isfinite(found):
        return False
    compare: dict[Op, Callable[[], bool]] = {
        Op.GT: lambda: found > value,  # type: ignore[operator]  # both are numbers or both text
        Op.GTE: lambda: found >= value,  # type: ignore[operator]
        Op.LT: lambda: found < value,  # type: ignore[operator]
        Op.LTE: lambda: found <= value,  # type: ignore[operator]
    }
    return compare[op]()


def _contains(found: object, value: object) -> bool:
    if isinstance(found, list):
        return any(_same(item, value) for item in found)
    return isinstance(found, str) and isinstance(value, str) and value in found
