"""Change numbers: what was written since a reader last looked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable


def next_change(connection: sqlite3.Connection) -> int:
    """The number of this write transaction, above those of all before it; take it once a transaction.

    Rows that carry it say what a reader who has seen all lower numbers has not seen. It goes in the
    row of every change that recall can see: of a record, its place or its vector.
    """
    row = connection.execute("UPDATE change_number SET number = number + 1 RETURNING number").fetchone()
    return int(row[0])


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
