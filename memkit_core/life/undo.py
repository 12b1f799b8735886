"""Taking back the last change of a record, with what was changed together with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memkit_core.errors import ConflictError, shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.life.transitions import together, visible
from memkit_core.models import ChangeKind, MemoryRecord, Origin, RecordType, Status
from memkit_core.ports import MemoryView, Rewrite
from memkit_core.scope import Scope
from memkit_core.stores.succession import check_slot, held_since, holds_slot, rivals, superseded


def undo(view: MemoryView, scope: Scope, record_id: str, *, now: datetime) -> Sequence[Rewrite]:
    """What takes back the last change of a memory; the first step is that of the memory itself.

    What the same step changed is taken back with it, whichever of them is named. Of those, what was
    changed since keeps that change, but two never hold in one place: what came after a memory is
    archived when that holds again, and what it came after is superseded when it does.

    Raises:
        RecordNotFoundError: there is no such memory.
        ConflictError: what came after it was changed since so that this cannot be, another one holds
            for its key by now, or its making was undone already.
    """
    changes = _Changes(view, now)
    old = visible(view, scope, record_id, verb="undo", now=now)
    names = changes.others(old)
    new = changes.take_back(old)
    apart: list[MemoryRecord] = []
    for other in (view.get(scope, name) for name in names):
        if other is None:
            continue
        if old.id in changes.others(other):
            changes.take_back(other)
        else:
            apart.append(other)
    # First what came after it, since that decides what becomes of the other sources.
    for other in sorted(apart, key=lambda one: one.id != old.superseded_by):
        changes.settle(other)
    changes.check_successor(old, new)
    return changes.checked()


class _Changes:
    """What one undo changes, by id, in order."""

    def __init__(self, view: MemoryView, now: datetime) -> None:
        self._view = view
        self._now = now
        self._steps: dict[str, Rewrite] = {}

    def others(self, record: MemoryRecord) -> tuple[str, ...]:
        """The ids of what the last change of a memory changed as well; of a new one what it took the place of."""
        change = self._view.last_change(record)
        return change.others if change.kind is not ChangeKind.CREATED else sources_of(record)

    def take_back(self, old: MemoryRecord) -> MemoryRecord:
        """The memory before its last change; its making is undone by archiving it."""
        change = self._view.last_change(old)
        if change.kind is not ChangeKind.CREATED:
            return self._write(old, before(old, change.before))
        if old.status not in (Status.ACTIVE, Status.PENDING):
            raise ConflictError(
                f"undo: record {shown(old.id)} is {old.status} since it was made, there is nothing to undo"
            )
        return self._write(old, dataclasses.replace(old, status=Status.ARCHIVED))

    def settle(self, other: MemoryRecord) -> None:
        """Have a memory that was changed since make room for what holds again, or hold again itself."""
        for step in list(self._steps.values()):
            if other.id in self._steps:
                return
            if step.old.superseded_by == other.id and step.new.superseded_by is None:
                self._make_room(other, step.new)
            elif other.superseded_by == step.old.id and step.new.status is not Status.ACTIVE:
                self._write(
                    other,
                    dataclasses.replace(other, status=Status.ACTIVE, valid_until=None, superseded_by=None),
                )
            elif step.new.status is other.status is Status.ACTIVE and other.id in sources_of(step.new):
                self._write(other, superseded(other, step.new, at=held_since(step.new)))

    def _make_room(self, successor: MemoryRecord, record: MemoryRecord) -> None:
        if successor.status is Status.SUPERSEDED:
            raise ConflictError(
                f"undo: {shown(successor.id)}, which came after {shown(record.id)}, is superseded itself; "
                "nothing was changed. Undo that first"
            )
        if successor.status is Status.ACTIVE:
            self._write(successor, dataclasses.replace(successor, status=Status.ARCHIVED))

    def check_successor(self, old: MemoryRecord, new: MemoryRecord) -> None:
        """Refuse to put a memory behind one that is gone, or did so with it and does not hold now."""
        if new.superseded_by is None or new.superseded_by == old.superseded_by:
            return
        step = self._steps.get(new.superseded_by)
        successor = self._view.get(old.scope, new.superseded_by) if step is None else step.new
        linked = successor is not None and successor.id in self.others(old)
        if successor is None or (linked and successor.status is not Status.ACTIVE):
            raise ConflictError(
                f"undo: what came after {shown(old.id)} was changed or deleted since, so it cannot come after "
                "it again; nothing was changed. Supersede it instead"
            )

    def checked(self) -> Sequence[Rewrite]:
        """The steps, unless two memories would hold for one key."""
        steps = list(self._steps.values())
        made = [step.new for step in steps if holds_slot(step.new)]
        for new in made:
            current = self._view.current(new, now=self._now)
            check_slot(None if current is None or current.id in self._steps else current, new, verb="undo")
            check_slot(next((other for other in made if rivals(other, new)), None), new, verb="undo")
        return together(steps)

    def _write(self, old: MemoryRecord, new: MemoryRecord) -> MemoryRecord:
        new = dataclasses.replace(new, updated_at=self._now, version=old.version + 1)
        self._steps[old.id] = Rewrite(old, new, ChangeKind.UNDONE)
        return new


def sources_of(record: MemoryRecord) -> tuple[str, ...]:
    """The ids of the memories of its scope that it holds in the place of."""
    if record.supersedes is not None:
        return (record.supersedes,)
    # A promoted summary was made of memories of the scope it came from.
    return record.compacted_from_ids if record.promoted_from_id is None else ()


def before(record: MemoryRecord, values: Mapping[str, JsonValue]) -> MemoryRecord:
    """The record with the values that a `RecordChange` kept."""
    return dataclasses.replace(record, **{name: _read(name, value) for name, value in values.items()})


def _read(name: str, value: JsonValue) -> Any:
    return value if value is None or name not in _READERS else _READERS[name](value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "type": RecordType,
    "status": Status,
    "origin": Origin,
    **dict.fromkeys(("tags", "compacted_from_ids", "source_message_ids"), tuple),
    **dict.fromkeys(("occurred_at", "expires_at", "valid_from", "valid_until"), datetime.fromisoformat),
}
"""What makes an attribute of its JSON, for those that are not JSON themselves."""
