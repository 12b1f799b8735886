"""Records to rows and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from memkit_core.jsonvalues import canonical_json
from memkit_core.models import MemoryRecord, Origin, RecordType, Status
from memkit_core.ports import Candidate
from memkit_core.stores.sqlite.scopes import read_scope
from memkit_core.times import from_ms, to_ms

COLUMNS: tuple[str, ...] = (
    "space", "id", "content", "type", "key", "importance", "pinned", "status", "tags", "metadata",
    "created_at", "updated_at", "occurred_at", "last_accessed_at", "access_count", "expires_at",
    "valid_from", "valid_until", "version", "supersedes", "superseded_by", "agent_id", "source",
    "confidence", "created_in_session_id", "promoted_from_id", "compacted_from_ids",
    "source_message_ids", "origin",
)  # fmt: skip
"""The columns of `records` that hold a record's own attributes, in the order of `record_values`."""

SELECT_RECORD = f"(SELECT path FROM scopes s WHERE s.id = r.scope_id), {', '.join(f'r.{c}' for c in COLUMNS)}"
"""What to select from `records r` for `read_record`."""

SELECT_CANDIDATE = (
    "r.point_id, r.seq, r.terms, r.importance, COALESCE(r.valid_from, r.occurred_at, r.created_at), "
    "r.scope_id, r.position, r.speaker, r.role, substr(r.content, -16)"
)
"""What to select from `records r` for `read_candidate`."""

VISIBLE = "(r.pinned OR r.expires_at IS NULL OR r.expires_at > :now)"
"""The condition on `records r` that a row has not expired."""


def ms(moment: datetime | None) -> int | None:
    """`to_ms` that lets None through."""
    return None if moment is None else to_ms(moment)


def record_values(record: MemoryRecord) -> list[object]:
    """The values of `COLUMNS` for a record."""
    return [
        record.space, record.id, record.content, record.type.value, record.key, record.importance,
        int(record.pinned), record.status.value, canonical_json(list(record.tags)),
        canonical_json(dict(record.metadata)), to_ms(record.created_at), to_ms(record.updated_at),
        ms(record.occurred_at), ms(record.last_accessed_at), record.access_count,
        ms(record.expires_at), ms(record.valid_from), ms(record.valid_until), record.version,
        record.supersedes, record.superseded_by, record.agent_id, record.source, record.confidence,
        record.created_in_session_id, record.promoted_from_id,
        canonical_json(list(record.compacted_from_ids)),
        canonical_json(list(record.source_message_ids)), record.origin.value,
    ]  # fmt: skip


def read_record(row: Sequence[Any]) -> MemoryRecord:
    """The record of a row selected with `SELECT_RECORD`."""
    values = dict(zip(COLUMNS, row[1:], strict=False))
    for name in _TIMES:
        values[name] = _moment(values[name])
    for name in ("tags", "compacted_from_ids", "source_message_ids"):
        values[name] = tuple(json.loads(str(values[name])))
    values["metadata"] = json.loads(str(values["metadata"]))
    values["pinned"] = bool(values["pinned"])
    values["type"] = RecordType(values["type"])
    values["status"] = Status(values["status"])
    values["origin"] = Origin(values["origin"])
    return MemoryRecord(scope=read_scope(str(row[0])), **values)  # typed by the schema


_TIMES = (
    "created_at", "updated_at", "occurred_at", "last_accessed_at", "expires_at", "valid_from", "valid_until",
)  # fmt: skip


def _moment(value: object) -> datetime | None:
    return from_ms(value) if isinstance(value, int) else None


def read_candidate(row: Sequence[Any]) -> Candidate:
    """The candidate of a row selected with `SELECT_CANDIDATE`."""
    point, number, terms, importance, since, session, position, speaker, role, ending = row
    turn = position is not None
    return Candidate(
        point_id=UUID(bytes=point),
        row=number,
        length=terms,
        importance=importance,
        since=since,
        session=session if turn else -1,
        position=position if turn else -1,
        speaker=speaker,
        role=role,
        ending=ending,
    )


def marks(count: int) -> str:
    """`?, ?, …` for `count` values."""
    return ", ".join("?" * count)
