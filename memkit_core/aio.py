"""`AsyncMemory`: the verbs of `Memory` for a running event loop, each in one worker-thread hop.

The work itself (SQLite, NumPy, tokenizers, the embedded engine) blocks, so a native async core would
hop for every port; one hop for a whole call was measured to be cheaper. Cancelling an `await` does
not stop work that has begun: what it wrote is written.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from numpy.typing import ArrayLike

from memkit_core.aio_notes import AsyncRuns, AsyncWorkingMemory
from memkit_core.config import Config
from memkit_core.conversation.context import TurnContext
from memkit_core.conversation.history import Merge, RelevantWindow
from memkit_core.conversation.lane import QueueState
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries, SummaryContext, SummaryUpdate
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.conversation.turn import Turn
from memkit_core.documents import Documents, NewDocument, SearchMode
from memkit_core.filters import FilterLike
from memkit_core.inputs import NewMemory
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
    Session,
    Status,
    Summary,
)
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import Summarizer, TokenCounter, Vector
from memkit_core.recall.ranking import Ranking
from memkit_core.scope import Scope
from memkit_core.times import Clock, TimeLike, utc_now
from memkit_core.upkeep import Findings, Upkeep

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 64
"""Enough that calls waiting for a model do not hold up the rest; the loop's own pool has cores + 4."""


