"""`JobTable` over SQLite."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from memkit_core.ports import LONGEST_LEASE, JobState
from memkit_core.stores.sqlite.database import Database
from memkit_core.times import from_ms, to_ms


class SQLiteJobs:
    """The periodic jobs of one file."""

    def __init__(self, database: Database) -> None:
        """Read and write in `database`."""
        self._database = database

    def claim(
        self, name: str, *, holder: str, first: datetime, latest: datetime, now: datetime, until: datetime
    ) -> bool:
        """See `JobTable.claim`."""
        values = {
            "name": name,
            "holder": holder,
            "first": to_ms(first),
            "latest": to_ms(latest),
            "now": to_ms(now),
            "until": to_ms(until),
            "longest": to_ms(now + LONGEST_LEASE),
        }
        with self._database.write("claim job") as connection:
            connection.execute(
                "INSERT INTO jobs(name, due_at) VALUES (:name, :first) ON CONFLICT (name) DO UPDATE "
                "SET due_at = min(due_at, :latest)",
                values,
            )
            return _changed(
                connection,
                "UPDATE jobs SET holder = :holder, leased_until = :until WHERE name = :name AND due_at <= :now "
                "AND (holder IS NULL OR leased_until <= :now OR leased_until > :longest)",
                values,
            )

    def renew(self, name: str, *, holder: str, until: datetime) -> bool:
        """See `JobTable.renew`."""
        with self._database.write("renew job") as connection:
            return _changed(
                connection,
                "UPDATE jobs SET leased_until = :until WHERE name = :name AND holder = :holder",
                {"name": name, "holder": holder, "until": to_ms(until)},
            )

    def finish(self, name: str, *, holder: str, now: datetime, due: datetime, error: str | None) -> bool:
        """See `JobTable.finish`."""
        with self._database.write("finish job") as connection:
            return _changed(
                connection,
                "UPDATE jobs SET holder = NULL, leased_until = NULL, due_at = :due, last_run_at = :now, "
                "last_error = :error WHERE name = :name AND holder = :holder",
                {"name": name, "holder": holder, "now": to_ms(now), "due": to_ms(due), "error": error},
            )

    def look(self, outbox: int, *, now: datetime, keep: int) -> list[int]:
        """See `JobTable.look`."""
        with self._database.write("note look") as connection:
            connection.execute("INSERT INTO looks(at, outbox) VALUES (?, ?)", (to_ms(now), outbox))
            connection.execute(
                "DELETE FROM looks WHERE number <= (SELECT max(number) FROM looks) - ?", (keep,)
            )
            return [row[0] for row in connection.execute("SELECT outbox FROM looks ORDER BY number")]

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self) -> list[JobState]:
        """See `JobTable.list`."""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT name, due_at, last_run_at, last_error, leased_until FROM jobs ORDER BY name"
            ).fetchall()
        return [
            JobState(
                name=name,
                due_at=from_ms(due),
                last_run_at=None if last is None else from_ms(last),
                last_error=error,
                leased_until=None if leased is None else from_ms(leased),
            )
            for name, due, last, error, leased in rows
        ]


def _changed(connection: sqlite3.Connection, sql: str, values: dict[str, object]) -> bool:
    return connection.execute(sql, values).rowcount == 1
