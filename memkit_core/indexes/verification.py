"""Whether an index holds what the store says it must."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memkit_core.errors import BackendError
from memkit_core.indexes.checks import unit
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import Vector, VectorIndex, VectorSource

_PROBES = 8
_ENOUGH = 10
_SAME = 1e-3


def verify(source: VectorSource, index: VectorIndex) -> None:
    """Compare the number of points, and have some confirmed rows find themselves.

    Of damages to the engine's files some load without an error and answer with nothing, or with
    noise; so a sample of rows must come back with the stored vector and be found by it.

    Raises:
        BackendError: the index cannot be trusted.
    """
    stored, waiting = source.vectors.counts()
    count, slack = index.count(), source.outbox.state(max_attempts=1).length
    if not stored - waiting <= count <= stored + slack:
        raise BackendError(
            f"it holds {count} points, the store {stored} vectors ({waiting} unconfirmed)",
            backend="vector index",
            operation="verify",
        )
    for record, vector in _probes(source, stored):
        _probe(source, index, record, vector)


def _probes(source: VectorSource, stored: int) -> Iterator[tuple[MemoryRecord, Vector]]:
    first = source.vectors.page(after=0, limit=_PROBES)
    if not first or stored <= _PROBES:
        yield from (row[1:] for row in first)
        return
    yield from (row[1:] for row in first[:2])
    generator = np.random.default_rng()
    for after in generator.integers(first[0][0], first[0][0] + stored, size=_PROBES - 2):
        yield from (row[1:] for row in source.vectors.page(after=int(after), limit=1))


def _probe(source: VectorSource, index: VectorIndex, record: MemoryRecord, vector: Vector) -> None:
    point = record.point_id
    target = Target(scope=record.scope, space=record.space)
    if any(pending.point_id == point for pending in source.outbox.pending(target)):
        return
    held = index.get([point]).get(point)
    hits = index.search(target, vector, where=None, limit=_ENOUGH)
    itself = held is not None and float(held @ unit(vector)) > 1 - _SAME
    # More rows of one text than were asked for are possible; then all that came must be as near.
    found = any(hit.point_id == point for hit in hits) or len(hits) == _ENOUGH
    if not itself or not found or abs(hits[0].cosine - 1) > _SAME:
        raise BackendError(f"point {point} does not find itself", backend="vector index", operation="verify")
