"""Rows of another store, written as they are: `Portable.receive` over SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from memkit_core.errors import ConfigError
from memkit_core.jsonvalues import canonical_json
from memkit_core.models import MESSAGES, DeleteReceipt, Summary, Target
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    Outcome,
    Received,
    RowKind,
    Tombstone,
)
from memkit_core.scope import Scope
from memkit_core.stores.changes import digest
from memkit_core.stores.moving import (
    NO_MESSAGE,
    merged_session,
    no_session,
    record_outcome,
    says_the_same,
    summary_outcome,
    value_outcome,
)
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.log import (
    INSERT_MESSAGE,
    MESSAGE_COLUMNS,
    SESSION_COLUMNS,
    UPDATE_MESSAGE,
    delete_messages,
    message_values,
    read_message,
    read_session,
)
from memkit_core.stores.sqlite.recalls import forget_scope
from memkit_core.stores.sqlite.removing import delete_records, delete_sessions, delete_values
from memkit_core.stores.sqlite.rows import INSERT_CHANGE, SELECT_RECORD, change_values, read_record
from memkit_core.stores.sqlite.scopes import (
    drop_unused,
    ensure_place,
    ensure_scope,
    ensure_vector_space,
    find_scope,
    scope_of,
)
from memkit_core.stores.sqlite.tracking import bury, next_change
from memkit_core.stores.sqlite.values import newest_value
from memkit_core.stores.sqlite.vectors import space_in_use, write_vector
from memkit_core.stores.sqlite.writing import RowBatch
from memkit_core.stores.tombstones import Grave, grave_name
from memkit_core.stores.turns import placed_turn, words_of
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import from_ms, to_ms


def receive_rows(database: Database, rows: Sequence[MovedRow]) -> list[Received]:
    """See `Portable.receive`."""
    # Other writers need not wait while these are made.
    terms = [keyword_terms(row.record.index_text) if isinstance(row, MovedRecord) else [] for row in rows]
    with database.write("import") as connection:
        arrivals = _Arrivals(connection)
        received = [arrivals.take(row, words) for row, words in zip(rows, terms, strict=True)]
        arrivals.finish()
    return received


class _Arrivals:
    """The rows of one transaction; what records drag along is gathered and written at the end."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._number = next_change(connection)
        self._own = space_in_use(connection)
        self._places: dict[Target, tuple[int, int]] = {}
        self._checked: set[tuple[Target, int | None]] = set()
        self._names: dict[tuple[bytes, Scope, RowKind], dict[bytes, tuple[str, str, int]]] = {}
        self._begin()

    def _begin(self) -> None:
        self._batches: dict[int | None, RowBatch] = {}
        self._seen: set[bytes] = set()
        self._vectors: list[tuple[int, int, bytes]] = []
        self._history: list[tuple[object, ...]] = []

    def take(self, row: MovedRow, terms: Sequence[str]) -> Received:
        """Write one row; returns what became of it."""
        if isinstance(row, MovedRecord):
            return self._record(row, terms)
        if isinstance(row, MovedMessage):
            return self._message(row)
        if isinstance(row, MovedSession):
            return self._session(row)
        if isinstance(row, Summary):
            return self._summary(row)
        if isinstance(row, MovedValue):
            return self._value(row)
        # What is gathered may be of what is deleted now.
        self.finish()
        return self._tombstone(row)

    def finish(self) -> None:
        """Write what was gathered."""
        for batch in self._batches.values():
            batch.finish()
        self._connection.executemany(
            "INSERT OR REPLACE INTO vectors(vector_space_id, seq, vector) VALUES (?, ?, ?)", self._vectors
        )
        self._connection.executemany(INSERT_CHANGE, self._history)
        self._begin()

    # ------------------------------------------------------------------ records

    def _record(self, row: MovedRecord, terms: Sequence[str]) -> Received:
        record, position = row.record, None
        if record.space == MESSAGES:
            position = self._position(record.scope, record.id)
            if position is None:
                return NO_MESSAGE
            record = placed_turn(record, position)
        given = row.vector_space if row.vector_space is not None and row.vector_space.given else None
        space_id = ensure_vector_space(self._connection, given)
        try:
            target = Target(scope=record.scope, space=record.space)
            if (target, space_id) not in self._checked:
                self._places[target] = ensure_place(self._connection, target, space_id)
                self._checked.add((target, space_id))
        except ConfigError as error:
            return Received(Outcome.REFUSED, str(error))
        point = record.point_id.bytes
        if point in self._seen:
            self.finish()
        self._seen.add(point)
        found = self._connection.execute(
            f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.point_id = ?", (point,)
        ).fetchone()
        old = None if found is None else read_record(found[1:])
        outcome = record_outcome(old, record)
        if outcome in (Outcome.INSERTED, Outcome.UPDATED):
            batch = self._batch(space_id)
            if old is None:
                seq = batch.insert(record, position, terms, digest(record))
            else:
                seq = found[0]
                batch.rewrite(seq, old, record, kind=None, tell=True, position=position)
            self._beside(seq, row, space_id, renewed=old is not None)
        return Received(outcome)

    def _batch(self, space_id: int | None) -> RowBatch:
        batch = self._batches.get(space_id)
        if batch is None:
            batch = self._batches[space_id] = RowBatch(self._connection, self._places, space_id, self._number)
        return batch

    def _beside(self, seq: int, row: MovedRecord, space_id: int | None, *, renewed: bool) -> None:
        if renewed:
            self._connection.execute("DELETE FROM history WHERE seq = ?", (seq,))
        self._history += [change_values(seq, one) for one in row.history]
        if space_id is None and row.vector_space == self._own:
            space_id = self._own_id()
        if row.vector is not None and space_id is not None:
            self._vectors.append((space_id, seq, write_vector(row.vector)))

    def _own_id(self) -> int | None:
        row = self._connection.execute("SELECT id FROM vector_spaces WHERE in_use = 1").fetchone()
        return None if row is None else int(row[0])

    def _position(self, session: Scope, message_id: str) -> int | None:
        row = self._connection.execute(
            "SELECT position FROM messages WHERE scope_id = ? AND id = ?",
            (find_scope(self._connection, session), message_id),
        ).fetchone()
        return None if row is None else int(row[0])

    # ------------------------------------------------------------------ conversations

    def _session(self, row: MovedSession) -> Received:
        scope_id = ensure_scope(self._connection, row.session.scope)
        outcome, kept = merged_session(self._stored_session(scope_id), row)
        if outcome is not Outcome.UNCHANGED:
            session = kept.session
            self._connection.execute(
                "INSERT INTO sessions(scope_id, title, metadata, created_at, updated_at, messages, next_position, "
                "changed) VALUES (?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT (scope_id) DO UPDATE SET title = excluded.title, "
                "metadata = excluded.metadata, created_at = excluded.created_at, updated_at = excluded.updated_at, "
                "next_position = excluded.next_position, changed = excluded.changed",
                (
                    scope_id, session.title, canonical_json(dict(session.metadata)), to_ms(session.created_at),
                    to_ms(session.updated_at), kept.next_position, self._number,
                ),
            )  # fmt: skip
        return Received(outcome)

    def _stored_session(self, scope_id: int | None) -> MovedSession | None:
        row = self._connection.execute(
            f"SELECT n.next_position, {SESSION_COLUMNS} FROM sessions n JOIN scopes s ON s.id = n.scope_id "
            "WHERE n.scope_id = ?",
            (scope_id,),
        ).fetchone()
        return None if row is None else MovedSession(session=read_session(row[1:]), next_position=row[0])

    def _message(self, row: MovedMessage) -> Received:
        message = row.message
        assert message.session is not None
        assert message.created_at is not None
        scope_id = find_scope(self._connection, message.session)
        session = self._stored_session(scope_id)
        if session is None:
            return no_session("message")
        assert scope_id is not None
        said = to_ms(message.created_at)
        old = self._connection.execute(
            f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM messages WHERE scope_id = ? AND id = ?",
            (scope_id, message.id),
        ).fetchone()
        if old is None:
            position = self._free(scope_id, row, session.next_position)
            values = message_values(message, position, said)
            self._connection.execute(INSERT_MESSAGE, [scope_id, *values, self._number])
            self._grown(scope_id, position)
            return Received(Outcome.INSERTED)
        stored = read_message(old, message.session)
        if says_the_same(stored, message):
            return Received(Outcome.UNCHANGED)
        if not row.replace:
            return Received(Outcome.OLDER)
        assert stored.position is not None
        values = message_values(message, stored.position, said)
        self._connection.execute(UPDATE_MESSAGE, [*values, self._number, scope_id, message.id])
        if words_of(stored) != words_of(message):
            # It covers what is no longer said.
            covering = "DELETE FROM summaries WHERE scope_id = ? AND position >= ?"
            gone = self._connection.execute(covering, (scope_id, stored.position)).rowcount
            bury(self._connection, message.session, [Grave(RowKind.SUMMARY)] * gone)
        # The turn of what it said before; that of what it says now follows.
        self.finish()
        chosen = "r.scope_id = ? AND r.space = 'messages' AND r.id = ?"
        delete_records(self._connection, chosen, (scope_id, message.id))
        self._grown(scope_id, None)
        return Received(Outcome.UPDATED)

    def _free(self, scope_id: int, row: MovedMessage, next_position: int) -> int:
        own = row.message.position
        taken = self._connection.execute(
            "SELECT 1 FROM messages WHERE scope_id = ? AND (position = ? OR (id = ? AND position > ?))",
            (scope_id, own, row.after, own),
        ).fetchone()
        return next_position if taken or own is None else own

    def _grown(self, scope_id: int, position: int | None) -> None:
        self._connection.execute(
            "UPDATE sessions SET messages = messages + ?, next_position = max(next_position, ?), changed = ? "
            "WHERE scope_id = ?",
            (position is not None, 0 if position is None else position + 1, self._number, scope_id),
        )

    def _summary(self, summary: Summary) -> Received:
        scope_id = find_scope(self._connection, summary.session)
        if self._stored_session(scope_id) is None:
            return no_session("summary")
        row = self._connection.execute(
            "SELECT text, position, updated_at FROM summaries WHERE scope_id = ?", (scope_id,)
        ).fetchone()
        old = None
        if row is not None:
            old = Summary(session=summary.session, text=row[0], position=row[1], updated_at=from_ms(row[2]))
        outcome = summary_outcome(old, summary)
        if outcome in (Outcome.INSERTED, Outcome.UPDATED):
            self._connection.execute(
                "INSERT OR REPLACE INTO summaries(scope_id, text, position, updated_at, changed) "
                "VALUES (?, ?, ?, ?, ?)",
                (scope_id, summary.text, summary.position, to_ms(summary.updated_at), self._number),
            )
        return Received(outcome)

    # ------------------------------------------------------------------ values

    def _value(self, row: MovedValue) -> Received:
        *earlier, newest = row.versions
        scope_id = ensure_scope(self._connection, row.scope)
        outcome = value_outcome(newest_value(self._connection, scope_id, row.kind, newest.key), newest)
        if outcome not in (Outcome.INSERTED, Outcome.UPDATED):
            return Received(outcome)
        (number,) = self._connection.execute(
            "INSERT INTO stored_values(scope_id, kind, key, value, label, version, created_at, updated_at, changed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (scope_id, kind, key) DO UPDATE SET "
            "value = excluded.value, label = excluded.label, version = excluded.version, "
            "created_at = excluded.created_at, updated_at = excluded.updated_at, changed = excluded.changed "
            "RETURNING id",
            (
                scope_id, row.kind, newest.key, _text(newest.value), newest.label, newest.version,
                to_ms(newest.created_at), to_ms(newest.updated_at), self._number,
            ),
        ).fetchone()  # fmt: skip
        self._connection.execute("DELETE FROM value_versions WHERE value_id = ?", (number,))
        self._connection.executemany(
            "INSERT INTO value_versions(value_id, version, value, label, at) VALUES (?, ?, ?, ?, ?)",
            [(number, one.version, _text(one.value), one.label, to_ms(one.updated_at)) for one in earlier],
        )
        return Received(outcome)

    # ------------------------------------------------------------------ tombstones

    def _tombstone(self, row: Tombstone) -> Received:
        if row.into is None:
            found = self._connection.execute(
                "SELECT id FROM scopes WHERE digest = ?", (row.owner,)
            ).fetchone()
            scope_id = None if found is None else int(found[0])
        else:
            scope_id = find_scope(self._connection, row.into)
        if scope_id is None:
            return Received(Outcome.UNCHANGED)
        receipt = self._deleted(row, scope_id)
        drop_unused(self._connection, [scope_id])
        self._places.clear()
        self._checked.clear()
        return Received(Outcome.UNCHANGED if receipt == DeleteReceipt() else Outcome.DELETED)

    def _deleted(self, row: Tombstone, scope_id: int) -> DeleteReceipt:
        scope = scope_of(self._connection, scope_id)
        named = self._named(row, scope, scope_id).get(row.name)
        if named is None or (row.made_at is not None and named[2] == to_ms(row.made_at)):
            return DeleteReceipt()
        space, row_id, _ = named
        if row.kind is RowKind.SESSION:
            forget_scope(self._connection, scope)
            return delete_sessions(self._connection, [scope_id])
        if row.kind is RowKind.SUMMARY:
            sql = "DELETE FROM summaries WHERE scope_id = ?"
            gone = self._connection.execute(sql, (scope_id,)).rowcount
            bury(self._connection, scope, [Grave(RowKind.SUMMARY)] * gone)
            return DeleteReceipt(summaries=gone)
        if row.kind is RowKind.MESSAGE:
            return delete_messages(self._connection, scope, scope_id, [row_id])
        if row.kind is RowKind.VALUE:
            chosen = "scope_id = ? AND kind = ? AND key = ?"
            return delete_values(self._connection, chosen, (scope_id, space, row_id))
        chosen = "r.scope_id = ? AND r.space = ? AND r.id = ?"
        return delete_records(self._connection, chosen, (scope_id, space, row_id))

    def _named(self, row: Tombstone, scope: Scope, scope_id: int) -> dict[bytes, tuple[str, str, int]]:
        """The rows of a scope, and when they were made, by the names that tombstones call them.

        Read once a transaction: what is deleted meanwhile is deleted again, which is nothing.
        """
        key = row.owner, scope, row.kind
        if key not in self._names:
            rows: Iterator[tuple[str, str, int]] = self._connection.execute(_NAMED[row.kind], (scope_id,))
            self._names[key] = {grave_name(row.owner, space, i): (space, i, made) for space, i, made in rows}
        return self._names[key]


_NAMED = {
    RowKind.RECORD: "SELECT space, id, created_at FROM records WHERE scope_id = ?",
    RowKind.MESSAGE: f"SELECT '{MESSAGES}', id, created_at FROM messages WHERE scope_id = ?",
    RowKind.VALUE: "SELECT kind, key, created_at FROM stored_values WHERE scope_id = ?",
    RowKind.SESSION: f"SELECT '{MESSAGES}', '', created_at FROM sessions WHERE scope_id = ?",
    RowKind.SUMMARY: f"SELECT '{MESSAGES}', '', updated_at FROM summaries WHERE scope_id = ?",
}


def _text(value: object) -> str:
    # As the store itself writes it: the order of the keys is for those who read it.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
