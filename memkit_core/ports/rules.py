"""What a rule of `RecordTable.decide` sees, and the writes it can ask for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memkit_core.models import ChangeKind, MemoryRecord, RecordChange
from memkit_core.scope import Scope


class MemoryView(Protocol):
    """The memories as a rule of `RecordTable.decide` sees them: one state, nobody writes meanwhile."""

    def get(self, scope: Scope, record_id: str) -> MemoryRecord | None:
        """The memory with this id, whatever its status, expired or not; None when there is none."""

    def current(self, record: MemoryRecord, *, now: datetime) -> MemoryRecord | None:
        """The active, visible memory other than `record` with its scope, type and key; None without a key."""

    def last_change(self, record: MemoryRecord) -> RecordChange:
        """The newest entry of the history of a stored memory."""


@dataclass(frozen=True, slots=True)
class Add:
    """Write a new memory as `RecordTable.put` does; it becomes one with a duplicate if `merge`."""

    record: MemoryRecord
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put `new` in the place of the stored memory `old`.

    The history tells it as a change of this kind, made together with that of the `others`, for this
    `reason`.
    """

    old: MemoryRecord
    new: MemoryRecord
    kind: ChangeKind
    others: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a memory as `RecordTable.delete` does."""

    record: MemoryRecord


Step = Add | Rewrite | Remove
"""One write that a rule of `RecordTable.decide` asks for."""
