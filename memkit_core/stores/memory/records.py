"""`RecordTable` in plain Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

from memkit_core.filters import Filter
from memkit_core.models import DeleteReceipt, MemoryRecord, RecordPage, Target
from memkit_core.ports import Candidate, ListQuery
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.checks import check_scopes
from memkit_core.stores.cursors import check_order, read_cursor, write_cursor
from memkit_core.stores.memory.log import forget_sessions
from memkit_core.stores.memory.state import Row, State, copied, prepared
from memkit_core.times import to_ms


class InMemoryRecords:
    """The records of every space in dicts."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def put(self, scope: Scope, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """See `RecordTable.put`."""
        check_scopes(scope, records)
        # All that can fail happens before the first row changes.
        newest = {(record.space, record.id): prepared(record) for record in records}
        with self._state.open():
            stored = {key: self._state.write(new) for key, new in newest.items()}
            return [copied(stored[record.space, record.id]) for record in records]

    def get(self, scope: Scope, space: str, ids: Sequence[str], *, now: datetime) -> list[MemoryRecord]:
        """See `RecordTable.get`."""
        with self._state.open():
            rows = [self._state.rows.get((scope, space, i)) for i in dict.fromkeys(ids)]
            return [copied(row.record) for row in rows if row and row.record.is_visible_at(now)]

    def delete(self, scope: Scope, space: str, ids: Sequence[str]) -> DeleteReceipt:
        """See `RecordTable.delete`."""
        with self._state.open():
            rows = [self._state.rows.get((scope, space, i)) for i in dict.fromkeys(ids)]
            return self._state.remove([row for row in rows if row is not None])

    def delete_scope(self, scope: Scope) -> DeleteReceipt:
        """See `RecordTable.delete_scope`."""
        with self._state.open():
            return self._delete_scopes(lambda owner: owner == scope or _session_of(owner, scope))

    def delete_everything(self) -> DeleteReceipt:
        """See `RecordTable.delete_everything`."""
        with self._state.open():
            return self._delete_scopes(lambda _: True)

    def _delete_scopes(self, chosen: Callable[[Scope], bool]) -> DeleteReceipt:
        removed = self._state.remove(
            [row for (scope, _, _), row in self._state.rows.items() if chosen(scope)]
        )
        logs = forget_sessions(self._state, chosen)
        return dataclasses.replace(removed, messages=logs.messages, sessions=logs.sessions)

    def candidates(
        self, target: Target, points: Sequence[UUID], *, radius: int, where: Filter | None, now: datetime
    ) -> list[Candidate]:
        """See `RecordTable.candidates`."""
        wanted = set(points)
        with self._state.open():
            rows = self._state.visible(target, where, now)
            near = {
                (row.record.scope, row.position + step)
                for row in rows
                if row.position is not None and row.record.point_id in wanted
                for step in range(-radius, radius + 1)
            }
            return [
                self._state.candidate(row)
                for row in rows
                if row.record.point_id in wanted or (row.record.scope, row.position) in near
            ]

    def fetch(self, target: Target, points: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
        """See `RecordTable.fetch`."""
        with self._state.open():
            rows = {point: self._state.points.get(point) for point in points}
            return {
                point: copied(row.record)
                for point, row in rows.items()
                if row and row.record.space == target.space and target.covers(row.record.scope)
            }

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, query: ListQuery, *, now: datetime) -> RecordPage:
        """See `RecordTable.list`."""
        order = check_order(query.order)
        with self._state.open():
            rows = self._state.visible(Target(scope=scope, space=query.space), query.where, now)
            ranked = sorted(
                ((_value(row, order), row.seq, row) for row in rows if _asked(row.record, query)),
                key=lambda one: one[:2],
                reverse=True,
            )
            if query.cursor is not None:
                place = read_cursor(query.cursor, order)
                ranked = [one for one in ranked if one[:2] < place]
            page = ranked[: query.limit]
            more = len(ranked) > query.limit
            cursor = write_cursor(order, page[-1][0], page[-1][1]) if more else None
            return RecordPage(records=tuple(copied(row.record) for _, _, row in page), cursor=cursor)


def _asked(record: MemoryRecord, query: ListQuery) -> bool:
    return (
        record.status in query.statuses
        and (not query.types or record.type in query.types)
        and set(query.tags) <= set(record.tags)
        and (query.since is None or record.created_at >= query.since)
        and (query.until is None or record.created_at < query.until)
    )


def _value(row: Row, order: str) -> float:
    value = getattr(row.record, order)
    return to_ms(value) if isinstance(value, datetime) else value or 0


def _session_of(scope: Scope, user: Scope) -> bool:
    return scope.kind is ScopeKind.SESSION and scope.parent == user
