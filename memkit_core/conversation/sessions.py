"""`memory.sessions`: the verbs on conversations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from memkit_core.chat_models import resolve_chat_model
from memkit_core.config import Config
from memkit_core.conversation.history import FindTurns, Merge, RelevantWindow, newest_turns, with_relevant
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.titles import checked_title, title_in, title_prompt
from memkit_core.conversation.tokens import approximate_tokens, resolve_token_counter, tokens_of
from memkit_core.conversation.windows import fitted, repaired
from memkit_core.errors import InvalidInputError, RecordNotFoundError, ScopeError, shown
from memkit_core.inputs import (
    build_message,
    build_turn,
    checked_amount,
    checked_count,
    checked_enum,
    checked_id,
    checked_ids,
    listed,
    listed_messages,
)
from memkit_core.jsonvalues import checked_metadata
from memkit_core.live import Live
from memkit_core.models import DeleteReceipt, Message, Session
from memkit_core.observing import observed
from memkit_core.observing.verbs import OF_SESSIONS
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import RecordStore, TokenCounter
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.times import Clock

_TITLE_MESSAGES = 12
_LARGEST = 2**31


@observed(OF_SESSIONS)
class Sessions(Live):
    """Appends, reads and deletes the messages of sessions. Reached as `memory.sessions`; thread-safe.

    Every verb sees what waits in `queue`: it is written first, and a read that finds the store down
    lays it over what is stored.

    Attributes:
        queue: for messages that need not be stored when the call returns, and for streamed turns.
    """

    def __init__(
        self,
        store: RecordStore,
        config: Config,
        clock: Clock,
        *,
        changed: Callable[[], None],
        find: FindTurns,
        settle: Callable[[], object],
    ) -> None:
        """Work on `store`; `changed` is called after turns were written or deleted, `find` recalls them.

        `settle` writes down what was noted of recalls, so that it can be deleted.
        """
        self._store = store
        self._config = config
        self._clock = clock
        self._changed = changed
        self._find = find
        self._settle = settle
        self.queue = PersistQueue(self._write_queued, config=config)

    def append(self, messages: Iterable[Message], *, scope: Scope) -> list[Message]:
        """Append messages to a session, in order, and return them as stored.

        One transaction: all or nothing. The session is created by its first message. User and
        assistant text is found by keyword when this returns and by vector soon after. A message
        whose id the session has replaces that one in place; the same id twice in one call is one
        message with the last content. An empty list does nothing.

        Args:
            messages: what was said; ids are made where None, the caller's objects stay as they are.
            scope: the session, `Scope.session(id, user=...)`.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a message that cannot be stored; nothing is written.
        """
        session = _session(scope, "append")
        checked = self._batch(messages, "append")
        self.queue.settle(session, strict=True)
        return self._write(session, checked)

    def replace(
        self, messages: Iterable[Message], *, scope: Scope, keep: Iterable[str] = ()
    ) -> list[Message]:
        """Make these the messages of a session in place of all others, and return them as stored.

        One transaction: all or nothing, and nobody reads a log with half of it. What goes is deleted
        as by `delete`; title, metadata, notes and run states of the session stay.

        Args:
            messages: as in `append`; they stand behind what is kept. None: what is not kept is deleted.
            scope: the session.
            keep: ids of messages that stay, as and where they are; unknown ones count as nothing.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a message that cannot be stored, or an id that is none; nothing changes.
        """
        session = _session(scope, "replace")
        checked = self._batch(messages, "replace")
        kept = frozenset(checked_ids(keep, "replace: keep"))
        self.queue.settle(session, strict=True)
        return self._write(session, checked, keep=kept)

    def _write_queued(self, session: Scope, checked: list[Message]) -> list[Message]:
        return self._write(session, checked)

    def _write(
        self, session: Scope, checked: list[Message], *, keep: Collection[str] | None = None
    ) -> list[Message]:
        """Store checked messages and their turns in one transaction."""
        now = self._clock()
        newest = {message.id: message for message in checked}.values()
        said = [m for m in newest if m.is_turn and self._config.index_messages]
        turns = [build_turn(m, session=session, now=now) for m in said]
        stored = self._store.log.append(session, checked, turns, now=now, keep=keep)
        if turns or keep is not None:
            self._changed()
        return stored

    def checked(self, messages: Iterable[Message]) -> list[Message]:
        """The messages as `append` would store them, with ids; nothing is written.

        Raises:
            InvalidInputError: a message that cannot be stored.
        """
        return self._checked(messages, "append")

    def _checked(self, messages: Iterable[Message], verb: str) -> list[Message]:
        given = listed_messages(messages, verb)
        return [build_message(m, max_chars=self._config.max_content_chars) for m in given]

    def _batch(self, messages: Iterable[Message], verb: str) -> list[Message]:
        checked = self._checked(messages, verb)
        if len(checked) > self._config.max_batch:
            raise InvalidInputError(
                f"{verb}: at most {self._config.max_batch} messages in one call, got {len(checked)}"
            )
        return checked

    def create(
        self, *, scope: Scope, title: str | None = None, metadata: Mapping[str, object] | None = None
    ) -> Session:
        """The session, made with this title and metadata if it is not there.

        Idempotent, also from several threads and processes: a session that is there, such as one that
        its first message made, is returned as it is.

        With `memkit_searchable` False in the metadata, here or by `update`, what is appended from then
        on is not found by recall.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a title or metadata that cannot be stored.
        """
        session = _session(scope, "create")
        named = None if title is None else checked_title(title)
        checked = checked_metadata(metadata)
        return self._store.log.create(session, title=named, metadata=checked, now=self._clock())

    def update(
        self,
        *,
        scope: Scope,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, object] | Omitted = OMITTED,
    ) -> Session:
        """Change the title or metadata of a session and return it; its place in `list` stays.

        Args:
            scope: the session.
            title: the new title, None for none.
            metadata: keys with their new values; other keys stay, a key given as None is removed.

        Raises:
            RecordNotFoundError: there is no such session.
            InvalidInputError: a value that cannot be stored; nothing is changed.
        """
        session = _session(scope, "update")
        named = title if isinstance(title, Omitted) or title is None else checked_title(title)
        if metadata is None:
            raise InvalidInputError("metadata must be a dict, got None; a key given as None is removed")
        checked = metadata if isinstance(metadata, Omitted) else checked_metadata(metadata)
        return self._store.log.update(session, title=named, metadata=checked)

    def generate_title(self, *, scope: Scope, model: object) -> Session:
        """Have a model give the session a title, from how it began, and return the session.

        Args:
            scope: the session.
            model: a `ChatModel`, a LangChain chat model or a LlamaIndex LLM; called once.

        Raises:
            RecordNotFoundError: there is no such session.
            InvalidInputError: nothing was said in it yet, or `model` is none.
            ModelError: the model failed or said nothing; the title stays.
        """
        session = _session(scope, "generate_title")
        ask = resolve_chat_model(model)
        if self._store.log.session(session) is None:
            raise RecordNotFoundError(f"there is no session {session}; append a message first")
        # Positions of deleted messages stay free: then what was said last must do.
        first = self._store.log.read(session, before=_TITLE_MESSAGES)
        said = title_prompt(first) or title_prompt(self._store.log.read(session, last=_TITLE_MESSAGES))
        if said is None:
            raise InvalidInputError(f"generate_title: nothing was said in {session} yet")
        return self._store.log.update(session, title=title_in(ask(said)))

    def read(
        self,
        *,
        scope: Scope,
        last: int | None = None,
        before: int | None = None,
        agent_id: str | None = None,
        parent_agent_id: str | None = None,
    ) -> list[Message]:
        """The log of a session as it was written, in append order; [] for an unknown session.

        Args:
            scope: the session.
            last: only the newest `last` messages; reading costs what is returned.
            before: only messages below this position, to page backwards; there are none below 0.
            agent_id: only messages that this agent produced.
            parent_agent_id: only messages of agents whose parent this is.
        """
        session = _session(scope, "read")
        if last is not None:
            last = checked_count(last, "read: last", most=_LARGEST)
        if before is not None:
            before = checked_amount(before, "read: before", most=_LARGEST)
        for name, agent in (("agent_id", agent_id), ("parent_agent_id", parent_agent_id)):
            if agent is not None:
                checked_id(agent, f"read: {name}")
        waiting = self.queue.settle(session)
        if not waiting:
            return self._store.log.read(
                session, last=last, before=before, agent_id=agent_id, parent_agent_id=parent_agent_id
            )
        chosen = [
            m
            for m in self._overlaid(session, waiting)
            if (before is None or (m.position or 0) < before)
            and agent_id in (None, m.agent_id)
            and parent_agent_id in (None, m.parent_agent_id)
        ]
        return chosen if last is None else chosen[-last:]

    def _overlaid(self, session: Scope, waiting: Sequence[Message]) -> list[Message]:
        """The log with what the store did not take yet, at the positions it should get."""
        log = {message.id: message for message in self._store.log.read(session)}
        end = max((m.position or 0 for m in log.values()), default=-1) + 1
        for message in waiting:
            stored = log.get(message.id)
            position = end if stored is None else stored.position
            end += stored is None
            log[message.id] = dataclasses.replace(message, session=session, position=position)
        return list(log.values())

    def for_model(self, *, scope: Scope) -> list[Message]:
        """The whole log, repaired: valid for a chat API, never trimmed.

        Equal on every read until the next append; see `memkit_core.conversation.windows.repaired`.
        """
        return repaired(self.read(scope=scope))

    def window(
        self,
        *,
        scope: Scope,
        last: int | None = None,
        max_tokens: int | None = None,
        count: TokenCounter = approximate_tokens,
    ) -> list[Message]:
        """The newest whole turns that fit, led by the system messages: valid for a chat API.

        Costs what is returned, not the history. See `memkit_core.conversation.windows.fitted`, and
        `resolve_token_counter` for what may count.
        """
        session = _session(scope, "window")
        for name, limit in (("last", last), ("max_tokens", max_tokens)):
            if limit is not None:
                checked_count(limit, f"window: {name}", most=_LARGEST)
        count = resolve_token_counter(count)
        waiting = self.queue.settle(session)
        if waiting:
            view = repaired(self._overlaid(session, waiting))
            return fitted(view, last=last, max_tokens=max_tokens, count=count)
        tail = newest_turns(self._store.log, session, last=last, max_tokens=max_tokens, count=count)
        return fitted(repaired(tail), last=last, max_tokens=max_tokens, count=count)

    def relevant_window(
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
        """The recent messages of a session and the older ones that answer `query`: valid for a chat API.

        A recalled message brings its whole turn: the user message, marked as said earlier, with all
        that follows it up to the next. No message stands there twice. When nothing can be recalled,
        whatever the reason, the recent ones come alone and the result says so.

        Args:
            query: plain text, most often the current input; a blank one recalls nothing.
            scope: the session; no other one is searched.
            recent: so many of the newest messages, as whole turns, see `window`.
            relevant: so many older messages at most are recalled.
            merge: where recalled turns stand: `append` (behind the recent turns, before the newest),
                `prepend` or `interleave` (in the order all was said).
            neighbours: so many turns before and after each recalled one come along.
            max_tokens: a budget of all of it; recalled turns take at most half of what the recent
                messages leave. None for no limit.
            count: counts tokens, see `resolve_token_counter`.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a value out of range.
            BackendError: the recent messages cannot be read.
        """
        if not isinstance(query, str):
            raise InvalidInputError(f"relevant_window: query must be a string, got {shown(query)}")
        checked_count(recent, "relevant_window: recent", most=_LARGEST)
        checked_count(relevant, "relevant_window: relevant", most=self._config.max_top_k)
        if neighbours != 0:
            checked_count(neighbours, "relevant_window: neighbours", most=_LARGEST)
        placed = checked_enum(Merge, merge, "merge")
        count = resolve_token_counter(count)
        window = self.window(scope=scope, last=recent, max_tokens=max_tokens, count=count)
        return with_relevant(
            self._store.log,
            self._find,
            window,
            query,
            session=scope,
            relevant=relevant,
            neighbours=neighbours,
            merge=placed,
            room=None if max_tokens is None else max(max_tokens - tokens_of(window, count), 0) // 2,
            count=count,
        )

    def get(self, *, scope: Scope) -> Session | None:
        """The session with its counts and times, None when it was neither created nor appended to."""
        session = _session(scope, "get")
        self.queue.settle(session)
        return self._store.log.session(session)

    def list(self, *, scope: Scope, limit: int | None = None, after: Session | None = None) -> list[Session]:
        """The sessions of a user, last active first.

        Args:
            scope: the user.
            limit: at most so many.
            after: the last session of the page before; only those behind it are returned.
        """
        user = require_scope(scope, verb="sessions.list")
        if user.kind is not ScopeKind.USER:
            raise ScopeError(f"sessions.list: sessions belong to a user, got {shown(user)}")
        if limit is not None:
            checked_count(limit, "list: limit", most=_LARGEST)
        if after is not None and not (isinstance(after, Session) and after.scope.parent == user):
            raise InvalidInputError(f"list: after must be a session of {user}, got {shown(after)}")
        self.queue.settle(user)
        return self._store.log.sessions(user, limit=limit, after=after)

    def delete(self, ids: Iterable[str], *, scope: Scope) -> DeleteReceipt:
        """Delete messages with their searchable turns; unknown ids count as nothing."""
        session = _session(scope, "delete")
        wanted = [checked_id(i, "message id") for i in listed(ids, "delete: ids")]
        self.queue.settle(session, strict=True)
        receipt = self._store.log.delete(session, wanted)
        self._changed()
        return receipt

    def clear(self, *, scope: Scope) -> DeleteReceipt:
        """Delete a session with its messages, turns, summary, working memory and run states. Idempotent.

        Logged recalls that named it go too, see `Config.recall_log`.
        Memories and documents of its scope stay; `memory.delete(scope=...)` deletes those as well.
        """
        session = _session(scope, "clear")
        self.queue.settle(session, strict=True)
        self._settle()
        receipt = self._store.log.clear(session)
        self._changed()
        return receipt


def _session(scope: object, verb: str) -> Scope:
    session = require_scope(scope, verb=f"sessions.{verb}")
    if session.kind is not ScopeKind.SESSION:
        raise ScopeError(
            f"sessions.{verb}: scope must be a session, Scope.session(id, user=...), got {shown(session)}"
        )
    return session
