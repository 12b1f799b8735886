"""`memory.sessions`: the verbs on conversations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from memkit_core.config import Config
from memkit_core.conversation.queue import PersistQueue
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.conversation.windows import fitted, repaired, tokens_of
from memkit_core.errors import InvalidInputError, ScopeError, shown
from memkit_core.inputs import build_message, build_turn, checked_count, checked_id, listed
from memkit_core.models import DeleteReceipt, Message, Role, Session
from memkit_core.ports import RecordStore, TokenCounter
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.times import Clock

_PAGE = 64
_LARGEST = 2**31


class Sessions:
    """Appends, reads and deletes the messages of sessions. Reached as `memory.sessions`; thread-safe.

    Every verb sees what waits in `queue`: it is written first, and a read that finds the store down
    lays it over what is stored.

    Attributes:
        queue: for messages that need not be stored when the call returns, and for streamed turns.
    """

    def __init__(
        self, store: RecordStore, config: Config, clock: Clock, *, changed: Callable[[], None]
    ) -> None:
        """Work on `store`; `changed` is called after turns were written or deleted."""
        self._store = store
        self._config = config
        self._clock = clock
        self._changed = changed
        self.queue = PersistQueue(self._write, config=config)

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
        checked = self.checked(messages)
        if len(checked) > self._config.max_batch:
            raise InvalidInputError(
                f"append: at most {self._config.max_batch} messages in one call, got {len(checked)}"
            )
        self.queue.settle(session, strict=True)
        return self._write(session, checked)

    def _write(self, session: Scope, checked: list[Message]) -> list[Message]:
        """Store checked messages and their turns in one transaction."""
        now = self._clock()
        newest = {message.id: message for message in checked}.values()
        turns = [build_turn(m, session=session, now=now) for m in newest if m.is_turn]
        stored = self._store.log.append(session, checked, turns, now=now)
        if turns:
            self._changed()
        return stored

    def checked(self, messages: Iterable[Message]) -> list[Message]:
        """The messages as `append` would store them, with ids; nothing is written.

        Raises:
            InvalidInputError: a message that cannot be stored.
        """
        if isinstance(messages, Message | str | bytes) or not isinstance(messages, Iterable):
            raise InvalidInputError(f"append takes a list of messages, got {shown(messages)}")
        return [build_message(m, max_chars=self._config.max_content_chars) for m in messages]

    def read(self, *, scope: Scope, last: int | None = None, before: int | None = None) -> list[Message]:
        """The log of a session as it was written, in append order; [] for an unknown session.

        Args:
            scope: the session.
            last: only the newest `last` messages; reading costs what is returned.
            before: only messages below this position, to page backwards.
        """
        session = _session(scope, "read")
        if last is not None:
            last = checked_count(last, "read: last", most=_LARGEST)
        if before is not None:
            before = checked_count(before, "read: before", most=_LARGEST)
        waiting = self.queue.settle(session)
        if not waiting:
            return self._store.log.read(session, last=last, before=before)
        log = self._overlaid(session, waiting)
        below = [m for m in log if before is None or (m.position or 0) < before]
        return below if last is None else below[-last:]

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
        """The whole log with dangling tool calls repaired: valid for a chat API, never trimmed.

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

        Costs what is returned, not the history. See `memkit_core.conversation.windows.fitted`.
        """
        session = _session(scope, "window")
        for name, limit in (("last", last), ("max_tokens", max_tokens)):
            if limit is not None:
                checked_count(limit, f"window: {name}", most=_LARGEST)
        waiting = self.queue.settle(session)
        if waiting:
            view = repaired(self._overlaid(session, waiting))
            return fitted(view, last=last, max_tokens=max_tokens, count=count)
        tail: list[Message] = []
        tokens = users = 0
        page = self._store.log.read(session, last=_PAGE)
        while page:
            # Enough is what fits besides the page just read, which may begin inside a turn.
            full = (last is not None and len(tail) > last) or (max_tokens is not None and tokens > max_tokens)
            tail = page + tail
            tokens += tokens_of(page, count) if max_tokens is not None else 0
            if (full and users) or len(page) < _PAGE:
                break
            users += sum(message.role is Role.USER for message in page)
            page = self._store.log.read(session, last=_PAGE, before=page[0].position)
        earlier = self._system_before(session, tail) if len(tail) >= _PAGE else []
        return fitted(repaired(earlier + tail), last=last, max_tokens=max_tokens, count=count)

    def _system_before(self, session: Scope, tail: list[Message]) -> list[Message]:
        first = tail[0].position or 0
        return [m for m in self._store.log.system_messages(session) if (m.position or 0) < first]

    def get(self, *, scope: Scope) -> Session | None:
        """The session with its counts and times, None when nothing was ever appended."""
        session = _session(scope, "get")
        self.queue.settle(session)
        return self._store.log.session(session)

    def list(self, *, scope: Scope) -> list[Session]:
        """The sessions of a user, last active first."""
        user = require_scope(scope, verb="sessions.list")
        if user.kind is not ScopeKind.USER:
            raise ScopeError(f"sessions.list: sessions belong to a user, got {shown(user)}")
        self.queue.settle(user)
        return self._store.log.sessions(user)

    def delete(self, ids: Iterable[str], *, scope: Scope) -> DeleteReceipt:
        """Delete messages with their searchable turns; unknown ids count as nothing."""
        session = _session(scope, "delete")
        wanted = [checked_id(i, "message id") for i in listed(ids, "delete: ids")]
        self.queue.settle(session, strict=True)
        receipt = self._store.log.delete(session, wanted)
        self._changed()
        return receipt

    def clear(self, *, scope: Scope) -> DeleteReceipt:
        """Delete a session with all its messages and turns; memories of its scope stay. Idempotent."""
        session = _session(scope, "clear")
        self.queue.settle(session, strict=True)
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
