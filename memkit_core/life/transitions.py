"""Which status may become which; the table stands in `memkit_core.life`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime

from memkit_core.errors import ConflictError, InvalidTransitionError, RecordNotFoundError, shown
from memkit_core.models import ChangeKind, MemoryRecord, Status
from memkit_core.ports import MemoryView, Rewrite
from memkit_core.scope import Scope
from memkit_core.stores.succession import check_slot, succession

_MOVES: Mapping[ChangeKind, tuple[str, tuple[Status, ...], Status]] = {
    ChangeKind.CONFIRMED: ("confirm", (Status.PENDING,), Status.ACTIVE),
    ChangeKind.REJECTED: ("reject", (Status.PENDING,), Status.ARCHIVED),
    ChangeKind.ARCHIVED: ("archive", (Status.ACTIVE,), Status.ARCHIVED),
    ChangeKind.RESTORED: ("restore", (Status.ARCHIVED, Status.SUPERSEDED), Status.ACTIVE),
}


def visible(
    view: MemoryView,
    scope: Scope,
    record_id: str,
    *,
    verb: str,
    now: datetime,
    expected_version: int | None = None,
) -> MemoryRecord:
    """The memory with this id that a verb is about.

    Raises:
        RecordNotFoundError: unknown, expired, deleted or in another scope.
        ConflictError: it has another version than `expected_version`.
    """
    record = view.get(scope, record_id)
    if record is None or not record.is_visible_at(now):
        raise RecordNotFoundError(f"{verb}: no record {shown(record_id)} in this scope; nothing was changed")
    if expected_version is not None and record.version != expected_version:
        raise ConflictError(
            f"{verb}: record {shown(record_id)} has version {record.version}, expected was version "
            f"{expected_version}; read it again and decide"
        )
    return record


def require_active(record: MemoryRecord, *, verb: str) -> None:
    """Refuse what only an active memory allows."""
    if record.status is not Status.ACTIVE:
        raise InvalidTransitionError(
            f"{verb}: record {shown(record.id)} is {record.status}, only an active one can be taken; nothing "
            "was changed. Restore or confirm it first"
        )


def together(steps: Sequence[Rewrite], *made: MemoryRecord) -> list[Rewrite]:
    """The steps, each told to have been made together with the others and with the new memories `made`."""
    names = [*(step.old.id for step in steps), *(record.id for record in made)]
    return [
        dataclasses.replace(step, others=tuple(name for name in names if name != step.old.id))
        for step in steps
    ]


def move(
    view: MemoryView, scope: Scope, record_id: str, kind: ChangeKind, *, now: datetime
) -> tuple[MemoryRecord, Sequence[Rewrite]]:
    """The memory once it was confirmed, rejected, archived or restored, and what has to be written.

    Raises:
        RecordNotFoundError: there is no such memory.
        InvalidTransitionError: its status does not allow it.
        ConflictError: restored, it would be the second value of its key.
    """
    verb, sources, target = _MOVES[kind]
    old = visible(view, scope, record_id, verb=verb, now=now)
    if old.status is target:
        return old, ()
    if old.status not in sources:
        raise InvalidTransitionError(
            f"{verb}: record {shown(record_id)} is {old.status}, only {' or '.join(sources)} can be taken; "
            "nothing was changed"
        )
    new = dataclasses.replace(old, status=target, updated_at=now, version=old.version + 1)
    if target is not Status.ACTIVE:
        return new, [Rewrite(old, new, kind)]
    current = view.current(new, now=now)
    if kind is ChangeKind.CONFIRMED and current is not None:
        earlier, new = succession(current, new)
        return new, together([Rewrite(current, earlier, ChangeKind.SUPERSEDED), Rewrite(old, new, kind)])
    check_slot(current, new, verb=verb)
    new = dataclasses.replace(new, valid_until=None, superseded_by=None)
    return new, [Rewrite(old, new, kind)]
