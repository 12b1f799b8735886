"""Taking back the last change of a record, with what was changed together with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memkit_core.errors import ConflictError, shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.life.transitions import visible
from memkit_core.models import ChangeKind, MemoryRecord, Origin, RecordType, Status
from memkit_core.ports import MemoryView, Rewrite
from memkit_core.scope import Scope
from memkit_core.stores.succession import check_slot, held_since, holds_slot, rivals, superseded


def undo(view: MemoryView, scope: Scope, record_id: str, *, now: datetime) -> Sequence[Rewrite]:
    """What takes back the last change of a memory; the first step is that of the memory itself.

    A supersession is one change of two memories, a compaction of several: whichever of them is named,
    the sources hold again and what came after them is taken out, or the other way round when it is
    an undo that is undone.

    Raises:
        RecordNotFoundError: there is no such memory.
        ConflictError: what came after it was changed since, another one holds for its key by now, or
            its making was undone already.
    """
    changes = _Changes(view, now)
    old = visible(view, scope, record_id, verb="undo", now=now)
    new = changes.take_back(old)
    successor_id = None if old.superseded_by == new.superseded_by else new.superseded_by or old.superseded_by
    if not changes.made_with_others(old, new, successor_id):
        return changes.checked()
    if successor_id is None:
        changes.follow(old, new)
    else:
        successor = view.get(scope, successor_id)
        if new.superseded_by is None:
            if successor is not None:
                changes.follow(successor, changes.taken_out(successor, of=old))
        else:
            changes.follow(*changes.brought_back(successor, of=old))
    return changes.checked()


_WITH_OTHERS = (ChangeKind.UNDONE, ChangeKind.REPLACED, ChangeKind.CONFIRMED)
"""What may put a memory that is there already in the place of another, or take it out again."""


class _Changes:
    """What one undo changes, by id, in order."""

    def __init__(self, view: MemoryView, now: datetime) -> None:
        self._view = view
        self._now = now
        self._steps: dict[str, Rewrite] = {}

    def made_with_others(self, old: MemoryRecord, new: MemoryRecord, successor_id: str | None) -> bool:
        """Whether the change that is taken back may have changed other memories too."""
        change = self._view.last_change(old)
        undone = change.kind is ChangeKind.UNDONE
        if change.kind in (ChangeKind.CREATED, ChangeKind.SUPERSEDED) or (undone and new.superseded_by):
            return True
        if change.kind not in _WITH_OTHERS:
            return False
        names = sources_of(old if old.status is Status.ACTIVE else new)
        others = [
            self._view.get(old.scope, name) for name in (names if successor_id is None else [successor_id])
        ]
        kind = ChangeKind.UNDONE if undone else ChangeKind.SUPERSEDED
        return (undone and not others) or any(
            other and self._changed(other, kind, change.at) for other in others
        )

    def _changed(self, record: MemoryRecord, kind: ChangeKind, at: datetime) -> bool:
        """Whether this was the last change of a memory: what one step changes has one moment."""
        change = self._view.last_change(record)
        return change.kind is kind and change.at == at

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

    def taken_out(self, successor: MemoryRecord, *, of: MemoryRecord) -> MemoryRecord:
        """What holds in the place of `of`, once it does not any more."""
        if successor.status is Status.SUPERSEDED:
            raise ConflictError(
                f"undo: {shown(successor.id)}, which came after {shown(of.id)}, is superseded itself; nothing "
                "was changed. Undo that first"
            )
        if successor.status is not Status.ACTIVE:
            return successor
        taken = self._view.last_change(successor)
        if taken.kind in _WITH_OTHERS and taken.at == self._view.last_change(of).at:
            return self.take_back(successor)
        return self._write(successor, dataclasses.replace(successor, status=Status.ARCHIVED))

    def brought_back(
        self, successor: MemoryRecord | None, *, of: MemoryRecord
    ) -> tuple[MemoryRecord, MemoryRecord]:
        """What held in the place of `of` until that was undone, before and once it does again."""
        if successor is not None and successor.status is Status.ACTIVE and of.id in sources_of(successor):
            return successor, successor
        if successor is not None and self._view.last_change(successor).kind is ChangeKind.UNDONE:
            again = self.take_back(successor)
            if again.status is Status.ACTIVE and of.id in sources_of(again):
                return successor, again
        raise ConflictError(
            f"undo: what came after {shown(of.id)} was changed or deleted since, so it cannot come after it "
            "again; nothing was changed. Supersede it instead"
        )

    def follow(self, old: MemoryRecord, new: MemoryRecord) -> None:
        """Have the sources of a memory hold once it does not any more, and not once it does again."""
        held, holds = _in_place_of(old), _in_place_of(new)
        for name in dict.fromkeys((*held, *holds)):
            source = self._view.get(old.scope, name)
            if source is None or name in self._steps or (name in held and name in holds):
                continue
            if name in held and source.superseded_by == old.id and source.status is Status.SUPERSEDED:
                again = dataclasses.replace(
                    source, status=Status.ACTIVE, valid_until=None, superseded_by=None
                )
                self._write(source, again)
            elif name in holds and source.status is Status.ACTIVE:
                self._write(source, superseded(source, new, at=held_since(new)))

    def checked(self) -> Sequence[Rewrite]:
        """The steps, unless two memories would hold for one key."""
        steps = list(self._steps.values())
        made = [step.new for step in steps if holds_slot(step.new)]
        for new in made:
            current = self._view.current(new, now=self._now)
            check_slot(None if current is None or current.id in self._steps else current, new, verb="undo")
            check_slot(next((other for other in made if rivals(other, new)), None), new, verb="undo")
        return steps

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


def _in_place_of(record: MemoryRecord) -> tuple[str, ...]:
    return sources_of(record) if record.status is Status.ACTIVE else ()


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
