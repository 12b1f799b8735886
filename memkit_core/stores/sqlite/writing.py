"""What one changed row drags along: tags, keyword rows, vector and outbox entry, in its transaction."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from memkit_core.models import MEMORIES, NOTES, RUNS, ChangeKind, DeleteReceipt, MemoryRecord, Target
from memkit_core.ports import RowKind
from memkit_core.scope import Scope
from memkit_core.sequences import chunked
from memkit_core.stores.changes import change_made, digest, is_duplicate, merged, replaced, seen_by_index
from memkit_core.stores.sqlite.keywords import Postings, remove_postings
from memkit_core.stores.sqlite.recalls import forget_hits
from memkit_core.stores.sqlite.rows import (
    COLUMNS,
    INSERT_CHANGE,
    SELECT_RECORD,
    VISIBLE,
    change_values,
    marks,
    read_record,
    record_values,
)
from memkit_core.stores.sqlite.scopes import drop_unused, ensure_place, find_scope, scope_of
from memkit_core.stores.sqlite.tracking import bury, mark_changed, mark_removed, next_change
from memkit_core.stores.succession import check_slot, holds_slot, succession
from memkit_core.stores.tombstones import Grave
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import to_ms, utc_now

_INSERT = f"""INSERT INTO records(scope_id, partition_id, point_id, terms, position, speaker, role, digest, changed, {", ".join(COLUMNS)})
VALUES ({marks(9 + len(COLUMNS))})"""
_UPDATE = f"""UPDATE records SET terms = ?, position = ?, speaker = ?, role = ?, digest = ?, changed = ?, {", ".join(f"{c} = ?" for c in COLUMNS)} WHERE seq = ?"""
_ENQUEUE = """INSERT OR REPLACE INTO outbox(point_id, seq, owner, space, scope, enqueued_at, vector_space_id)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

_TOGETHER = 500
"""Records whose keyword rows are gathered before they are written: what a large batch costs in memory."""


def write_records(
    connection: sqlite3.Connection,
    records: Sequence[tuple[MemoryRecord, int | None, Sequence[str]]],
    *,
    vector_space_id: int | None = None,
    merge: Collection[str] = (),
    number: int | None = None,
) -> list[MemoryRecord]:
    """Insert records, replace those with their identities, or merge those whose ids are in `merge`.

    What held for the key of one of them before is superseded. Returns what each became, in order.
    Each comes with the position of its message, None when it is no turn, and with its keyword terms:
    other writers need not wait while they are made. No identity comes twice. Their vectors are of
    the given space with that number; None for the memory's own.
    `number` is that of the change, when the transaction has one already.
    """
    if not records:
        return []
    places: dict[Target, tuple[int, int]] = {}
    rows: list[int] = []
    stored: dict[int, MemoryRecord] = {}
    for chunk in chunked(records, _TOGETHER):
        batch = RowBatch(connection, places, vector_space_id, number)
        for record, position, terms in chunk:
            if record.id in merge:
                rows.append(batch.merge(record, terms))
            else:
                rows.append(batch.write(record, position, terms))
        batch.finish()
        stored |= batch.stored
    return [stored[seq] for seq in rows]


def change_record(
    connection: sqlite3.Connection,
    scope: Scope,
    place: tuple[str, str],
    patched: Callable[[MemoryRecord | None], MemoryRecord],
) -> MemoryRecord:
    """Write what `patched` makes of the record with this (space, id), None for no such or a turn."""
    row = connection.execute(
        f"SELECT r.seq, r.scope_id, r.partition_id, p.vector_space_id, {SELECT_RECORD} FROM records r "
        "JOIN partitions p ON p.id = r.partition_id "
        "WHERE r.scope_id = ? AND r.space = ? AND r.id = ? AND r.position IS NULL",
        (find_scope(connection, scope), *place),
    ).fetchone()
    if row is None:
        return patched(None)
    seq, scope_id, partition_id, vector_space_id, *rest = row
    old = read_record(rest)
    new = patched(old)
    if new is not old:
        batch = RowBatch(
            connection, {Target(scope=scope, space=old.space): (scope_id, partition_id)}, vector_space_id
        )
        if (new.type, new.key) != (old.type, old.key):
            found = find_current(connection, scope_id, new, now=new.updated_at)
            check_slot(None if found is None else found[1], new, verb="update")
        batch.rewrite(seq, old, new, kind=ChangeKind.UPDATED)
        batch.finish()
    return new


def find_current(
    connection: sqlite3.Connection, scope_id: int | None, record: MemoryRecord, *, now: datetime
) -> tuple[int, MemoryRecord] | None:
    """The row that holds the slot of `record`, other than its own; see `MemoryView.current`."""
    if record.space != MEMORIES or record.key is None:
        return None
    row = connection.execute(
        f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.scope_id = :scope AND r.key = :key "
        f"AND r.space = :space AND r.type = :type AND r.status = 'active' AND r.id <> :id AND {VISIBLE} "
        "ORDER BY r.seq DESC LIMIT 1",
        {
            "scope": scope_id,
            "key": record.key,
            "space": record.space,
            "type": record.type.value,
            "id": record.id,
            "now": to_ms(now),
        },
    ).fetchone()
    return None if row is None else (row[0], read_record(row[1:]))


