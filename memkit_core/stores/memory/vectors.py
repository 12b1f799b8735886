"""`VectorTable` and `Outbox` in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np

from memkit_core.errors import ConfigError
from memkit_core.filters import Filter
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import Matrix, OutboxEntry, OutboxState, Pending, Vector, VectorSpace
from memkit_core.stores.checks import check_vectors, other_model
from memkit_core.stores.memory.state import Change, Row, State, copied, kept


class InMemoryVectors:
    """The vectors that stand beside each row, of the memory's own vector space or of a given one."""

    def __init__(self, state: State, given: VectorSpace | None = None) -> None:
        """Read and write in `state`, in the space `given`; None for the own."""
        self._state = state
        self._given = given

    def use_space(self, space: VectorSpace) -> None:
        """See `VectorTable.use_space`."""
        with self._state.open():
            found = self._given or self._state.vector_space
            if found is not None:
                _check_same(found, space)
            if self._given is None:
                self._state.vector_space = space

    def space(self) -> VectorSpace | None:
        """See `VectorTable.space`."""
        with self._state.open():
            return self._given or self._state.vector_space

    def save(
        self, entries: Sequence[OutboxEntry], vectors: Matrix, *, space: VectorSpace | None = None
    ) -> list[bool]:
        """See `VectorTable.save`."""
        saved = []
        with self._state.open():
            held = self._given or self._state.vector_space
            if space is not None and held is not None:
                _check_same(held, space)
            check_vectors(vectors, held, backend="memory")
            for entry, vector in zip(entries, vectors, strict=True):
                change = self._state.changes.get(entry.number)
                row = None if change is None else change.row
                if row is not None:
                    row.vector = kept(vector)
                    self._state.note_change(row)
                saved.append(row is not None)
        return saved

    def scan(
        self,
        target: Target,
        *,
        where: Filter | None,
        now: datetime,
        points: Sequence[UUID] | None = None,
        space: VectorSpace | None = None,
    ) -> tuple[list[UUID], Matrix]:
        """See `VectorTable.scan`."""
        wanted = None if points is None else set(points)
        with self._state.open():
            if space is not None and space != (self._given or self._state.vector_space):
                return [], np.zeros((0, 0), np.float32)
            found = [
                (row.record.point_id, vector)
                for row in self._state.visible(target, where, now)
                if (vector := self._stored(row)) is not None
                and (wanted is None or row.record.point_id in wanted)
            ]
        if not found:
            return [], np.zeros((0, 0), np.float32)
        return [point for point, _ in found], np.stack([vector for _, vector in found])

    def page(self, *, after: int, limit: int) -> list[tuple[int, MemoryRecord, Vector]]:
        """See `VectorTable.page`."""
        with self._state.open():
            # Rows are kept in the order they were made, and a replaced one keeps its number.
            found = [
                (row.seq, copied(row.record), vector.copy())
                for row in self._state.rows.values()
                if row.seq > after and (vector := self._stored(row)) is not None
            ]
        return found[:limit]

    def counts(self) -> tuple[int, int]:
        """See `VectorTable.counts`."""
        with self._state.open():
            stored = [row for row in self._state.rows.values() if self._stored(row) is not None]
            waiting = sum(row.record.point_id in self._state.newest_change for row in stored)
            return len(stored), waiting

    def _stored(self, row: Row) -> Vector | None:
        """The vector to search with, None also when there was nothing to embed."""
        mine = row.given == self._given and row.vector is not None and row.vector.size
        return row.vector if mine else None


def _check_same(found: VectorSpace, space: VectorSpace) -> None:
    if found != space:
        raise ConfigError(
            other_model(found, model=space.model, revision=space.revision, dimension=space.dimension)
        )


class InMemoryOutbox:
    """The changes that the index of one vector space has not confirmed, by number."""

    def __init__(self, state: State, given: VectorSpace | None = None) -> None:
        """Read and write in `state` the changes of the space `given`; None for the memory's own."""
        self._state = state
        self._given = given

    def _changes(self) -> list[Change]:
        return [change for change in self._state.changes.values() if change.given == self._given]

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
        skipped, wanted = set(exclude), None if points is None else set(points)
        with self._state.open():
            due = [
                change
                for change in self._changes()
                if change.number > after
                and (change.retry_at is None or change.retry_at <= now)
                and change.number not in skipped
                and (wanted is None or change.point_id in wanted)
                and not (unembedded and (change.row is None or change.row.vector is not None))
            ]
            return [_entry(change) for change in due[:limit]]

    def pending(self, target: Target) -> list[Pending]:
        """See `Outbox.pending`."""
        with self._state.open():
            return [
                Pending(
                    number=change.number,
                    point=change.point_id.bytes,
                    embedded=change.row is None or change.row.vector is not None,
                )
                for change in self._changes()
                if change.space == target.space and target.covers(change.scope)
            ]

    def mark_synced(self, numbers: Sequence[int], *, space: VectorSpace | None = None) -> None:
        """See `Outbox.mark_synced`."""
        with self._state.open():
            if space is not None and space != (self._given or self._state.vector_space):
                return
            for number in numbers:
                self._state.confirm(number)
            synced_through = self._state.synced_through.get(self._given, 0)
            self._state.synced_through[self._given] = max([synced_through, *numbers])

    def last_number(self) -> int:
        """See `Outbox.last_number`."""
        with self._state.open():
            return self._state.last_number

    def synced_through(self) -> int:
        """See `Outbox.synced_through`."""
        with self._state.open():
            return self._state.synced_through.get(self._given, 0)

    def mark_failed(self, numbers: Sequence[int], error: str, *, retry_at: datetime) -> None:
        """See `Outbox.mark_failed`."""
        with self._state.open():
            for change in self._listed(numbers):
                change.attempts += 1
                change.last_error = error
                change.retry_at = retry_at

    def retry(self) -> None:
        """See `Outbox.retry`."""
        with self._state.open():
            for change in self._changes():
                change.attempts, change.retry_at = 0, None

    def state(self, *, max_attempts: int) -> OutboxState:
        """See `Outbox.state`."""
        with self._state.open():
            changes = self._changes()
            told = [change for change in changes if change.last_error is not None]
            latest = max(
                told, key=lambda change: (change.retry_at is not None, change.retry_at), default=None
            )
            return OutboxState(
                length=len(changes),
                oldest=min((change.enqueued_at for change in changes), default=None),
                failed=sum(change.attempts >= max_attempts for change in changes),
                last_error=None if latest is None else latest.last_error,
            )

    def _listed(self, numbers: Sequence[int]) -> list[Change]:
        return [self._state.changes[n] for n in dict.fromkeys(numbers) if n in self._state.changes]


def _entry(change: Change) -> OutboxEntry:
    row = change.row
    vector = None if row is None or row.vector is None else row.vector.copy()
    return OutboxEntry(
        number=change.number,
        point_id=change.point_id,
        attempts=change.attempts,
        record=None if row is None else copied(row.record),
        vector=vector,
    )
