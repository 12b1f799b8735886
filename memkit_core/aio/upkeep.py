"""The awaited form of `memory.upkeep`."""

from __future__ import annotations

from memkit_core.aio.hops import Hops
from memkit_core.formation.resolving import ConsolidationReport
from memkit_core.live import Live
from memkit_core.models import MEMORIES, DeleteReceipt
from memkit_core.ports import JobState, Judge, LoggedRecall
from memkit_core.scope import Scope
from memkit_core.settings import ForgetPolicy
from memkit_core.upkeep import Finding, Findings, Forgotten, Indexed, JobRun, ReembedReport, Stats, Upkeep
from memkit_core.upkeep.decay import Progress
from memkit_core.upkeep.reembed import EmbeddingProgress


class AsyncUpkeep(Live):
    """The verbs of `memory.upkeep`, awaited; reached as `AsyncMemory.upkeep`. See `Upkeep`."""

    def __init__(self, upkeep: Upkeep, hops: Hops) -> None:
        """Call `upkeep` in worker threads."""
        self._upkeep = upkeep
        self._hops = hops

    async def verify(self) -> Findings:
        """See `Upkeep.verify`."""
        return await self._hops.run(self._upkeep.verify)

    async def repair(self) -> Findings:
        """See `Upkeep.repair`."""
        return await self._hops.run(self._upkeep.repair)

    async def reindex(self) -> int:
        """See `Upkeep.reindex`."""
        return await self._hops.run(self._upkeep.reindex)

    async def sweep(self, *, batch: int = 500) -> DeleteReceipt:
        """See `Upkeep.sweep`."""
        return await self._hops.run(self._upkeep.sweep, batch=batch)

    async def forget(
        self,
        *,
        apply: bool = False,
        policy: ForgetPolicy | str | None = None,
        delete_after_days: float | None = None,
        progress: Progress | None = None,
    ) -> Forgotten:
        """See `Upkeep.forget`; a `progress` is called in the worker thread."""
        return await self._hops.run(
            self._upkeep.forget,
            apply=apply,
            policy=policy,
            delete_after_days=delete_after_days,
            progress=progress,
        )

    async def doctor(self) -> list[Finding]:
        """See `Upkeep.doctor`."""
        return await self._hops.run(self._upkeep.doctor)

    async def stats(self) -> Stats:
        """See `Upkeep.stats`."""
        return await self._hops.run(self._upkeep.stats)

    async def indexed(self, id: str, *, scope: Scope, space: str = MEMORIES) -> Indexed | None:  # noqa: A002 - as in `Upkeep.indexed`
        """See `Upkeep.indexed`."""
        return await self._hops.run(self._upkeep.indexed, id, scope=scope, space=space)

    async def recall_log(self, *, judged: bool = False, limit: int = 10_000) -> list[LoggedRecall]:
        """See `Upkeep.recall_log`."""
        return await self._hops.run(self._upkeep.recall_log, judged=judged, limit=limit)

    async def run_due(self) -> list[JobRun]:
        """See `Upkeep.run_due`."""
        return await self._hops.run(self._upkeep.run_due)

    async def start(self) -> None:
        """See `Upkeep.start`."""
        self._upkeep.start()

    async def stop(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - a deadline of the work, not of the await
        """See `Upkeep.stop`."""
        return await self._hops.run(self._upkeep.stop, timeout)

    async def jobs(self) -> list[JobState]:
        """See `Upkeep.jobs`."""
        return await self._hops.run(self._upkeep.jobs)

    async def purge(self) -> DeleteReceipt:
        """See `Upkeep.purge`."""
        return await self._hops.run(self._upkeep.purge)

    async def consolidate(
        self,
        *,
        scope: Scope | None = None,
        everything: bool = False,
        judge: Judge | None = None,
        dry_run: bool = True,
    ) -> ConsolidationReport:
        """See `Upkeep.consolidate`; the judge is called in the worker thread."""
        return await self._hops.run(
            self._upkeep.consolidate, scope=scope, everything=everything, judge=judge, dry_run=dry_run
        )

    async def reembed(
        self,
        embedder: object,
        *,
        embedding_model: str | None = None,
        progress: EmbeddingProgress | None = None,
    ) -> ReembedReport:
        """See `Upkeep.reembed`; `progress` is called in a worker thread."""
        return await self._hops.run(
            self._upkeep.reembed, embedder, embedding_model=embedding_model, progress=progress
        )
