"""The awaited form of `memory.upkeep`."""

from __future__ import annotations

from memkit_core.aio.hops import Hops
from memkit_core.models import DeleteReceipt
from memkit_core.upkeep import Findings, ReembedReport, Upkeep
from memkit_core.upkeep.reembed import Progress


class AsyncUpkeep:
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

    async def purge(self) -> DeleteReceipt:
        """See `Upkeep.purge`."""
        return await self._hops.run(self._upkeep.purge)

    async def reembed(
        self,
        embedder: object,
        *,
        embedding_model: str | None = None,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """See `Upkeep.reembed`; `progress` is called in a worker thread."""
        return await self._hops.run(
            self._upkeep.reembed, embedder, embedding_model=embedding_model, progress=progress
        )
