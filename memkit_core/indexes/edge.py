"""`EdgeIndex`: Qdrant embedded in the process, in one folder.

What the engine is known to do (qdrant-edge-py 0.9) and what is done about it here:

- In a forked child the first call never returns, so a child gets `BackendUnavailableError` at once
  and never touches the inherited shard.
- A second open of a live folder can damage it: whoever makes an `EdgeIndex` holds a lock on the
  folder first (`memkit_core.indexes.keeper`).
- It holds the GIL in every call, so writes go in small batches with a pause for other threads.
- Errors are bare `Exception` and, on damaged files, `PanicException`, a `BaseException`. This is the
  one place that catches it; both become `BackendError`, and the keeper rebuilds the folder.
- Deleted payloads stay in its files, so a payload holds digests and times, never text.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from memkit_core.errors import (
    BackendError,
    BackendUnavailableError,
    ClosedError,
    MissingDependencyError,
)
from memkit_core.filters import And, Condition, Filter, Not, Op, Or, holds
from memkit_core.indexes.checks import checked_points, checked_query
from memkit_core.locks import ThreadLock
from memkit_core.models import RecordType, Status, Target
from memkit_core.ports import IndexHit, IndexPoint, Vector
from memkit_core.sequences import chunked

if TYPE_CHECKING:
    import qdrant_edge

_BACKEND = "qdrant-edge"
_VECTOR = "dense"
_KEYWORD_FIELDS = ("partition", "scope", "type", "status", "tags")
# Every search looks at `expires_at`: without an index the engine reads the payload of each point.
_INTEGER_FIELDS = ("created_at", "occurred_at", "expires_at")

# Scores of unit vectors can exceed 1 by rounding; anything further, or NaN, is a damaged file.
_COSINE_SLACK = 1e-3


def _engine() -> Any:
    try:
        import qdrant_edge
    except ImportError as error:
        raise MissingDependencyError("qdrant-edge-py", extra=None) from error
    return qdrant_edge


class EdgeIndex:
    """Vectors in a Qdrant Edge shard, found by cosine. Thread-safe; one process a folder.

    Each write is on disk when it returns as far as a killed process goes; `flush` adds power cuts.
    """

    def __init__(self, folder: Path, dimension: int, *, batch: int = 250) -> None:
        """Load the shard in `folder`, or make one there. The caller holds the lock on the folder.

        Raises:
            BackendError: the folder cannot be loaded; it may be damaged.
            MissingDependencyError: qdrant-edge-py is not installed.
        """
        self._edge = _engine()
        self._dimension = dimension
        self._batch = batch
        self._pid = os.getpid()
        self._mutex = ThreadLock()
        self._shard: qdrant_edge.EdgeShard | None = None
        with _guarded("open"):
            self._shard = self._load(folder) if any(folder.glob("*")) else self._create(folder)

    def _create(self, folder: Path) -> qdrant_edge.EdgeShard:
        edge = self._edge
        folder.mkdir(parents=True, exist_ok=True)
        shard: qdrant_edge.EdgeShard
        vectors = {_VECTOR: edge.EdgeVectorParams(size=self._dimension, distance=edge.Distance.Cosine)}
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors))
        for field in _KEYWORD_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        for field in _INTEGER_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Integer))
        return shard

    def _load(self, folder: Path) -> qdrant_edge.EdgeShard:
        shard: qdrant_edge.EdgeShard = self._edge.EdgeShard.load(str(folder))
        return shard

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""
        return self._dimension

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """See `VectorIndex.upsert`; batches are separate writes, each whole or not at all."""
        edge = self._edge
        checked = checked_points(points, self._dimension, backend=_BACKEND)
        for chunk in chunked(checked, self._batch):
            made = [
                edge.Point(point.point_id, {_VECTOR: point.vector.tolist()}, _payload(point))
                for point in chunk
            ]
            with self._open("upsert") as shard:
                shard.update(edge.UpdateOperation.upsert_points(made))
            _let_others_run()

    def delete(self, points: Sequence[UUID]) -> None:
        """See `VectorIndex.delete`."""
        for chunk in chunked(points, self._batch):
            with self._open("delete") as shard:
                shard.update(self._edge.UpdateOperation.delete_points(list(chunk)))
            _let_others_run()

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        query = checked_query(vector, self._dimension, backend=_BACKEND)
        if query is None or limit <= 0:
            return []
        edge = self._edge
        request = edge.QueryRequest(
            query=edge.Query.Nearest(query.tolist(), using=_VECTOR),
            filter=edge.Filter(must=[*self._owned(target), *self._translated(where)]),
            limit=limit,
            with_payload=False,
            with_vector=False,
        )
        with self._open("search") as shard:
            found = shard.query(request)
        hits = [IndexHit(point_id=_known(hit.id, "search"), cosine=hit.score) for hit in found]
        if not all(abs(hit.cosine) <= 1 + _COSINE_SLACK for hit in hits):
            raise BackendError(
                "a score is out of range; the files are damaged", backend=_BACKEND, operation="search"
            )
        return hits

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """See `VectorIndex.get`."""
        with self._open("get") as shard:
            found = shard.retrieve(list(points), False, True)
        vectors = {}
        for record in found:
            stored: Any = record.vector
            if not stored or _VECTOR not in stored:
                raise BackendError(
                    f"point {record.id} has no vector; the files are damaged",
                    backend=_BACKEND,
                    operation="get",
                )
            vectors[_known(record.id, "get")] = np.asarray(stored[_VECTOR], dtype=np.float32)
        return vectors

    def count(self) -> int:
        """How many points it holds."""
        with self._open("count") as shard:
            return int(shard.count(self._edge.CountRequest(exact=True)))

    def clear(self) -> None:
        """Remove every point. Their payloads stay in the files until the folder is rebuilt."""
        with self._open("clear") as shard:
            shard.update(self._edge.UpdateOperation.delete_points_by_filter(self._edge.Filter()))

    def flush(self) -> None:
        """See `VectorIndex.flush`."""
        with self._open("flush") as shard:
            shard.flush()

    def close(self) -> None:
        """Let go of the folder; safe to call twice. In a forked child nothing is touched."""
        with self._mutex:
            shard, self._shard = self._shard, None
            if shard is None:
                return
            if self._pid != os.getpid():
                _never_collected.append(shard)
                return
            with _guarded("close"):
                shard.close()

    @contextmanager
    def _open(self, operation: str) -> Iterator[qdrant_edge.EdgeShard]:
        if self._pid != os.getpid():
            raise BackendUnavailableError(
                "this process was forked from the one that opened the index",
                backend=_BACKEND,
                operation=operation,
            )
        shard = self._shard
        if shard is None:
            raise ClosedError(f"{operation}: the index was closed; open the memory again")
        with _guarded(operation):
            yield shard

    def _owned(self, target: Target) -> list[Any]:
        edge = self._edge
        partition = _partition(target.owner.digest, target.space)
        owned = [edge.FieldCondition(key="partition", match=edge.MatchValue(partition))]
        if target.narrowed:
            scope = target.scope.digest.hex()
            owned.append(edge.FieldCondition(key="scope", match=edge.MatchValue(scope)))
        return owned

    def _translated(self, where: Filter | None) -> list[Any]:
        parts = () if where is None else where.parts if isinstance(where, And) else (where,)
        return [_Translator(self._edge).filter(part) for part in parts]


class _Translator:
    """Filters over the indexed fields as Qdrant filters, with exactly the grammar's meaning."""

    def __init__(self, edge: Any) -> None:
        self._edge = edge

    def filter(self, where: Filter) -> Any:
        edge = self._edge
        match where:
            case And(parts):
                return edge.Filter(must=[self.filter(part) for part in parts])
            case Or(parts):
                return edge.Filter(should=[self.filter(part) for part in parts]) if parts else self._never()
            case Not(part):
                return edge.Filter(must_not=[self.filter(part)])
            case Condition():
                return self._condition(where)

    def _condition(self, where: Condition) -> Any:
        assert where.field is not None
        if where.field in ("type", "status"):
            return self._enumerated(where)
        if where.field == "tags":
            return self._tags(where)
        return self._time(where)

    def _enumerated(self, where: Condition) -> Any:
        # Both fields have few values and are never missing: ask the grammar which of them match.
        known: list[str] = [str(value) for value in (RecordType if where.field == "type" else Status)]
        return self._any(str(where.field), [value for value in known if holds(where, value)])

    def _tags(self, where: Condition) -> Any:
        if where.op is Op.EXISTS:
            return self._edge.Filter() if where.value else self._never()
        # A list that is contained as one value is no tag, so it equals none.
        wanted = (
            where.value if isinstance(where.value, list) and where.op is not Op.CONTAINS else [where.value]
        )
        found = self._any("tags", [_tag_digest(tag) for tag in wanted if isinstance(tag, str)])
        return self._edge.Filter(must_not=[found]) if where.op is Op.NIN else found

    def _time(self, where: Condition) -> Any:
        edge, op, value = self._edge, where.op, where.value
        if op is Op.EXISTS:
            empty = edge.FieldCondition(key=where.field, is_empty=True)
            return edge.Filter(must_not=[empty]) if value else edge.Filter(must=[empty])
        if op in (Op.IN, Op.NIN):
            assert isinstance(value, list)
            equal = [self._range(where, gte=v, lte=v) for v in value if v is not None]
            found = edge.Filter(should=equal) if equal else self._never()
            return edge.Filter(must_not=[found]) if op is Op.NIN else found
        if op in (Op.EQ, Op.NE):
            found = self._never() if value is None else self._range(where, gte=value, lte=value)
            return edge.Filter(must_not=[found]) if op is Op.NE else found
        return self._range(where, **{op.value: value})

    def _range(self, where: Condition, **bounds: Any) -> Any:
        limits = self._edge.RangeFloat(**{name: float(bound) for name, bound in bounds.items()})
        return self._edge.FieldCondition(key=where.field, range=limits)

    def _any(self, key: str, values: list[str]) -> Any:
        if not values:
            return self._never()
        match = self._edge.MatchValue(values[0]) if len(values) == 1 else self._edge.MatchAny(values)
        return self._edge.FieldCondition(key=key, match=match)

    def _never(self) -> Any:
        return self._edge.HasIdCondition(set())


