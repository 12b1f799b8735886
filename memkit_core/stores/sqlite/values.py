"""`ValueTable` over SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import DeleteReceipt, StoredValue
from memkit_core.scope import Scope
from memkit_core.stores.checks import check_version
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.removing import delete_values
from memkit_core.stores.sqlite.scopes import drop_unused, ensure_scope, find_scope
from memkit_core.stores.sqlite.tracking import next_change
from memkit_core.times import from_ms, to_ms

_SELECT = "SELECT id, key, value, label, version, created_at, updated_at FROM stored_values"
_ONE = f"{_SELECT} WHERE scope_id = ? AND kind = ? AND key = ?"


class SQLiteValues:
    """The JSON values of one file."""

    def __init__(self, database: Database) -> None:
        """Read and write in `database`."""
        self._database = database

    def get(self, scope: Scope, kind: str, key: str) -> StoredValue | None:
        """See `ValueTable.get`."""
        with self._database.snapshot() as connection:
            row = connection.execute(_ONE, (find_scope(connection, scope), kind, key)).fetchone()
            return None if row is None else _read(row)

    def put(
        self,
        scope: Scope,
        kind: str,
        key: str,
        value: JsonValue,
        *,
        label: str | None = None,
        expected_version: int | None = None,
        keep: int = 0,
        now: datetime,
    ) -> StoredValue:
        """See `ValueTable.put`."""
        # Not the canonical form: the order of the keys is for those who read it.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        with self._database.write("put value") as connection:
            place = ensure_scope(connection, scope), kind, key
            row = connection.execute(_ONE, place).fetchone()
            old = None if row is None else _read(row)
            check_version(old, expected_version, key=key)
            if old is None:
                connection.execute(
                    "INSERT INTO stored_values(scope_id, kind, key, value, label, version, created_at, "
                    "updated_at, changed) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)",
                    (*place, text, label, to_ms(now), to_ms(now), next_change(connection)),
                )
            else:
                _keep(connection, row, keep)
                connection.execute(
                    "UPDATE stored_values SET value = ?, label = ?, version = version + 1, "
                    "updated_at = max(updated_at, ?), changed = ? WHERE id = ?",
                    (text, label, to_ms(now), next_change(connection), row[0]),
                )
            return _read(connection.execute(_ONE, place).fetchone())

    def history(self, scope: Scope, kind: str, key: str) -> list[StoredValue]:
        """See `ValueTable.history`."""
        with self._database.snapshot() as connection:
            newest = connection.execute(_ONE, (find_scope(connection, scope), kind, key)).fetchone()
            if newest is None:
                return []
            earlier = connection.execute(
                "SELECT v.id, v.key, o.value, o.label, o.version, v.created_at, o.at FROM value_versions o "
                "JOIN stored_values v ON v.id = o.value_id WHERE o.value_id = ? ORDER BY o.version",
                (newest[0],),
            ).fetchall()
            return [_read(row) for row in (*earlier, newest)]

    def delete(self, scope: Scope, kind: str, key: str) -> DeleteReceipt:
        """See `ValueTable.delete`."""
        with self._database.write("delete value") as connection:
            scope_id = find_scope(connection, scope)
            if scope_id is None:
                return DeleteReceipt()
            receipt = delete_values(
                connection, "scope_id = ? AND kind = ? AND key = ?", (scope_id, kind, key)
            )
            drop_unused(connection, [scope_id])
        return receipt

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, kind: str, *, label: str | None = None) -> list[StoredValue]:
        """See `ValueTable.list`."""
        with self._database.snapshot() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE scope_id = ? AND kind = ? AND (? IS NULL OR label = ?) "
                "ORDER BY updated_at DESC, id DESC",
                (find_scope(connection, scope), kind, label, label),
            ).fetchall()
            return [_read(row) for row in rows]


def newest_value(connection: sqlite3.Connection, scope_id: int, kind: str, key: str) -> StoredValue | None:
    """The newest version of a value, None when there is none."""
    row = connection.execute(_ONE, (scope_id, kind, key)).fetchone()
    return None if row is None else _read(row)


def _keep(connection: sqlite3.Connection, row: Sequence[Any], keep: int) -> None:
    """Make the version in `row` the newest of the earlier ones, of which `keep` stay."""
    value_id, _, value, label, version, _, at = row
    if keep:
        connection.execute(
            "INSERT INTO value_versions(value_id, version, value, label, at) VALUES (?, ?, ?, ?, ?)",
            (value_id, version, value, label, at),
        )
    connection.execute(
        "DELETE FROM value_versions WHERE value_id = ? AND version <= ?", (value_id, version - keep)
    )


def _read(row: Sequence[Any]) -> StoredValue:
    _, key, value, label, version, created, updated = row
    return StoredValue(
        key=key,
        value=json.loads(value),
        label=label,
        version=version,
        created_at=from_ms(created),
        updated_at=from_ms(updated),
    )
