"""Forgetting: how much of a memory's importance is left, what is archived, and what is deleted."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import overload

from memkit_core.models import DeleteReceipt, MemoryRecord, Status
from memkit_core.ports import RecordTable, Standing
from memkit_core.scope import Scope
from memkit_core.settings import ForgetPolicy, Forgetting
from memkit_core.times import to_ms

_MS_OF_DAY = 86_400_000.0
_HOURS_OF_DAY = 24.0

Progress = Callable[[int], object]
"""Is told how many memories were looked at so far."""
_Numbers = tuple[float, float, float, float | None]
_Row = tuple[str, int, float, int, float, float, float, float | None]


class Fate(StrEnum):
    """What becomes of a memory that is forgotten."""

    ARCHIVE = "archive"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fading:
    """A memory that is forgotten, with the numbers that say so.

    Attributes:
        id: the memory.
        scope: whose it is.
        fate: what becomes of it.
        importance: as stored; forgetting never changes it.
        effective_importance: what time has left of it.
        utility: by the formula of `Forgetting`, whatever the policy.
        idle_days: days since it was last recalled, or made when it never was.
        archived_days: days since it was archived or last changed, of what is deleted; else None.
        access_count: how often recall returned it.
    """

    id: str
    scope: Scope
    fate: Fate
    importance: float
    effective_importance: float
    utility: float
    idle_days: float
    archived_days: float | None
    access_count: int


class FadingList(Sequence[Fading]):
    """Fading memories, read like a tuple.

    Kept as plain values: a hundred thousand objects would make Python's garbage collector look at all
    of the process while they are gathered, which stops every thread for a tenth of a second.
    """

    def __init__(self, fate: Fate) -> None:
        """Nothing fades yet; all of them are to have this fate."""
        self._fate = fate
        self._scopes: dict[Scope, int] = {}
        self._rows: list[_Row] = []

    def append(self, one: Standing, numbers: _Numbers) -> None:
        """Take one more."""
        scope = self._scopes.setdefault(one.scope, len(self._scopes))
        self._rows.append((one.id, scope, one.importance, one.accesses, *numbers))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._rows)

    def __iter__(self) -> Iterator[Fading]:
        """All of them, in order."""
        scopes = list(self._scopes)
        return (self._made(row, scopes) for row in self._rows)

    @overload
    def __getitem__(self, place: int) -> Fading: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Fading, ...]: ...
    def __getitem__(self, place: int | slice) -> Fading | tuple[Fading, ...]:
        """The one at this place, or those of a slice."""
        scopes = list(self._scopes)
        if isinstance(place, slice):
            return tuple(self._made(row, scopes) for row in self._rows[place])
        return self._made(self._rows[place], scopes)

    def __eq__(self, other: object) -> bool:
        """Whether both tell the same of the same memories, in the same order."""
        return isinstance(other, FadingList | tuple) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list: it can be appended to

    def _made(self, row: _Row, scopes: list[Scope]) -> Fading:
        name, scope, importance, accesses, effective, utility, idle, archived = row
        return Fading(
            id=name,
            scope=scopes[scope],
            fate=self._fate,
            importance=importance,
            effective_importance=effective,
            utility=utility,
            idle_days=idle,
            archived_days=archived,
            access_count=accesses,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What `forget` did, or without `apply` would do.

    Attributes:
        policy: by which rule.
        applied: whether it was done.
        looked_at: how many memories were looked at: active ones that are not pinned, and archived ones
            where those may be deleted.
        archived: what was, or would be, archived, in the order it was first stored.
        deleted: the same for what was deleted.
        receipt: what the deleted took along; all 0 in a dry run.
    """

    policy: ForgetPolicy
    applied: bool
    looked_at: int = 0
    archived: Sequence[Fading] = ()
    deleted: Sequence[Fading] = ()
    receipt: DeleteReceipt = dataclasses.field(default_factory=DeleteReceipt)

    def __len__(self) -> int:
        """How many memories are forgotten."""
        return len(self.archived) + len(self.deleted)


