"""Filters as SQL. Keys and values are bound, never pasted; each expression is 0 or 1, never NULL."""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache

from memkit_core.filters import (
    FIELDS,
    MISSING,
    And,
    Condition,
    FieldKind,
    Filter,
    Not,
    Op,
    Or,
    holds,
)
from memkit_core.jsonvalues import canonical_json

_COMPARISONS = {Op.EQ: "=", Op.GT: ">", Op.GTE: ">=", Op.LT: "<", Op.LTE: "<="}


class Parameters:
    """Collects bound values under names that cannot meet the caller's own."""

    def __init__(self) -> None:
        """Start empty."""
        self.values: dict[str, object] = {}

    def add(self, value: object) -> str:
        """Bind `value`; returns the placeholder."""
        name = f"f{len(self.values)}"
        self.values[name] = value
        return f":{name}"


def compile_filter(where: Filter | None, parameters: Parameters) -> str:
    """The SQL condition on `records r` that means `where`."""
    match where:
        case None:
            return "1"
        case Condition():
            return _condition(where, parameters)
        case And(parts):
            return "(" + " AND ".join(["1", *(compile_filter(part, parameters) for part in parts)]) + ")"
        case Or(parts):
            return "(" + " OR ".join(["0", *(compile_filter(part, parameters) for part in parts)]) + ")"
        case Not(part):
            return f"NOT {compile_filter(part, parameters)}"


def _condition(where: Condition, parameters: Parameters) -> str:
    if where.field is None:
        return f"memkit_holds(r.metadata, {parameters.add(_encoded(where.path[1:], where))})"
    if FIELDS[where.field] is FieldKind.LIST:
        if where.op is Op.CONTAINS or where.op in (Op.IN, Op.NIN):
            return _tags(where, parameters)
        return (
            f"memkit_holds(json_object('tags', json(r.tags)), {parameters.add(_encoded(('tags',), where))})"
        )
    return _column(where, f"r.{where.field}", parameters)


def _column(where: Condition, column: str, parameters: Parameters) -> str:
    op, value = where.op, where.value
    if op is Op.EXISTS:
        return f"({column} IS {'NOT ' if value else ''}NULL)"
    if op in (Op.IN, Op.NIN):
        assert isinstance(value, list)
        # One parameter for all: SQLite looks each name up along the list of all names.
        listed = parameters.add(json.dumps([item for item in value if item is not None]))
        found = f"{column} IN (SELECT value FROM json_each({listed}))"
        return f"{'' if op is Op.IN else 'NOT '}COALESCE({found}, 0)"
    if op is Op.CONTAINS:
        return f"COALESCE(instr({column}, {parameters.add(value)}) > 0, 0)"
    if op is Op.NE:
        return f"NOT COALESCE({column} = {parameters.add(value)}, 0)"
    if op in (Op.GT, Op.GTE, Op.LT, Op.LTE) and isinstance(value, str) is not _holds_text(where):
        return "0"
    return f"COALESCE({column} {_COMPARISONS[op]} {parameters.add(value)}, 0)"


def _holds_text(where: Condition) -> bool:
    return where.field is not None and FIELDS[where.field] is FieldKind.TEXT


def _tags(where: Condition, parameters: Parameters) -> str:
    wanted = where.value if isinstance(where.value, list) and where.op is not Op.CONTAINS else [where.value]
    listed = ", ".join(parameters.add(tag) for tag in wanted if isinstance(tag, str))
    found = f"EXISTS (SELECT 1 FROM record_tags t WHERE t.seq = r.seq AND t.tag IN ({listed}))"
    return f"NOT {found}" if where.op is Op.NIN else found


def _encoded(path: tuple[str, ...], where: Condition) -> str:
    return canonical_json([list(path), where.op.value, where.value])


def register_functions(connection: sqlite3.Connection) -> None:
    """Teach the connection `memkit_holds(json, condition)`.

    Free metadata is compared by the very code that defines the grammar rather than by SQLite's
    JSON functions, which read numbers, booleans and odd keys a little differently.
    """
    connection.create_function("memkit_holds", 2, _metadata_holds, deterministic=True)


def _metadata_holds(metadata: str, encoded: str) -> bool:
    found = json.loads(metadata)
    condition = _decoded(encoded)
    for name in condition.path:
        if not isinstance(found, dict) or name not in found:
            found = MISSING
            break
        found = found[name]
    return holds(condition, found)


@lru_cache(maxsize=256)
def _decoded(encoded: str) -> Condition:
    path, op, value = json.loads(encoded)
    return Condition(tuple(path), Op(op), value)
