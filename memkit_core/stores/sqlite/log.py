"""`MessageLog` over SQLite."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from memkit_core.jsonvalues import JsonValue, canonical_json
from memkit_core.models import DeleteReceipt, MemoryRecord, Message, Role, Session, Summary, ToolCall
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.ports import RowKind
from memkit_core.scope import Scope
from memkit_core.sequences import chunked
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.recalls import forget_scope
from memkit_core.stores.sqlite.removing import delete_records, delete_sessions
from memkit_core.stores.sqlite.rows import marks
from memkit_core.stores.sqlite.scopes import drop_unused, ensure_scope, find_scope, read_scope
from memkit_core.stores.sqlite.tracking import bury, next_change
from memkit_core.stores.sqlite.writing import write_records
from memkit_core.stores.titles import changed_session
from memkit_core.stores.tombstones import Grave
from memkit_core.stores.turns import is_searchable, placed_turn, words_of
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import from_ms, to_ms

MESSAGE_COLUMNS = (
    "position", "id", "role", "text", "speaker", "tool_calls", "tool_call_id", "created_at",
    "agent_id", "parent_agent_id", "metadata", "payload", "format", "indexed",
)  # fmt: skip
INSERT_MESSAGE = f"INSERT INTO messages(scope_id, {', '.join(MESSAGE_COLUMNS)}, changed) VALUES ({marks(2 + len(MESSAGE_COLUMNS))})"
UPDATE_MESSAGE = f"UPDATE messages SET {', '.join(f'{c} = ?' for c in MESSAGE_COLUMNS)}, changed = ? WHERE scope_id = ? AND id = ?"
_TURN = "r.scope_id = ? AND r.space = 'messages' AND r.id = ?"
SESSION_COLUMNS = "s.path, n.created_at, n.updated_at, n.messages, n.title, n.metadata"
_SESSION = f"SELECT {SESSION_COLUMNS} FROM sessions n JOIN scopes s ON s.id = n.scope_id"


class SQLiteLog:
    """Sessions and messages of one file."""

    def __init__(self, database: Database) -> None:
        """Read and write in `database`."""
        self._database = database

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
        newest = {message.id: message for message in messages}
        turn_of = {turn.id: (turn, keyword_terms(turn.index_text)) for turn in turns}
        with self._database.write("append messages") as connection:
            if keep is not None:
                _delete_others(connection, session, keep)
            if not messages:
                return []
            scope_id = ensure_scope(connection, session)
            next_position, searchable = _open_session(connection, scope_id, now)
            number = next_change(connection)
            first_new, stored = next_position, dict[str | None, Message]()
            placed_turns: list[tuple[MemoryRecord, int, list[str]]] = []
            for message in newest.values():
                placed, said = _write_message(
                    connection, (session, scope_id), message, next_position, now, number
                )
                next_position = max(next_position, placed + 1)
                stored[message.id] = dataclasses.replace(
                    message, session=session, position=placed, created_at=said
                )
                if searchable and message.id in turn_of:
                    turn, terms = turn_of[message.id]
                    placed_turns.append((placed_turn(turn, placed), placed, terms))
                else:
                    delete_records(connection, _TURN, (scope_id, message.id))
            write_records(connection, placed_turns, number=number)
            connection.execute(
                "UPDATE sessions SET next_position = ?, updated_at = max(updated_at, ?), "
                "messages = messages + ?, changed = ? WHERE scope_id = ?",
                (next_position, to_ms(now), next_position - first_new, number, scope_id),
            )
        return [stored[message.id] for message in messages]

    def create(
        self, session: Scope, *, title: str | None, metadata: Mapping[str, JsonValue], now: datetime
    ) -> Session:
        """See `MessageLog.create`."""
        with self._database.write("create session") as connection:
            scope_id = ensure_scope(connection, session)
            connection.execute(
                "INSERT OR IGNORE INTO sessions(scope_id, title, metadata, created_at, updated_at, "
                "changed) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    scope_id,
                    title,
                    canonical_json(dict(metadata)),
                    to_ms(now),
                    to_ms(now),
                    next_change(connection),
                ),
            )
            return read_session(connection.execute(f"{_SESSION} WHERE s.id = ?", (scope_id,)).fetchone())

    def update(
        self,
        session: Scope,
        *,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, JsonValue] | Omitted = OMITTED,
    ) -> Session:
        """See `MessageLog.update`."""
        with self._database.write("update session") as connection:
            scope_id = find_scope(connection, session)
            row = connection.execute(f"{_SESSION} WHERE s.id = ?", (scope_id,)).fetchone()
            old = None if row is None else read_session(row)
            new = changed_session(old, scope=session, title=title, metadata=metadata)
            connection.execute(
                "UPDATE sessions SET title = ?, metadata = ?, changed = ? WHERE scope_id = ?",
                (new.title, canonical_json(dict(new.metadata)), next_change(connection), scope_id),
            )
        return new

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
        asked = {"agent_id": agent_id, "parent_agent_id": parent_agent_id}
        wanted = {column: value for column, value in asked.items() if value is not None}
        conditions = "".join(f" AND {column} = ?" for column in wanted)
        with self._database.snapshot() as connection:
            scope_id = find_scope(connection, session)
            if scope_id is None:
                return []
            rows = connection.execute(
                f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM messages WHERE scope_id = ? AND position < ?{conditions} "
                "ORDER BY position DESC LIMIT ?",
                (
                    scope_id,
                    2**62 if before is None else before,
                    *wanted.values(),
                    -1 if last is None else last,
                ),
            ).fetchall()
        return [read_message(row, session) for row in reversed(rows)]

    def system_messages(self, session: Scope) -> list[Message]:
        """See `MessageLog.system_messages`."""
        with self._database.snapshot() as connection:
            scope_id = find_scope(connection, session)
            rows = connection.execute(
                f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM messages WHERE scope_id = ? AND role = 'system' "
                "ORDER BY position",
                (scope_id,),
            ).fetchall()
        return [read_message(row, session) for row in rows]

    def delete(self, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
        """See `MessageLog.delete`."""
        with self._database.write("delete messages") as connection:
            scope_id = find_scope(connection, session)
            if scope_id is None:
                return DeleteReceipt()
            receipt = delete_messages(connection, session, scope_id, ids)
            drop_unused(connection, [scope_id])
        return receipt

    def clear(self, session: Scope) -> DeleteReceipt:
        """See `MessageLog.clear`."""
        with self._database.write("clear session") as connection:
            forget_scope(connection, session)
            scope_id = find_scope(connection, session)
            return DeleteReceipt() if scope_id is None else delete_sessions(connection, [scope_id])

    def counts(self) -> tuple[int, int]:
        """See `MessageLog.counts`."""
        with self._database.connection() as connection:
            sessions, messages = connection.execute(
                "SELECT count(*), coalesce(sum(messages), 0) FROM sessions"
            ).fetchone()
        return sessions, messages

    def session(self, session: Scope) -> Session | None:
        """See `MessageLog.session`."""
        with self._database.snapshot() as connection:
            row = connection.execute(f"{_SESSION} WHERE s.digest = ?", (session.digest,)).fetchone()
        return None if row is None else read_session(row)

    def sessions(
        self, user: Scope, *, limit: int | None = None, after: Session | None = None
    ) -> list[Session]:
        """See `MessageLog.sessions`."""
        with self._database.snapshot() as connection:
            user_id = find_scope(connection, user)
            place: tuple[int, int] = (2**62, 0)
            if after is not None:
                # A session that is gone meanwhile stands before those that were active in its moment.
                place = to_ms(after.updated_at), find_scope(connection, after.scope) or 2**62
            rows = connection.execute(
                f"{_SESSION} WHERE s.parent_id = ? AND (n.updated_at, n.scope_id) < (?, ?) "
                "ORDER BY n.updated_at DESC, n.scope_id DESC LIMIT ?",
                (user_id, *place, -1 if limit is None else limit),
            ).fetchall()
        return [read_session(row) for row in rows]

    def idle(self, *, since: datetime, until: datetime) -> list[Session]:
        """See `MessageLog.idle`."""
        with self._database.snapshot() as connection:
            rows = connection.execute(
                f"{_SESSION} WHERE n.updated_at > ? AND n.updated_at <= ? ORDER BY n.updated_at, n.scope_id",
                (to_ms(since), to_ms(until)),
            ).fetchall()
        return [read_session(row) for row in rows]

    def summary(self, session: Scope) -> Summary | None:
        """See `MessageLog.summary`."""
        with self._database.snapshot() as connection:
            scope_id = find_scope(connection, session)
            row = connection.execute(
                "SELECT text, position, updated_at FROM summaries WHERE scope_id = ?", (scope_id,)
            ).fetchone()
        if row is None:
            return None
        text, position, updated = row
        return Summary(session=session, text=text, position=position, updated_at=from_ms(updated))

    def save_summary(self, summary: Summary, *, after: int, messages: int) -> bool:
        """See `MessageLog.save_summary`."""
        with self._database.write("save summary") as connection:
            scope_id = find_scope(connection, summary.session)
            if scope_id is None or summary.position <= after:
                return False
            (stored,) = connection.execute(
                "SELECT coalesce(max(position), -1) FROM summaries WHERE scope_id = ?", (scope_id,)
            ).fetchone()
            (covered,) = connection.execute(
                "SELECT count(*) FROM messages WHERE scope_id = ? AND position > ? AND position <= ?",
                (scope_id, after, summary.position),
            ).fetchone()
            if stored != after or covered != messages:
                return False
            connection.execute(
                "INSERT OR REPLACE INTO summaries(scope_id, text, position, updated_at, changed) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    scope_id,
                    summary.text,
                    summary.position,
                    to_ms(summary.updated_at),
                    next_change(connection),
                ),
            )
        return True

    def clear_summary(self, session: Scope) -> DeleteReceipt:
        """See `MessageLog.clear_summary`."""
        with self._database.write("clear summary") as connection:
            scope_id = find_scope(connection, session)
            removed = connection.execute("DELETE FROM summaries WHERE scope_id = ?", (scope_id,)).rowcount
            bury(connection, session, [Grave(RowKind.SUMMARY)] * removed)
        return DeleteReceipt(summaries=removed)


def delete_messages(
    connection: sqlite3.Connection, session: Scope, scope_id: int, ids: Sequence[str]
) -> DeleteReceipt:
    """Delete messages of the session with this number, with their turns; see `MessageLog.delete`."""
    receipt = DeleteReceipt()
    for chunk in chunked(list(dict.fromkeys(ids)), 500):
        chosen = f"id IN ({marks(len(chunk))})"
        turns = delete_records(
            connection, f"r.scope_id = ? AND r.space = 'messages' AND r.{chosen}", (scope_id, *chunk)
        )
        summaries = connection.execute(
            "DELETE FROM summaries WHERE scope_id = ? AND position >= "
            f"(SELECT min(position) FROM messages WHERE scope_id = ? AND {chosen})",
            (scope_id, scope_id, *chunk),
        ).rowcount
        removed = connection.execute(
            f"DELETE FROM messages WHERE scope_id = ? AND {chosen} RETURNING id", (scope_id, *chunk)
        ).fetchall()
        graves = [Grave(RowKind.MESSAGE, id=i) for (i,) in removed]
        bury(connection, session, [*graves, *[Grave(RowKind.SUMMARY)] * summaries])
        receipt += turns + DeleteReceipt(messages=len(removed), summaries=summaries)
    connection.execute(
        "UPDATE sessions SET messages = messages - ? WHERE scope_id = ?", (receipt.messages, scope_id)
    )
    return receipt


def _delete_others(connection: sqlite3.Connection, session: Scope, keep: Collection[str]) -> None:
    if (scope_id := find_scope(connection, session)) is not None:
        rows = connection.execute("SELECT id FROM messages WHERE scope_id = ?", (scope_id,)).fetchall()
        delete_messages(connection, session, scope_id, [i for (i,) in rows if i not in keep])


def _open_session(connection: sqlite3.Connection, scope_id: int, now: datetime) -> tuple[int, bool]:
    """The position of the next message, and whether turns are made searchable."""
    connection.execute(
        "INSERT OR IGNORE INTO sessions(scope_id, metadata, created_at, updated_at) VALUES (?, '{}', ?, ?)",
        (scope_id, to_ms(now), to_ms(now)),
    )
    position, metadata = connection.execute(
        "SELECT next_position, metadata FROM sessions WHERE scope_id = ?", (scope_id,)
    ).fetchone()
    return int(position), is_searchable(json.loads(str(metadata)))


def _write_message(
    connection: sqlite3.Connection,
    place: tuple[Scope, int],
    message: Message,
    next_position: int,
    now: datetime,
    number: int,
) -> tuple[int, datetime]:
    """Insert the message or replace the one with its id; returns its position and when it was said."""
    session, scope_id = place
    row = connection.execute(
        "SELECT position, created_at, role, text, speaker, tool_calls FROM messages WHERE scope_id = ? AND id = ?",
        (scope_id, message.id),
    ).fetchone()
    if row is None:
        said = to_ms(message.created_at or now)
        connection.execute(INSERT_MESSAGE, [scope_id, *message_values(message, next_position, said), number])
        return next_position, from_ms(said)
    position, said, role, text, speaker, calls = row
    if (role, text, speaker, _read_calls(calls)) != words_of(message):
        # It covers what is no longer said.
        covering = "DELETE FROM summaries WHERE scope_id = ? AND position >= ?"
        removed = connection.execute(covering, (scope_id, position)).rowcount
        bury(connection, session, [Grave(RowKind.SUMMARY)] * removed)
    if message.created_at is not None:
        said = to_ms(message.created_at)
    connection.execute(
        UPDATE_MESSAGE, [*message_values(message, position, said), number, scope_id, message.id]
    )
    return int(position), from_ms(said)


def message_values(message: Message, position: int, said: int) -> list[object]:
    """The values of `MESSAGE_COLUMNS`."""
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    return [
        position, message.id, message.role.value, message.text, message.speaker,
        json.dumps(calls, ensure_ascii=False), message.tool_call_id, said, message.agent_id,
        message.parent_agent_id, canonical_json(dict(message.metadata)),
        json.dumps(message.payload, ensure_ascii=False), message.format, message.indexed,
    ]  # fmt: skip


def _read_calls(stored: object) -> tuple[ToolCall, ...]:
    calls = json.loads(str(stored))
    return tuple(ToolCall(id=i, name=name, arguments=arguments) for i, name, arguments in calls)


def read_message(row: Sequence[object], session: Scope) -> Message:
    """The message of a row of `MESSAGE_COLUMNS`."""
    values: Mapping[str, object] = dict(zip(MESSAGE_COLUMNS, row, strict=True))
    return Message(
        session=session,
        position=values["position"],  # type: ignore[arg-type]  # typed by the schema, as are the others
        id=values["id"],  # type: ignore[arg-type]
        role=Role(str(values["role"])),
        text=values["text"],  # type: ignore[arg-type]
        speaker=values["speaker"],  # type: ignore[arg-type]
        tool_calls=_read_calls(values["tool_calls"]),
        tool_call_id=values["tool_call_id"],  # type: ignore[arg-type]
        created_at=from_ms(values["created_at"]),  # type: ignore[arg-type]
        agent_id=values["agent_id"],  # type: ignore[arg-type]
        parent_agent_id=values["parent_agent_id"],  # type: ignore[arg-type]
        metadata=json.loads(str(values["metadata"])),
        payload=json.loads(str(values["payload"])),
        format=values["format"],  # type: ignore[arg-type]
        indexed=None if values["indexed"] is None else bool(values["indexed"]),
    )


def read_session(row: Sequence[object]) -> Session:
    """The session of a row of `SESSION_COLUMNS`."""
    path, created, updated, messages, title, metadata = row
    return Session(
        scope=read_scope(str(path)),
        created_at=from_ms(created),  # type: ignore[arg-type]  # typed by the schema, as are the others
        updated_at=from_ms(updated),  # type: ignore[arg-type]
        messages=messages,  # type: ignore[arg-type]
        title=title,  # type: ignore[arg-type]
        metadata=json.loads(str(metadata)),
    )
