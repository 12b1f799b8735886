"""The awaited form of `memory.formation`."""

from __future__ import annotations

from collections.abc import Callable

from memkit_core.aio.hops import Hops
from memkit_core.formation import Budget, Formation, FormationReport, SetAside
from memkit_core.formation.formation import IDLE_SECONDS
from memkit_core.live import Live
from memkit_core.ports import Extractor, Judge
from memkit_core.scope import Scope


class AsyncFormation(Live):
    """The verbs of `memory.formation`, awaited; reached as `AsyncMemory.formation`. See `Formation`.

    Extractors and judges are called in the worker thread, and a run goes on when its awaiting is cancelled.
    """

    def __init__(self, formation: Formation, hops: Hops) -> None:
        """Call `formation` in worker threads."""
        self._formation = formation
        self._hops = hops

    async def run(
        self,
        *,
        scope: Scope,
        extractor: Extractor | None = None,
        judge: Judge | None = None,
        into: Scope | None = None,
        assistant: bool = False,
        again: bool = False,
    ) -> FormationReport:
        """See `Formation.run`."""
        return await self._hops.run(
            self._formation.run, scope=scope, extractor=extractor, judge=judge, into=into,
            assistant=assistant, again=again,
        )  # fmt: skip

    async def due(self, *, idle_seconds: float = IDLE_SECONDS) -> list[Scope]:
        """See `Formation.due`."""
        return await self._hops.run(self._formation.due, idle_seconds=idle_seconds)

    async def run_due(
        self,
        *,
        extractor: Extractor | None = None,
        judge: Judge | None = None,
        assistant: bool = False,
        idle_seconds: float = IDLE_SECONDS,
        progress: Callable[[], object] | None = None,
    ) -> list[FormationReport]:
        """See `Formation.run_due`."""
        return await self._hops.run(
            self._formation.run_due, extractor=extractor, judge=judge, assistant=assistant,
            idle_seconds=idle_seconds, progress=progress,
        )  # fmt: skip

    async def set_aside(self, *, scope: Scope) -> list[SetAside]:
        """See `Formation.set_aside`."""
        return await self._hops.run(self._formation.set_aside, scope=scope)

    async def set_budget(self, tokens: int | None, *, scope: Scope, seconds: float = 86_400.0) -> Budget:
        """See `Formation.set_budget`."""
        return await self._hops.run(self._formation.set_budget, tokens, scope=scope, seconds=seconds)

    async def budget(self, *, scope: Scope) -> Budget:
        """See `Formation.budget`."""
        return await self._hops.run(self._formation.budget, scope=scope)
