"""What holds in place of what (spec A8): one meaning for every store.

A key names a slot of its scope and type, in which at most one active memory holds. Who writes
another value supersedes the one before, which keeps until when it held and what came after it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from memkit_core.errors import ConflictError, shown
from memkit_core.models import MEMORIES, MemoryRecord, Status


def holds_slot(record: MemoryRecord) -> bool:
    """Whether it is the value of a key, unless it expires."""
    return record.space == MEMORIES and record.key is not None and record.status is Status.ACTIVE


def rivals(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Whether two memories are values of the same slot, whatever their status."""
    return (
        one.key is not None
        and one.space == other.space == MEMORIES
        and (one.scope, one.type, one.key) == (other.scope, other.type, other.key)
        and one.id != other.id
    )


def held_since(record: MemoryRecord) -> datetime:
    """From when on what it says is taken to be so."""
    return record.valid_from or record.created_at


def superseded(old: MemoryRecord, by: MemoryRecord, *, at: datetime) -> MemoryRecord:
    """`old` once `by` holds in its place from `at` on: it held until then, or never if that is before it did."""
    return dataclasses.replace(
        old,
        status=Status.SUPERSEDED,
        valid_until=max(at, held_since(old)),
        superseded_by=by.id,
        updated_at=by.updated_at,
        version=old.version + 1,
    )


def succession(old: MemoryRecord, new: MemoryRecord) -> tuple[MemoryRecord, MemoryRecord]:
    """Both memories once `new` has taken the place of `old`.

    It holds from its `valid_from` on, or else from when it is written: a record that was made earlier,
    and is confirmed or replaced only now, says so in `valid_from`.
    """
    since = new.valid_from or new.updated_at
    told = new.valid_from if since == new.created_at else since
    later = dataclasses.replace(new, supersedes=old.id, valid_from=told)
    return superseded(old, later, at=since), later


def settled(held: Sequence[MemoryRecord]) -> list[tuple[MemoryRecord, MemoryRecord]]:
    """Active values of one slot that came from several stores: each that gives way, before and after.

    The newest holds: that which is so since latest, of equal ones the one changed last, then that of the
    higher version, then that of the greater id. It stays as it is, so that every store which knows the
    same ones comes to the same rows.
    """
    if not held:
        return []
    newest = max(held, key=lambda one: (held_since(one), one.updated_at, one.version, one.id))
    steps = []
    for old in held:
        if old.id != newest.id:
            late = dataclasses.replace(newest, updated_at=max(old.updated_at, newest.updated_at))
            steps.append((old, superseded(old, late, at=held_since(newest))))
    return steps


def check_slot(current: MemoryRecord | None, record: MemoryRecord, *, verb: str) -> None:
    """Refuse to let `record` hold beside `current`, the memory that holds its slot."""
    if current is not None and holds_slot(record):
        raise ConflictError(
            f"{verb}: {shown(current.id)} holds for key {shown(record.key)} and type {record.type}, so "
            f"{shown(record.id)} cannot too; nothing was changed. Supersede, archive or undo that one first"
        )