def _known(point: object, operation: str) -> UUID:
    """The id of a point as memkit made it; any other is not ours."""
    if isinstance(point, UUID):
        return point
    raise BackendError(
        f"point {point!r} is no UUID; the files are damaged", backend=_BACKEND, operation=operation
    )


def _payload(point: IndexPoint) -> dict[str, object]:
    payload: dict[str, object] = {
        "partition": _partition(point.owner, point.space),
        "scope": point.scope.hex(),
        "type": point.type,
        "status": point.status,
        "created_at": point.created_at,
        "tags": [_tag_digest(tag) for tag in point.tags],
    }
    if point.occurred_at is not None:
        payload["occurred_at"] = point.occurred_at
    if point.expires_at is not None:
        payload["expires_at"] = point.expires_at
    return payload


@lru_cache(maxsize=1024)
def _partition(owner: bytes, space: str) -> str:
    return hashlib.blake2b(owner + space.encode(), digest_size=16, person=b"memkit.owner").hexdigest()


def _tag_digest(tag: str) -> str:
    return hashlib.blake2b(tag.encode(), digest_size=16, person=b"memkit.tag").hexdigest()


def _let_others_run() -> None:
    time.sleep(0)


# A shard that a forked child inherited must not be closed by garbage collection either.
_never_collected: list[object] = []


@contextmanager
def _guarded(operation: str) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, BackendError):
        raise
    except BaseException as error:  # the engine's panics derive from BaseException
        raise BackendError(
            str(error) or type(error).__name__, backend=_BACKEND, operation=operation
        ) from error
