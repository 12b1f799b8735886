"""`MessageLog` in plain Python."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice

from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.models import (
    MESSAGES,
    DeleteReceipt,
    MemoryRecord,
    Message,
    Role,
    Session,
    Summary,
    Target,
)
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import RowKind
from memkit_core.scope import Scope
from memkit_core.stores.memory.recalls import forget_scopes
from memkit_core.stores.memory.state import Conversation, Prepared, State, prepared
from memkit_core.stores.memory.values import forget_values
from memkit_core.stores.titles import changed_session
from memkit_core.stores.turns import is_searchable, placed_turn, words_of


class InMemoryLog:
    """Sessions and messages in dicts."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def append(
        self,
        session: Scope,
        messages: Sequence[Message],
        turns: Sequence[MemoryRecord],
        *,
        now: datetime,
        keep: Collection[str] | None = None,
    ) -> list[Message]:
        """See `MessageLog.append`."""
        if not messages and keep is None:
            return []
        # All that can fail happens before the first row changes.
        newest = {str(message.id): _own(message) for message in messages}
        turn_of = {turn.id: prepared(turn) for turn in turns}
        with self._state.open():
            known = self._state.conversation(session)
            if keep is not None and known is not None:
                forget_messages(self._state, session, [i for i in known.messages if i not in keep])
            if not messages:
                return []
            log = self._conversation(session, now)
            log.updated_at = max(log.updated_at, now)
            self._state.mark(RowKind.SESSION, session)
            turn_of = turn_of if is_searchable(log.metadata) else {}
            for i, message in newest.items():
                placed, old = _placed(message, session, log, now), log.messages.get(i)
                covered = log.summary is not None and _position(placed) <= log.summary.position
                if covered and old is not None and words_of(old) != words_of(placed):
                    log.summary = None
                    self._state.bury(RowKind.SUMMARY, session)
                log.messages[i] = placed
                self._state.mark(RowKind.MESSAGE, session, row_id=i)
                self._write_turn(session, log.messages[i], turn_of.get(i))
            return [_copied(log.messages[str(message.id)]) for message in messages]

    def _conversation(self, session: Scope, now: datetime) -> Conversation:
        sessions = self._state.conversations.setdefault(session.parent, {})
        if session not in sessions:
            number = 1 + max((log.number for log in sessions.values()), default=0)
            sessions[session] = Conversation(created_at=now, updated_at=now, number=number)
        return sessions[session]

    def create(
        self, session: Scope, *, title: str | None, metadata: Mapping[str, JsonValue], now: datetime
    ) -> Session:
        """See `MessageLog.create`."""
        own = json.loads(canonical_json(dict(metadata)))
        with self._state.open():
            if self._state.conversation(session) is None:
                log = self._conversation(session, now)
                log.title, log.metadata = title, own
                self._state.mark(RowKind.SESSION, session)
            return session_of(session, self._conversation(session, now))

    def update(
        self,
        session: Scope,
        *,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, JsonValue] | Omitted = OMITTED,
    ) -> Session:
        """See `MessageLog.update`."""
        with self._state.open():
            log = self._state.conversation(session)
            old = None if log is None else session_of(session, log)
            new = changed_session(old, scope=session, title=title, metadata=metadata)
            if log is not None:
                self._state.mark(RowKind.SESSION, session)
                log.title, log.metadata = new.title, json.loads(canonical_json(dict(new.metadata)))
            return new

    def _write_turn(self, session: Scope, message: Message, turn: Prepared | None) -> None:
        if turn is not None:
            position = _position(message)
            placed = dataclasses.replace(turn, record=placed_turn(turn.record, position))
            self._state.write(placed, position=position)
        else:
            remove_turns(self._state, session, [str(message.id)])

    def read(
        self,
        session: Scope,
        *,
        last: int | None = None,
        before: int | None = None,
        agent_id: str | None = None,
        parent_agent_id: str | None = None,
    ) -> list[Message]:
        """See `MessageLog.read`."""
        with self._state.open():
            log = self._state.conversation(session)
            newest_first = reversed(log.messages.values()) if log is not None else iter(())
            chosen = (
                m
                for m in newest_first
                if (before is None or _position(m) < before)
                and (agent_id is None or m.agent_id == agent_id)
                and (parent_agent_id is None or m.parent_agent_id == parent_agent_id)
            )
            return [_copied(m) for m in reversed(list(islice(chosen, last)))]

    def system_messages(self, session: Scope) -> list[Message]:
        """See `MessageLog.system_messages`."""
        with self._state.open():
            log = self._state.conversation(session)
            found = [] if log is None else [m for m in log.messages.values() if m.role is Role.SYSTEM]
            return [_copied(m) for m in found]

    def delete(self, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
        """See `MessageLog.delete`."""
        with self._state.open():
            return forget_messages(self._state, session, ids)

    def clear(self, session: Scope) -> DeleteReceipt:
        """See `MessageLog.clear`."""
        with self._state.open():
            turns = self._state.remove(self._state.rows_of(Target(scope=session, space=MESSAGES)))
            log = forget_sessions(self._state, lambda scope: scope == session)
            values = forget_values(self._state, lambda scope, _kind, _key: scope == session)
            return dataclasses.replace(
                turns,
                messages=log.messages,
                sessions=log.sessions,
                summaries=log.summaries,
                notes=values.notes,
                runs=values.runs,
            )

    def counts(self) -> tuple[int, int]:
        """See `MessageLog.counts`."""
        with self._state.open():
            logs = [log for logs in self._state.conversations.values() for log in logs.values()]
            return len(logs), sum(len(log.messages) for log in logs)

    def session(self, session: Scope) -> Session | None:
        """See `MessageLog.session`."""
        with self._state.open():
            log = self._state.conversation(session)
            return None if log is None else session_of(session, log)

    def sessions(
        self, user: Scope, *, limit: int | None = None, after: Session | None = None
    ) -> list[Session]:
        """See `MessageLog.sessions`."""
        with self._state.open():
            logs = self._state.conversations.get(user, {})
            ranked = sorted(
                ((log.updated_at, log.number, scope) for scope, log in logs.items()),
                key=lambda one: one[:2],
                reverse=True,
            )
            if after is not None:
                # A session that is gone meanwhile stands before those that were active in its moment.
                log = logs.get(after.scope)
                place = after.updated_at, 2**62 if log is None else log.number
                ranked = [one for one in ranked if one[:2] < place]
            return [session_of(scope, logs[scope]) for _, _, scope in ranked[:limit]]

    def idle(self, *, since: datetime, until: datetime) -> list[Session]:
        """See `MessageLog.idle`."""
        with self._state.open():
            found = [
                (log.updated_at, log.number, scope, log)
                for logs in self._state.conversations.values()
                for scope, log in logs.items()
                if since < log.updated_at <= until
            ]
            return [session_of(scope, log) for _, _, scope, log in sorted(found, key=lambda one: one[:2])]

    def summary(self, session: Scope) -> Summary | None:
        """See `MessageLog.summary`."""
        with self._state.open():
            log = self._state.conversation(session)
            return None if log is None else log.summary

    def save_summary(self, summary: Summary, *, after: int, messages: int) -> bool:
        """See `MessageLog.save_summary`."""
        with self._state.open():
            log = self._state.conversation(summary.session)
            if log is None or summary.position <= after:
                return False
            stored = -1 if log.summary is None else log.summary.position
            covered = sum(after < _position(m) <= summary.position for m in log.messages.values())
            if stored != after or covered != messages:
                return False
            log.summary = summary
            self._state.mark(RowKind.SUMMARY, summary.session)
            return True

    def clear_summary(self, session: Scope) -> DeleteReceipt:
        """See `MessageLog.clear_summary`."""
        with self._state.open():
            log = self._state.conversation(session)
            if log is None or log.summary is None:
                return DeleteReceipt()
            log.summary = None
            self._state.bury(RowKind.SUMMARY, session)
            return DeleteReceipt(summaries=1)


def remove_turns(state: State, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
    """Delete the turns of these messages."""
    rows = [state.rows.get((session, MESSAGES, i)) for i in ids]
    return state.remove([row for row in rows if row is not None])


def forget_messages(state: State, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
    """Delete messages with their turns, and the summary that covers one; see `MessageLog.delete`."""
    wanted = list(dict.fromkeys(ids))
    turns = remove_turns(state, session, wanted)
    log = state.conversation(session)
    if log is None:
        return turns
    gone = [log.messages.pop(i) for i in wanted if i in log.messages]
    for message in gone:
        state.bury(RowKind.MESSAGE, session, row_id=str(message.id))
    summary, summaries = log.summary, 0
    if summary is not None and any(_position(m) <= summary.position for m in gone):
        log.summary, summaries = None, 1
        state.bury(RowKind.SUMMARY, session)
    return dataclasses.replace(turns, messages=len(gone), summaries=summaries)


def forget_sessions(state: State, chosen: Callable[[Scope], bool]) -> DeleteReceipt:
    """Delete the chosen sessions with their messages and summaries, not their turns; counts them.

    Recalls that named one of the chosen scopes go too.
    """
    forget_scopes(state, chosen)
    messages = sessions = summaries = 0
    for user, logs in list(state.conversations.items()):
        for session in [one for one in logs if chosen(one)]:
            log = logs.pop(session)
            messages += len(log.messages)
            summaries += log.summary is not None
            sessions += 1
            for message_id in log.messages:
                state.bury(RowKind.MESSAGE, session, row_id=message_id)
            if log.summary is not None:
                state.bury(RowKind.SUMMARY, session)
            state.bury(RowKind.SESSION, session)
        if not logs:
            del state.conversations[user]
    return DeleteReceipt(messages=messages, sessions=sessions, summaries=summaries)


def _own(message: Message) -> Message:
    """A copy that shares nothing with its caller; what is not JSON raises here."""
    canonical_json(dict(message.metadata))
    json.dumps(message.payload)
    return _copied(message)


def _copied(message: Message) -> Message:
    """The message as it is handed out: changing its JSON changes nothing here."""
    metadata, payload = copy.deepcopy((dict(message.metadata), message.payload))
    return dataclasses.replace(message, metadata=metadata, payload=payload)


def _placed(message: Message, session: Scope, log: Conversation, now: datetime) -> Message:
    old = log.messages.get(str(message.id))
    position = log.next_position if old is None else _position(old)
    log.next_position = max(log.next_position, position + 1)
    said = message.created_at or (now if old is None else old.created_at)
    return dataclasses.replace(message, session=session, position=position, created_at=said)


def _position(message: Message) -> int:
    assert message.position is not None
    return message.position


def session_of(scope: Scope, log: Conversation) -> Session:
    """The session as it is handed out."""
    return Session(
        scope=scope,
        created_at=log.created_at,
        updated_at=log.updated_at,
        messages=len(log.messages),
        title=log.title,
        metadata=copy.deepcopy(log.metadata),
    )
