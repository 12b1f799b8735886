"""`MemkitMiddleware`: memory for agents that `langchain.agents.create_agent` makes."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables.config import run_in_executor

from langchain_memkit.convert import from_memkit, merged, to_memkit
from langchain_memkit.tools import checked_working, tools_of
from memkit_core import (
    BackendError,
    InvalidInputError,
    Memory,
    Message,
    MissingDependencyError,
    Role,
    Scope,
    ScopeError,
)
from memkit_core.conversation.context import TurnContext
from memkit_core.conversation.summarizers import checked_summarizer
from memkit_core.conversation.tagged import is_summary
from memkit_core.conversation.tokens import resolve_token_counter
from memkit_core.conversation.working import WorkingMemory
from memkit_core.errors import shown
from memkit_core.inputs import checked_amount, checked_count, checked_scopes
from memkit_core.ports import Summarizer
from memkit_core.scope import ScopeKind

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langgraph.runtime import Runtime, get_runtime
except ImportError as error:
    raise MissingDependencyError("langchain 1.5.0 or newer", extra="agents") from error

_LOGGER = logging.getLogger("memkit.langchain")
_ATTEMPT = 8
"""So many of the newest messages are read at first, to find where the last turn began."""
_RECENT_SHARE = 0.7


class _Turn(TypedDict):
    """What the hooks of one turn pass on: recalled text, ids of older messages, and what is stored as it is."""

    recalled: str
    older: list[str]
    saved: dict[str, str]


class MemkitState(AgentState[Any]):
    """The state of an agent with `MemkitMiddleware`; what it adds is in no input and no output."""

    memkit_turn: NotRequired[Annotated[_Turn, PrivateStateAttr]]


class MemkitMiddleware(AgentMiddleware[MemkitState, Any, Any]):
    """Gives an agent one session of a `Memory`: what was said, what is remembered, and a summary.

    Instantiate:
        ```python
        agent = create_agent(
            model,
            tools,
            middleware=[MemkitMiddleware(memory, scope=Scope.session("s1", user="alice"))],
        )
        ```

    Once a turn the memories, and the turns of earlier conversations, that answer the user's message
    are recalled. Each model call gets what `Memory.turn_context` builds: behind the agent's own
    system prompt the working memory, the user's profile, the rolling summary and what was recalled, all
    fenced as data; then the messages of the session that the summary does not cover, tool calls repaired, as far as
    `max_tokens` goes. None of it enters the state, so nothing recalled is ever stored as said.

    The user's message is queued for the store when the turn starts, each answer and tool result when
    it is there: a turn that fails or is cancelled keeps what it had, see `memory.sessions.queue`.
    After the turn the older part is summarised when the session has grown above `max_tokens`; a
    summarizer that fails changes nothing. The state and the caller's messages are never changed.

    **The session is what the model sees**, with and without a checkpointer. Of the messages that a
    turn begins with, those behind the last answer are new; what stands before is taken over only
    into a session that is still empty. A turn that begins with the last message of the user anew, by its
    id, takes the place of the attempt before: an answer that was removed from the state, or that an
    error cut short, is deleted from the session. When the store cannot be read, the model gets the messages of
    the state, and a warning is logged. What other middleware adds to or changes in the messages of a
    call reaches the model. Do not combine it with `SummarizationMiddleware`. List it behind middleware
    that interrupts, such as `HumanInTheLoopMiddleware`, so that a call is stored while it waits to be
    approved: hooks behind the model run in reverse order.

    Works in `invoke` and `stream` as in `ainvoke` and `astream`, where its work is done in threads.
    """

    state_schema = MemkitState

    def __init__(
        self,
        memory: Memory,
        *,
        scope: Scope | Callable[[Runtime[Any]], Scope],
        scopes: Sequence[Scope] | None = None,
        working: WorkingMemory | None = None,
        episodes: int = 3,
        skills: int = 2,
        memories: int = 5,
        include_messages: bool = True,
        max_tokens: int | None = None,
        summarizer: Summarizer | None = None,
        name: str = "MemkitMiddleware",
    ) -> None:
        """Nothing is read or written yet.

        Args:
            memory: where it is kept; the caller closes it.
            scope: the session, or a function that names it for each run:
                `lambda runtime: Scope.session(runtime.execution_info.thread_id, user=runtime.context.user)`.
            scopes: whose memories are recalled; the session and its user when None.
            working: `memory.working`, or one of its shapes: the agent gets the tools to change the
                note, and the system prompt tells how. Without, it shows the notes there are.
            episodes: the most memories of type event that are recalled; 0 for none.
            skills: the most of type skill.
            memories: the most of all others, and of turns of conversations.
            include_messages: whether turns of earlier conversations are recalled.
            max_tokens: the most tokens of memory and messages, beside the agent's own system prompt
                and tools, above which the session is summarised; `Config.summary_threshold` when None.
            summarizer: how; `ChatSummarizer(model)` asks a chat model; `ExtractiveSummarizer`, which
                needs none, when None.
            name: the name of this middleware; an agent takes no two of the same name.

        Raises:
            ScopeError: `scope` is neither a session nor a function.
            InvalidInputError: `memory` is no `Memory`, `working` no `WorkingMemory`, `summarizer` none, or a
                number out of range.
        """
        super().__init__()
        if not isinstance(memory, Memory):
            raise InvalidInputError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        if not callable(scope):
            _checked_session(scope)
        self._memory = memory
        self._scope = scope
        self._scopes = None if scopes is None else checked_scopes(scopes, verb="MemkitMiddleware: scopes")
        self._working = None if working is None else checked_working(working)
        self._episodes = checked_amount(episodes, "episodes", most=memory.config.max_top_k)
        self._skills = checked_amount(skills, "skills", most=memory.config.max_top_k)
        self._memories = checked_amount(memories, "memories", most=memory.config.max_top_k)
        self._include_messages = include_messages
        limit = memory.config.summary_threshold if max_tokens is None else max_tokens
        self._max_tokens = checked_count(limit, "max_tokens", most=2**31 - 1)
        self._summarizer = checked_summarizer(summarizer)
        self._name = name
        self.tools = [] if self._working is None else tools_of(self._working.tools(scope=self._present))

    @property
    def name(self) -> str:
        """The name of this middleware in its agent."""
        return self._name

    # ------------------------------------------------------------------ the hooks

    def before_agent(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Queue what the user said, and recall for it."""
        session = self._session(runtime)
        new = _newest(state["messages"])
        if len(new) < len(state["messages"]) and self._is_empty(session):
            new = list(state["messages"])
        self._discard(new, session)
        ids = {message.id for message in new}
        older = [str(message.id) for message in state["messages"] if message.id not in ids]
        turn = self._stored(_Turn(recalled="", older=older, saved={}), new, session)
        asked = [m for m in new if isinstance(m, HumanMessage) and "lc_source" not in m.additional_kwargs]
        try:
            context = self._context(session, str(asked[-1].text) if asked else "", self._max_tokens)
        except BackendError as error:
            _LOGGER.warning("middleware: nothing was recalled: %s", error)
        else:
            turn = _Turn(recalled=context.recalled, older=turn["older"], saved=turn["saved"])
        return {"memkit_turn": turn}

    def before_model(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Queue the results of tools."""
        return self._saved(state, runtime)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what memory adds."""
        return handler(self._filled(request))

    def after_model(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Queue the answer of the model."""
        return self._saved(state, runtime)

    def after_agent(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Queue what is left, have it written, and summarise when the session has grown large."""
        update = self._saved(state, runtime)
        session = self._session(runtime)
        # 0 seconds: written at once, but nobody waits for it.
        self._memory.sessions.queue.flush(0, scope=session)
        try:
            self._memory.summaries.update(
                scope=session, summarizer=self._summarizer, threshold=self._max_tokens
            )
        except BackendError as error:
            _LOGGER.warning("middleware: nothing was summarised: %s", error)
        return update

    async def abefore_agent(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """See `before_agent`."""
        return await run_in_executor(None, self.before_agent, state, runtime)

    async def abefore_model(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """See `before_model`."""
        return await run_in_executor(None, self.before_model, state, runtime)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """See `wrap_model_call`."""
        return await handler(await run_in_executor(None, self._filled, request))

    async def aafter_model(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """See `after_model`."""
        return await run_in_executor(None, self.after_model, state, runtime)

    async def aafter_agent(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        """See `after_agent`."""
        return await run_in_executor(None, self.after_agent, state, runtime)

    # ------------------------------------------------------------------ reading

    def _context(self, session: Scope, query: str, max_tokens: int) -> TurnContext:
        return self._memory.turn_context(
            session,
            query,
            working_memory=None if self._working is None else self._working.instructions(scope=session),
            scopes=self._scopes,
            episodes=self._episodes,
            skills=self._skills,
            memories=self._memories,
            recent=None,
            include_messages=self._include_messages,
            max_tokens=max_tokens,
            recent_share=_RECENT_SHARE if query else 1.0,
        )

    def _filled(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The request with the messages of the session and the system prompt that memory adds to."""
        turn: _Turn | None = request.state.get("memkit_turn")  # type: ignore[assignment]  # of MemkitState
        recalled = "" if turn is None else turn["recalled"]
        room = max(self._max_tokens - resolve_token_counter()(recalled), 1)
        try:
            context = self._context(self._session(request.runtime), "", room)
        except BackendError as error:
            _LOGGER.warning("middleware: the model gets the messages of the state alone: %s", error)
            return request
        own = {message.id: message for message in request.messages}
        known = {message.id for message in request.state.get("messages", ())}
        # What another middleware says for this call alone is in no state and in no store.
        passing = [message for message in request.messages if message.id is None or message.id not in known]
        # One that was cut to fit has no payload.
        messages: list[Any] = [
            own[m.id] if m.payload is not None and m.id in own else from_memkit(m) for m in context.recent
        ]
        said = "\n\n".join(part for part in (context.prompt, recalled) if part)
        return request.override(
            messages=[*messages, *passing] if messages else request.messages,
            system_message=_with_text(request.system_message, said),
        )

    def _is_empty(self, session: Scope) -> bool:
        try:
            return not self._memory.sessions.read(scope=session, last=1)
        except BackendError:
            return False

    # ------------------------------------------------------------------ writing

    def _discard(self, new: Sequence[AnyMessage], session: Scope) -> None:
        """Delete the answer to a message that is answered anew; nothing behind which the user went on."""
        ids = {message.id for message in new if message.id is not None}
        if not ids or not isinstance(new[0], HumanMessage):
            return
        try:
            newest = self._last_turn(session)
            # A turn may begin with several messages; the last of the session must be one of them.
            if newest and newest[0].id in ids:
                gone = [str(m.id) for m in newest[1:] if m.id not in ids]
                if gone:
                    self._memory.sessions.delete(gone, scope=session)
        except BackendError as error:
            _LOGGER.warning("middleware: the answer before was not deleted: %s", error)

    def _last_turn(self, session: Scope) -> list[Message]:
        """The newest messages from the last one of the user on; [] when the user said nothing."""
        last = _ATTEMPT
        while True:
            newest = self._memory.sessions.read(scope=session, last=last)
            asked = [place for place, message in enumerate(newest) if message.role is Role.USER]
            if asked:
                return newest[asked[-1] :]
            if len(newest) < last:
                return []
            last *= 4

    def _saved(self, state: MemkitState, runtime: Runtime[Any]) -> dict[str, Any]:
        turn = state.get("memkit_turn") or _Turn(recalled="", older=[], saved={})
        older = set(turn["older"])
        new = [message for message in state["messages"] if message.id not in older]
        return {"memkit_turn": self._stored(turn, new, self._session(runtime))}

    def _stored(self, turn: _Turn, messages: Sequence[AnyMessage], session: Scope) -> _Turn:
        """Queue the messages that are new or were changed since; what is queued is in the turn that returns."""
        saved = dict(turn["saved"])
        changed = []
        for message in map(to_memkit, merged(messages)):
            digest = hashlib.sha256(json.dumps(message.payload, sort_keys=True).encode()).hexdigest()[:16]
            if saved.get(str(message.id)) != digest and not is_summary(message):
                saved[str(message.id)] = digest
                changed.append(message)
        self._memory.sessions.queue.append(changed, scope=session)
        return _Turn(recalled=turn["recalled"], older=turn["older"], saved=saved)

    # ------------------------------------------------------------------ whose

    def _session(self, runtime: Runtime[Any]) -> Scope:
        return _checked_session(self._scope(runtime)) if callable(self._scope) else self._scope

    def _present(self) -> Scope:
        """The session of the run that a tool is called in."""
        return self._session(get_runtime())


def _checked_session(scope: object) -> Scope:
    if isinstance(scope, Scope) and scope.kind is ScopeKind.SESSION:
        return scope
    raise ScopeError(
        "MemkitMiddleware: scope must be a session, Scope.session(id, user=...), or a function of the runtime "
        f"that returns one, got {shown(scope)}"
    )


def _newest(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """What a turn begins with: the messages behind the last one of the model or of a tool."""
    said = [place for place, message in enumerate(messages) if isinstance(message, AIMessage | ToolMessage)]
    return list(messages[said[-1] + 1 if said else 0 :])


def _with_text(message: SystemMessage | None, text: str) -> SystemMessage | None:
    """A new system message that ends with `text`."""
    if not text:
        return message
    if message is None:
        return SystemMessage(text)
    if isinstance(message.content, str):
        content: Any = f"{message.content}\n\n{text}" if message.content else text
    else:
        content = [*message.content, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})
