"""`MemkitMemory`: what LlamaIndex's chat engines and agents hold as `memory=`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory.types import BaseMemory
from pydantic import ConfigDict, Field, PrivateAttr

from llamaindex_memkit.convert import to_chat_message, to_message
from llamaindex_memkit.histories import make_history
from llamaindex_memkit.recalled import with_block, without_blocks
from llamaindex_memkit.reopening import remember_open, reopened
from memkit_core import ConfigError, InvalidInputError, Memory, Scope
from memkit_core.conversation.context import TurnContext
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import shown
from memkit_core.prompts import guidance_block


class MemkitMemory(BaseMemory):
    """One chat session of one user in a `Memory`, for `memory=` of a chat engine or an agent.

    Instantiate:
        ```python
        from llama_index.core.chat_engine import SimpleChatEngine
        from llamaindex_memkit import MemkitMemory
        from memkit_core import Memory

        memory = MemkitMemory.from_defaults(
            memory=Memory.open("memory.db"), session_id="s1", user_id="alice"
        )
        engine = SimpleChatEngine.from_defaults(llm=llm, memory=memory)
        ```

    What is put is stored at once and verbatim. `get` returns what `Memory.turn_context` builds: the
    newest turns that fit and, in one system text, the notes of working memory, the user's profile, the
    rolling summary and what recall finds for the present message in the user's earlier conversations
    and in the memories of the session and the user. `get_all` returns the whole log, tool calls repaired.
    Nothing here calls a model: call `memory.summaries.update(scope=...)` after a turn to summarise.

    Every method may be called from any thread, and the sync ones inside a running event loop. All
    adapters of one `Memory` share it, copies and deep copies too; close the `Memory`, not this.
    `to_dict` and pickling keep the file and the scope, never the content and not `working`: give it
    again to `from_dict`.

    Attributes:
        session_id: the session.
        user_path: (kind, id) pairs of the user's scope, broadest first, as in `Scope.path`.
        path: the file of the memory, None when it keeps none.
        token_limit: the most tokens `get` returns, estimated; only system messages and the
            newest turn may exceed it.
        chat_history_token_ratio: the part of what system text and summary leave that the recent
            turns may take while `recall` is on (0.7, as in LlamaIndex's own `Memory`); the rest is
            for recalled text.
        recall: whether `get` recalls at all.
        top_k: the most records recalled, beside 3 episodes and 2 skills.
        include_messages: whether earlier turns are recalled beside memories.
        queue: whether `put` writes through `memory.sessions.queue`: stored a moment later, seen by reads
            at once; a write that fails is tried again and shown by that queue's `state`, not raised.
    """

    model_config = ConfigDict(extra="forbid")

    session_id: str
    user_path: tuple[tuple[str, str], ...]
    path: str | None = None
    token_limit: int = Field(default=30_000, gt=0)
    chat_history_token_ratio: float = Field(default=0.7, gt=0, le=1)
    recall: bool = True
    top_k: int = Field(default=5, gt=0)
    include_messages: bool = True
    queue: bool = False

    _memory: Memory = PrivateAttr()
    _working: WorkingMemory | None = PrivateAttr(default=None)
    _last_missing: frozenset[str] = PrivateAttr(default=frozenset())

    def __init__(
        self, *, memory: Memory | None = None, working: WorkingMemory | None = None, **data: Any
    ) -> None:
        """Hold `memory`, or reconnect to the file `path`; `from_defaults` is the usual way in.

        Raises:
            ConfigError: neither a memory nor the path of a memory's file.
            ScopeError: the ids make no session scope.
        """
        if memory is None and data.get("path") is None:
            raise ConfigError(
                "MemkitMemory needs memory=Memory.open(...), or the path of a memory's file to reconnect to"
            )
        if memory is not None and not isinstance(memory, Memory):
            raise ConfigError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        if working is not None and not isinstance(working, WorkingMemory):
            raise ConfigError(f"working must be memory.working or a shape of it, got {shown(working)}")
        if memory is not None:
            data["path"] = memory.path
        super().__init__(**data)
        _ = self.scope
        self._working = working
        if memory is None:
            self._memory = reopened(str(self.path))
            self.path = self._memory.path
        else:
            remember_open(memory)
            self._memory = memory

    @classmethod
    def class_name(cls) -> str:
        """The name of this class in serialised form."""
        return "MemkitMemory"

    @classmethod
    def from_defaults(  # type: ignore[override]  # an unknown keyword is an error, not swallowed
        cls,
        *,
        memory: Memory,
        session_id: str,
        user_id: str | Scope,
        token_limit: int = 30_000,
        chat_history_token_ratio: float = 0.7,
        recall: bool = True,
        top_k: int = 5,
        include_messages: bool = True,
        queue: bool = False,
        working: WorkingMemory | None = None,
    ) -> Self:
        """The memory of one session; the same session id under two users is two sessions.

        Args:
            memory: the open memory; it stays the caller's to close.
            session_id: any id, taken as it is.
            user_id: whose session it is, or a user scope with its workspace and org.
            token_limit: the most tokens `get` returns.
            chat_history_token_ratio: the part of them for the recent turns.
            recall: whether `get` recalls at all.
            top_k: the most records recalled, beside 3 episodes and 2 skills.
            include_messages: whether earlier turns are recalled beside memories.
            queue: whether `put` writes through `memory.sessions.queue`.
            working: `memory.working`, or one of its shapes, for an agent that has
                `working_memory_tools` of it: the system text then tells how to keep the note. Without,
                it shows the notes of session and user.

        Raises:
            ScopeError: an id that is none: empty, not a string, longer than 4,096 characters.
        """
        scope = Scope.session(session_id, user=user_id)
        return cls(
            memory=memory,
            session_id=session_id,
            user_path=scope.path[:-1],
            token_limit=token_limit,
            chat_history_token_ratio=chat_history_token_ratio,
            recall=recall,
            top_k=top_k,
            include_messages=include_messages,
            queue=queue,
            working=working,
        )

    @property
    def scope(self) -> Scope:
        """The session."""
        return Scope.session(self.session_id, user=self.user_scope)

    @property
    def user_scope(self) -> Scope:
        """The user of the session."""
        return Scope.from_path(self.user_path)

    @property
    def last_missing(self) -> frozenset[str]:
        """What the latest `get` had to do without; empty when nothing was missing.

        The legs that did not answer (see `RecallResult.missing`), or `"recall"` when recall failed
        and only the recent turns were returned.
        """
        return self._last_missing

    def tokenizer_fn(self, text: str) -> Sequence[int]:
        """As many items as `text` has tokens, estimated: chat engines count their own prompt with it."""
        return range(approximate_tokens(text))

    # ------------------------------------------------------------------ reading

    def get(  # type: ignore[override]  # an unknown keyword is an error, not swallowed
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - LlamaIndex's name
        *,
        initial_token_count: int = 0,
    ) -> list[ChatMessage]:
        """What to send to the model: system text with what memory adds, then the newest whole turns.

        The turns are valid for a chat API: every tool call is answered, and the first message after
        system messages is the user's. With nothing to add they come alone. What memory adds is
        merged into the first system message when the session has one. Turns that the summary covers
        are left out. Returns new objects; changes nothing, whatever `input` is.

        Not cached, so what was deleted or has expired is gone from the next call on; a recall takes
        little beside the model call that follows, and its query is embedded once.

        Args:
            input: the present message, to recall for; when None or blank, the session's newest
                user message.
            initial_token_count: tokens that the caller adds to the prompt; they count against
                `token_limit`.

        Raises:
            BackendError: the session cannot be read. A recall that fails does not raise: it is
                logged, and `last_missing` says so.
        """
        context = self._context(_query(input), max(self.token_limit - initial_token_count, 1))
        self._last_missing = context.missing
        history = [to_chat_message(message) for message in (*context.system_messages, *context.recent)]
        return with_block(history, context.added) if context.added else history

    def _context(self, query: str | None, max_tokens: int) -> TurnContext:
        guidance = None
        if self._working is not None:
            guidance = guidance_block(self._working.instructions(scope=self.scope))
        return self._memory.turn_context(
            self.scope,
            query,
            working_memory=guidance,
            episodes=3 if self.recall else 0,
            skills=2 if self.recall else 0,
            memories=self.top_k if self.recall else 0,
            recent=None,
            include_messages=self.include_messages,
            max_tokens=max_tokens,
            recent_share=self.chat_history_token_ratio if self.recall else 1.0,
        )

    def get_all(self) -> list[ChatMessage]:
        """The whole log in append order, every dangling tool call answered by a placeholder.

        An answer that holds nothing, which models refuse, is left out.
        """
        return [to_chat_message(message) for message in self._memory.sessions.for_model(scope=self.scope)]

    # ------------------------------------------------------------------ writing

    def put(self, message: ChatMessage) -> None:
        """Append one message; without `queue` it is stored when this returns. See `put_messages`."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Append messages in order, all or nothing; an empty list does nothing.

        A `ChatMessage` has no id, so equal messages are separate ones. Text that `get` recalled is
        left out of system messages: it was not said. The arguments stay as they are.

        Raises:
            InvalidInputError: a message that cannot be stored; nothing is written.
        """
        sessions = self._memory.sessions
        append = sessions.queue.append if self.queue else sessions.append
        append(map(to_message, without_blocks(messages)), scope=self.scope)

    def set(self, messages: list[ChatMessage]) -> None:
        """Make `messages` the history of this session; engines call it for `chat_history=`.

        What the session already begins with is kept as it is and only the rest is appended, so a
        caller who sends the growing history each time stores each message once. Stored messages
        that `messages` does not have are deleted, with their searchable turns, in the transaction
        that writes the new ones. Memories stay.
        """
        make_history(self._memory, messages, scope=self.scope)

    def reset(self) -> None:
        """Delete this chat session with its searchable turns, never a memory. Idempotent."""
        self._memory.sessions.clear(scope=self.scope)

    # ------------------------------------------------------------------ async, in worker threads

    async def aget(  # type: ignore[override]  # as `get`
        self,
        input: str | ChatMessage | None = None,  # noqa: A002 - LlamaIndex's name
        *,
        initial_token_count: int = 0,
    ) -> list[ChatMessage]:
        """See `get`."""
        return await asyncio.to_thread(self.get, input, initial_token_count=initial_token_count)

    async def aget_all(self) -> list[ChatMessage]:
        """See `get_all`."""
        return await asyncio.to_thread(self.get_all)

    async def aput(self, message: ChatMessage) -> None:
        """See `put`."""
        await asyncio.to_thread(self.put, message)

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """See `put_messages`."""
        await asyncio.to_thread(self.put_messages, messages)

    async def aset(self, messages: list[ChatMessage]) -> None:
        """See `set`."""
        await asyncio.to_thread(self.set, messages)

    async def areset(self) -> None:
        """See `reset`."""
        await asyncio.to_thread(self.reset)

    # ------------------------------------------------------------------ being sent around

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Where the memory lives, whose it is, and the settings, as JSON; `from_dict` reconnects.

        Raises:
            ConfigError: the memory keeps no file.
        """
        if self.path is None:
            raise ConfigError(
                "a MemkitMemory whose Memory keeps no file cannot be serialised; use Memory.open with a path, "
                "or build it again with from_defaults(memory=...)"
            )
        return {**self.model_dump(mode="json", **kwargs), "class_name": self.class_name()}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as "open this file again", with the `Memory`'s own settings and embedder.

        Raises:
            ConfigError: the memory keeps no file.
        """
        return _unpickled, (type(self), self.to_dict(), self._memory)


def _unpickled(kind: type[MemkitMemory], data: dict[str, Any], memory: Memory) -> MemkitMemory:
    return kind.from_dict(data, memory=memory)


def _query(given: object) -> str | None:
    """The text of the message given; None for one that says nothing."""
    if given is not None and not isinstance(given, str | ChatMessage):
        raise InvalidInputError(f"get: input must be a text or a ChatMessage, got {shown(given)}")
    text = given.content if isinstance(given, ChatMessage) else given
    return text if text and text.strip() else None
