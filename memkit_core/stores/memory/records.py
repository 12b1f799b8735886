"""`RecordTable` in plain Python."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from memkit_core.errors import ConfigError
from memkit_core.filters import Filter
from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    RecordChange,
    RecordPage,
    RecordPatch,
    Status,
    Target,
)
from memkit_core.ports import (
    Access,
    Candidate,
    ListQuery,
    Matrix,
    MemoryView,
    RecordCount,
    Standing,
    Step,
    VectorSpace,
)
from memkit_core.scope import Scope, ScopeKind
from memkit_core.stores.changes import patched, whole_history
from memkit_core.stores.checks import check_scopes, checked_given, other_space
from memkit_core.stores.cursors import check_order, read_cursor, write_cursor
from memkit_core.stores.memory.deciding import InMemoryView, apply_steps
from memkit_core.stores.memory.log import forget_sessions
from memkit_core.stores.memory.state import Prepared, Row, State, copied, kept, prepared
from memkit_core.stores.memory.values import forget_values
from memkit_core.stores.succession import check_slot
from memkit_core.times import to_ms


class InMemoryRecords:
    """The records of every space in dicts."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def put(
        self,
        scope: Scope,
        records: Sequence[MemoryRecord],
        *,
        vector_space: VectorSpace | None = None,
        vectors: Matrix | None = None,
        merge: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """See `RecordTable.put`."""
        check_scopes(scope, records)
        given = vector_space if vector_space is not None and vector_space.given else None
        if vector_space not in (None, given, self._state.vector_space):
            vectors = None
        checked_given(records, given or self._state.vector_space, vectors, backend="memory")
        # All that can fail happens before the first row changes.
        newest = {(record.space, record.id): prepared(record) for record in records}
        with self._state.open():
            rows = self._written(newest, given, merge)
            for record, vector in zip(records, vectors, strict=True) if vectors is not None else ():
                if (row := self._state.points.get(record.point_id)) is not None:
                    row.vector = kept(vector)
            return [copied(rows[record.space, record.id].record) for record in records]

    def replace(
        self,
        scope: Scope,
        space: str,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        ids: Sequence[str] = (),
        vector_space: VectorSpace | None = None,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """See `RecordTable.replace`."""
        check_scopes(scope, records)
        given = vector_space if vector_space is not None and vector_space.given else None
        newest = {(record.space, record.id): prepared(record) for record in records}
        wanted, named = set(sources), set(ids)
        with self._state.open():
            rows = self._written(newest, given)
            gone = [
                row
                for row in self._state.rows_of(Target(scope=scope, space=space))
                if (space, row.record.id) not in newest
                and (row.record.source in wanted or row.record.id in named)
            ]
            receipt = self._state.remove(gone)
            return [copied(rows[record.space, record.id].record) for record in records], receipt

    def _written(
        self,
        newest: Mapping[tuple[str, str], Prepared],
        given: VectorSpace | None,
        merge: Collection[str] = (),
    ) -> dict[tuple[str, str], Row]:
        self._check_spaces([new.record for new in newest.values()], given)
        rows = {
            key: self._state.merge(new) if new.record.id in merge else self._state.write(new, given=given)
            for key, new in newest.items()
        }
        if given is not None:
            self._state.synced_through.setdefault(given, 0)
        return rows

    def _check_spaces(self, records: Sequence[MemoryRecord], given: VectorSpace | None) -> None:
        for target in {Target(scope=record.scope, space=record.space) for record in records}:
            partition = self._state.partitions.get((target.owner, target.space))
            if partition is not None and partition.given != given:
                raise ConfigError(other_space(target, held=partition.given, given=given))

    def change(
        self,
        scope: Scope,
        space: str,
        record_id: str,
        patch: RecordPatch,
        *,
        expected_version: int | None = None,
        now: datetime,
    ) -> MemoryRecord:
        """See `RecordTable.change`."""
        with self._state.open():
            row = self._state.rows.get((scope, space, record_id))
            old = row.record if row is not None and row.position is None else None
            new = patched(old, patch, record_id=record_id, expected_version=expected_version, now=now)
            if row is not None and old is not None and new is not old:
                if (new.type, new.key) != (old.type, old.key):
                    held = self._state.current(new, now=now)
                    check_slot(None if held is None else held.record, new, verb="update")
                self._state.rewrite(row, prepared(new), kind=ChangeKind.UPDATED)
            return copied(new)

    def decide(self, rule: Callable[[MemoryView], Sequence[Step]]) -> list[MemoryRecord]:
        """See `RecordTable.decide`."""
        with self._state.open():
            return apply_steps(self._state, rule(InMemoryView(self._state)))

    def sweep(self, *, now: datetime, limit: int) -> DeleteReceipt:
        """See `RecordTable.sweep`."""
        with self._state.open():
            expired = sorted(
                (row.record.expires_at, row.seq, row)
                for row in self._state.rows.values()
                if row.record.expires_at is not None and not row.record.is_visible_at(now)
            )
            return self._state.remove([row for _, _, row in expired[:limit]])

    def counts(self) -> Sequence[RecordCount]:
        """See `RecordTable.counts`."""
        with self._state.open():
            counted = Counter(
                (row.record.space, row.record.status.value, row.record.type.value)
                for row in self._state.rows.values()
            )
        return [RecordCount(*kind, count) for kind, count in sorted(counted.items())]

    def standing(self, status: Status, *, after: int, limit: int, now: datetime) -> list[Standing]:
        """See `RecordTable.standing`."""
        with self._state.open():
            rows = [
                row
                for row in self._state.rows.values()
                if row.seq > after
                and row.record.space == MEMORIES
                and row.record.status is status
                and not row.record.pinned
                and row.record.is_visible_at(now)
            ]
            return [_standing(row) for row in sorted(rows, key=lambda row: row.seq)[:limit]]

    def archive_standing(self, seen: Sequence[Standing], *, now: datetime) -> list[Standing]:
        """See `RecordTable.archive_standing`."""
        with self._state.open():
            found = self._unchanged(seen, Status.ACTIVE)
            for _, row in found:
                old = row.record
                new = dataclasses.replace(
                    old, status=Status.ARCHIVED, updated_at=now, version=old.version + 1
                )
                self._state.rewrite(row, prepared(new), kind=ChangeKind.ARCHIVED)
            return [one for one, _ in found]

    def delete_standing(self, seen: Sequence[Standing]) -> tuple[list[Standing], DeleteReceipt]:
        """See `RecordTable.delete_standing`."""
        with self._state.open():
            found = self._unchanged(seen, Status.ARCHIVED)
            return [one for one, _ in found], self._state.remove([row for _, row in found])

    def _unchanged(self, seen: Sequence[Standing], status: Status) -> list[tuple[Standing, Row]]:
        rows = ((one, self._state.rows.get((one.scope, MEMORIES, one.id))) for one in seen)
        return [
            (one, row)
            for one, row in rows
            if row is not None and row.record.status is status and _standing(row) == one
        ]

    def history(self, scope: Scope, record_id: str, *, now: datetime) -> list[RecordChange]:
        """See `RecordTable.history`."""
        with self._state.open():
            row = self._state.rows.get((scope, MEMORIES, record_id))
            if row is None or not row.record.is_visible_at(now):
                return []
            return copy.deepcopy(whole_history(row.record, row.history))

    def touch(self, accesses: Mapping[UUID, Access]) -> None:
        """See `RecordTable.touch`."""
        with self._state.open():
            for point, access in accesses.items():
                row = self._state.points.get(point)
                if row is not None:
                    before = row.record
                    row.record = dataclasses.replace(
                        before,
                        access_count=before.access_count + access.count,
                        last_accessed_at=max(before.last_accessed_at or access.last, access.last),
                    )

    def get(self, scope: Scope, space: str, ids: Sequence[str], *, now: datetime) -> list[MemoryRecord]:
        """See `RecordTable.get`."""
        with self._state.open():
            rows = [self._state.rows.get((scope, space, i)) for i in dict.fromkeys(ids)]
            return [copied(row.record) for row in rows if row and row.record.is_visible_at(now)]

    def ids(
        self,
        scope: Scope,
        space: str,
        *,
        where: Filter | None,
        now: datetime,
        limit: int | None = None,
        offset: int = 0,
    ) -> Sequence[str]:
        """See `RecordTable.ids`."""
        with self._state.open():
            rows = [
                row
                for row in self._state.visible(Target(scope=scope, space=space), where, now)
                if row.record.status is Status.ACTIVE
            ]
        rows.sort(key=lambda row: (to_ms(row.record.updated_at), row.seq), reverse=True)
        return [row.record.id for row in rows[offset : None if limit is None else offset + limit]]

    def delete(self, scope: Scope, space: str, ids: Sequence[str]) -> DeleteReceipt:
        """See `RecordTable.delete`."""
        with self._state.open():
            rows = [self._state.rows.get((scope, space, i)) for i in dict.fromkeys(ids)]
            return self._state.remove([row for row in rows if row is not None])

    def delete_space(self, scope: Scope, space: str) -> DeleteReceipt:
        """See `RecordTable.delete_space`."""
        with self._state.open():
            rows = self._state.rows_of(Target(scope=scope, space=space))
            return self._state.remove([row for row in rows if row.record.scope == scope])

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
        values = forget_values(self._state, lambda scope, _kind, _key: chosen(scope))
        return dataclasses.replace(
            removed,
            messages=logs.messages,
            sessions=logs.sessions,
            summaries=logs.summaries,
            notes=values.notes,
            runs=values.runs,
        )

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


def _standing(row: Row) -> Standing:
    record = row.record
    return Standing(
        row=row.seq,
        scope=record.scope,
        id=record.id,
        version=record.version,
        importance=record.importance,
        created=to_ms(record.created_at),
        updated=to_ms(record.updated_at),
        accessed=None if record.last_accessed_at is None else to_ms(record.last_accessed_at),
        accesses=record.access_count,
    )


def _session_of(scope: Scope, user: Scope) -> bool:
    return scope.kind is ScopeKind.SESSION and scope.parent == user