class RowBatch:
    """Rows of one transaction; what they drag along is gathered and written at the end."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        places: dict[Target, tuple[int, int]],
        vector_space_id: int | None,
        number: int | None = None,
    ) -> None:
        self._connection = connection
        self._number = next_change(connection) if number is None else number
        self._touched: set[int] = set()
        self._places = places
        self._vector_space_id = vector_space_id
        self._postings = Postings()
        # By row, because one row may change several times.
        self._tags: dict[int, tuple[int, tuple[str, ...]]] = {}
        self._changes: dict[int, tuple[object, ...]] = {}
        self._history: list[tuple[object, ...]] = []
        self.stored: dict[int, MemoryRecord] = {}
        """The rows that were written, as they are now."""

    def write(self, record: MemoryRecord, position: int | None, terms: Sequence[str]) -> int:
        """Insert the record or replace the one with its identity; returns its row."""
        scope_id, _ = self._place(record)
        row = self._connection.execute(
            f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.space = ? AND r.id = ?",
            (scope_id, record.space, record.id),
        ).fetchone()
        if row is None:
            return self.insert(self._succeeding(record), position, terms, digest(record))
        old = read_record(row[1:])
        new = replaced(old, record)
        later = self._succeeding(new)
        others = () if later is new else (str(later.supersedes),)
        self.rewrite(
            row[0], old, later, kind=ChangeKind.REPLACED, tell=True, position=position, others=others
        )
        return int(row[0])

    def _succeeding(self, record: MemoryRecord) -> MemoryRecord:
        """The record in the place of what held its slot until now."""
        if not holds_slot(record):
            return record
        scope_id, _ = self._place(record)
        found = find_current(self._connection, scope_id, record, now=record.updated_at)
        if found is None:
            return record
        seq, old = found
        earlier, later = succession(old, record)
        self.rewrite(seq, old, earlier, kind=ChangeKind.SUPERSEDED, others=(later.id,))
        return later

    def merge(self, record: MemoryRecord, terms: Sequence[str]) -> int:
        """Merge the record into the oldest that it duplicates, or insert it; as `write`."""
        scope_id, _ = self._place(record)
        number = digest(record)
        rows = self._connection.execute(
            f"SELECT r.seq, {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.digest = ? ORDER BY r.seq",
            (scope_id, number),
        ).fetchall()
        for seq, *rest in rows:
            old = read_record(rest)
            if is_duplicate(old, record):
                new = merged(old, record)
                self.rewrite(seq, old, new, kind=ChangeKind.MERGED, said=record)
                return int(seq)
        return self.insert(self._succeeding(record), None, terms, number)

    def insert(
        self, record: MemoryRecord, position: int | None, terms: Sequence[str], number: int | None
    ) -> int:
        """Insert a record that is not there, with its duplicates' `number`; returns its row."""
        scope_id, partition_id = self._place(record)
        values = [
            scope_id,
            partition_id,
            record.point_id.bytes,
            *_derived_values(record, terms, position),
            number,
            self._number,
        ]
        self._touched.add(partition_id)
        seq = self._connection.execute(_INSERT, [*values, *record_values(record)]).lastrowid
        assert seq is not None
        self._postings.add(partition_id, seq, terms)
        self._tags[seq] = scope_id, record.tags
        self._changes[seq] = _change(record, seq, self._vector_space_id)
        self.stored[seq] = record
        return seq

    def _place(self, record: MemoryRecord) -> tuple[int, int]:
        target = Target(scope=record.scope, space=record.space)
        place = self._places.get(target)
        if place is None:
            place = ensure_place(self._connection, target, self._vector_space_id)
            self._places[target] = place
        return place

    def rewrite(
        self,
        seq: int,
        old: MemoryRecord,
        new: MemoryRecord,
        *,
        kind: ChangeKind | None,
        tell: bool = False,
        position: int | None = None,
        said: MemoryRecord | None = None,
        others: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        """Write a row anew; `said` is what a merge made one with it.

        `tell` the vector index of it also when nothing it may know has changed. Without a `kind` its
        history stays as it is.
        """
        self.stored[seq] = new
        scope_id, partition_id = self._place(new)
        terms = keyword_terms(new.index_text)
        self._touched.add(partition_id)
        self._connection.execute(
            _UPDATE,
            [*_derived_values(new, terms, position), digest(new), self._number, *record_values(new), seq],
        )
        if new.tags != old.tags:
            self._connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
            self._tags[seq] = scope_id, new.tags
        if new.index_text != old.index_text:
            remove_postings(self._connection, partition_id, seq, old.index_text)
            self._postings.add(partition_id, seq, terms)
            # A vector of the old text must not answer for the new one, not even for a moment.
            self._connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,))
        if tell or seen_by_index(old, new):
            self._changes[seq] = _change(new, seq, self._vector_space_id)
        change = None if kind is None else change_made(old, new, kind, said=said)
        if change is not None:
            self._history.append(
                change_values(seq, dataclasses.replace(change, others=others, reason=reason))
            )

    def finish(self) -> None:
        """Write the keyword rows, the tags, the outbox entries and the history."""
        self._postings.write(self._connection)
        mark_changed(self._connection, self._number, self._touched)
        self._connection.executemany(
            "INSERT INTO record_tags(scope_id, tag, seq) VALUES (?, ?, ?)",
            [(scope_id, tag, seq) for seq, (scope_id, tags) in self._tags.items() for tag in tags],
        )
        self._connection.executemany(_ENQUEUE, list(self._changes.values()))
        if self._history:
            self._connection.executemany(INSERT_CHANGE, self._history)


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
    if rows:
        mark_removed(connection, next_change(connection), {row[1] for row in rows})
        forget_hits(connection, [row[0] for row in rows])
    vectors = turns = history = 0
    for chunk in chunked(rows, _TOGETHER):
        graves: dict[Scope, list[Grave]] = {}
        for seq, partition_id, vector_space_id, *rest in chunk:
            record = read_record(rest)
            turns += record.space == "messages"
            remove_postings(connection, partition_id, seq, record.index_text)
            connection.execute("DELETE FROM record_tags WHERE seq = ?", (seq,))
            # While the model is changed there are two.
            vectors += connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,)).rowcount > 0
            if record.space == MEMORIES:
                history += connection.execute("DELETE FROM history WHERE seq = ?", (seq,)).rowcount
            connection.execute("DELETE FROM records WHERE seq = ?", (seq,))
            connection.execute(_ENQUEUE, _change(record, None, vector_space_id))
            graves.setdefault(record.scope, []).append(Grave(RowKind.RECORD, record.space, record.id))
        for scope, gone in graves.items():
            bury(connection, scope, gone)
    return DeleteReceipt(records=len(rows) - turns, turns=turns, vectors=vectors, history=history)


