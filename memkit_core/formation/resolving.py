"""What a judge's decision does to both memories: one transaction, with its reason, that can be undone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memkit_core.models import ChangeKind, MemoryRecord, Status
from memkit_core.ports import Judgement, MemoryView, RecordStore, Rewrite, Step, Verdict
from memkit_core.scope import Scope
from memkit_core.stores.changes import merged
from memkit_core.stores.succession import held_since, superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a judge decided on two memories of a scope.

    Attributes:
        scope: whose memories they are.
        new, old: their ids; `new` holds since later.
        verdict: same, replaces or unrelated.
        reason: why.
        applied: whether both memories were changed by it.
    """

    scope: Scope
    new: str
    old: str
    verdict: Verdict
    reason: str
    applied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a consolidation did, or with `dry_run` what it would do.

    Attributes:
        dry_run: whether nothing was changed.
        decisions: all that were made, in order, the *unrelated* ones too.
        undecided: pairs on which the judge gave no valid answer; they stay as they are.
        errors: what went wrong with the judge, each kind of text once.
    """

    dry_run: bool
    decisions: tuple[Decision, ...] = ()
    undecided: int = 0
    errors: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """How many decisions had this verdict."""
        return sum(decision.verdict is verdict for decision in self.decisions)


def apply(
    store: RecordStore, new: MemoryRecord, old: MemoryRecord, judgement: Judgement, *, now: datetime
) -> list[MemoryRecord]:
    """Do what a judge decided; returns what was changed, nothing if either changed since it was judged.

    *Same*: the older one stays, with what the newer one adds, and the newer one is archived. *Replaces*:
    the older one is superseded by the newer one. A pinned memory is never archived or superseded.
    """

    def rule(view: MemoryView) -> Sequence[Step]:
        mine, theirs = view.get(new.scope, new.id), view.get(old.scope, old.id)
        if mine is None or theirs is None or not (_unchanged(mine, new) and _unchanged(theirs, old)):
            return ()
        if judgement.verdict is Verdict.SAME and not mine.pinned:
            return _same(mine, theirs, judgement.reason, now=now)
        if judgement.verdict is Verdict.REPLACES and not theirs.pinned:
            return _replaced(mine, theirs, judgement.reason, now=now)
        return ()

    return store.records.decide(rule)


def would_apply(new: MemoryRecord, old: MemoryRecord, judgement: Judgement) -> bool:
    """Whether a decision changes anything while both stay as they are."""
    exempt = {Verdict.SAME: new.pinned, Verdict.REPLACES: old.pinned}
    return not exempt.get(judgement.verdict, True)


def _unchanged(now: MemoryRecord, judged: MemoryRecord) -> bool:
    return now.status is Status.ACTIVE and now.version == judged.version


def _same(new: MemoryRecord, old: MemoryRecord, reason: str, *, now: datetime) -> list[Step]:
    kept = dataclasses.replace(
        merged(old, new),
        mentions=old.mentions + new.mentions,
        source_message_ids=tuple(dict.fromkeys((*old.source_message_ids, *new.source_message_ids))),
        updated_at=now,
    )
    gone = dataclasses.replace(new, status=Status.ARCHIVED, updated_at=now, version=new.version + 1)
    return [
        Rewrite(old, kept, ChangeKind.MERGED, others=(new.id,), reason=reason),
        Rewrite(new, gone, ChangeKind.MERGED, others=(old.id,), reason=reason),
    ]


def _replaced(new: MemoryRecord, old: MemoryRecord, reason: str, *, now: datetime) -> list[Step]:
    later = dataclasses.replace(new, supersedes=old.id, updated_at=now, version=new.version + 1)
    earlier = superseded(old, later, at=held_since(new))
    retired = Rewrite(old, earlier, ChangeKind.SUPERSEDED, others=(new.id,), reason=reason)
    if new.supersedes is not None:
        # It tells of the first one it came after; the others tell it themselves.
        return [retired]
    return [retired, Rewrite(new, later, ChangeKind.UPDATED, others=(old.id,), reason=reason)]
