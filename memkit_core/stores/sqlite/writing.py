"""What one changed row drags along: tags, keyword rows, vector and outbox entry, in its transaction."""

from __future__ import annotations

import dataclasses
import sqlite3

from memkit_core.models import DeleteReceipt, MemoryRecord, Target
from memkit_core.stores.sqlite.keywords import add_postings, remove_postings
from memkit_core.stores.sqlite.rows import COLUMNS, SELECT_RECORD, marks, read_record, record_values
from memkit_core.stores.sqlite.scopes import drop_unused, ensure_partition, ensure_scope
from memkit_core.times import to_ms, utc_now

_INSERT = f"""INSERT INTO records(scope_id, partition_id, point_id, position, speaker, role, {", ".join(COLUMNS)})
VALUES ({marks(6 + len(COLUMNS))})"""
_UPDATE = f"""UPDATE records SET position = ?, speaker = ?, role = ?, {", ".join(f"{c} = ?" for c in COLUMNS)} WHERE seq = ?"""


def write_record(
    connection: sqlite3.Connection, record: MemoryRecord, *, position: int | None = None
) -> MemoryRecord:
    """Insert the record or replace the one with its identity; returns it as stored."""
    scope_id = ensure_scope(connection, record.scope)
    row = connection.execute(
        f"SELECT r.seq, r.partition_id, {SELECT_RECORD} FROM records r "
        "WHERE r.scope_id = ? AND r.space = ? AND r.id = ?",
        (scope_id, record.space, record.id),
    ).fetchone()
    if row is None:
        partition_id = ensure_partition(connection, Target(scope=record.scope, space=record.space))
        values = [scope_id, partition_id, record.point_id.bytes, *_turn_values(record, position)]
        seq = connection.execute(_INSERT, [*values, *record_values(record)]).lastrowid
        assert seq is not None
        add_postings(connection, partition_id, seq, record.index_text)
        stored = record
    else:
        seq, partition_id = row[0], row[1]
        stored = _replaced(connection, seq, partition_id, read_record(row[2:]), record, position)
    _write_tags(connection, scope_id, seq, stored.tags)
    enqueue(connection, stored, seq)
    return stored


def _replaced(
    connection: sqlite3.Connection,
    seq: int,
    partition_id: int,
    old: MemoryRecord,
    new: MemoryRecord,
    position: int | None,
) -> MemoryRecord:
    stored = dataclasses.replace(
        new,
        created_at=old.created_at,
        last_accessed_at=old.last_accessed_at,
        access_count=old.access_count,
        version=old.version + 1,
    )
    connection.execute(_UPDATE, [*_turn_values(stored, position), *record_values(stored), seq])
    if stored.index_text != old.index_text:
        remove_postings(connection, partition_id, seq, old.index_text)
        add_postings(connection, partition_id, seq, stored.index_text)
        # A vector of the old text must not answer for the new one, not even for a moment.
        connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,))
    return stored


def _turn_values(record: MemoryRecord, position: int | None) -> list[object]:
    return [position, record.speaker, None if position is None else record.metadata.get("role")]


def _write_tags(connection: sqlite3.Connection, scope_id: int, seq: int, tags: tuple[str, ...]) -> None:
    connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
    connection.executemany(
        "INSERT INTO record_tags(scope_id, tag, seq) VALUES (?, ?, ?)", [(scope_id, tag, seq) for tag in tags]
    )


def enqueue(connection: sqlite3.Connection, record: MemoryRecord, seq: int | None) -> None:
    """Tell the vector index that a point changed (or, without `seq`, is gone)."""
    owner = Target(scope=record.scope, space=record.space).owner
    connection.execute(
        "INSERT OR REPLACE INTO outbox(point_id, seq, owner, space, scope, enqueued_at) VALUES (?, ?, ?, ?, ?, ?)",
        (
            record.point_id.bytes,
            seq,
            owner.digest,
            record.space,
            record.scope.digest,
            to_ms(utc_now()),
        ),
    )


def delete_records(
    connection: sqlite3.Connection, condition: str, values: tuple[object, ...]
) -> DeleteReceipt:
    """Delete the rows of `records r` for which `condition` holds, with all that hangs on them."""
    rows = connection.execute(
        f"SELECT r.seq, r.partition_id, {SELECT_RECORD} FROM records r WHERE {condition}",
        values,
    ).fetchall()
    vectors = turns = 0
    for seq, partition_id, *rest in rows:
        record = read_record(rest)
        turns += record.space == "messages"
        remove_postings(connection, partition_id, seq, record.index_text)
        connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
        vectors += connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,)).rowcount
        connection.execute("DELETE FROM records WHERE seq = ?", (seq,))
        enqueue(connection, record, None)
    return DeleteReceipt(records=len(rows) - turns, turns=turns, vectors=vectors)


def delete_sessions(connection: sqlite3.Connection, scope_ids: list[int]) -> DeleteReceipt:
    """Delete the sessions with these scope numbers, their messages, and the turns made from them."""
    receipt = DeleteReceipt()
    for scope_id in scope_ids:
        turns = delete_records(connection, "r.scope_id = ? AND r.space = 'messages'", (scope_id,))
        messages = connection.execute("DELETE FROM messages WHERE scope_id = ?", (scope_id,)).rowcount
        sessions = connection.execute("DELETE FROM sessions WHERE scope_id = ?", (scope_id,)).rowcount
        receipt = summed(receipt, turns, DeleteReceipt(messages=messages, sessions=sessions))
    drop_unused(connection, scope_ids)
    return receipt


def summed(*receipts: DeleteReceipt) -> DeleteReceipt:
    """One receipt for several deletes."""
    return DeleteReceipt(
        **{
            field.name: sum(getattr(receipt, field.name) for receipt in receipts)
            for field in dataclasses.fields(DeleteReceipt)
        }
    )
