"""One value of a key, where rows of another store brought a second one: `Portable.settle_keys` over SQLite."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from memkit_core.models import MEMORIES, ChangeKind, MemoryRecord, Target
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.rows import SELECT_RECORD, VISIBLE, read_record
from memkit_core.stores.sqlite.writing import RowBatch
from memkit_core.stores.succession import settled
from memkit_core.times import to_ms

_HELD = f"r.space = '{MEMORIES}' AND r.key IS NOT NULL AND r.status = 'active' AND {VISIBLE}"
_CONTESTED = f"""
SELECT r.scope_id, r.type, r.key FROM records r WHERE {_HELD}
GROUP BY r.scope_id, r.key, r.type HAVING count(*) > 1 LIMIT :limit
"""
_RIVALS = f"""
SELECT r.seq, r.scope_id, r.partition_id, {SELECT_RECORD} FROM records r
WHERE {_HELD} AND r.scope_id = :scope AND r.type = :type AND r.key = :key ORDER BY r.seq
"""


def settle_keys(database: Database, *, now: datetime, limit: int) -> int:
    """See `Portable.settle_keys`."""
    while slots := _contested(database, now, limit):
        with database.write("settle keys") as connection:
            gave_way = sum(_settle(connection, slot, now) for slot in slots)
        if gave_way:
            return gave_way
        # Another writer settled all of these first; there may be more behind them.
    return 0


def _contested(database: Database, now: datetime, limit: int) -> list[tuple[int, str, str]]:
    # Before the lock of all writers is taken, since mostly there is nothing to do.
    with database.snapshot() as connection:
        return connection.execute(_CONTESTED, {"now": to_ms(now), "limit": limit}).fetchall()


def _settle(connection: sqlite3.Connection, slot: tuple[int, str, str], now: datetime) -> int:
    scope_id, kind, key = slot
    values = {"now": to_ms(now), "scope": scope_id, "type": kind, "key": key}
    rows: dict[str, tuple[int, int, int]] = {}
    records: list[MemoryRecord] = []
    for seq, owner, partition_id, *rest in connection.execute(_RIVALS, values).fetchall():
        records.append(read_record(rest))
        rows[records[-1].id] = seq, owner, partition_id
    steps = settled(records)
    if steps:
        _, owner, partition_id = rows[records[0].id]
        place = {Target(scope=records[0].scope): (owner, partition_id)}
        batch = RowBatch(connection, place, None)
        for old, new in steps:
            batch.rewrite(
                rows[old.id][0], old, new, kind=ChangeKind.SUPERSEDED, others=(str(new.superseded_by),)
            )
        batch.finish()
    return len(steps)
