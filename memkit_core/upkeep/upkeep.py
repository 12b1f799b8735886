"""`memory.upkeep`: looking after the whole store, whoever's records they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memkit_core.errors import BackendUnavailableError, ScopeError
from memkit_core.indexing import Indexer, Indexers
from memkit_core.inputs import checked_bool, checked_count
from memkit_core.models import DeleteReceipt
from memkit_core.ports import Judge, Problem
from memkit_core.scope import Scope, require_scope
from memkit_core.stores.handle import StoreHandle
from memkit_core.times import Clock

if TYPE_CHECKING:
    from memkit_core.formation.resolving import ConsolidationReport


@dataclass(frozen=True, slots=True)
class Findings:
    """What `verify` or `repair` found; empty, and false, when all is well.

    Attributes:
        problems: each kind of trouble once, see `Problem`.
        unchecked: vector spaces whose index this process could not look at, because another process,
            or another memory of this one with other settings, holds it.
    """

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many kinds of trouble there are."""
        return len(self.problems)

    def __iter__(self) -> Iterator[Problem]:
        """The problems."""
        return iter(self.problems)

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong any more: nothing was found, or all of it was mended."""
        return all(problem.mended for problem in self.problems)


class Upkeep:
    """Verbs on the store as a whole. Reached as `memory.upkeep`; thread-safe."""

    def __init__(
        self, store: StoreHandle, indexers: Indexers, clock: Clock, *, changed: Callable[[], None]
    ) -> None:
        """Look after these; `changed` is called when the indexes have something to catch up with."""
        self._store = store
        self._indexers = indexers
        self._clock = clock
        self._changed = changed

    def verify(self) -> Findings:
        """Compare everything derived with the records: tags, keyword rows, counters, vectors, indexes.

        Changes nothing. Reads every row and every vector: about a second for each 10,000 records.
        Other threads and processes go on meanwhile.
        """
        return self._with_indexes(self._store.verify(), mend=False)

    def repair(self) -> Findings:
        """Mend what `verify` finds, as far as it follows from the records; no text is embedded again.

        What lost its vector waits in the outbox and is embedded as usual. A problem that is not
        `mended` says in its `detail` what to do. Safe to run twice, and to kill.
        """
        return self._with_indexes(self._store.repair(), mend=True)

    def reindex(self) -> int:
        """Build every vector index anew from the stored vectors, without embedding; returns how many points.

        Recall goes on with exact scans meanwhile.

        Raises:
            BackendError: somebody else holds the indexes, or one cannot be built.
        """
        points = 0
        for indexer in self._indexers.all():
            indexer.rebuild()
            points += indexer.points()
        return points

    def sweep(self, *, batch: int = 500) -> DeleteReceipt:
        """Delete what has expired, whoever's it is, and return what was removed; pinned records stay.

        No read ever shows what has expired, swept or not: this frees the space. One transaction for
        each `batch` records, so that other writers wait only shortly; safe to kill and to run twice.
        """
        checked_count(batch, "sweep: batch", most=10_000)
        now, receipt = self._clock(), DeleteReceipt()
        while (swept := self._store.records.sweep(now=now, limit=batch)).records:
            receipt += swept
            self._changed()
        return receipt

    def purge(self) -> DeleteReceipt:
        """Sweep, and leave nothing of what was deleted in any file; returns what was swept.

        Every row is written anew and every vector index built anew, which takes seconds for each
        100,000 records and room for a second copy. Other writers wait; recall goes on.

        Raises:
            BackendError: another process holds the indexes or reads for long, or there is no room.
                Nothing is lost, but something of what was deleted may still be in a file.
        """
        receipt = self.sweep()
        self._indexers.sync()
        self._store.purge()
        self.reindex()
        return receipt

    def consolidate(
        self,
        *,
        scope: Scope | None = None,
        everything: bool = False,
        judge: Judge | None = None,
        dry_run: bool = True,
    ) -> ConsolidationReport:
        """Make near duplicates one and let new memories replace what is no longer so; see `formation`.

        Similarity proposes, the judge decides. Each decision is a transaction of its own, stands with its
        reason in `history`, and `Memory.undo` takes it back. Memories with a key and summaries are left
        out, and a pinned one is never archived or superseded. Run again on the same day it decides only
        on what is new or changed since.

        Args:
            scope: whose memories.
            everything: those of all scopes, each by itself.
            judge: `ChatJudge(model)`, or your own; `RuleJudge()`, which retires nothing, when None.
            dry_run: decide and change nothing; the judge is asked all the same.

        Raises:
            ScopeError: neither a scope nor `everything=True`, or both.
            InvalidInputError: `judge` cannot judge.
            BackendError: the store failed; what was decided before stays.
        """
        # Here, since most never consolidate.
        from memkit_core.formation.consolidating import Consolidation, scopes_with_memories
        from memkit_core.formation.judges import checked_judge

        decide = checked_judge(judge)
        checked_bool(dry_run, "consolidate: dry_run")
        if checked_bool(everything, "consolidate: everything") and scope is not None:
            raise ScopeError("consolidate: give everything=True alone, or a scope")
        self._indexers.sync()
        run = Consolidation(self._store, self._clock, decide, dry_run=dry_run, changed=self._changed)
        if not everything:
            return run.run(require_scope(scope, verb="consolidate"))
        for one in scopes_with_memories(self._store.portable(), now=self._clock()):
            run.run(one)
        return run.report()

    def _with_indexes(self, problems: list[Problem], *, mend: bool) -> Findings:
        unchecked = []
        for indexer in self._indexers.all():
            differing = indexer.differing()
            if differing is None and mend:
                # Out of use: what was mended in the store may be what kept it from being built.
                differing = _rebuilt(indexer)
            if differing is None and indexer.points():
                unchecked.append(indexer.name)
            elif differing:
                problems = [*problems, _index_problem(indexer, differing, mend=mend)]
        return Findings(tuple(problems), tuple(unchecked))


def _rebuilt(indexer: Indexer) -> int | None:
    try:
        indexer.rebuild()
    except BackendUnavailableError:
        return None
    return indexer.differing()


def _index_problem(indexer: Indexer, differing: int, *, mend: bool) -> Problem:
    if mend:
        indexer.rebuild()
    return Problem(
        kind="index",
        count=differing,
        detail=f"points of the index of {indexer.name} that are not those of the store",
        mended=mend,
    )
