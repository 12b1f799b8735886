"""What one changed row drags along: tags, keyword rows, vector and outbox entry, in its transaction."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Sequence

from memkit_core.models import DeleteReceipt, MemoryRecord, Target
from memkit_core.sequences import chunked
from memkit_core.stores.sqlite.keywords import Postings, remove_postings
from memkit_core.stores.sqlite.rows import COLUMNS, SELECT_RECORD, marks, read_record, record_values
from memkit_core.stores.sqlite.scopes import drop_unused, ensure_partition, ensure_scope
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import to_ms, utc_now

_INSERT = f"""INSERT INTO records(scope_id, partition_id, point_id, terms, position, speaker, role, {", ".join(COLUMNS)})
VALUES ({marks(7 + len(COLUMNS))})"""
_UPDATE = f"""UPDATE records SET terms = ?, position = ?, speaker = ?, role = ?, {", ".join(f"{c} = ?" for c in COLUMNS)} WHERE seq = ?"""
_ENQUEUE = """INSERT OR REPLACE INTO outbox(point_id, seq, owner, space, scope, enqueued_at, vector_space_id)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

_TOGETHER = 500
"""Records whose keyword rows are gathered before they are written: what a large batch costs in memory."""


def write_records(
    connection: sqlite3.Connection,
    records: Sequence[tuple[MemoryRecord, int | None]],
    *,
    vector_space_id: int | None = None,
) -> list[MemoryRecord]:
    """Insert records, or replace those with their identities; returns them as stored, in order.

    Each comes with the position of its message, None when it is no turn. No identity comes twice.
    Their vectors are of the given space with that number; None for the memory's own.
    """
    places: dict[Target, tuple[int, int]] = {}
    stored: list[MemoryRecord] = []
    for chunk in chunked(records, _TOGETHER):
        batch = _Batch(connection, places, vector_space_id)
        stored += [batch.write(record, position) for record, position in chunk]
        batch.finish()
    return stored


class _Batch:
    """Rows of one transaction; what they drag along is gathered and written at the end."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        places: dict[Target, tuple[int, int]],
        vector_space_id: int | None,
    ) -> None:
        self._connection = connection
        self._places = places
        self._vector_space_id = vector_space_id
        self._postings = Postings()
        self._tags: list[tuple[int, str, int]] = []
        self._changes: list[tuple[object, ...]] = []

    def write(self, record: MemoryRecord, position: int | None) -> MemoryRecord:
        """Write the row itself."""
        scope_id, partition_id = self._place(record)
        row = self._connection.execute(
            f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.space = ? AND r.id = ?",
            (scope_id, record.space, record.id),
        ).fetchone()
        point = record.point_id.bytes
        if row is None:
            terms = keyword_terms(record.index_text)
            values = [scope_id, partition_id, point, *_derived_values(record, terms, position)]
            seq = self._connection.execute(_INSERT, [*values, *record_values(record)]).lastrowid
            assert seq is not None
            self._postings.add(partition_id, seq, terms)
        else:
            seq = row[0]
            record = self._replace(seq, partition_id, read_record(row[1:]), record, position)
        self._tags += [(scope_id, tag, seq) for tag in record.tags]
        self._changes.append(_change(record, seq, self._vector_space_id))
        return record

    def _place(self, record: MemoryRecord) -> tuple[int, int]:
        target = Target(scope=record.scope, space=record.space)
        place = self._places.get(target)
        if place is None:
            scope_id = ensure_scope(self._connection, record.scope)
            partition_id = ensure_partition(self._connection, target, self._vector_space_id)
            place = self._places[target] = scope_id, partition_id
        return place

    def _replace(
        self, seq: int, partition_id: int, old: MemoryRecord, new: MemoryRecord, position: int | None
    ) -> MemoryRecord:
        stored = dataclasses.replace(
            new,
            created_at=old.created_at,
            last_accessed_at=old.last_accessed_at,
            access_count=old.access_count,
            version=old.version + 1,
        )
        terms = keyword_terms(stored.index_text)
        self._connection.execute(
            _UPDATE, [*_derived_values(stored, terms, position), *record_values(stored), seq]
        )
        self._connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
        if stored.index_text != old.index_text:
            remove_postings(self._connection, partition_id, seq, old.index_text)
            self._postings.add(partition_id, seq, terms)
            # A vector of the old text must not answer for the new one, not even for a moment.
            self._connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,))
        return stored

    def finish(self) -> None:
        """Write the keyword rows, the tags and the outbox entries."""
        self._postings.write(self._connection)
        self._connection.executemany(
            "INSERT INTO record_tags(scope_id, tag, seq) VALUES (?, ?, ?)", self._tags
        )
        self._connection.executemany(_ENQUEUE, self._changes)


def _derived_values(record: MemoryRecord, terms: Sequence[str], position: int | None) -> list[object]:
    role = None if position is None else record.metadata.get("role")
    return [len(terms), position, record.speaker, role]


def _change(record: MemoryRecord, seq: int | None, vector_space_id: int | None) -> tuple[object, ...]:
    """What tells the vector index that a point changed (or, without `seq`, is gone)."""
    owner = Target(scope=record.scope, space=record.space).owner
    return (
        record.point_id.bytes,
        seq,
        owner.digest,
        record.space,
        record.scope.digest,
        to_ms(utc_now()),
        vector_space_id,
    )


def enqueue_rows(connection: sqlite3.Connection, rows: list[int]) -> None:
    """Have the vector index told of these rows anew, as if each had just changed."""
    for seq in rows:
        found = connection.execute(
            "SELECT (SELECT vector_space_id FROM partitions p WHERE p.id = r.partition_id), "
            f"{SELECT_RECORD} FROM records r WHERE r.seq = ?",
            (seq,),
        ).fetchone()
        if found is not None:
            connection.execute(_ENQUEUE, _change(read_record(found[1:]), seq, found[0]))


def delete_records(
    connection: sqlite3.Connection, condition: str, values: tuple[object, ...]
) -> DeleteReceipt:
    """Delete the rows of `records r` for which `condition` holds, with all that hangs on them."""
    rows = connection.execute(
        "SELECT r.seq, r.partition_id, (SELECT vector_space_id FROM partitions p WHERE p.id = r.partition_id), "
        f"{SELECT_RECORD} FROM records r WHERE {condition}",
        values,
    ).fetchall()
    vectors = turns = 0
    for seq, partition_id, vector_space_id, *rest in rows:
        record = read_record(rest)
        turns += record.space == "messages"
        remove_postings(connection, partition_id, seq, record.index_text)
        connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
        vectors += connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,)).rowcount
        connection.execute("DELETE FROM records WHERE seq = ?", (seq,))
        connection.execute(_ENQUEUE, _change(record, None, vector_space_id))
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
