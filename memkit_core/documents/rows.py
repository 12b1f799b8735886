"""The rows of one space of one scope, with the vectors of one model: what a collection is made of."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from numpy.typing import ArrayLike

from memkit_core.chunking import level_for
from memkit_core.config import Config
from memkit_core.documents.chunks import has_several_sizes
from memkit_core.documents.searching import DocumentSearch, SearchMode, at_level, weighed
from memkit_core.documents.spaces import CollectionSpace, finite
from memkit_core.embedders.checked import CheckedEmbedder, CurrentModel
from memkit_core.errors import BackendError, DimensionMismatchError, InvalidInputError, shown
from memkit_core.filters import Filter
from memkit_core.indexing import Indexer, Indexers
from memkit_core.inputs import checked_enum, checked_fraction
from memkit_core.models import (
    DeleteReceipt,
    MemoryRecord,
    RecallResult,
    RecordPage,
    RecordPatch,
    Status,
    Target,
)
from memkit_core.ports import Embedder, Level, ListQuery, Matrix, RecordStore, VectorSpace
from memkit_core.recall.copies import PartitionCopies
from memkit_core.recall.query import RecallQuery
from memkit_core.text.clean import storable
from memkit_core.times import Clock

_log = logging.getLogger("memkit")

_PAGE = 1000


class Rows:
    """Writes, reads and searches the records of one space of one scope. Thread-safe."""

    def __init__(
        self,
        target: Target,
        *,
        store: RecordStore,
        indexers: Indexers,
        own: CurrentModel,
        copies: PartitionCopies,
        embedder: CheckedEmbedder | None,
        model: str | None,
        config: Config,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """`embedder` and `model` are None for the memory's own vectors.

        Raises:
            ConfigError: the rows that are there have vectors of another model.
        """
        self.target = target
        self.config = config
        self.store = store
        self._indexers = indexers
        self._own = own
        self._embedder = embedder
        self._model = model
        self._clock = clock
        self._changed = changed
        self.vectors = CollectionSpace(
            target.space.partition(":")[2], target, store=store, embedder=embedder, model=model
        )
        self._searched = DocumentSearch(
            target, store=store, own=own, copies=copies, embedder=embedder, model=model
        )
        self.vectors.held(None)

    @property
    def embedder(self) -> Embedder | None:
        """What embeds texts and queries, None when they come with their vectors; raises `ModelError`."""
        return self._own() if self._model is None else self._embedder

    def now(self) -> datetime:
        """The moment by the memory's clock."""
        return self._clock()

    # ------------------------------------------------------------------ writing

    def put(self, records: Sequence[MemoryRecord], given: Matrix | None = None) -> list[MemoryRecord]:
        """Write records with the vectors they come with, and index them; see `RecordTable.put`."""
        space = self.vectors.to_write(given)
        stored = self.store.records.put(self.target.scope, records, vector_space=space, vectors=given)
        self._index(stored, space, verb="put")
        return stored

    def replace(
        self,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        ids: Sequence[str] = (),
        verb: str,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """Write records in the place of others, and index them; see `RecordTable.replace`."""
        space = self.vectors.to_write(None) if records else None
        stored, receipt = self.store.records.replace(
            self.target.scope, self.target.space, sources, records, ids=ids, vector_space=space
        )
        self._index(stored, space, verb=verb)
        return stored, receipt

    def _index(self, stored: Sequence[MemoryRecord], space: VectorSpace | None, *, verb: str) -> None:
        try:
            self._indexer(space).sync([record.point_id for record in stored])
        except BackendError as error:
            # Documented degradation: the records are safe, and the worker goes on with the outbox.
            _log.warning("%s: stored, but not indexed yet: %s", verb, error)
        self._changed()

    def _indexer(self, space: VectorSpace | None) -> Indexer:
        return self._indexers.own if space is None else self._indexers.given(space, self._embedder)

    def change(self, record: MemoryRecord, patch: RecordPatch) -> MemoryRecord:
        """Change `record`, as it was read, as `patch` says, without moving its `updated_at`.

        Raises:
            ConflictError, RecordNotFoundError: somebody changed or deleted it meanwhile.
        """
        new = self.store.records.change(
            self.target.scope,
            self.target.space,
            record.id,
            patch,
            expected_version=record.version,
            now=record.updated_at,
        )
        self._changed()
        return new

    def delete(self, ids: Sequence[str]) -> DeleteReceipt:
        """Delete the records with these ids; unknown ids count as nothing."""
        receipt = self.store.records.delete(self.target.scope, self.target.space, ids)
        self._changed()
        return receipt

    def clear(self) -> DeleteReceipt:
        """Delete all rows, in one transaction."""
        receipt = self.store.records.delete_space(self.target.scope, self.target.space)
        self._changed()
        return receipt

    # ------------------------------------------------------------------ reading

    def get(self, ids: Sequence[str]) -> list[MemoryRecord]:
        """The visible records with these ids that exist, in the order of `ids`, without repeats."""
        found = self.store.records.get(self.target.scope, self.target.space, ids, now=self._clock())
        return [record for record in found if record.status is Status.ACTIVE]

    def list(self, where: Filter | None, *, limit: int, cursor: str | None = None) -> RecordPage:
        """One page of the visible records that satisfy `where`, newest first."""
        query = ListQuery(space=self.target.space, where=where, limit=limit, cursor=cursor)
        return self.store.records.list(self.target.scope, query, now=self._clock())

    def ids(self, where: Filter | None, *, limit: int | None = None, offset: int = 0) -> Sequence[str]:
        """The ids of the visible records that satisfy `where`, those changed last first."""
        return self.store.records.ids(
            self.target.scope,
            self.target.space,
            where=where,
            now=self._clock(),
            limit=limit,
            offset=offset,
        )

    def all(self, where: Filter | None) -> Sequence[MemoryRecord]:
        """The visible records that satisfy `where`, newest first."""
        page = self.list(where, limit=_PAGE)
        found = [*page]
        while page.cursor is not None:
            page = self.list(where, limit=_PAGE, cursor=page.cursor)
            found += page
        return found

    # ------------------------------------------------------------------ searching

    def search(
        self,
        query: object,
        *,
        top_k: int,
        where: Filter | None,
        mode: SearchMode | str,
        vector: ArrayLike | None = None,
        alpha: float | None = None,
        min_similarity: float = 0.0,
        level: Level | str | None = None,
    ) -> RecallResult:
        """The rows nearest to `query`, best first; see `Documents.search`."""
        if not isinstance(query, str):
            raise InvalidInputError(f"search: query must be a string, got {shown(query)}")
        asked = RecallQuery(
            text=storable(query),
            scopes=(self.target.scope,),
            space=self.target.space,
            top_k=top_k,
            where=where,
            types=(),
            statuses=(Status.ACTIVE,),
            include_messages=False,
            # A document is no memory: neither its age nor an importance nobody gave counts.
            ranking=dataclasses.replace(self.config.ranking, recency=0.0, newer=0.0, importance=0.0),
            candidates=max(self.config.candidates, 3 * top_k),
            asked_at=self._clock(),
            now=self._clock(),
        )
        chosen = checked_enum(SearchMode, mode, "mode")
        if alpha is not None:
            chosen, ranking = weighed(chosen, asked.ranking, checked_fraction(alpha, "alpha"))
            asked = dataclasses.replace(asked, ranking=ranking)
        floor = checked_fraction(min_similarity, "min_similarity")
        if floor > 0 and chosen is SearchMode.KEYWORD:
            raise InvalidInputError(
                f"search: min_similarity={shown(min_similarity)} compares vectors, and a search by words has none; "
                "leave it out, or search with mode 'dense' or 'hybrid'"
            )
        given = None if vector is None else finite(vector, 1, "vector")
        space = self.vectors.held(None if given is None else len(given))
        if space is None and self._model is not None:
            # Empty: the memory's own index, the only one there is, has vectors of another model.
            return RecallResult()
        if given is not None and self._model is None:
            own = self.store.vectors.space()
            if own is not None and own.dimension != len(given):
                raise DimensionMismatchError(
                    f"the memory's vectors have {own.dimension} dimensions, the query {len(given)}",
                    backend="memkit",
                    operation="documents",
                )
        ask = partial(self._searched, mode=chosen, given=given, indexer=self._indexer(space), floor=floor)
        wanted = None if level is None else checked_enum(Level, level, "level")
        result = ask(asked if wanted is None else at_level(asked, wanted))
        if wanted is None and any(has_several_sizes(hit.record) for hit in result):
            # Most collections have one size, and are asked once.
            result = ask(at_level(asked, level_for(query)))
        return result
