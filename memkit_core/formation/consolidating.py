"""Near duplicates become one and contradictions are resolved, in a scope (spec B5, E2)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from memkit_core.errors import ConflictError, ModelError, shown
from memkit_core.formation.proposals import judged_memories, propose
from memkit_core.formation.resolving import ConsolidationReport, Decision, apply, would_apply
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import MEMORIES, ChangeKind, MemoryRecord
from memkit_core.ports import Judge, Judgement, MovedRecord, Portable, RecordStore, Selection, Verdict
from memkit_core.scope import Scope
from memkit_core.times import Clock

_log = logging.getLogger("memkit")

JUDGED = "judged"
"""The kind of the stored value that knows, in digests, which pairs of a scope were judged today."""
_KEY = "pairs"


def scopes_with_memories(portable: Portable, *, now: datetime) -> list[Scope]:
    """Every scope that has memories, in the order they were first stored."""
    selection = Selection(spaces=(MEMORIES,), now=now)
    with portable.snapshot(selection) as snapshot:
        return list(
            dict.fromkeys(row.record.scope for row in snapshot.rows() if isinstance(row, MovedRecord))
        )


class Consolidation:
    """One run over a scope. Each decision is a transaction of its own: safe to kill, and to run again."""

    def __init__(
        self,
        store: RecordStore,
        clock: Clock,
        judge: Judge,
        *,
        dry_run: bool,
        changed: Callable[[], None],
        progress: Callable[[], object] | None = None,
    ) -> None:
        """Judge with `judge`; `changed` is called after memories were changed, `progress` before it is asked."""
        self._store = store
        self._clock = clock
        self._judge = judge
        self._dry_run = dry_run
        self._changed = changed
        self._progress = progress
        self._name = str(getattr(judge, "name", type(judge).__name__))
        self._decisions: list[Decision] = []
        self._undecided = 0
        self._errors: dict[str, None] = {}

    def run(self, scope: Scope, *, only: Collection[str] | None = None) -> ConsolidationReport:
        """Judge what is proposed in a scope, and do it; `only` of new memories with these ids.

        A pair that was judged today is not judged again by this judge while both stay as they are, and
        one of which a decision was undone never.
        """
        now = self._clock()
        records = judged_memories(self._store, scope, now=now)
        proposed = propose(self._store, records, now=now, only=only)
        seen = _seen(self._store, scope, now)
        fresh: set[str] = set()
        standing = {record.id: record for record in records}
        for record in records:
            new = standing.get(record.id)
            olds = [standing[old.id] for old in proposed.get(record.id, ()) if old.id in standing]
            if new is None:
                continue
            undone = _undone(self._store, new, now) if olds else frozenset()
            unseen = [old for old in olds if old.id not in undone and self._mark(new, old) not in seen]
            if unseen:
                self._decide(new, unseen, standing, fresh)
        if fresh and not self._dry_run:
            _remember(self._store, scope, fresh, self._clock())
        return self.report()

    def report(self) -> ConsolidationReport:
        """What all runs did so far."""
        return ConsolidationReport(
            dry_run=self._dry_run,
            decisions=tuple(self._decisions),
            undecided=self._undecided,
            errors=tuple(self._errors),
        )

    def _decide(
        self,
        new: MemoryRecord,
        olds: Sequence[MemoryRecord],
        standing: dict[str, MemoryRecord],
        fresh: set[str],
    ) -> None:
        for old, judgement in zip(olds, self._asked(new, olds), strict=True):
            if judgement is None:
                self._undecided += 1
                continue
            applied = self._apply(new, old, judgement, standing)
            self._decisions.append(
                Decision(
                    scope=new.scope, new=new.id, old=old.id, verdict=judgement.verdict,
                    reason=judgement.reason, applied=applied and not self._dry_run,
                )
            )  # fmt: skip
            if not applied:
                fresh.add(self._mark(new, old))
            elif new.id not in standing:
                # It is one with an older one now, which was judged in its turn.
                return
            else:
                new = standing[new.id]

    def _asked(self, new: MemoryRecord, olds: Sequence[MemoryRecord]) -> Sequence[Judgement | None]:
        if self._progress is not None:
            self._progress()
        try:
            answer = list(self._judge(new, olds))
        except ModelError as error:
            return self._failed(olds, type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - a judge of the user raises what it likes; nothing is changed
            kind = f"the judge raised {type(error).__name__}"
            return self._failed(olds, kind, f"{kind}: {shown(str(error))}")
        right = [one is None or isinstance(one, Judgement) for one in answer]
        if len(answer) != len(olds) or not all(right):
            kind = f"the judge must give {len(olds)} judgements"
            return self._failed(olds, kind, f"{kind}, got {shown(answer)}")
        return answer

    def _failed(self, olds: Sequence[MemoryRecord], kind: str, error: str) -> list[None]:
        # Without what the judge said: an error of a model may quote a memory.
        _log.warning("nothing was decided: %s", kind)
        self._errors[error] = None
        return [None] * len(olds)

    def _apply(
        self, new: MemoryRecord, old: MemoryRecord, judgement: Judgement, standing: dict[str, MemoryRecord]
    ) -> bool:
        """Do it, or with `dry_run` only in `standing`; whether that changes anything."""
        if not would_apply(new, old, judgement):
            return False
        if not self._dry_run:
            changed = apply(self._store, new, old, judgement, now=self._clock())
            if not changed:
                return False
            standing.update((record.id, record) for record in changed)
            self._changed()
        del standing[new.id if judgement.verdict is Verdict.SAME else old.id]
        return True

    def _mark(self, new: MemoryRecord, old: MemoryRecord) -> str:
        pair = f"{self._name}\0{new.point_id}\0{new.version}\0{old.point_id}\0{old.version}"
        return hashlib.blake2b(pair.encode(), digest_size=8).hexdigest()


def _undone(store: RecordStore, record: MemoryRecord, now: datetime) -> frozenset[str]:
    """The ids of memories that a memory was made one with, or put in the place of, until that was undone."""
    if record.version == 1:
        return frozenset()
    changes = store.records.history(record.scope, record.id, now=now)
    return frozenset(name for one in changes if one.kind is ChangeKind.UNDONE for name in one.others)


def _seen(store: RecordStore, scope: Scope, now: datetime) -> set[str]:
    stored = store.values.get(scope, JUDGED, _KEY)
    value = None if stored is None else stored.value
    if not isinstance(value, dict) or value.get("day") != now.date().isoformat():
        return set()
    marks = value.get("pairs")
    return {str(mark) for mark in marks} if isinstance(marks, list) else set()


def _remember(store: RecordStore, scope: Scope, fresh: set[str], now: datetime) -> None:
    """Add to what was judged today; of two that do it at once both are kept."""
    while True:
        stored = store.values.get(scope, JUDGED, _KEY)
        marks = sorted(_seen(store, scope, now) | fresh)
        value: JsonValue = {"day": now.date().isoformat(), "pairs": [*marks]}
        try:
            store.values.put(
                scope, JUDGED, _KEY, value, expected_version=0 if stored is None else stored.version, now=now
            )
        except ConflictError:
            continue
        return
