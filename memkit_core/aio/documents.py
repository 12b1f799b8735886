"""The awaited form of a collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from numpy.typing import ArrayLike

from memkit_core.aio.hops import Hops
from memkit_core.chunking import ContentType
from memkit_core.documents import Documents, NewDocument, SearchMode
from memkit_core.filters import FilterLike
from memkit_core.live import Live
from memkit_core.models import (
    DeleteReceipt,
    MemoryRecord,
    RecallResult,
    RecordPage,
)
from memkit_core.ports import Chunker, Level, Vector


class AsyncDocuments(Live):
    """The verbs of a collection, awaited; reached as `AsyncMemory.documents`. See `Documents`."""

    def __init__(self, documents: Documents, hops: Hops) -> None:
        """Call `documents` in worker threads."""
        self.documents = documents
        self._hops = hops

    async def put(
        self, documents: Iterable[NewDocument | str], *, vectors: ArrayLike | None = None
    ) -> list[MemoryRecord]:
        """See `Documents.put`."""
        return await self._hops.run(self.documents.put, documents, vectors=vectors)

    async def add_document(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002 - as in `Documents`
        chunker: Chunker | ContentType | str = ContentType.ARTICLE,
        context: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> list[MemoryRecord]:
        """See `Documents.add_document`."""
        return await self._hops.run(
            self.documents.add_document, text, id=id, chunker=chunker, context=context, metadata=metadata
        )

    async def search(
        self,
        query: str = "",
        *,
        vector: ArrayLike | None = None,
        top_k: int = 4,
        filters: FilterLike | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
        alpha: float | None = None,
        min_similarity: float = 0.0,
        level: Level | str | None = None,
        parents: bool = False,
    ) -> RecallResult:
        """See `Documents.search`."""
        return await self._hops.run(
            self.documents.search,
            query,
            vector=vector,
            top_k=top_k,
            filters=filters,
            mode=mode,
            alpha=alpha,
            min_similarity=min_similarity,
            level=level,
            parents=parents,
        )

    async def get(self, ids: Iterable[str]) -> list[MemoryRecord]:
        """See `Documents.get`."""
        return await self._hops.run(self.documents.get, ids)

    async def chunks(self, document: str, *, level: Level | str | None = None) -> list[MemoryRecord]:
        """See `Documents.chunks`."""
        return await self._hops.run(self.documents.chunks, document, level=level)

    async def vectors(self, ids: Iterable[str]) -> dict[str, Vector]:
        """See `Documents.vectors`."""
        return await self._hops.run(self.documents.vectors, ids)

    async def list(
        self, *, filters: FilterLike | None = None, limit: int = 100, cursor: str | None = None
    ) -> RecordPage:
        """See `Documents.list`."""
        return await self._hops.run(self.documents.list, filters=filters, limit=limit, cursor=cursor)

    async def delete(
        self, ids: Iterable[str] | None = None, *, filters: FilterLike | None = None
    ) -> DeleteReceipt:
        """See `Documents.delete`."""
        return await self._hops.run(self.documents.delete, ids, filters=filters)

    async def clear(self) -> DeleteReceipt:
        """See `Documents.clear`."""
        return await self._hops.run(self.documents.clear)
