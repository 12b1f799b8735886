"""`AsyncMemory`: the verbs of `Memory`, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from memkit_core.aio.callbacks import AsyncSummarize, in_thread
from memkit_core.aio.documents import AsyncDocuments
from memkit_core.aio.formation import AsyncFormation
from memkit_core.aio.hops import Hops
from memkit_core.aio.items import AsyncItems
from memkit_core.aio.notes import AsyncRuns, AsyncWorkingMemory
from memkit_core.aio.sessions import AsyncSessions, AsyncSummaries
from memkit_core.aio.transfer import AsyncTransfer
from memkit_core.aio.typed import AsyncEpisodes, AsyncProfiles, AsyncSkills
from memkit_core.aio.upkeep import AsyncUpkeep
from memkit_core.config import Config
from memkit_core.conversation.context import TurnContext
from memkit_core.filters import FilterLike
from memkit_core.inputs import NewMemory
from memkit_core.live import Live
from memkit_core.memory import Capabilities, Memory
from memkit_core.models import (
    MEMORIES,
    DeleteReceipt,
    MemoryRecord,
    Message,
    Origin,
    RecallResult,
    RecordChange,
    RecordPage,
    RecordType,
    Status,
)
from memkit_core.observing import Counters
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import TokenCounter
from memkit_core.recall.weights import Ranking
from memkit_core.scope import Scope
from memkit_core.times import Clock, TimeLike, utc_now
from memkit_core.transfer import ExportReport, ImportReport, OnError
from memkit_core.transfer.files import Place
from memkit_core.transfer.mapping import ScopeMap


class AsyncMemory(Live):
    """`Memory` for asyncio: the same verbs with the same signatures, awaited.

    Open with `await AsyncMemory.open(path)`, or wrap an open memory with `AsyncMemory(memory)`; both
    can be used side by side. Use it as an async context manager, or `await close()`.
    """

    def __init__(self, memory: Memory) -> None:
        """Call `memory` in worker threads; closing this closes it."""
        self._memory = memory
        self._hops = Hops()
        self.upkeep = AsyncUpkeep(memory.upkeep, self._hops)
        self.transfer = AsyncTransfer(memory.transfer, self._hops)
        self.sessions = AsyncSessions(memory.sessions, self._hops)
        self.working = AsyncWorkingMemory(memory.working, self._hops)
        self.runs = AsyncRuns(memory.runs, self._hops)
        self.summaries = AsyncSummaries(memory.summaries, self._hops)
        self.profiles = AsyncProfiles(memory.profiles, self._hops)
        self.episodes = AsyncEpisodes(memory.episodes, self._hops)
        self.skills = AsyncSkills(memory.skills, self._hops)
        self.formation = AsyncFormation(memory.formation, self._hops)

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        config: Config | None = None,
        embedder: object = None,
        embedding_model: str | None = None,
        clock: Clock = utc_now,
    ) -> Self:
        """See `Memory.open`."""
        opened = partial(
            Memory.open, path, config=config, embedder=embedder, embedding_model=embedding_model, clock=clock
        )
        return cls(await asyncio.get_running_loop().run_in_executor(None, opened))

    @property
    def memory(self) -> Memory:
        """The memory itself, for code that does not await."""
        return self._memory

    @property
    def counters(self) -> Counters:
        """See `Memory.counters`; reads no store, so that there is nothing to await."""
        return self._memory.counters

    async def add(
        self,
        content: str,
        *,
        scope: Scope,
        id: str | None = None,  # noqa: A002 - the word every reader expects
        type: RecordType | str = RecordType.FACT,  # noqa: A002 - as above
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
        importance: float | None = None,
        important: bool = False,
        pinned: bool = False,
        occurred_at: TimeLike | None = None,
        expires_at: TimeLike | None = None,
        valid_from: TimeLike | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        confidence: float | None = None,
        origin: Origin | str = Origin.USER,
        source_message_ids: Sequence[str] = (),
        key: str | None = None,
        pending: bool = False,
        background: bool = False,
    ) -> MemoryRecord:
        """See `Memory.add`."""
        return await self._hops.run(
            self._memory.add, content, scope=scope, id=id, type=type, tags=tags, metadata=metadata,
            importance=importance, important=important, pinned=pinned, occurred_at=occurred_at,
            expires_at=expires_at, valid_from=valid_from, agent_id=agent_id, source=source,
            confidence=confidence, origin=origin, source_message_ids=source_message_ids, key=key,
            pending=pending, background=background,
        )  # fmt: skip

    async def add_many(
        self, items: Iterable[NewMemory | str], *, scope: Scope, background: bool = False
    ) -> list[MemoryRecord]:
        """See `Memory.add_many`."""
        return await self._hops.run(self._memory.add_many, items, scope=scope, background=background)

    async def update(
        self,
        id: str,  # noqa: A002 - the word every reader expects
        *,
        scope: Scope,
        content: str | Omitted = OMITTED,
        type: RecordType | str | Omitted = OMITTED,  # noqa: A002 - as above
        importance: float | Omitted = OMITTED,
        tags: Iterable[str] | Omitted = OMITTED,
        metadata: Mapping[str, object] | Omitted = OMITTED,
        expires_at: TimeLike | Omitted | None = OMITTED,
        pinned: bool | Omitted = OMITTED,
        expected_version: int | None = None,
    ) -> MemoryRecord:
        """See `Memory.update`."""
        return await self._hops.run(
            self._memory.update, id, scope=scope, content=content, type=type, importance=importance,
            tags=tags, metadata=metadata, expires_at=expires_at, pinned=pinned,
            expected_version=expected_version,
        )  # fmt: skip

    async def confirm(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """See `Memory.confirm`."""
        return await self._hops.run(self._memory.confirm, id, scope=scope)

    async def reject(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """See `Memory.reject`."""
        return await self._hops.run(self._memory.reject, id, scope=scope)

    async def archive(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """See `Memory.archive`."""
        return await self._hops.run(self._memory.archive, id, scope=scope)

    async def restore(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """See `Memory.restore`."""
        return await self._hops.run(self._memory.restore, id, scope=scope)

    async def supersede(
        self,
        id: str,  # noqa: A002 - as above
        content: str,
        *,
        scope: Scope,
        valid_from: TimeLike | None = None,
        agent_id: str | None = None,
        source: str | None = None,
        confidence: float | None = None,
        origin: Origin | str = Origin.USER,
        source_message_ids: Sequence[str] = (),
        expected_version: int | None = None,
    ) -> MemoryRecord:
        """See `Memory.supersede`."""
        return await self._hops.run(
            self._memory.supersede, id, content, scope=scope, valid_from=valid_from, agent_id=agent_id,
            source=source, confidence=confidence, origin=origin,
            source_message_ids=source_message_ids, expected_version=expected_version,
        )  # fmt: skip

    async def undo(self, id: str, *, scope: Scope) -> MemoryRecord:  # noqa: A002 - as above
        """See `Memory.undo`."""
        return await self._hops.run(self._memory.undo, id, scope=scope)

    async def promote(self, id: str, *, scope: Scope, to: Scope, move: bool = False) -> MemoryRecord:  # noqa: A002
        """See `Memory.promote`."""
        return await self._hops.run(self._memory.promote, id, scope=scope, to=to, move=move)

    async def promote_latest(
        self, *, scope: Scope, tags: Iterable[str], to: Scope | None = None, move: bool = False
    ) -> MemoryRecord | None:
        """See `Memory.promote_latest`."""
        return await self._hops.run(self._memory.promote_latest, scope=scope, tags=tags, to=to, move=move)

    async def compact(
        self,
        ids: Iterable[str],
        *,
        scope: Scope,
        summarize: AsyncSummarize,
        tags: Iterable[str] = (),
        into: Scope | None = None,
    ) -> MemoryRecord:
        """See `Memory.compact`; `summarize` may be a coroutine function, awaited in the caller's loop."""
        return await self._hops.run(
            self._memory.compact, ids, scope=scope, summarize=in_thread(summarize), tags=tags, into=into
        )

    async def recall(
        self,
        query: str,
        *,
        scope: Scope | Sequence[Scope],
        top_k: int = 10,
        filters: FilterLike | None = None,
        types: Iterable[RecordType | str] = (),
        status: Iterable[Status | str] | Status | str = Status.ACTIVE,
        include_messages: bool = False,
        exclude_messages: Iterable[Message] = (),
        ranking: Ranking | None = None,
        now: TimeLike | None = None,
        as_of: TimeLike | None = None,
        reranker: object = None,
        token_budget: int | None = None,
        type_budgets: Mapping[RecordType | str, int] | None = None,
        count: TokenCounter | None = None,
        explain: bool = False,
    ) -> RecallResult:
        """See `Memory.recall`."""
        return await self._hops.run(
            self._memory.recall, query, scope=scope, top_k=top_k, filters=filters, types=types,
            status=status, include_messages=include_messages, exclude_messages=exclude_messages,
            ranking=ranking, now=now, as_of=as_of, reranker=reranker, token_budget=token_budget,
            type_budgets=type_budgets, count=count, explain=explain,
        )  # fmt: skip

    async def feedback(self, recall_id: str, record_id: str, *, scope: Scope, useful: bool = True) -> None:
        """See `Memory.feedback`."""
        await self._hops.run(self._memory.feedback, recall_id, record_id, scope=scope, useful=useful)

    async def turn_context(
        self,
        session: Scope,
        query: str | None,
        *,
        system: str = "",
        working_memory: str | None = None,
        scopes: Sequence[Scope] | None = None,
        episodes: int = 3,
        skills: int = 2,
        memories: int = 5,
        recent: int | None = 10,
        include_messages: bool = False,
        max_tokens: int | None = None,
        recent_share: float = 1.0,
        count: TokenCounter | None = None,
    ) -> TurnContext:
        """See `Memory.turn_context`."""
        return await self._hops.run(
            self._memory.turn_context, session, query, system=system, working_memory=working_memory,
            scopes=scopes, episodes=episodes, skills=skills, memories=memories, recent=recent,
            include_messages=include_messages, max_tokens=max_tokens, recent_share=recent_share, count=count,
        )  # fmt: skip

    async def turn_memories(
        self, session: Scope, query: str, *, scopes: Sequence[Scope] | None = None, top_k: int = 10
    ) -> RecallResult:
        """See `Memory.turn_memories`."""
        return await self._hops.run(self._memory.turn_memories, session, query, scopes=scopes, top_k=top_k)

    async def get(self, id: str, *, scope: Scope, space: str = MEMORIES) -> MemoryRecord | None:  # noqa: A002
        """See `Memory.get`."""
        return await self._hops.run(self._memory.get, id, scope=scope, space=space)

    async def history(self, id: str, *, scope: Scope) -> list[RecordChange]:  # noqa: A002
        """See `Memory.history`."""
        return await self._hops.run(self._memory.history, id, scope=scope)

    async def list_records(
        self,
        *,
        scope: Scope,
        tags: Iterable[str] = (),
        since: TimeLike | None = None,
        until: TimeLike | None = None,
        types: Iterable[RecordType | str] = (),
        status: Iterable[Status | str] | Status | str = Status.ACTIVE,
        filters: FilterLike | None = None,
        order: str = "created_at",
        limit: int = 100,
        cursor: str | None = None,
        space: str = MEMORIES,
        as_of: TimeLike | None = None,
    ) -> RecordPage:
        """See `Memory.list_records`."""
        return await self._hops.run(
            self._memory.list_records, scope=scope, tags=tags, since=since, until=until, types=types,
            status=status, filters=filters, order=order, limit=limit, cursor=cursor, space=space,
            as_of=as_of,
        )  # fmt: skip

    async def documents(
        self,
        name: str = "default",
        *,
        scope: Scope,
        embedder: object = None,
        embedding_model: str | None = None,
    ) -> AsyncDocuments:
        """See `Memory.documents`."""
        documents = await self._hops.run(
            self.memory.documents, name, scope=scope, embedder=embedder, embedding_model=embedding_model
        )
        return AsyncDocuments(documents, self._hops)

    async def items(
        self,
        name: str = "default",
        *,
        scope: Scope,
        embedder: object = None,
        embedding_model: str | None = None,
    ) -> AsyncItems:
        """See `Memory.items`."""
        items = await self._hops.run(
            self.memory.items, name, scope=scope, embedder=embedder, embedding_model=embedding_model
        )
        return AsyncItems(items, self._hops)

    async def delete(
        self,
        id: str | Omitted = OMITTED,  # noqa: A002 - the word every reader expects
        *,
        scope: Scope | None = None,
        everything: bool = False,
    ) -> DeleteReceipt:
        """See `Memory.delete`."""
        return await self._hops.run(self._memory.delete, id, scope=scope, everything=everything)

    async def export_jsonl(
        self,
        to: Place,
        *,
        scope: Scope | Sequence[Scope] | None = None,
        everything: bool = False,
        watermark: str | None = None,
    ) -> ExportReport:
        """See `Memory.export_jsonl`."""
        return await self._hops.run(
            self._memory.export_jsonl, to, scope=scope, everything=everything, watermark=watermark
        )

    async def import_jsonl(
        self, source: Place, *, scopes: ScopeMap | None = None, on_error: OnError | str = "stop"
    ) -> ImportReport:
        """See `Memory.import_jsonl`."""
        return await self._hops.run(self._memory.import_jsonl, source, scopes=scopes, on_error=on_error)

    async def capabilities(self) -> Capabilities:
        """See `Memory.capabilities`; a method here, since it reads the store."""
        return await self._hops.run(lambda: self._memory.capabilities)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - a deadline of the work, not of the await
        """See `Memory.flush`."""
        return await self._hops.run(self._memory.flush, timeout)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as its `Memory`, which opens its file again."""
        return type(self), (self._memory,)

    async def close(self) -> None:
        """See `Memory.close`."""
        await self._hops.run(self._memory.close)
        self._hops.end()

    async def __aenter__(self) -> Self:
        """The memory itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()