def effective_importance(
    record: MemoryRecord, *, now: datetime, forgetting: Forgetting | None = None
) -> float:
    """What time has left of the importance of a memory: `importance * exp(-d / 90 days)` (spec E1).

    `d` is the time since its last recall, else since it was made. Nothing stored changes, so it does
    not matter how often it is asked. A pinned memory keeps all of it.
    """
    if record.pinned:
        return record.importance
    idle = _days(to_ms(now), to_ms(record.last_accessed_at or record.created_at))
    return record.importance * math.exp(-idle / (forgetting or Forgetting()).decay_days)


class Forgetter:
    """Goes over all memories once, in batches, at one moment."""

    def __init__(self, records: RecordTable, rule: Forgetting, now: datetime) -> None:
        """By `rule`, at the moment `now`."""
        self._records = records
        self._rule = rule
        self._now = now
        self._now_ms = to_ms(now)

    def run(self, *, apply: bool, progress: Progress) -> Forgotten:
        """Look at all, and archive and delete if `apply`: one short transaction for each batch.

        What is deleted is decided first: nothing is archived and deleted by the same run.
        """
        archived, deleted = FadingList(Fate.ARCHIVE), FadingList(Fate.DELETE)
        looked, receipt = 0, DeleteReceipt()
        for page in self._pages(Status.ARCHIVED) if self._rule.delete_after_days is not None else ():
            gone = [one for one in page if self._is_outdated(one)]
            if apply and gone:
                gone, removed = self._records.delete_standing(gone)
                receipt += removed
            for one in gone:
                deleted.append(one, (*self._numbers(one), _days(self._now_ms, one.updated)))
            looked += len(page)
            progress(looked)
        for page in self._pages(Status.ACTIVE):
            faded = [one for one in page if self._is_faded(one)]
            if apply and faded:
                faded = self._records.archive_standing(faded, now=self._now)
            for one in faded:
                archived.append(one, (*self._numbers(one), None))
            looked += len(page)
            progress(looked)
        return Forgotten(
            policy=self._rule.policy,
            applied=apply,
            looked_at=looked,
            archived=archived,
            deleted=deleted,
            receipt=receipt,
        )

    def _pages(self, status: Status) -> Iterator[list[Standing]]:
        after = 0
        while page := self._records.standing(status, after=after, limit=self._rule.batch, now=self._now):
            after = page[-1].row
            yield page

    def _is_faded(self, one: Standing) -> bool:
        rule, idle = self._rule, self._idle(one)
        # Whoever restores or corrects a memory wants it, though recall has not returned it yet.
        if one.version > 1 and _days(self._now_ms, one.updated) < rule.idle_days:
            return False
        if rule.policy is ForgetPolicy.UTILITY:
            return self._utility(one) < rule.utility_below
        return idle >= rule.idle_days and self._effective(one) < rule.archive_below

    def _is_outdated(self, one: Standing) -> bool:
        after = self._rule.delete_after_days
        return after is not None and _days(self._now_ms, one.updated) > after

    def _idle(self, one: Standing) -> float:
        return _days(self._now_ms, one.created if one.accessed is None else one.accessed)

    def _effective(self, one: Standing) -> float:
        return one.importance * math.exp(-self._idle(one) / self._rule.decay_days)

    def _utility(self, one: Standing) -> float:
        rule = self._rule
        recency: float = 0.5 ** (self._idle(one) * _HOURS_OF_DAY / rule.half_life_hours)
        accesses = min(one.accesses / rule.full_accesses, 1.0)
        return (
            rule.recency_weight * recency
            + rule.access_weight * accesses
            + rule.importance_weight * one.importance
        )

    def _numbers(self, one: Standing) -> tuple[float, float, float]:
        return self._effective(one), self._utility(one), self._idle(one)


def _days(now: int, then: int) -> float:
    """Days between two moments in milliseconds, 0 where a clock was set back."""
    return max(now - then, 0) / _MS_OF_DAY
