"""What becomes of a record that is said again, replaced or changed: one meaning for every store."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from memkit_core.errors import ConflictError, RecordNotFoundError, shown
from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    MemoryRecord,
    RecordChange,
    RecordPatch,
    Status,
)
from memkit_core.omitted import Omitted
from memkit_core.text.clean import normal_form
from memkit_core.times import to_ms

DIGEST_VERSION = "2"
"""Names what `digest` makes of a record; a store made with another one computes its digests anew."""

_COMPARED = tuple(
    field.name
    for field in dataclasses.fields(MemoryRecord)
    if field.name
    not in ("id", "scope", "space", "version", "created_at", "updated_at", "access_count", "last_accessed_at")
)
_FIRST_WINS = (
    "content", "importance", "metadata", "expires_at", "agent_id", "source", "confidence",
    "source_message_ids", "origin",
)  # fmt: skip
"""What a merge takes of one of the two only; see `RecordChange.dropped`."""
_SEEN_BY_INDEX = ("content", "type", "status", "occurred_at", "expires_at", "pinned", "tags")
"""What an index may know of a record that can change, the text of its vector included."""


def digest(record: MemoryRecord) -> int | None:
    """64 bits that duplicates of one scope share; None for what is never merged.

    Two records with one digest need not be duplicates: see `is_duplicate`.
    """
    if record.space != MEMORIES:
        return None
    named = f"{record.type.value}\0{_times(record)}\0{normal_form(record.content)}".encode()
    return int.from_bytes(hashlib.blake2b(named, digest_size=8).digest(), "big", signed=True)


def is_duplicate(old: MemoryRecord, new: MemoryRecord) -> bool:
    """Whether `new` says what `old`, of the same scope, says already (spec B5).

    A key names a slot of its own: "dark" as the theme is not "dark" as the roast. Two times are two
    events, and a time that only one of them knows is not lost either: "had a fever" on Monday, on
    Tuesday and at no known time are three memories.
    """
    return (
        old.space == new.space == MEMORIES
        and old.status is Status.ACTIVE
        and old.is_visible_at(new.updated_at)
        and (old.type, old.key, _times(old)) == (new.type, new.key, _times(new))
        and normal_form(old.content) == normal_form(new.content)
    )


def _times(record: MemoryRecord) -> tuple[int | None, ...]:
    moments = (record.occurred_at, record.valid_from, record.valid_until)
    return tuple(None if moment is None else to_ms(moment) for moment in moments)


def merged(old: MemoryRecord, new: MemoryRecord) -> MemoryRecord:
    """`old` once `new` has said it again; see `RecordTable.put`."""
    expiries = (old.expires_at, new.expires_at)
    return dataclasses.replace(
        old,
        updated_at=new.updated_at,
        version=old.version + 1,
        mentions=old.mentions + 1,
        tags=tuple(dict.fromkeys((*old.tags, *new.tags))),
        metadata={**new.metadata, **old.metadata},
        importance=max(old.importance, new.importance),
        pinned=old.pinned or new.pinned,
        expires_at=None if None in expiries else max(filter(None, expiries)),
    )


def replaced(old: MemoryRecord, new: MemoryRecord) -> MemoryRecord:
    """`new` in the place of `old`, of which nothing but its version is kept once it has expired."""
    if not old.is_visible_at(new.updated_at):
        return dataclasses.replace(new, version=old.version + 1)
    return dataclasses.replace(
        new,
        created_at=old.created_at,
        last_accessed_at=old.last_accessed_at,
        access_count=old.access_count,
        version=old.version + 1,
    )


def patched(
    old: MemoryRecord | None,
    patch: RecordPatch,
    *,
    record_id: str,
    expected_version: int | None,
    now: datetime,
) -> MemoryRecord:
    """`old` as `patch` changes it, `old` itself when nothing differs; see `RecordTable.change`."""
    if old is None or not old.is_visible_at(now):
        raise RecordNotFoundError(f"update: no record {shown(record_id)} in this scope; nothing was changed")
    if expected_version is not None and expected_version != old.version:
        raise ConflictError(
            f"update: record {shown(record_id)} has version {old.version}, expected was version "
            f"{expected_version}; read it again and decide"
        )
    given = {
        field.name: value
        for field in dataclasses.fields(patch)
        if not isinstance(value := getattr(patch, field.name), Omitted)
    }
    if not isinstance(patch.metadata, Omitted):
        united = {**old.metadata, **patch.metadata}
        gone = {key for key, value in patch.metadata.items() if value is None}
        given["metadata"] = {key: value for key, value in united.items() if key not in gone}
    new = dataclasses.replace(old, **given)
    if not values_before(old, new):
        return old
    return dataclasses.replace(new, updated_at=now, version=old.version + 1)


def values_before(old: MemoryRecord, new: MemoryRecord) -> dict[str, JsonValue]:
    """The attributes that differ, as they were in `old`, as JSON; see `RecordChange.before`."""
    # As JSON, because 1, 1.0 and True are equal in Python and different in metadata.
    before = {name: _plain(getattr(old, name)) for name in _COMPARED}
    after = {name: _plain(getattr(new, name)) for name in _COMPARED}
    return {
        name: value
        for name, value in before.items()
        if value is not after[name] and canonical_json(value) != canonical_json(after[name])
    }


def change_made(
    old: MemoryRecord, new: MemoryRecord, kind: ChangeKind, *, said: MemoryRecord | None = None
) -> RecordChange | None:
    """What the history keeps of a change; None for what has no history: all but memories.

    `said` is the record that a merge made one with `old`.
    """
    if new.space != MEMORIES:
        return None
    return RecordChange(
        version=new.version,
        kind=kind,
        at=new.updated_at,
        before=values_before(old, new),
        dropped={} if said is None else _dropped(said, new),
    )


def _dropped(said: MemoryRecord, kept: MemoryRecord) -> dict[str, JsonValue]:
    """What `said` gave and `kept`, which it became one with, does not hold, as JSON."""
    metadata = {
        key: value
        for key, value in said.metadata.items()
        if canonical_json(value) != canonical_json(kept.metadata[key])
    }
    given = {name: _plain(getattr(said, name)) for name in _FIRST_WINS} | {"metadata": metadata}
    return {
        name: value
        for name, value in given.items()
        if value not in (None, [], {}) and (name == "metadata" or value != _plain(getattr(kept, name)))
    }


def whole_history(record: MemoryRecord, changes: Sequence[RecordChange]) -> list[RecordChange]:
    """The kept changes, oldest first, behind the making of the record, which none of them tells."""
    first = changes[0].version - 1 if changes else record.version
    return [RecordChange(version=first, kind=ChangeKind.CREATED, at=record.created_at), *changes]


def seen_by_index(old: MemoryRecord, new: MemoryRecord) -> bool:
    """Whether a vector index has to hear of this change."""
    return any(getattr(old, name) != getattr(new, name) for name in _SEEN_BY_INDEX)


def _plain(value: object) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    assert value is None or isinstance(value, str | int | float)
    return value
