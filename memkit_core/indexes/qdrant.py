"""`QdrantIndex`: a collection on a Qdrant server or in Qdrant Cloud, through qdrant-client.

What is known of it and what is done about it here; `qdrant_connection` has what the client does:

- The engine that qdrant-client has in this process (`":memory:"`) knows no payload index and warns
  when asked for one, so it is not asked. It is for tests: a search looks at every point, and above
  20,000 of them the client warns.
- Connections do not survive a fork: two processes would read each other's answers, and gRPC waits
  forever. A child gets `BackendUnavailableError` at once and makes a client of its own.
- Deleted payloads stay in the server's files for a while, so a payload holds digests and times.

What was run: everything on `":memory:"`, refusals and broken connections on loopback servers that
play a script. Not run: a real server, so its payload indexes, its HNSW graph and gRPC answers are
used as documented.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ClosedError,
    ConfigError,
    DimensionMismatchError,
    shown,
)
from memkit_core.filters import Filter
from memkit_core.indexes.checks import checked_hit, checked_query, unit_rows
from memkit_core.indexes.qdrant_connection import BACKEND, asking, connect_qdrant, is_local, package
from memkit_core.indexes.qdrant_points import (
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    PARTITION,
    QdrantFilters,
    payload,
)
from memkit_core.models import Target
from memkit_core.ports import IndexHit, IndexPoint, Vector
from memkit_core.sequences import chunked

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import UpdateResult

__all__ = ["QdrantIndex", "connect_qdrant"]


class QdrantIndex:
    """Vectors in a Qdrant collection, found by cosine. Thread-safe; many processes may share one.

    The client stays with its maker, who closes it. A large collection is searched by graph: the
    server's answer is then nearly, not always exactly, the nearest points, and filters hold all the
    same. Writes return when they can be found.
    """

    def __init__(self, client: QdrantClient, collection: str, dimension: int, *, batch: int = 250) -> None:
        """Open `collection`, or make it, with the payload indexes that searches need.

        Args:
            client: see `connect_qdrant`; used by this process only.
            collection: its name on the server.
            dimension: length of the vectors.
            batch: points in one request.

        Raises:
            DimensionMismatchError: the collection holds vectors of another length.
            ConfigError: the collection measures something else than cosine or names its vectors, or
                the server refuses the key.
            BackendError: the server failed; `retryable` says whether it was down or slow.
            MissingDependencyError: qdrant-client is not installed.
        """
        self._models = models = package().models
        self._filters = QdrantFilters(
            models,
            between=models.Range,
            empty=lambda field: models.IsEmptyCondition(is_empty=models.PayloadField(key=field)),
            nothing=models.HasIdCondition(has_id=[]),
        )
        self._client = client
        self._collection = collection
        self._dimension = dimension
        self._batch = batch
        self._pid = os.getpid()
        self._closed = False
        self._make()
        self._check()

    @staticmethod
    def exists(client: QdrantClient, collection: str) -> bool:
        """Whether the server has a collection of this name; raises as the constructor does."""
        with asking(client, collection, "open"):
            return bool(client.collection_exists(collection))

    def _make(self) -> None:
        if self.exists(self._client, self._collection):
            return
        models = self._models
        vectors = models.VectorParams(size=self._dimension, distance=models.Distance.COSINE)
        try:
            with self._open("create") as client:
                client.create_collection(self._collection, vectors_config=vectors)
        except BackendError:
            # Another process may have been quicker; what it made is checked like any other.
            if not self.exists(self._client, self._collection):
                raise

    def _check(self) -> None:
        models, name = self._models, self._collection
        with self._open("open") as client:
            info = client.get_collection(name)
            vectors = info.config.params.vectors
            if not isinstance(vectors, models.VectorParams):
                raise ConfigError(
                    f"the Qdrant collection {name!r} names its vectors, memkit's has one without a name; "
                    "use another collection"
                )
            if vectors.distance != models.Distance.COSINE:
                raise ConfigError(
                    f"the Qdrant collection {name!r} measures {vectors.distance.value}, memkit needs Cosine; "
                    "use another collection"
                )
            if vectors.size != self._dimension:
                raise DimensionMismatchError(
                    f"the collection {name!r} holds vectors of {vectors.size} dimensions, the embedder makes "
                    f"{self._dimension}; open it with the embedder it was made with, or use another collection",
                    backend=BACKEND,
                    operation="open",
                )
            # At each opening, since whoever made the collection may have been killed before these.
            if not is_local(client):
                for field, kind in self._payload_indexes().items():
                    if field not in info.payload_schema:
                        client.create_payload_index(name, field, field_schema=kind, wait=True)

    def _payload_indexes(self) -> dict[str, Any]:
        models = self._models
        kinds: dict[str, Any] = dict.fromkeys(KEYWORD_FIELDS, models.PayloadSchemaType.KEYWORD)
        # The server keeps the points of one tenant together on disk.
        kinds[PARTITION] = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        return kinds | dict.fromkeys(INTEGER_FIELDS, models.PayloadSchemaType.INTEGER)

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""
        return self._dimension

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """See `VectorIndex.upsert`; batches are separate writes, each whole or not at all."""
        models = self._models
        rows = unit_rows(points, self._dimension, backend=BACKEND)
        # By id, so that the last of several decides, whatever order a server takes them in.
        newest = {point.point_id: (point, row) for point, row in zip(points, rows, strict=True)}
        for chunk in chunked(list(newest.values()), self._batch):
            made = [
                models.PointStruct(id=str(point.point_id), vector=row.tolist(), payload=payload(point))
                for point, row in chunk
            ]
            with self._open("upsert") as client:
                self._applied(client.upsert(self._collection, points=made, wait=True), "upsert")

    def delete(self, points: Sequence[UUID]) -> None:
        """See `VectorIndex.delete`."""
        for chunk in chunked(points, self._batch):
            chosen = self._models.PointIdsList(points=[str(point) for point in chunk])
            with self._open("delete") as client:
                self._applied(client.delete(self._collection, points_selector=chosen, wait=True), "delete")

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """See `VectorIndex.search`."""
        query = checked_query(vector, self._dimension, backend=BACKEND)
        if query is None or limit <= 0:
            return []
        with self._open("search") as client:
            answer = client.query_points(
                self._collection,
                query=query.tolist(),
                query_filter=self._filters.within(target, where),
                limit=limit,
                with_payload=False,
                with_vectors=False,
            )
        return [checked_hit(_known(hit.id, "search"), hit.score, backend=BACKEND) for hit in answer.points]

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """See `VectorIndex.get`."""
        vectors = {}
        for chunk in chunked(points, self._batch):
            ids = [str(point) for point in chunk]
            with self._open("get") as client:
                found = client.retrieve(self._collection, ids=ids, with_payload=False, with_vectors=True)
            for record in found:
                stored = np.asarray(record.vector, dtype=np.float32)
                if stored.shape != (self._dimension,):
                    raise BackendError(
                        f"point {record.id} has a vector of shape {stored.shape}",
                        backend=BACKEND,
                        operation="get",
                    )
                vectors[_known(record.id, "get")] = stored
        return vectors

    def count(self) -> int:
        """How many points it holds."""
        with self._open("count") as client:
            return int(client.count(self._collection, exact=True).count)

    def clear(self) -> None:
        """Remove every point; the collection stays, so that others who use it see an empty one."""
        everything = self._models.FilterSelector(filter=self._models.Filter())
        with self._open("clear") as client:
            self._applied(client.delete(self._collection, points_selector=everything, wait=True), "clear")

    def flush(self) -> None:
        """Nothing to do: a server has a write in its write-ahead log before it answers.

        Such a write outlives a power cut (https://qdrant.tech/documentation/concepts/storage/#versioning);
        an engine in memory outlives nothing.
        """
        with self._open("flush"):
            pass

    def close(self) -> None:
        """Refuse further calls; safe to call twice. The client stays open for whoever made it."""
        self._closed = True

    @contextmanager
    def _open(self, operation: str) -> Iterator[QdrantClient]:
        if self._pid != os.getpid():
            raise BackendUnavailableError(
                "this process was forked from the one that opened the index; open one with a client of its own",
                backend=BACKEND,
                operation=operation,
            )
        if self._closed:
            raise ClosedError(f"{operation}: the index was closed; open the memory again")
        with asking(self._client, self._collection, operation):
            yield self._client

    def _applied(self, result: UpdateResult, operation: str) -> None:
        if result.status is not self._models.UpdateStatus.COMPLETED:
            raise BackendTimeoutError(
                f"the server answered {result.status.value!r}: the change is accepted, not applied",
                backend=BACKEND,
                operation=operation,
            )


def _known(point: object, operation: str) -> UUID:
    """The id of a point as memkit made it; any other is not ours."""
    try:
        return UUID(str(point))
    except ValueError:
        raise BackendError(
            f"point {shown(point)} is no UUID: the collection holds what memkit did not write",
            backend=BACKEND,
            operation=operation,
        ) from None
