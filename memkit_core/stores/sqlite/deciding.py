"""What a rule sees of the memories in an SQLite transaction, and the writing of what it decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from memkit_core.models import MEMORIES, MemoryRecord, RecordChange, Target
from memkit_core.ports import Add, Remove, Rewrite, Step
from memkit_core.scope import Scope
from memkit_core.stores.changes import whole_history
from memkit_core.stores.sqlite.removing import delete_records
from memkit_core.stores.sqlite.rows import SELECT_CHANGE, SELECT_RECORD, read_change, read_record
from memkit_core.stores.sqlite.scopes import drop_unused, find_scope
from memkit_core.stores.sqlite.writing import RowBatch, find_current, write_records
from memkit_core.text.tokenizer import keyword_terms


class SQLiteView:
    """`MemoryView` inside one write transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Look through `connection`."""
        self._connection = connection

    def get(self, scope: Scope, record_id: str) -> MemoryRecord | None:
        """See `MemoryView.get`."""
        row = self._connection.execute(
            f"SELECT {SELECT_RECORD} FROM records r WHERE r.scope_id = ? AND r.space = ? AND r.id = ?",
            (find_scope(self._connection, scope), MEMORIES, record_id),
        ).fetchone()
        return None if row is None else read_record(row)

    def current(self, record: MemoryRecord, *, now: datetime) -> MemoryRecord | None:
        """See `MemoryView.current`."""
        found = find_current(self._connection, find_scope(self._connection, record.scope), record, now=now)
        return None if found is None else found[1]

    def last_change(self, record: MemoryRecord) -> RecordChange:
        """See `MemoryView.last_change`."""
        row = self._connection.execute(
            f"SELECT {SELECT_CHANGE} FROM history h JOIN records r ON r.seq = h.seq "
            "WHERE r.point_id = ? ORDER BY h.version DESC LIMIT 1",
            (record.point_id.bytes,),
        ).fetchone()
        return whole_history(record, [] if row is None else [read_change(row)])[-1]


def apply_steps(connection: sqlite3.Connection, steps: Sequence[Step]) -> list[MemoryRecord]:
    """Write what a rule decided; returns what its `Add` and `Rewrite` steps became."""
    written: list[MemoryRecord] = []
    for step in steps:
        match step:
            case Add(record, merge):
                prepared = (record, None, keyword_terms(record.index_text))
                written += write_records(connection, [prepared], merge={record.id} if merge else ())
            case Rewrite():
                _rewrite(connection, step)
                written.append(step.new)
            case Remove(record):
                delete_records(connection, "r.point_id = ?", (record.point_id.bytes,))
                scope_id = find_scope(connection, record.scope)
                drop_unused(connection, [] if scope_id is None else [scope_id])
    view = SQLiteView(connection)
    # Read once more: a later step may have changed what an earlier one wrote.
    return [view.get(one.scope, one.id) or one for one in written]


def _rewrite(connection: sqlite3.Connection, step: Rewrite) -> None:
    row = connection.execute(
        "SELECT r.seq, r.scope_id, r.partition_id, p.vector_space_id FROM records r "
        "JOIN partitions p ON p.id = r.partition_id WHERE r.point_id = ?",
        (step.old.point_id.bytes,),
    ).fetchone()
    seq, scope_id, partition_id, vector_space_id = row
    target = Target(scope=step.old.scope, space=step.old.space)
    batch = RowBatch(connection, {target: (scope_id, partition_id)}, vector_space_id)
    batch.rewrite(seq, step.old, step.new, kind=step.kind, others=step.others, reason=step.reason)
    batch.finish()