class _Hops:
    """Runs blocking calls in threads of its own, with the caller's context variables."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="memkit")

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound = partial(contextvars.copy_context().run, partial(call, *args, **kwargs))
        return await asyncio.get_running_loop().run_in_executor(self._executor, bound)

    def end(self) -> None:
        self._executor.shutdown(wait=False)


class AsyncPersistQueue:
    """The verbs of `memory.sessions.queue`; reached as `AsyncMemory.sessions.queue`. See `PersistQueue`.

    Putting in waits for nothing, so it takes no thread.
    """

    def __init__(self, queue: PersistQueue, hops: _Hops) -> None:
        """Call `queue`, in worker threads where it waits."""
        self._queue = queue
        self._hops = hops

    async def append(self, messages: Iterable[Message], *, scope: Scope) -> list[Message]:
        """See `PersistQueue.append`."""
        return self._queue.append(messages, scope=scope)

    def turn(self, messages: Iterable[Message] = (), *, scope: Scope, saved: Iterable[Message] = ()) -> Turn:
        """See `PersistQueue.turn`; used with `with`, as there."""
        return self._queue.turn(messages, scope=scope, saved=saved)

    @property
    def state(self) -> QueueState:
        """See `PersistQueue.state`."""
        return self._queue.state

    async def flush(self, timeout: float | None = None, *, scope: Scope | None = None) -> bool:  # noqa: ASYNC109 - a deadline of the work, not of the await
        """See `PersistQueue.flush`."""
        return await self._hops.run(self._queue.flush, timeout, scope=scope)


class AsyncSessions:
    """The verbs of `memory.sessions`, awaited; reached as `AsyncMemory.sessions`. See `Sessions`."""

    def __init__(self, sessions: Sessions, hops: _Hops) -> None:
        """Call `sessions` in worker threads."""
        self._sessions = sessions
        self._hops = hops
        self.queue = AsyncPersistQueue(sessions.queue, hops)

    async def append(self, messages: Iterable[Message], *, scope: Scope) -> list[Message]:
        """See `Sessions.append`."""
        return await self._hops.run(self._sessions.append, messages, scope=scope)

    async def checked(self, messages: Iterable[Message]) -> list[Message]:
        """See `Sessions.checked`."""
        return await self._hops.run(self._sessions.checked, messages)

    async def create(
        self, *, scope: Scope, title: str | None = None, metadata: Mapping[str, object] | None = None
    ) -> Session:
        """See `Sessions.create`."""
        return await self._hops.run(self._sessions.create, scope=scope, title=title, metadata=metadata)

    async def update(
        self,
        *,
        scope: Scope,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, object] | Omitted = OMITTED,
    ) -> Session:
        """See `Sessions.update`."""
        return await self._hops.run(self._sessions.update, scope=scope, title=title, metadata=metadata)

    async def generate_title(self, *, scope: Scope, model: object) -> Session:
        """See `Sessions.generate_title`."""
        return await self._hops.run(self._sessions.generate_title, scope=scope, model=model)

    async def read(
        self,
        *,
        scope: Scope,
        last: int | None = None,
        before: int | None = None,
        agent_id: str | None = None,
        parent_agent_id: str | None = None,
    ) -> list[Message]:
        """See `Sessions.read`."""
        return await self._hops.run(
            self._sessions.read, scope=scope, last=last, before=before, agent_id=agent_id,
            parent_agent_id=parent_agent_id,
        )  # fmt: skip

    async def for_model(self, *, scope: Scope) -> list[Message]:
        """See `Sessions.for_model`."""
        return await self._hops.run(self._sessions.for_model, scope=scope)

    async def window(
        self,
        *,
        scope: Scope,
        last: int | None = None,
        max_tokens: int | None = None,
        count: TokenCounter = approximate_tokens,
    ) -> list[Message]:
        """See `Sessions.window`."""
        return await self._hops.run(
            self._sessions.window, scope=scope, last=last, max_tokens=max_tokens, count=count
        )

    async def relevant_window(
        self,
        query: str,
        *,
        scope: Scope,
        recent: int = 10,
        relevant: int = 5,
        merge: Merge | str = Merge.APPEND,
        neighbours: int = 0,
        max_tokens: int | None = None,
        count: TokenCounter = approximate_tokens,
    ) -> RelevantWindow:
        """See `Sessions.relevant_window`."""
        return await self._hops.run(
            self._sessions.relevant_window, query, scope=scope, recent=recent, relevant=relevant,
            merge=merge, neighbours=neighbours, max_tokens=max_tokens, count=count,
        )  # fmt: skip

    async def get(self, *, scope: Scope) -> Session | None:
        """See `Sessions.get`."""
        return await self._hops.run(self._sessions.get, scope=scope)

    async def list(
        self, *, scope: Scope, limit: int | None = None, after: Session | None = None
    ) -> list[Session]:
        """See `Sessions.list`."""
        return await self._hops.run(self._sessions.list, scope=scope, limit=limit, after=after)

    async def delete(self, ids: Iterable[str], *, scope: Scope) -> DeleteReceipt:
        """See `Sessions.delete`."""
        return await self._hops.run(self._sessions.delete, ids, scope=scope)

    async def clear(self, *, scope: Scope) -> DeleteReceipt:
        """See `Sessions.clear`."""
        return await self._hops.run(self._sessions.clear, scope=scope)


class AsyncSummaries:
    """The verbs of `memory.summaries`, awaited; reached as `AsyncMemory.summaries`. See `Summaries`."""

    def __init__(self, summaries: Summaries, hops: _Hops) -> None:
        """Call `summaries` in worker threads."""
        self._summaries = summaries
        self._hops = hops

    @property
    def last_error(self) -> str | None:
        """See `Summaries.last_error`."""
        return self._summaries.last_error

    async def get(self, *, scope: Scope) -> Summary | None:
        """See `Summaries.get`."""
        return await self._hops.run(self._summaries.get, scope=scope)

    async def update(
        self,
        *,
        scope: Scope,
        summarizer: Summarizer | None = None,
        threshold: float | None = None,
        model_window: int | None = None,
        keep: int | None = None,
        count: TokenCounter | None = None,
    ) -> SummaryUpdate:
        """See `Summaries.update`."""
        return await self._hops.run(
            self._summaries.update, scope=scope, summarizer=summarizer, threshold=threshold,
            model_window=model_window, keep=keep, count=count,
        )  # fmt: skip

    async def context(
        self, *, scope: Scope, max_tokens: int | None = None, count: TokenCounter | None = None
    ) -> SummaryContext:
        """See `Summaries.context`."""
        return await self._hops.run(self._summaries.context, scope=scope, max_tokens=max_tokens, count=count)

    async def clear(self, *, scope: Scope) -> DeleteReceipt:
        """See `Summaries.clear`."""
        return await self._hops.run(self._summaries.clear, scope=scope)


class AsyncDocuments:
    """The verbs of a collection, awaited; reached as `AsyncMemory.documents`. See `Documents`."""

    def __init__(self, documents: Documents, hops: _Hops) -> None:
        """Call `documents` in worker threads."""
        self.documents = documents
        self._hops = hops

    async def put(
        self, documents: Iterable[NewDocument | str], *, vectors: ArrayLike | None = None
    ) -> list[MemoryRecord]:
        """See `Documents.put`."""
        return await self._hops.run(self.documents.put, documents, vectors=vectors)

    async def search(
        self,
        query: str = "",
        *,
        vector: ArrayLike | None = None,
        top_k: int = 4,
        filters: FilterLike | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
        alpha: float | None = None,
        min_similarity: float = 0.0,
    ) -> RecallResult:
        """See `Documents.search`."""
        return await self._hops.run(
            self.documents.search,
            query,
            vector=vector,
            top_k=top_k,
            filters=filters,
            mode=mode,
            alpha=alpha,
            min_similarity=min_similarity,
        )

    async def get(self, ids: Iterable[str]) -> list[MemoryRecord]:
        """See `Documents.get`."""
        return await self._hops.run(self.documents.get, ids)

    async def vectors(self, ids: Iterable[str]) -> dict[str, Vector]:
        """See `Documents.vectors`."""
        return await self._hops.run(self.documents.vectors, ids)

    async def list(
        self, *, filters: FilterLike | None = None, limit: int = 100, cursor: str | None = None
    ) -> RecordPage:
        """See `Documents.list`."""
        return await self._hops.run(self.documents.list, filters=filters, limit=limit, cursor=cursor)

    async def delete(
        self, ids: Iterable[str] | None = None, *, filters: FilterLike | None = None
    ) -> DeleteReceipt:
        """See `Documents.delete`."""
        return await self._hops.run(self.documents.delete, ids, filters=filters)

    async def clear(self) -> DeleteReceipt:
        """See `Documents.clear`."""
        return await self._hops.run(self.documents.clear)


class AsyncUpkeep:
    """The verbs of `memory.upkeep`, awaited; reached as `AsyncMemory.upkeep`. See `Upkeep`."""

    def __init__(self, upkeep: Upkeep, hops: _Hops) -> None:
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


class AsyncMemory:
    """`Memory` for asyncio: the same verbs with the same signatures, awaited.

    Open with `await AsyncMemory.open(path)`, or wrap an open memory with `AsyncMemory(memory)`; both
    can be used side by side. Use it as an async context manager, or `await close()`.
    """

    def __init__(self, memory: Memory) -> None:
        """Call `memory` in worker threads; closing this closes it."""
        self._memory = memory
        self._hops = _Hops()
        self.upkeep = AsyncUpkeep(memory.upkeep, self._hops)
        self.sessions = AsyncSessions(memory.sessions, self._hops)
        self.working = AsyncWorkingMemory(memory.working, self._hops)
        self.runs = AsyncRuns(memory.runs, self._hops)
        self.summaries = AsyncSummaries(memory.summaries, self._hops)

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
        background: bool = False,
    ) -> MemoryRecord:
        """See `Memory.add`."""
        return await self._hops.run(
            self._memory.add, content, scope=scope, id=id, type=type, tags=tags, metadata=metadata,
            importance=importance, important=important, pinned=pinned, occurred_at=occurred_at,
            expires_at=expires_at, valid_from=valid_from, agent_id=agent_id, source=source,
            confidence=confidence, origin=origin, source_message_ids=source_message_ids,
            background=background,
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
    ) -> RecallResult:
        """See `Memory.recall`."""
        return await self._hops.run(
            self._memory.recall, query, scope=scope, top_k=top_k, filters=filters, types=types,
            status=status, include_messages=include_messages, exclude_messages=exclude_messages,
            ranking=ranking, now=now,
        )  # fmt: skip

    async def turn_context(
        self,
        session: Scope,
        query: str,
        *,
        system: str = "",
        working_memory: str | None = None,
        scopes: Sequence[Scope] | None = None,
        episodes: int = 3,
        skills: int = 2,
        memories: int = 5,
        recent: int = 10,
        max_tokens: int | None = None,
        count: TokenCounter | None = None,
    ) -> TurnContext:
        """See `Memory.turn_context`."""
        return await self._hops.run(
            self._memory.turn_context, session, query, system=system, working_memory=working_memory,
            scopes=scopes, episodes=episodes, skills=skills, memories=memories, recent=recent,
            max_tokens=max_tokens, count=count,
        )  # fmt: skip

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
    ) -> RecordPage:
        """See `Memory.list_records`."""
        return await self._hops.run(
            self._memory.list_records, scope=scope, tags=tags, since=since, until=until, types=types,
            status=status, filters=filters, order=order, limit=limit, cursor=cursor, space=space,
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

    async def delete(
        self,
        id: str | Omitted = OMITTED,  # noqa: A002 - the word every reader expects
        *,
        scope: Scope | None = None,
        everything: bool = False,
    ) -> DeleteReceipt:
        """See `Memory.delete`."""
        return await self._hops.run(self._memory.delete, id, scope=scope, everything=everything)

    async def capabilities(self) -> Capabilities:
        """See `Memory.capabilities`; a method here, since it reads the store."""
        return await self._hops.run(lambda: self._memory.capabilities)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - a deadline of the work, not of the await
        """See `Memory.flush`."""
        return await self._hops.run(self._memory.flush, timeout)

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
