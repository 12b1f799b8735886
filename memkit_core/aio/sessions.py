"""The awaited forms of `memory.sessions`, its queue, and `memory.summaries`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memkit_core.aio.callbacks import AsyncSummarizer, in_thread
from memkit_core.aio.hops import Hops
from memkit_core.conversation.history import Merge, RelevantWindow
from memkit_core.conversation.lane import QueueState
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summarizers import checked_summarizer
from memkit_core.conversation.summary import Summaries, SummaryContext, SummaryUpdate
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.conversation.turn import Turn
from memkit_core.live import Live
from memkit_core.models import (
    DeleteReceipt,
    Message,
    Session,
    Summary,
)
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import TokenCounter
from memkit_core.scope import Scope


class AsyncPersistQueue(Live):
    """The verbs of `memory.sessions.queue`; reached as `AsyncMemory.sessions.queue`. See `PersistQueue`.

    Putting in waits for nothing, so it takes no thread.
    """

    def __init__(self, queue: PersistQueue, hops: Hops) -> None:
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


class AsyncSessions(Live):
    """The verbs of `memory.sessions`, awaited; reached as `AsyncMemory.sessions`. See `Sessions`."""

    def __init__(self, sessions: Sessions, hops: Hops) -> None:
        """Call `sessions` in worker threads."""
        self._sessions = sessions
        self._hops = hops
        self.queue = AsyncPersistQueue(sessions.queue, hops)

    async def append(self, messages: Iterable[Message], *, scope: Scope) -> list[Message]:
        """See `Sessions.append`."""
        return await self._hops.run(self._sessions.append, messages, scope=scope)

    async def replace(
        self, messages: Iterable[Message], *, scope: Scope, keep: Iterable[str] = ()
    ) -> list[Message]:
        """See `Sessions.replace`."""
        return await self._hops.run(self._sessions.replace, messages, scope=scope, keep=keep)

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


class AsyncSummaries(Live):
    """The verbs of `memory.summaries`, awaited; reached as `AsyncMemory.summaries`. See `Summaries`."""

    def __init__(self, summaries: Summaries, hops: Hops) -> None:
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
        summarizer: AsyncSummarizer | None = None,
        threshold: float | None = None,
        model_window: int | None = None,
        keep: int | None = None,
        count: TokenCounter | None = None,
    ) -> SummaryUpdate:
        """See `Summaries.update`; `summarizer` may be a coroutine function, awaited in the caller's loop."""
        given = None if summarizer is None else checked_summarizer(summarizer, awaited=True)
        summarize = None if given is None else in_thread(given)
        return await self._hops.run(
            self._summaries.update, scope=scope, summarizer=summarize, threshold=threshold,
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
