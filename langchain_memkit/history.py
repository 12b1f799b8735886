"""`MemkitChatMessageHistory`: a session of memkit as LangChain's chat message history."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.runnables.config import run_in_executor

from langchain_memkit.convert import from_memkit, merged, to_memkit
from memkit_core import InvalidInputError, Memory, Message, Scope, ScopeError
from memkit_core.errors import shown
from memkit_core.inputs import listed

REMOVE_ALL = "__remove_all__"
"""The id of a `RemoveMessage` that clears the session (`REMOVE_ALL_MESSAGES` of LangGraph)."""

_LOGGER = logging.getLogger("memkit.langchain")


class MemkitChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session of one user, durable and searchable.

    For `RunnableWithMessageHistory`, or to use by hand. What is added is committed when the call
    returns, in the order given, every field of it; user and assistant text is also found by
    `memory.recall(..., include_messages=True)`. Thread-safe; the asynchronous forms do the same
    work in a worker thread, so both kinds can be mixed on one object. It holds no connection of its
    own: make one per call and share the `Memory`. Copies share the memory, unpickling reopens it.

    `messages` is what a model may be given: the whole log with dangling tool calls repaired, equal
    on every read until the next write. `raw_messages` is the log itself. Assigning to `messages`
    is refused, since a subclass that starts with `self.messages = []` would erase the stored
    session: use `clear` and `add_messages`.

    `RunnableWithMessageHistory` swallows the errors of what it does after the answer, which is to
    write and, for a chain whose input is a list, to read once more. So each is logged at WARNING to
    the logger `memkit.langchain`, kept as `last_error`, and raised.

    Attributes:
        scope: the session, to pass to the verbs of `Memory`.
        last_error: what this object raised last; None at first and after each write that succeeds.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        session_id: str,
        user_id: str | None = None,
        user: Scope | None = None,
        queue: bool = False,
    ) -> None:
        """The session `session_id` of a user; nothing is read or written yet.

        Args:
            memory: where it is kept; the caller closes it.
            session_id: any text of at most 4,096 characters, unique under its user. An int is
                refused.
            user_id: the user by id alone.
            user: the user as a scope, for one inside a workspace or an org. Give this or `user_id`.
            queue: write through `memory.sessions.queue`: what is added is committed a moment later, so
                no call waits for the disk; reads see it at once. A write that fails is tried again and
                shown by `memory.sessions.queue.state`, not raised here.

        Raises:
            ScopeError: an id that cannot be one, or not exactly one of `user_id` and `user`.
            InvalidInputError: `memory` is no `Memory`.
        """
        super().__init__()
        if not isinstance(memory, Memory):
            raise InvalidInputError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        if (user_id is None) == (user is None):
            raise ScopeError(
                "a chat history needs its user: give either user_id='alice' or user=Scope.user(...)"
            )
        if user is not None and not isinstance(user, Scope):
            raise ScopeError(f"user must be a Scope, got {shown(user)}; give an id as user_id=")
        owner = Scope.user(user_id) if user_id is not None else user
        assert owner is not None
        self.scope = Scope.session(session_id, user=owner)
        self.last_error: Exception | None = None
        self._memory = memory
        self._queued = queue

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # an attribute upstream
        """The log with dangling tool calls repaired, oldest first: fresh objects on every read.

        A call without a result is answered by a marked stand-in, a result without a call and an
        answer that holds nothing are left out, and each result stands behind its call. Nothing is
        trimmed. [] for an unknown session.
        """
        with self._noted("reading messages"):
            return [from_memkit(message) for message in self._memory.sessions.for_model(scope=self.scope)]

    async def aget_messages(self) -> list[BaseMessage]:
        """See `messages`."""
        return await run_in_executor(None, lambda: self.messages)

    @property
    def raw_messages(self) -> list[BaseMessage]:
        """The log as it was written, oldest first: what really happened, dangling calls included."""
        return [from_memkit(message) for message in self._memory.sessions.read(scope=self.scope)]

    def turn_messages(
        self, query: str, *, system: str = "", include_messages: bool = True, max_tokens: int | None = None
    ) -> list[BaseMessage]:
        """What to send to a model before the current input `query`: built by `Memory.turn_context`.

        One system message (system text, notes, profile, summary and what is recalled, fenced), when it
        says anything, then the newest messages as whole turns. For a prompt that is built by hand;
        `messages` stays the plain log, which `RunnableWithMessageHistory` relies on.

        Args:
            query: the current input, to recall for; it is neither stored nor among the messages.
            system: the system prompt.
            include_messages: whether turns of earlier conversations are recalled beside memories.
            max_tokens: the budget of the whole prompt, `query` included; None for no limit.

        Raises:
            InvalidInputError: a value of the wrong kind or out of range.
        """
        context = self._memory.turn_context(
            self.scope, query, system=system, include_messages=include_messages, max_tokens=max_tokens
        )
        return [from_memkit(message) for message in context.messages]

    async def aturn_messages(
        self, query: str, *, system: str = "", include_messages: bool = True, max_tokens: int | None = None
    ) -> list[BaseMessage]:
        """See `turn_messages`."""
        return await run_in_executor(
            None, self.turn_messages, query,
            system=system, include_messages=include_messages, max_tokens=max_tokens,
        )  # fmt: skip

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages in order. An empty list does nothing; the objects given are not changed.

        Message chunks that follow each other are stored as the one message they make. A message
        without an id gets one, so the same object added twice is two messages; an id that the
        session has replaces that message at its place. Values that JSON cannot carry are stored in
        the form that `langchain_memkit.plain.plain` documents.

        `RemoveMessage(id)` deletes that message, an unknown id nothing; with the id
        `"__remove_all__"` it clears the session. Messages between two removals are one transaction;
        a call without removals is all or nothing.

        Raises:
            InvalidInputError: something that cannot be stored; nothing of the call was written.
            BackendError: the store failed.
        """
        with self._noted("add_messages"):
            steps = _steps(messages)
            sessions = self._memory.sessions
            append = sessions.queue.append if self._queued else sessions.append
            # Before the first removal, so that nothing is removed for messages that cannot be stored.
            self._memory.sessions.checked([message for step in steps for message in _appended(step)])
            for step in steps:
                if isinstance(step, list):
                    append(step, scope=self.scope)
                elif step == REMOVE_ALL:
                    self._memory.sessions.clear(scope=self.scope)
                else:
                    self._memory.sessions.delete([step], scope=self.scope)
        self.last_error = None

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """See `add_messages`. Cancelling the await does not stop a write that has begun."""
        await run_in_executor(None, self.add_messages, messages)

    def clear(self) -> None:
        """Delete this session's messages; its memories and all other sessions stay. Idempotent."""
        with self._noted("clear"):
            self._memory.sessions.clear(scope=self.scope)
        self.last_error = None

    async def aclear(self) -> None:
        """See `clear`."""
        await run_in_executor(None, self.clear)

    @contextmanager
    def _noted(self, attempted: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.last_error = error
            # The class alone: the text of an error may quote what was said.
            _LOGGER.warning("chat history: %s failed with %s", attempted, type(error).__name__)
            raise

    def __getstate__(self) -> dict[str, object]:
        """What copies and pickles keep: all but the error, which need not be picklable."""
        return {**self.__dict__, "last_error": None}

    def __repr__(self) -> str:
        """The class and whose session it is."""
        return f"{type(self).__name__}({self.scope!r})"


def _appended(step: list[Message] | str) -> list[Message]:
    return step if isinstance(step, list) else []


def _checked_list(given: object) -> list[BaseMessage]:
    if isinstance(given, BaseMessage):
        # Pydantic would give its fields one by one.
        raise InvalidInputError("add_messages takes a list of messages, got one; write [message]")
    return listed(given, "messages")


def _steps(messages: Sequence[BaseMessage]) -> list[list[Message] | str]:
    """What to do, in order: a list of messages to append, or the id of a removal."""
    steps: list[list[Message] | str] = []
    for message in merged(_checked_list(messages)):
        if isinstance(message, RemoveMessage):
            if not message.id:
                raise InvalidInputError("a RemoveMessage needs the id of the message to remove")
            steps.append(message.id)
        elif steps and isinstance(steps[-1], list):
            steps[-1].append(to_memkit(message))
        else:
            steps.append([to_memkit(message)])
    return steps
