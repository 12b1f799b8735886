"""`FlatIndex`: exact search in NumPy, for tests, small data and stores in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from uuid import UUID

import numpy as np

from memkit_core.errors import ClosedError
from memkit_core.filters import MISSING, Filter, evaluate
from memkit_core.indexes.checks import checked_hit, checked_query, dots, unit_rows
from memkit_core.locks import ThreadLock
from memkit_core.models import Target
from memkit_core.ports import IndexHit, IndexPoint, Vector


class FlatIndex:
    """All points in a dict, every search a scan: exact, O(points of the target). Thread-safe."""

    def __init__(self, dimension: int) -> None:
        """An empty index for vectors of `dimension`."""
        self._dimension = dimension
        self._points: dict[UUID, IndexPoint] = {}
        self._mutex = ThreadLock()
        self._closed = False

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""
        return self._dimension

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """See `VectorIndex.upsert`."""
        rows = unit_rows(points, self._dimension, backend="flat")
        held = [dataclasses.replace(point, vector=row) for point, row in zip(points, rows, strict=True)]
        with self._mutex:
            self._check_open()
            self._points.update((point.point_id, point) for point in held)

    def delete(self, points: Sequence[UUID]) -> None:
        """See `VectorIndex.delete`."""
        with self._mutex:
            self._check_open()
            for point in points:
                self._points.pop(point, None)

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        query = checked_query(vector, self._dimension, backend="flat")
        with self._mutex:
            self._check_open()
            chosen = [point for point in self._points.values() if _belongs(point, target, where)]
        if query is None or not chosen or limit <= 0:
            return []
        cosines = dots(np.stack([point.vector for point in chosen]), query)
        best = np.argsort(-cosines, kind="stable")[:limit]
        return [checked_hit(chosen[i].point_id, float(cosines[i]), backend="flat") for i in best]

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """See `VectorIndex.get`."""
        with self._mutex:
            self._check_open()
            return {p: self._points[p].vector.copy() for p in points if p in self._points}

    def count(self) -> int:
        """How many points it holds."""
        with self._mutex:
            self._check_open()
            return len(self._points)

    def clear(self) -> None:
        """Remove every point."""
        with self._mutex:
            self._check_open()
            self._points.clear()

    def flush(self) -> None:
        """Nothing to do: it lives in memory."""

    def close(self) -> None:
        """Forget all points; safe to call twice."""
        with self._mutex:
            self._closed = True
            self._points = {}

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the flat index was closed; open the memory again")


def _belongs(point: IndexPoint, target: Target, where: Filter | None) -> bool:
    if point.space != target.space or point.owner != target.owner.digest:
        return False
    if target.narrowed and point.scope != target.scope.digest:
        return False
    return where is None or evaluate(where, lambda path: _lookup(point, path[0]))


def _lookup(point: IndexPoint, field: str) -> object:
    value = getattr(point, field)
    if value is None:
        return MISSING
    return list(value) if field == "tags" else value
