"""The awaited forms of `memory.working` and `memory.runs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from memkit_core.aio.hops import Hops
from memkit_core.conversation.runs import Runs
from memkit_core.conversation.working import WorkingMemory
from memkit_core.jsonvalues import JsonValue
from memkit_core.live import Live
from memkit_core.models import DeleteReceipt, Note, RunState
from memkit_core.scope import Scope

if TYPE_CHECKING:
    from pydantic import BaseModel


class AsyncWorkingMemory(Live):
    """The verbs of `memory.working`, awaited; reached as `AsyncMemory.working`. See `WorkingMemory`."""

    def __init__(self, working: WorkingMemory, hops: Hops) -> None:
        """Call `working` in worker threads."""
        self._working = working
        self._hops = hops

    def using(
        self,
        *,
        schema: type[BaseModel] | None = None,
        template: str | None = None,
        per: Literal["session", "user"] = "session",
    ) -> AsyncWorkingMemory:
        """See `WorkingMemory.using`; not awaited, since it reads nothing."""
        return AsyncWorkingMemory(self._working.using(schema=schema, template=template, per=per), self._hops)

    async def get(self, *, scope: Scope) -> Note:
        """See `WorkingMemory.get`."""
        return await self._hops.run(self._working.get, scope=scope)

    async def update(
        self,
        content: object,
        *,
        scope: Scope,
        mode: Literal["append", "replace"] = "append",
        expected_version: int | None = None,
    ) -> Note:
        """See `WorkingMemory.update`."""
        return await self._hops.run(
            self._working.update, content, scope=scope, mode=mode, expected_version=expected_version
        )

    async def clear(self, *, scope: Scope) -> Note:
        """See `WorkingMemory.clear`."""
        return await self._hops.run(self._working.clear, scope=scope)

    async def history(self, *, scope: Scope) -> list[Note]:
        """See `WorkingMemory.history`."""
        return await self._hops.run(self._working.history, scope=scope)

    async def undo(self, *, scope: Scope) -> Note:
        """See `WorkingMemory.undo`."""
        return await self._hops.run(self._working.undo, scope=scope)

    async def instructions(self, *, scope: Scope) -> str:
        """See `WorkingMemory.instructions`."""
        return await self._hops.run(self._working.instructions, scope=scope)

    def tools(self, *, scope: Scope | Callable[[], Scope]) -> list[Callable[..., str]]:
        """See `WorkingMemory.tools`; the functions block, and frameworks call such in threads."""
        return self._working.tools(scope=scope)


class AsyncRuns(Live):
    """The verbs of `memory.runs`, awaited; reached as `AsyncMemory.runs`. See `Runs`."""

    def __init__(self, runs: Runs, hops: Hops) -> None:
        """Call `runs` in worker threads."""
        self._runs = runs
        self._hops = hops

    async def save(
        self,
        run_id: str,
        state: JsonValue,
        *,
        scope: Scope,
        status: str = "paused",
        expected_version: int | None = None,
    ) -> RunState:
        """See `Runs.save`."""
        return await self._hops.run(
            self._runs.save, run_id, state, scope=scope, status=status, expected_version=expected_version
        )

    async def load(self, run_id: str, *, scope: Scope) -> RunState | None:
        """See `Runs.load`."""
        return await self._hops.run(self._runs.load, run_id, scope=scope)

    async def delete(self, run_id: str, *, scope: Scope) -> DeleteReceipt:
        """See `Runs.delete`."""
        return await self._hops.run(self._runs.delete, run_id, scope=scope)

    async def list(self, *, scope: Scope, status: str | None = None) -> list[RunState]:
        """See `Runs.list`."""
        return await self._hops.run(self._runs.list, scope=scope, status=status)
