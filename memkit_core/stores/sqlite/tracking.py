"""What changed since when: the number of each write transaction, and tombstones of what was deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from memkit_core.scope import Scope
from memkit_core.stores.tombstones import Grave, buried_space, owner_of


def next_change(connection: sqlite3.Connection) -> int:
    """A number for the rows that the running transaction changes, above all that were committed before.

    Writers come one after the other, so whoever sees a number sees all rows with lower ones.
    """
    row = connection.execute("UPDATE change_number SET number = number + 1 RETURNING number").fetchone()
    return int(row[0])


def last_change(connection: sqlite3.Connection) -> int:
    """The number of the last change that this connection sees."""
    return int(connection.execute("SELECT number FROM change_number").fetchone()[0])


def bury(connection: sqlite3.Connection, scope: Scope, graves: Iterable[Grave]) -> None:
    """Note that these rows of `scope` are deleted."""
    rows = [(scope.digest, grave.kind, grave.name(scope), buried_space(grave.space)) for grave in graves]
    if rows:
        common = owner_of(scope).digest, next_change(connection)
        connection.executemany(
            "INSERT OR REPLACE INTO tombstones(scope, kind, name, space, owner, number) VALUES (?, ?, ?, ?, ?, ?)",
            [(*row, *common) for row in rows],
        )


def mark_changed(connection: sqlite3.Connection, number: int, partitions: Iterable[int]) -> None:
    """Say that rows of these partitions changed."""
    connection.executemany(
        "UPDATE partitions SET changed = ? WHERE id = ?", [(number, partition) for partition in partitions]
    )


def mark_removed(connection: sqlite3.Connection, number: int, partitions: Iterable[int]) -> None:
    """Say that rows of these partitions are gone."""
    connection.executemany(
        "UPDATE partitions SET changed = ?1, removed = ?1 WHERE id = ?2",
        [(number, partition) for partition in partitions],
    )


def mark_all(connection: sqlite3.Connection) -> None:
    """Say that anything may have changed."""
    number = next_change(connection)
    connection.execute("UPDATE records SET changed = ?", (number,))
    connection.execute("UPDATE partitions SET changed = ?1, removed = ?1", (number,))
