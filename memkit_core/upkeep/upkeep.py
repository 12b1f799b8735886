"""`memory.upkeep`: looking after the whole store, whoever's records they are."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from memkit_core.config import Config
from memkit_core.embedders.checked import CurrentModel
from memkit_core.errors import BackendUnavailableError, ConfigError, InvalidInputError, ScopeError, shown
from memkit_core.indexing import Indexer, Indexers
from memkit_core.inputs import (
    checked_bool,
    checked_count,
    checked_enum,
    checked_id,
    checked_space,
    checked_timeout,
)
from memkit_core.live import Live
from memkit_core.models import MEMORIES, DeleteReceipt
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_UPKEEP
from memkit_core.ports import JobState, Judge, LoggedRecall, Problem
from memkit_core.scope import Scope, require_scope
from memkit_core.settings import ForgetPolicy, Forgetting, Schedule
from memkit_core.stores.handle import StoreHandle
from memkit_core.times import Clock
from memkit_core.upkeep.decay import Forgetter, Forgotten, Progress
from memkit_core.upkeep.doctor import Doctor, Finding
from memkit_core.upkeep.forming import form_idle
from memkit_core.upkeep.jobs import Daily, Every, Job, JobRun, Scheduler
from memkit_core.upkeep.reembed import EmbeddingProgress, Reembedder, ReembedReport
from memkit_core.upkeep.stats import Indexed, Stats, indexed, stats_of

if TYPE_CHECKING:
    from memkit_core.formation.formation import Formation
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


@observed(OF_UPKEEP)
class Upkeep(Live):
    """Verbs on the store as a whole. Reached as `memory.upkeep`; thread-safe."""

    def __init__(
        self,
        store: StoreHandle,
        indexers: Indexers,
        embedder: CurrentModel,
        config: Config,
        clock: Clock,
        *,
        settle: Callable[[], None],
        changed: Callable[[], None],
        reembedder: Reembedder,
        formation: Callable[[], Formation],
    ) -> None:
        """Look after these.

        `settle` writes down what recall returned, `changed` is called when the indexes have something to
        catch up with, `formation` makes the `Formation` of the store.
        """
        self._formation = formation
        self._reembedder = reembedder
        self._store = store
        self._indexers = indexers
        self._config = config
        self._clock = clock
        self._settle = settle
        self._changed = changed
        self._doctor = Doctor(store, indexers, embedder, config, clock, verify=self.verify)
        plan = config.upkeep or Schedule()
        self._scheduler = Scheduler(store, clock, self._jobs(plan), lease_seconds=plan.lease_seconds)
        if config.upkeep is not None and plan.thread:
            self._scheduler.start()

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

    def forget(
        self,
        *,
        apply: bool = False,
        policy: ForgetPolicy | str | None = None,
        delete_after_days: float | None = None,
        progress: Progress | None = None,
    ) -> Forgotten:
        """Archive what time has made unimportant, whoever's it is; a dry run unless `apply`.

        Returns what was, or would be, archived and deleted, with the numbers that decided it. Stored
        importance never changes, so it does not matter how often it runs; pinned memories are never
        forgotten. What is archived can be restored. One short transaction for each
        `Config.forgetting.batch` memories, so that other writers wait only shortly; what is recalled or
        changed meanwhile stays. Safe to kill and to run twice.

        Args:
            apply: do it, and do not only say what would be done.
            policy: `"importance"` or `"utility"`, see `Forgetting`; that of `Config.forgetting` when None.
            delete_after_days: delete what has been archived for longer than so many days; None for what
                `Config.forgetting` says.
            progress: is told how many memories were looked at so far.

        Raises:
            InvalidInputError: no such policy, or no number of days above 0; nothing is changed.
            BackendError: the store failed; what was done before stays done.
        """
        checked_bool(apply, "forget: apply")
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"forget: progress must be a function, got {shown(progress)}")
        rule = _rule(self._config.forgetting, policy, delete_after_days)
        # Before anything is weighed: a memory that was recalled just now is not idle.
        self._settle()
        forgotten = Forgetter(self._store.records, rule, self._clock()).run(
            apply=apply, progress=progress or _untold
        )
        if apply and len(forgotten):
            self._changed()
        return forgotten

    def doctor(self) -> list[Finding]:
        """What is wrong with the store, or soon will be, each with its remedy; the worst first.

        Looks at all that `verify` compares, and takes as long; further at settings, models, the disk,
        the write-ahead log, the outbox and the periodic jobs. Changes nothing, but notes how long the
        outbox is: that it grows shows only over several looks. That a query goes without a scope or
        a limit cannot happen, so it is not looked for.
        """
        return self._doctor.findings()

    def stats(self) -> Stats:
        """What the store holds, in numbers: records, conversations, vectors, what waits, bytes."""
        return stats_of(self._store, self._indexers)

    def indexed(self, id: str, *, scope: Scope, space: str = MEMORIES) -> Indexed | None:  # noqa: A002 - the word every reader expects
        """The model whose vector a record has, and whether the index has it; None when `Memory.get` gives none."""
        owner, named, one = require_scope(scope, verb="indexed"), checked_space(space), checked_id(id)
        now = self._clock()
        found = self._store.records.get(owner, named, [one], now=now)
        return indexed(self._store, found[0], now=now) if found else None

    def recall_log(self, *, judged: bool = False, limit: int = 10_000) -> list[LoggedRecall]:
        """The newest logged recalls of all scopes, newest first; see `Config.recall_log`.

        With `judged` only those of which `memory.feedback` marked a hit. Never part of an export.
        """
        most = checked_count(limit, "recall_log: limit", most=10_000_000)
        chosen = checked_bool(judged, "recall_log: judged")
        self._settle()
        return self._store.recalls.list(judged=chosen, limit=most)

    def run_due(self) -> list[JobRun]:
        """Do the periodic work that is due and that no other process does; returns what was done.

        The jobs are those of `Schedule`: `outbox`, `checkpoint`, `sweep`, `formation` with
        `Config.extractor`, and `forget` and `consolidate` when they have an hour.
        When each is due stands in the store, so that a restart goes on where the last process was. A
        job that fails is told by its `error`, and done again when it is due again.

        Raises:
            BackendError: the store cannot say what is due.
        """
        return self._scheduler.run_due()

    def start(self) -> None:
        """Have a thread of this process do what is due, until the memory is closed; see `run_due`."""
        self._store.check_open()
        self._scheduler.start()

    def stop(self, timeout: float | None = None) -> bool:
        """End that thread, waiting for its present job at most `timeout` seconds; whether it ended."""
        return self._scheduler.stop(checked_timeout(timeout, "stop: timeout"))

    def jobs(self) -> list[JobState]:
        """When each periodic job was last done, by whichever process, and is due; by name."""
        return self._store.jobs.list()

    def _jobs(self, plan: Schedule) -> list[Job]:
        jobs = [
            Job("outbox", Every(plan.outbox_seconds), lambda _: self._work_off(plan.lease_seconds / 2)),
            Job("checkpoint", Every(plan.checkpoint_seconds), lambda _: self._checkpoint()),
            Job("sweep", Every(plan.sweep_seconds), lambda _: self.sweep()),
        ]
        if self._config.extractor is not None:
            form = partial(form_idle, self._formation(), idle_seconds=plan.idle_seconds)
            jobs.append(Job("formation", Every(plan.formation_seconds), lambda renew: form(renew=renew)))
        if plan.forget_hour is not None:
            at = Daily(plan.forget_hour)
            jobs.append(Job("forget", at, lambda renew: self.forget(apply=True, progress=lambda _: renew())))
        if plan.consolidate_hour is not None:
            at = Daily(plan.consolidate_hour)
            jobs.append(
                Job(
                    "consolidate", at, lambda renew: self._consolidate(None, None, dry_run=False, renew=renew)
                )
            )
        return jobs

    def _work_off(self, seconds: float) -> None:
        self._settle()
        self._indexers.sync(deadline=time.monotonic() + seconds)
        self._indexers.flush()

    def _checkpoint(self) -> None:
        logged = self._store.logged()
        if logged is not None:
            # A reader that prevents it is no error: the next time will do.
            logged.checkpoint()

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
            judge: `ChatJudge(model)`, or your own; `Config.judge` when None, or else `RuleJudge()`, which
                retires nothing.
            dry_run: decide and change nothing; the judge is asked all the same.

        Raises:
            ScopeError: neither a scope nor `everything=True`, or both.
            InvalidInputError: `judge` cannot judge.
            BackendError: the store failed; what was decided before stays.
        """
        checked_bool(dry_run, "consolidate: dry_run")
        if checked_bool(everything, "consolidate: everything") and scope is not None:
            raise ScopeError("consolidate: give everything=True alone, or a scope")
        one = None if everything else require_scope(scope, verb="consolidate")
        return self._consolidate(one, judge, dry_run=dry_run)

    def _consolidate(
        self,
        scope: Scope | None,
        judge: Judge | None,
        *,
        dry_run: bool,
        renew: Callable[[], None] | None = None,
    ) -> ConsolidationReport:
        # Here, since most never consolidate.
        from memkit_core.formation.consolidating import Consolidation, scopes_with_memories
        from memkit_core.formation.judges import checked_judge

        decide = checked_judge(self._config.judge if judge is None else judge)
        self._indexers.sync()
        run = Consolidation(
            self._store, self._clock, decide, dry_run=dry_run, changed=self._changed, progress=renew
        )
        found = scopes_with_memories(self._store.portable(), now=self._clock()) if scope is None else [scope]
        for one in found:
            if renew is not None:
                renew()
            run.run(one)
        return run.report()

    def reembed(
        self,
        embedder: object,
        *,
        embedding_model: str | None = None,
        progress: EmbeddingProgress | None = None,
    ) -> ReembedReport:
        """Change the embedding model of the memory in place; returns when it has switched.

        The old model answers meanwhile, reads and writes go on, and one transaction switches: no
        recall ever compares vectors of two models. What was embedded is kept when the run is killed or the
        model fails; the same call goes on from there. Another model gives it up. Then the old vectors
        and their index are deleted. Collections with vectors of their own keep these.

        This memory, and those of this process that share its store and settings, go on with the new
        model. Every other one that is open with the old model answers by words from then on, with
        "dense" among `missing` and `capabilities.dense` False, and what it writes waits in the outbox
        for a memory with the new model.

        Args:
            embedder: the new model, in any form `Memory.open` takes.
            embedding_model: the model's name, for an embedder object that does not know it.
            progress: is told how many of how many records are embedded, after each batch.

        Raises:
            ConfigError: no model that can be embedded with, or another process began with another one.
            ModelError: the model is down; the old one stays in use.
        """
        return self._reembedder.run(embedder, embedding_model=embedding_model, progress=progress)

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


def _rule(configured: Forgetting, policy: object, delete_after_days: float | None) -> Forgetting:
    changed: dict[str, Any] = {}
    if policy is not None:
        changed["policy"] = checked_enum(ForgetPolicy, policy, "forget: policy")
    if delete_after_days is not None:
        changed["delete_after_days"] = delete_after_days
    try:
        return dataclasses.replace(configured, **changed)
    except ConfigError as error:
        raise InvalidInputError(f"forget: {error}") from None


def _untold(_looked_at: int) -> None:
    """Nobody wants to know how far it is."""


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
