"""`Outbox` over SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from memkit_core.models import Target
from memkit_core.ports import OutboxEntry, OutboxState, Pending, VectorSpace
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.rows import CHOSEN_CHANGES, SELECT_RECORD, chosen, read_record
from memkit_core.stores.sqlite.vectors import IN_USE, read_vector, space_in_use
from memkit_core.times import from_ms, to_ms

# Numbers travel as one JSON list, so that a long list is one bound value and one cached statement.
_LISTED = "(SELECT value FROM json_each(?))"


class SQLiteOutbox:
    """The changes that the index of the memory's own vector space, or of a given one, has not confirmed."""

    def __init__(self, database: Database, number: int | None = None) -> None:
        """Read and write in `database`; `number` is that of a given space."""
        self._database = database
        self._id = IN_USE if number is None else str(int(number))
        self._own = f"vector_space_id IS {'NULL' if number is None else int(number)}"
        self._synced_through = "synced_through" if number is None else f"synced_through:{int(number)}"

    def due(
        self,
        *,
        now: datetime,
        limit: int,
        after: int = 0,
        exclude: Sequence[int] = (),
        points: Sequence[UUID] | None = None,
        unembedded: bool = False,
    ) -> list[OutboxEntry]:
        """See `Outbox.due`."""
        source = "outbox o" if points is None else CHOSEN_CHANGES
        waiting = "o.seq IS NOT NULL AND v.seq IS NULL" if unembedded else "1"
        with self._database.connection() as connection:
            rows = connection.execute(
                f"SELECT o.number, o.point_id, o.attempts, v.vector, r.seq, {SELECT_RECORD} FROM {source} "
                f"LEFT JOIN records r ON r.seq = o.seq "
                f"LEFT JOIN vectors v ON v.seq = o.seq AND v.vector_space_id = {self._id} "
                f"WHERE o.{self._own} AND o.number > :after AND o.retry_at <= :now "
                f"AND o.number NOT IN (SELECT value FROM json_each(:excluded)) AND {waiting} "
                "ORDER BY o.number LIMIT :limit",
                chosen(points or ())
                | {"after": after, "now": to_ms(now), "excluded": json.dumps(list(exclude)), "limit": limit},
            ).fetchall()
        return [
            OutboxEntry(
                number=number,
                point_id=UUID(bytes=point),
                attempts=attempts,
                record=None if seq is None else read_record(rest),
                vector=None if vector is None else read_vector(vector),
            )
            for number, point, attempts, vector, seq, *rest in rows
        ]

    def pending(self, target: Target) -> list[Pending]:
        """See `Outbox.pending`."""
        narrowed = "AND o.scope = :scope" if target.narrowed else ""
        with self._database.connection() as connection:
            rows = connection.execute(
                "SELECT o.number, o.point_id, o.seq IS NULL OR EXISTS (SELECT 1 FROM vectors v "
                f"WHERE v.seq = o.seq AND v.vector_space_id = {self._id}) "
                f"FROM outbox o WHERE o.owner = :owner AND o.space = :space AND o.{self._own} {narrowed}",
                {"owner": target.owner.digest, "space": target.space, "scope": target.scope.digest},
            ).fetchall()
        return [Pending(number, point, bool(embedded)) for number, point, embedded in rows]

    def mark_synced(self, numbers: Sequence[int], *, space: VectorSpace | None = None) -> None:
        """See `Outbox.mark_synced`."""
        if not numbers:
            return
        with self._database.write("confirm outbox") as connection:
            if space is not None and not space.given and space_in_use(connection) != space:
                return
            connection.execute(
                f"DELETE FROM outbox WHERE number IN {_LISTED}",
                (json.dumps(list(numbers)),),
            )
            connection.execute(
                "INSERT INTO meta VALUES (:key, :n) ON CONFLICT (key) DO UPDATE "
                "SET value = max(CAST(value AS INTEGER), CAST(:n AS INTEGER))",
                {"key": self._synced_through, "n": max(numbers)},
            )

    def last_number(self) -> int:
        """See `Outbox.last_number`."""
        with self._database.connection() as connection:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'").fetchone()
        return 0 if row is None else int(row[0])

    def synced_through(self) -> int:
        """See `Outbox.synced_through`."""
        with self._database.connection() as connection:
            row = connection.execute(
                "SELECT value FROM meta WHERE key = ?", (self._synced_through,)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def mark_failed(self, numbers: Sequence[int], error: str, *, retry_at: datetime) -> None:
        """See `Outbox.mark_failed`."""
        if numbers:
            with self._database.write("note outbox failure") as connection:
                connection.execute(
                    f"UPDATE outbox SET attempts = attempts + 1, last_error = ?, retry_at = ? "
                    f"WHERE number IN {_LISTED}",
                    (error, to_ms(retry_at), json.dumps(list(numbers))),
                )

    def retry(self) -> None:
        """See `Outbox.retry`."""
        with self._database.write("retry outbox") as connection:
            connection.execute(
                f"UPDATE outbox SET retry_at = 0, attempts = 0 WHERE retry_at > 0 AND {self._own}"
            )

    def state(self, *, max_attempts: int) -> OutboxState:
        """See `Outbox.state`."""
        with self._database.snapshot() as connection:
            length, oldest, failed = connection.execute(
                "SELECT count(*), min(enqueued_at), coalesce(sum(attempts >= ?), 0) FROM outbox "
                f"WHERE {self._own}",
                (max_attempts,),
            ).fetchone()
            error = connection.execute(
                f"SELECT last_error FROM outbox WHERE last_error IS NOT NULL AND {self._own} "
                "ORDER BY retry_at DESC LIMIT 1"
            ).fetchone()
        return OutboxState(
            length=length,
            oldest=None if oldest is None else from_ms(oldest),
            failed=failed,
            last_error=None if error is None else error[0],
        )
