"""What of a record goes into a vector index."""

from __future__ import annotations

from collections.abc import Iterator

from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import IndexPoint, Vector, VectorSource
from memkit_core.times import to_ms


def index_point(record: MemoryRecord, vector: Vector) -> IndexPoint:
    """The index's view of a record: digests, times and labels, no text."""
    return IndexPoint(
        point_id=record.point_id,
        vector=vector,
        owner=Target(scope=record.scope, space=record.space).owner.digest,
        scope=record.scope.digest,
        space=record.space,
        type=record.type.value,
        status=record.status.value,
        created_at=to_ms(record.created_at),
        occurred_at=None if record.occurred_at is None else to_ms(record.occurred_at),
        expires_at=None if record.expires_at is None or record.pinned else to_ms(record.expires_at),
        tags=record.tags,
    )


def stored_points(source: VectorSource, *, batch: int) -> Iterator[list[IndexPoint]]:
    """All vectors of the vector space as points, a batch at a time."""
    after = 0
    while rows := source.vectors.page(after=after, limit=batch):
        after = rows[-1][0]
        yield [index_point(record, vector) for _, record, vector in rows]
