"""Looking at all memories of a file, and archiving or deleting many of them, whoever's they are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime

from memkit_core.jsonvalues import canonical_json
from memkit_core.models import MEMORIES, ChangeKind, DeleteReceipt, Status
from memkit_core.ports import Standing
from memkit_core.stores.sqlite.removing import delete_records
from memkit_core.stores.sqlite.rows import VISIBLE
from memkit_core.stores.sqlite.scopes import drop_unused, read_scope
from memkit_core.stores.sqlite.tracking import mark_changed, next_change
from memkit_core.times import to_ms, utc_now

_COLUMNS = (
    "r.seq, (SELECT path FROM scopes s WHERE s.id = r.scope_id), r.id, r.version, r.importance, "
    "r.created_at, r.updated_at, r.last_accessed_at, r.access_count"
)
_STATUS = f"r.space = '{MEMORIES}' AND r.status = :status"
_AMONG = "r.seq IN (SELECT value FROM json_each(:rows))"

_TELL = f"""
INSERT INTO history(seq, version, kind, at, before)
SELECT r.seq, r.version, :kind, :now, :before FROM records r WHERE {_AMONG}
"""
_ENQUEUE = f"""
INSERT OR REPLACE INTO outbox(point_id, seq, owner, space, scope, enqueued_at, vector_space_id)
SELECT r.point_id, r.seq, (SELECT digest FROM scopes s WHERE s.id = p.scope_id), r.space,
  (SELECT digest FROM scopes s WHERE s.id = r.scope_id), :enqueued, p.vector_space_id
FROM records r JOIN partitions p ON p.id = r.partition_id WHERE {_AMONG} ORDER BY r.seq
"""


def select_standing(
    connection: sqlite3.Connection, status: Status, *, after: int, limit: int, now: datetime
) -> list[Standing]:
    """See `RecordTable.standing`."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM records r WHERE r.seq > :after AND {_STATUS} AND NOT r.pinned AND {VISIBLE} "
        "ORDER BY r.seq LIMIT :limit",
        {"after": after, "status": status.value, "now": to_ms(now), "limit": limit},
    )
    return [Standing(seq, read_scope(path), *rest) for seq, path, *rest in rows]


def archive_rows(
    connection: sqlite3.Connection, seen: Sequence[Standing], *, now: datetime
) -> list[Standing]:
    """See `RecordTable.archive_standing`.

    In a few statements for all of them: row by row, as one memory is archived, would take ten times
    as long, and other writers wait.
    """
    found = _unchanged(connection, seen, Status.ACTIVE)
    if not found:
        return []
    number = next_change(connection)
    values = {"rows": json.dumps([one.row for one in found]), "now": to_ms(now)}
    connection.execute(
        "UPDATE records AS r SET status = :status, version = version + 1, updated_at = :now, changed = :number "
        f"WHERE {_AMONG}",
        values | {"status": Status.ARCHIVED.value, "number": number},
    )
    before = canonical_json({"status": Status.ACTIVE.value})
    connection.execute(_TELL, values | {"kind": ChangeKind.ARCHIVED.value, "before": before})
    connection.execute(_ENQUEUE, values | {"enqueued": to_ms(utc_now())})
    partitions = connection.execute(f"SELECT DISTINCT r.partition_id FROM records r WHERE {_AMONG}", values)
    mark_changed(connection, number, [row[0] for row in partitions.fetchall()])
    return found


def delete_rows(
    connection: sqlite3.Connection, seen: Sequence[Standing]
) -> tuple[list[Standing], DeleteReceipt]:
    """See `RecordTable.delete_standing`."""
    found = _unchanged(connection, seen, Status.ARCHIVED)
    rows = json.dumps([one.row for one in found])
    owners = connection.execute(f"SELECT DISTINCT r.scope_id FROM records r WHERE {_AMONG}", {"rows": rows})
    scope_ids = [row[0] for row in owners.fetchall()]
    receipt = delete_records(connection, "r.seq IN (SELECT value FROM json_each(?))", (rows,))
    drop_unused(connection, scope_ids)
    return found, receipt


def _unchanged(connection: sqlite3.Connection, seen: Sequence[Standing], status: Status) -> list[Standing]:
    """Those that have this status and are as they were seen; a change of the pin counts the version up."""
    rows = connection.execute(
        f"SELECT r.seq, r.version, r.last_accessed_at, r.access_count FROM records r WHERE {_AMONG} AND {_STATUS}",
        {"rows": json.dumps([one.row for one in seen]), "status": status.value},
    )
    present = {seq: rest for seq, *rest in rows}
    return [one for one in seen if present.get(one.row) == [one.version, one.accessed, one.accesses]]
