"""`Portable` in plain Python."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from operator import itemgetter

from memkit_core.models import MEMORIES, MESSAGES, ChangeKind, DeleteReceipt, RecordType, Summary, Target
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    Outcome,
    Received,
    RowKind,
    Selection,
    Tombstone,
    VectorSpace,
)
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.checks import other_space
from memkit_core.stores.memory.log import forget_messages, forget_sessions, remove_turns, session_of
from memkit_core.stores.memory.state import Conversation, Prepared, Row, State, copied, kept, prepared
from memkit_core.stores.memory.values import forget_values
from memkit_core.stores.moving import (
    NO_MESSAGE,
    merged_session,
    no_session,
    record_outcome,
    says_the_same,
    summary_outcome,
    value_outcome,
)
from memkit_core.stores.succession import holds_slot, settled
from memkit_core.stores.tombstones import buried_space, grave_name, tombstone_of
from memkit_core.stores.turns import placed_turn, words_of


class InMemorySnapshot:
    """The rows that `selection` means, copied while the store was locked."""

    def __init__(self, state: State, selection: Selection) -> None:
        """Copy them; called inside `State.open`."""
        self._state = state
        self._selection = selection
        self.change = state.change
        self._all = [
            *((*self._tombstones(), *self._expired()) if selection.changed_after is not None else ()),
            *(self._conversations() if selection.conversations() else ()),
            *self._values(),
            *self._records(),
        ]

    def count(self) -> int:
        """See `StoreSnapshot.count`."""
        return len(self._all)

    def vector_spaces(self) -> list[VectorSpace]:
        """See `StoreSnapshot.vector_spaces`."""
        records = (row for row in self._all if isinstance(row, MovedRecord))
        spaces = {row.vector_space for row in records if row.vector_space is not None}
        return sorted(spaces, key=lambda space: space.fingerprint)

    def rows(self) -> Iterator[MovedRow]:
        """See `StoreSnapshot.rows`."""
        return iter(self._all)

    def _chosen(self, scope: Scope) -> bool:
        chosen = self._selection.scopes
        of_user = scope.kind is ScopeKind.SESSION and scope.parent
        return chosen is None or scope in chosen or (bool(of_user) and of_user in chosen)

    def _changed(self, kind: RowKind, scope: Scope, space: str = MESSAGES, row_id: str = "") -> bool:
        after = self._selection.changed_after
        return after is None or self._state.changed.get((kind, scope, space, row_id), 0) > after

    def _in_time(self, moment: datetime) -> bool:
        since, until = self._selection.since, self._selection.until
        return (since is None or moment >= since) and (until is None or moment < until)

    def _tombstones(self) -> Iterator[MovedRow]:
        chosen = self._selection
        after = chosen.changed_after or 0
        newest_first = reversed(self._state.tombstones.items())
        since = list(takewhile(lambda one: one[1].number > after, newest_first))
        names = {
            (row[1].digest, row[0], grave_name(row[1].digest, *row[2:])): row for row in self._state.changed
        }
        known = {owner: scope for (owner, _, _), (_, scope, _, _) in names.items()}
        owners = {scope.digest for scope in chosen.scopes or ()}
        spaces = {buried_space(space) for space in chosen.spaces}
        for key, buried in sorted(since, key=itemgetter(0)):
            digest, kind, name = key
            if (chosen.scopes is None or digest in owners or buried.owner in owners) and (
                not spaces or buried.space in spaces
            ):
                made = made_at(self._state, *names[key]) if key in names else None
                yield Tombstone(kind=kind, owner=digest, name=name, scope=known.get(digest), made_at=made)

    def _expired(self) -> Iterator[MovedRow]:
        """Records that changed since and have expired: a store that has them as they were must lose them."""
        chosen = self._selection
        for record in (row.record for row in self._state.rows.values()):
            if (
                not record.is_visible_at(chosen.now)
                and self._chosen(record.scope)
                and (not chosen.spaces or record.space in chosen.spaces)
                and self._changed(RowKind.RECORD, record.scope, record.space, record.id)
            ):
                yield tombstone_of(record.scope, record.space, record.id)

    def _conversations(self) -> Iterator[MovedRow]:
        for logs in self._state.conversations.values():
            for scope, log in logs.items():
                if not self._chosen(scope):
                    continue
                inner = [*self._messages(scope, log), *self._summaries(scope, log)]
                if inner or (self._changed(RowKind.SESSION, scope) and self._in_time(log.created_at)):
                    yield MovedSession(session=session_of(scope, log), next_position=log.next_position)
                    yield from inner

    def _messages(self, scope: Scope, log: Conversation) -> Iterator[MovedRow]:
        for message_id, message in log.messages.items():
            assert message.created_at is not None
            if self._changed(RowKind.MESSAGE, scope, row_id=message_id) and self._in_time(message.created_at):
                yield MovedMessage(message=copy.deepcopy(message))

    def _summaries(self, scope: Scope, log: Conversation) -> Iterator[MovedRow]:
        summary = log.summary
        if (
            summary is not None
            and self._changed(RowKind.SUMMARY, scope)
            and self._in_time(summary.updated_at)
        ):
            yield summary

    def _values(self) -> Iterator[MovedRow]:
        for (scope, kind, key), versions in self._state.values.items():
            if (
                self._selection.values(kind)
                and self._chosen(scope)
                and self._changed(RowKind.VALUE, scope, kind, key)
                and self._in_time(versions[-1].created_at)
            ):
                yield MovedValue(scope=scope, kind=kind, versions=tuple(copy.deepcopy(versions)))

    def _records(self) -> Iterator[MovedRow]:
        for row in self._state.rows.values():
            record = row.record
            if self._moves(row):
                yield MovedRecord(
                    record=copied(record),
                    vector_space=row.given or self._state.vector_space,
                    vector=None if row.vector is None else row.vector.copy(),
                    history=tuple(copy.deepcopy(row.history)) if record.space == MEMORIES else (),
                )

    def _moves(self, row: Row) -> bool:
        chosen, record = self._selection, row.record
        return (
            record.is_visible_at(chosen.now)
            and self._chosen(record.scope)
            and (not chosen.spaces or record.space in chosen.spaces)
            and (not chosen.types or (row.position is None and record.type in chosen.types))
            and self._changed(RowKind.RECORD, record.scope, record.space, record.id)
            and self._in_time(self._said(row))
        )

    def _said(self, row: Row) -> datetime:
        """When it was created; a turn is as old as its message."""
        log = None if row.position is None else self._state.conversation(row.record.scope)
        message = None if log is None else log.messages.get(row.record.id)
        return (message and message.created_at) or row.record.created_at


def receive_row(state: State, row: MovedRow) -> Received:
    """Take one row, inside `State.open`; see `Portable.receive`."""
    if isinstance(row, MovedRecord):
        return _record(state, row)
    if isinstance(row, MovedMessage):
        return _message(state, row)
    if isinstance(row, MovedSession):
        return _session(state, row)
    if isinstance(row, Summary):
        return _summary(state, row)
    if isinstance(row, MovedValue):
        return _value(state, row)
    return _tombstone(state, row)


def _record(state: State, row: MovedRecord) -> Received:
    record, position = row.record, None
    if record.space == MESSAGES:
        log = state.conversation(record.scope)
        message = None if log is None else log.messages.get(record.id)
        if message is None or message.position is None:
            return NO_MESSAGE
        position = message.position
        record = placed_turn(record, position)
    given = row.vector_space if row.vector_space is not None and row.vector_space.given else None
    target = Target(scope=record.scope, space=record.space)
    partition = state.partitions.get((target.owner, target.space))
    if partition is not None and partition.given != given:
        return Received(Outcome.REFUSED, other_space(target, held=partition.given, given=given))
    found = state.rows.get((record.scope, record.space, record.id))
    outcome = record_outcome(None if found is None else found.record, record)
    if outcome not in (Outcome.INSERTED, Outcome.UPDATED):
        return Received(outcome)
    new = prepared(record)
    if found is None:
        found = state.write(new, position=position, given=given, moved=True)
    else:
        state.rewrite(found, new, kind=None, tell=True)
        found.position = position
    if given is not None:
        state.synced_through.setdefault(given, 0)
    found.history = list(copy.deepcopy(row.history))
    if row.vector is not None and (given is not None or row.vector_space == state.vector_space):
        found.vector = kept(row.vector)
    return Received(outcome)


def settle_keys(state: State, *, now: datetime, limit: int) -> int:
    """See `Portable.settle_keys`; called inside `State.open`."""
    slots: dict[tuple[Scope, RecordType, str | None], list[Row]] = {}
    for row in state.rows.values():
        one = row.record
        if holds_slot(one) and one.is_visible_at(now):
            slots.setdefault((one.scope, one.type, one.key), []).append(row)
    gave_way = 0
    for rows in [rows for rows in slots.values() if len(rows) > 1][:limit]:
        by_id = {row.record.id: row for row in rows}
        for old, new in settled([row.record for row in rows]):
            row = by_id[old.id]
            after = Prepared(record=new, terms=row.terms)
            state.rewrite(row, after, kind=ChangeKind.SUPERSEDED, others=(str(new.superseded_by),))
            gave_way += 1
    return gave_way


def _session(state: State, row: MovedSession) -> Received:
    scope = row.session.scope
    log = state.conversation(scope)
    old = (
        None if log is None else MovedSession(session=session_of(scope, log), next_position=log.next_position)
    )
    outcome, merged = merged_session(old, row)
    if outcome is Outcome.UNCHANGED:
        return Received(outcome)
    session = merged.session
    if log is None:
        logs = state.conversations.setdefault(scope.parent, {})
        number = 1 + max((one.number for one in logs.values()), default=0)
        log = logs[scope] = Conversation(
            created_at=session.created_at, updated_at=session.updated_at, number=number
        )
    log.created_at, log.updated_at = session.created_at, session.updated_at
    log.title, log.metadata = session.title, copy.deepcopy(dict(session.metadata))
    log.next_position = merged.next_position
    state.mark(RowKind.SESSION, scope)
    return Received(outcome)


def _message(state: State, row: MovedMessage) -> Received:
    message = copy.deepcopy(row.message)
    scope, message_id = message.session, str(message.id)
    log = None if scope is None else state.conversation(scope)
    if log is None or scope is None:
        return no_session("message")
    old = log.messages.get(message_id)
    if old is None:
        position = _free(log, row)
        newest = next(reversed(log.messages.values()), None)
        inside = newest is not None and (newest.position or 0) > position
        log.messages[message_id] = dataclasses.replace(message, position=position)
        if inside:
            log.messages = dict(sorted(log.messages.items(), key=lambda one: one[1].position or 0))
        log.next_position = max(log.next_position, position + 1)
        outcome = Outcome.INSERTED
    elif says_the_same(old, message):
        return Received(Outcome.UNCHANGED)
    elif not row.replace:
        return Received(Outcome.OLDER)
    else:
        log.messages[message_id] = dataclasses.replace(message, position=old.position)
        remove_turns(state, scope, [message_id])
        covered = log.summary is not None and log.summary.position >= (old.position or 0)
        if covered and words_of(old) != words_of(message):
            log.summary = None
            state.bury(RowKind.SUMMARY, scope)
        outcome = Outcome.UPDATED
    state.mark(RowKind.MESSAGE, scope, row_id=message_id)
    state.mark(RowKind.SESSION, scope)
    return Received(outcome)


def _free(log: Conversation, row: MovedMessage) -> int:
    """The place of a message that is new: its own, or the next of the session."""
    own, last = row.message.position, log.messages.get(row.after or "")
    assert own is not None
    # The newest first, since most messages come behind all others.
    later = takewhile(lambda one: (one.position or 0) >= own, reversed(log.messages.values()))
    taken = any(one.position == own for one in later)
    return log.next_position if taken or (last is not None and (last.position or 0) > own) else own


def _summary(state: State, summary: Summary) -> Received:
    log = state.conversation(summary.session)
    if log is None:
        return no_session("summary")
    outcome = summary_outcome(log.summary, summary)
    if outcome in (Outcome.INSERTED, Outcome.UPDATED):
        log.summary = summary
        state.mark(RowKind.SUMMARY, summary.session)
    return Received(outcome)


def _value(state: State, row: MovedValue) -> Received:
    newest = row.versions[-1]
    place = row.scope, row.kind, newest.key
    stored = state.values.get(place)
    outcome = value_outcome(None if stored is None else stored[-1], newest)
    if outcome in (Outcome.INSERTED, Outcome.UPDATED):
        # The versions of a value share the moment it was made.
        state.values[place] = [
            dataclasses.replace(one, created_at=newest.created_at) for one in copy.deepcopy(row.versions)
        ]
        state.mark(RowKind.VALUE, *place)
    return Received(outcome)


def _tombstone(state: State, row: Tombstone) -> Received:
    for kind, scope, space, row_id in state.changed:
        mine = scope == row.into if row.into is not None else scope.digest == row.owner
        if mine and kind is row.kind and grave_name(row.owner, space, row_id) == row.name:
            break
    else:
        return Received(Outcome.UNCHANGED)
    if row.made_at is not None and row.made_at == made_at(state, kind, scope, space, row_id):
        return Received(Outcome.UNCHANGED)
    receipt = _deleted(state, kind, scope, space, row_id)
    return Received(Outcome.UNCHANGED if receipt == DeleteReceipt() else Outcome.DELETED)


def made_at(state: State, kind: RowKind, scope: Scope, space: str, row_id: str) -> datetime | None:
    """When a row was made that is there; see `Tombstone.made_at`."""
    if kind is RowKind.RECORD:
        return state.rows[scope, space, row_id].record.created_at
    if kind is RowKind.VALUE:
        return state.values[scope, space, row_id][-1].created_at
    log = state.conversation(scope)
    assert log is not None
    if kind is RowKind.MESSAGE:
        return log.messages[row_id].created_at
    if kind is RowKind.SESSION:
        return log.created_at
    return None if log.summary is None else log.summary.updated_at


def _deleted(state: State, kind: RowKind, scope: Scope, space: str, row_id: str) -> DeleteReceipt:
    if kind is RowKind.RECORD:
        return state.remove([state.rows[scope, space, row_id]])
    if kind is RowKind.MESSAGE:
        return forget_messages(state, scope, [row_id])
    if kind is RowKind.VALUE:
        return forget_values(state, lambda *one: one == (scope, space, row_id))
    if kind is RowKind.SESSION:
        state.remove(state.rows_of(Target(scope=scope, space=MESSAGES)))
        forget_values(state, lambda owner, _kind, _key: owner == scope)
        return forget_sessions(state, lambda owner: owner == scope)
    log = state.conversation(scope)
    assert log is not None
    log.summary = None
    state.bury(RowKind.SUMMARY, scope)
    return DeleteReceipt(summaries=1)
