"""Records to rows and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from memkit_core.jsonvalues import canonical_json
from memkit_core.models import MESSAGES, ChangeKind, MemoryRecord, Origin, RecordChange, RecordType, Status
from memkit_core.ports import CANDIDATE_TEXT
from memkit_core.stores.sqlite.scopes import read_scope
from memkit_core.times import from_ms, to_ms

COLUMNS: tuple[str, ...] = (
    "space", "id", "content", "type", "key", "importance", "pinned", "status", "tags", "metadata",
    "created_at", "updated_at", "occurred_at", "last_accessed_at", "access_count", "expires_at",
    "valid_from", "valid_until", "version", "supersedes", "superseded_by", "agent_id", "source",
    "confidence", "created_in_session_id", "promoted_from_id", "compacted_from_ids",
    "source_message_ids", "origin", "mentions",
)  # fmt: skip
"""The columns of `records` that hold a record's own attributes, in the order of `record_values`."""

SELECT_RECORD = f"(SELECT path FROM scopes s WHERE s.id = r.scope_id), {', '.join(f'r.{c}' for c in COLUMNS)}"
"""What to select from `records r` for `read_record`."""

SELECT_CHANGE = "h.version, h.kind, h.at, h.before, h.dropped, h.others, h.reason"
"""What to select from `history h` for `read_change`."""
INSERT_CHANGE = "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
"""What writes `change_values`."""

_SELECT_CANDIDATE = (
    "r.point_id, r.seq, r.terms, r.importance, COALESCE(r.valid_from, r.occurred_at, r.created_at)"
)
_SELECT_TURN = (
    f"{_SELECT_CANDIDATE}, iif(r.position IS NULL, -1, r.scope_id), COALESCE(r.position, -1), "
    f"r.speaker, r.role, substr(r.content, -16), substr(r.content, 1, {CANDIDATE_TEXT})"
)
# A look-up here takes a tenth of the time that calling the class takes.
_TYPES = {kind.value: kind for kind in RecordType}
_STATUSES = {status.value: status for status in Status}
_ORIGINS = {origin.value: origin for origin in Origin}

_POINT_BYTES = 16

# All points in one value: a placeholder each would cost more than finding the rows, and a statement
# for every number of points.
_CHOSEN = (
    "json_each(:places) place CROSS JOIN {0} {1} "
    f"ON {{1}}.point_id = substr(:points, place.value, {_POINT_BYTES})"
)
CHOSEN_RECORDS = _CHOSEN.format("records", "r")
"""`records r` for `chosen` points, at most one row a point."""
LISTED_RECORDS = "json_each(:rows) listed CROSS JOIN records r ON r.seq = listed.value"
"""`records r` for the numbers in the JSON list `rows`, at most one row a number."""
CHOSEN_CHANGES = _CHOSEN.format("outbox", "o")
"""`outbox o` for `chosen` points, at most one row a point."""

VISIBLE = "(r.pinned OR r.expires_at IS NULL OR r.expires_at > :now)"
"""The condition on `records r` that a row has not expired."""


def ms(moment: datetime | None) -> int | None:
    """`to_ms` that lets None through."""
    return None if moment is None else to_ms(moment)


def record_values(record: MemoryRecord) -> list[object]:
    """The values of `COLUMNS` for a record."""
    return [
        record.space, record.id, record.content, record.type.value, record.key, record.importance,
        int(record.pinned), record.status.value, _list_text(record.tags),
        canonical_json(dict(record.metadata)) if record.metadata else "{}",
        to_ms(record.created_at), to_ms(record.updated_at), ms(record.occurred_at),
        ms(record.last_accessed_at), record.access_count,
        ms(record.expires_at), ms(record.valid_from), ms(record.valid_until), record.version,
        record.supersedes, record.superseded_by, record.agent_id, record.source, record.confidence,
        record.created_in_session_id, record.promoted_from_id,
        _list_text(record.compacted_from_ids), _list_text(record.source_message_ids),
        record.origin.value, record.mentions,
    ]  # fmt: skip


def _list_text(values: tuple[str, ...]) -> str:
    # Nearly always empty: not asking the encoder halves what a row costs.
    return canonical_json(list(values)) if values else "[]"


def read_record(row: Sequence[Any]) -> MemoryRecord:
    """The record of a row selected with `SELECT_RECORD`."""
    # By place, not by name: a recall reads ten of these and a batch of writes hundreds.
    (
        path, space, record_id, content, kind, key, importance, pinned, status, tags, metadata,
        created_at, updated_at, occurred_at, last_accessed_at, access_count, expires_at,
        valid_from, valid_until, version, supersedes, superseded_by, agent_id, source,
        confidence, created_in_session_id, promoted_from_id, compacted_from_ids,
        source_message_ids, origin, mentions,
    ) = row  # fmt: skip
    return MemoryRecord(
        scope=read_scope(path),
        space=space,
        id=record_id,
        content=content,
        type=_TYPES[kind],
        key=key,
        importance=importance,
        pinned=bool(pinned),
        status=_STATUSES[status],
        tags=_list(tags),
        metadata={} if metadata == "{}" else json.loads(metadata),
        created_at=from_ms(created_at),
        updated_at=from_ms(updated_at),
        occurred_at=_moment(occurred_at),
        last_accessed_at=_moment(last_accessed_at),
        access_count=access_count,
        expires_at=_moment(expires_at),
        valid_from=_moment(valid_from),
        valid_until=_moment(valid_until),
        version=version,
        supersedes=supersedes,
        superseded_by=superseded_by,
        agent_id=agent_id,
        source=source,
        confidence=confidence,
        created_in_session_id=created_in_session_id,
        promoted_from_id=promoted_from_id,
        compacted_from_ids=_list(compacted_from_ids),
        source_message_ids=_list(source_message_ids),
        origin=_ORIGINS[origin],
        mentions=mentions,
    )


def change_values(seq: int, change: RecordChange) -> tuple[object, ...]:
    """The row of `history` for a change of the record in row `seq`."""
    return (
        seq,
        change.version,
        change.kind.value,
        to_ms(change.at),
        canonical_json(dict(change.before)),
        canonical_json(dict(change.dropped)),
        canonical_json(list(change.others)),
        change.reason,
    )


def read_change(row: Sequence[Any]) -> RecordChange:
    """The change of a row of `history`, selected with `SELECT_CHANGE`."""
    version, kind, at, before, dropped, others, reason = row
    return RecordChange(
        version=version,
        kind=ChangeKind(kind),
        at=from_ms(at),
        before=json.loads(before),
        dropped=json.loads(dropped),
        others=_list(others),
        reason=reason,
    )


def _list(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _moment(value: int | None) -> datetime | None:
    return None if value is None else from_ms(value)


def select_candidate(space: str) -> str:
    """What to select from `records r` of `space`: the fields of a `Candidate`, in their order."""
    return _SELECT_TURN if space == MESSAGES else _SELECT_CANDIDATE


def chosen(points: Sequence[UUID]) -> dict[str, object]:
    """The values that `CHOSEN_RECORDS` and `CHOSEN_CHANGES` need for these points."""
    return chosen_bytes(dict.fromkeys([point.bytes for point in points]))


def chosen_bytes(points: Collection[bytes]) -> dict[str, object]:
    """As `chosen`, for the bytes of distinct points."""
    return {"points": b"".join(points), "places": _places(len(points))}


@lru_cache(maxsize=1024)
def _places(count: int) -> str:
    return json.dumps(list(range(1, _POINT_BYTES * count, _POINT_BYTES)))


def marks(count: int) -> str:
    """`?, ?, …` for `count` values."""
    return ", ".join("?" * count)