def delete_sessions(connection: sqlite3.Connection, scope_ids: list[int]) -> DeleteReceipt:
    """Delete the sessions with these scope numbers, with messages, turns, summaries and what values they have."""
    receipt = DeleteReceipt()
    for scope_id in scope_ids:
        turns = delete_records(connection, "r.scope_id = ? AND r.space = 'messages'", (scope_id,))
        gone = connection.execute("DELETE FROM messages WHERE scope_id = ? RETURNING id", (scope_id,))
        messages = [Grave(RowKind.MESSAGE, id=i) for (i,) in gone.fetchall()]
        summaries = connection.execute("DELETE FROM summaries WHERE scope_id = ?", (scope_id,)).rowcount
        sessions = connection.execute("DELETE FROM sessions WHERE scope_id = ?", (scope_id,)).rowcount
        if sessions:
            graves = [*messages, *[Grave(RowKind.SUMMARY)] * summaries, Grave(RowKind.SESSION)]
            bury(connection, scope_of(connection, scope_id), graves)
        values = delete_values(connection, "scope_id = ?", (scope_id,))
        own = DeleteReceipt(messages=len(messages), sessions=sessions, summaries=summaries)
        receipt = summed(receipt, turns, values, own)
    drop_unused(connection, scope_ids)
    return receipt


def delete_values(
    connection: sqlite3.Connection, condition: str, values: tuple[object, ...]
) -> DeleteReceipt:
    """Delete the rows of `stored_values` for which `condition` holds, with their earlier versions."""
    connection.execute(
        f"DELETE FROM value_versions WHERE value_id IN (SELECT id FROM stored_values WHERE {condition})",
        values,
    )
    gone = connection.execute(
        f"DELETE FROM stored_values WHERE {condition} RETURNING kind, key, scope_id", values
    ).fetchall()
    graves: dict[int, list[Grave]] = {}
    for kind, key, scope_id in gone:
        graves.setdefault(scope_id, []).append(Grave(RowKind.VALUE, kind, key))
    for scope_id, those in graves.items():
        bury(connection, scope_of(connection, scope_id), those)
    kinds = [kind for kind, _, _ in gone]
    return DeleteReceipt(notes=kinds.count(NOTES), runs=kinds.count(RUNS))


def summed(*receipts: DeleteReceipt) -> DeleteReceipt:
    """One receipt for several deletes."""
    return DeleteReceipt(
        **{
            field.name: sum(getattr(receipt, field.name) for receipt in receipts)
            for field in dataclasses.fields(DeleteReceipt)
        }
    )
