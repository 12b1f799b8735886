"""`QdrantKeeper`: the index in a collection on a Qdrant server; one process writes, all may search."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from memkit_core.config import QdrantServer
from memkit_core.errors import BackendError
from memkit_core.indexes.keeper import StoredKeeper, space_name
from memkit_core.indexes.qdrant import QdrantIndex
from memkit_core.indexes.qdrant_connection import BACKEND, asking, connect_qdrant
from memkit_core.locks import SharedLock
from memkit_core.ports import VectorIndex, VectorSource, VectorSpace

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


class QdrantKeeper(StoredKeeper):
    """Keeps a `QdrantIndex` in a collection named after the store, its file and the vector space.

    A copy of the file in another place has a collection of its own. Two machines that hold copies at
    the same path need different `QdrantServer.prefix`es.
    """

    readable_by_all: ClassVar[bool] = True
    backend: ClassVar[str] = BACKEND

    def __init__(
        self,
        source: VectorSource,
        home: Path,
        *,
        server: QdrantServer,
        batch: int,
        lock: SharedLock | None = None,
    ) -> None:
        """For the index of `source` on `server`; see `StoredKeeper` for the rest."""
        super().__init__(source, home, lock=lock)
        self._server = server
        self._batch = batch
        self._client: QdrantClient | None = None
        self._client_pid = 0

    def check_room(self) -> None:
        """See `IndexKeeper.check_room`: the room is the server's."""

    def close(self) -> None:
        """See `IndexKeeper.close`; the client goes too."""
        super().close()
        client, self._client = self._client, None
        if client is not None and self._client_pid == os.getpid():
            client.close()

    def _existing(self, space: VectorSpace) -> VectorIndex:
        name = self._collection(space)
        if not QdrantIndex.exists(self._connected(), name):
            raise BackendError(f"there is no collection {name!r}", backend=BACKEND, operation="open")
        return QdrantIndex(self._connected(), name, space.dimension, batch=self._batch)

    def _emptied(self, space: VectorSpace) -> VectorIndex:
        client, name = self._connected(), self._collection(space)
        with asking(client, name, "rebuild"):
            # Whatever it holds or measures: the name is this store's alone.
            client.delete_collection(name)
        return QdrantIndex(client, name, space.dimension, batch=self._batch)

    def _completed(self, space: VectorSpace) -> None:
        """Nothing stood aside: readers leave a collection whose manifest is gone."""

    def _dropped(self, space: VectorSpace) -> None:
        client, name = self._connected(), self._collection(space)
        with asking(client, name, "drop"):
            client.delete_collection(name)

    def _connected(self) -> QdrantClient:
        if self._client is None or self._client_pid != os.getpid():
            server = self._server
            self._client = connect_qdrant(
                server.url,
                api_key=server.api_key,
                grpc=server.grpc,
                grpc_port=server.grpc_port,
                timeout=server.timeout,
            )
            self._client_pid = os.getpid()
        return self._client

    def _collection(self, space: VectorSpace) -> str:
        parts = (self._source.store_id, str(self._home), space.fingerprint)
        digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=16)
        return f"{self._server.prefix}-{digest.hexdigest()}"

    def _manifest_path(self, space: VectorSpace) -> Path:
        return self._home / f"{space_name(space)}.qdrant.json"

    def _expected(self, space: VectorSpace, synced_through: int) -> dict[str, object]:
        where = {"url": self._server.url, "collection": self._collection(space)}
        return super()._expected(space, synced_through) | where
