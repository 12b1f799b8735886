"""Deleting rows with all that hangs on them, in their transaction."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from memkit_core.models import MEMORIES, MESSAGES, NOTES, RUNS, DeleteReceipt, MemoryRecord
from memkit_core.ports import RowKind
from memkit_core.scope import Scope
from memkit_core.sequences import chunked
from memkit_core.stores.sqlite.keywords import remove_partition, remove_postings
from memkit_core.stores.sqlite.recalls import forget_hits
from memkit_core.stores.sqlite.rows import SELECT_RECORD, read_record
from memkit_core.stores.sqlite.scopes import drop_unused, scope_of
from memkit_core.stores.sqlite.tracking import bury, mark_removed, next_change
from memkit_core.stores.sqlite.writing import ENQUEUE, change_of
from memkit_core.stores.tombstones import Grave

_TOGETHER = 500
"""Records of one statement."""

_Doomed = tuple[int, int, int | None, MemoryRecord]
"""The row of a record, its partition, the vector space it is in, and the record."""


def delete_records(
    connection: sqlite3.Connection, condition: str, values: tuple[object, ...]
) -> DeleteReceipt:
    """Delete the rows of `records r` for which `condition` holds, with all that hangs on them."""
    rows: list[_Doomed] = [
        (seq, partition_id, vector_space_id, read_record(rest))
        for seq, partition_id, vector_space_id, *rest in connection.execute(
            "SELECT r.seq, r.partition_id, (SELECT vector_space_id FROM partitions p WHERE p.id = r.partition_id), "
            f"{SELECT_RECORD} FROM records r WHERE {condition}",
            values,
        )
    ]
    if not rows:
        return DeleteReceipt()
    partitions = Counter(row[1] for row in rows)
    mark_removed(connection, next_change(connection), partitions)
    forget_hits(connection, [row[0] for row in rows])
    # A partition that goes as a whole loses its keyword rows at once, whatever they say.
    whole = {one for one, going in partitions.items() if going == _rows_of(connection, one)}
    count = Counter(keywords=sum(remove_partition(connection, one) for one in whole))
    for chunk in chunked(rows, _TOGETHER):
        for seq, partition_id, _, record in chunk:
            if partition_id not in whole:
                count["keywords"] += remove_postings(connection, partition_id, seq, record.index_text)
        count += _deleted(connection, chunk)
        graves: dict[Scope, list[Grave]] = {}
        for *_, record in chunk:
            graves.setdefault(record.scope, []).append(Grave(RowKind.RECORD, record.space, record.id))
        for scope, buried in graves.items():
            bury(connection, scope, buried)
    return DeleteReceipt(**count)


def _rows_of(connection: sqlite3.Connection, partition_id: int) -> int:
    sql = "SELECT count(*) FROM records WHERE partition_id = ?"
    return int(connection.execute(sql, (partition_id,)).fetchone()[0])


def _deleted(connection: sqlite3.Connection, rows: Sequence[_Doomed]) -> Counter[str]:
    """Delete these rows but for their keyword rows; counts them."""
    turns = [(seq,) for seq, _, _, record in rows if record.space == MESSAGES]
    memories = [(seq,) for seq, _, _, record in rows if record.space == MEMORIES]
    seqs = [(seq,) for seq, *_ in rows]
    points = [(record.point_id.bytes,) for *_, record in rows]
    count = Counter(
        records=len(rows) - len(turns),
        turns=len(turns),
        vectors=_with_vector(connection, seqs),
        turn_vectors=_with_vector(connection, turns),
    )
    for table, chosen in (("record_tags", seqs), ("vectors", seqs), ("history", memories), ("records", seqs)):
        gone = connection.executemany(f"DELETE FROM {table} WHERE seq = ?", chosen).rowcount
        count["history"] += max(gone, 0) if table == "history" else 0
    waiting = connection.executemany("DELETE FROM outbox WHERE point_id = ?", points)
    count["outbox"] = max(waiting.rowcount, 0)
    connection.executemany(ENQUEUE, [change_of(record, None, space) for _, _, space, record in rows])
    return count


def _with_vector(connection: sqlite3.Connection, seqs: Sequence[tuple[int]]) -> int:
    """How many of these rows have a vector; while the model is changed some have two."""
    sql = "SELECT count(DISTINCT seq) FROM vectors WHERE seq IN (SELECT value FROM json_each(?))"
    return int(connection.execute(sql, (json.dumps([seq for (seq,) in seqs]),)).fetchone()[0])


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
        receipt += turns + values + own
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
