"""How one collection is searched: by vectors, by words, or by both."""

from __future__ import annotations

import dataclasses
import logging
from enum import StrEnum

from memkit_core.documents.chunks import of_level
from memkit_core.embedders.checked import CheckedEmbedder, CurrentModel
from memkit_core.errors import InvalidInputError, ModelError
from memkit_core.filters import conjunction
from memkit_core.indexing import Indexer
from memkit_core.models import RecallResult, ScoredRecord, Signals, Target
from memkit_core.ports import Level, RecordStore, Vector, VectorSpace
from memkit_core.recall.copies import PartitionCopies
from memkit_core.recall.pipeline import Recall, similarity
from memkit_core.recall.query import RecallQuery
from memkit_core.recall.weights import Ranking

_log = logging.getLogger("memkit")


class SearchMode(StrEnum):
    """How a collection is searched: by vectors, by words (BM25), or by both, fused."""

    DENSE = "dense"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


class DocumentSearch:
    """Answers checked questions to one collection. Thread-safe."""

    def __init__(
        self,
        target: Target,
        *,
        store: RecordStore,
        own: CurrentModel,
        copies: PartitionCopies,
        embedder: CheckedEmbedder | None,
        model: str | None,
    ) -> None:
        """As in `Documents`: `embedder` and `model` are None for the memory's own vectors."""
        self._target = target
        self._store = store
        self._own = own
        self._copies = copies
        self._embedder = embedder
        self._model = model

    def __call__(
        self,
        asked: RecallQuery,
        *,
        mode: SearchMode,
        given: Vector | None,
        indexer: Indexer,
        floor: float,
    ) -> RecallResult:
        """The hits of `asked`: `given` is the query's own vector, `floor` the lowest similarity."""
        model = self._own()
        result = self._answer(asked, mode, given, indexer, floor)
        if "dense" in result.missing and self._own(settled=True) is not model:
            # The memory got another model after the query was embedded.
            return self._answer(asked, mode, given, indexer, floor)
        return result

    def _answer(
        self, asked: RecallQuery, mode: SearchMode, given: Vector | None, indexer: Indexer, floor: float
    ) -> RecallResult:
        missing = set[str]()
        vector, space = given, None if given is None else indexer.compared_with(given)
        if vector is None and mode is not SearchMode.KEYWORD:
            vector, space = self._embedded(asked.text, indexer, missing)
        if mode is SearchMode.DENSE and vector is not None:
            result = self._nearest(asked, vector, space, indexer)
        else:
            by_words = vector is None or mode is SearchMode.KEYWORD
            ranking = dataclasses.replace(asked.ranking, dense=0.0) if by_words else asked.ranking
            recall = Recall(self._store, self._own, indexer, self._copies)
            result = recall.run(
                dataclasses.replace(asked, ranking=ranking, vector=vector, vector_space=space)
            )
        hits = tuple(hit for hit in result if floor <= 0 or (hit.signals.similarity or 0.0) >= floor)
        return dataclasses.replace(result, hits=hits, missing=result.missing | missing)

    def _embedded(
        self, text: str, indexer: Indexer, missing: set[str]
    ) -> tuple[Vector | None, VectorSpace | None]:
        """The vector of the query and the space it is of; None, and "dense" missing, for words alone."""
        embedder = self._own() if self._model is None else self._embedder
        if embedder is not None:
            try:
                vector, space = embedder.embed_query(text), embedder.space()
                if indexer.compared_with(vector, space) in (None, space):
                    return vector, space
            except ModelError as error:
                # Documented degradation: the keyword leg answers, the result says what was missing.
                if not embedder.absent:
                    _log.warning("search: the query was not embedded: %s", error)
        missing.add("dense")
        return None, None

    def _nearest(
        self, asked: RecallQuery, vector: Vector, space: VectorSpace | None, indexer: Indexer
    ) -> RecallResult:
        answer = indexer.search(
            self._target, vector, space=space, where=asked.condition, now=asked.now, limit=asked.top_k + 1
        )
        records = self._store.records.fetch(self._target, [hit.point_id for hit in answer.hits])
        hits = [
            ScoredRecord(
                record=records[hit.point_id], score=alike, signals=Signals(similarity=alike, relevance=alike)
            )
            for hit in answer.hits
            if hit.point_id in records and (alike := similarity(hit.cosine)) is not None
        ]
        return RecallResult(
            hits=tuple(hits[: asked.top_k]), missing=answer.missing, truncated=len(hits) > asked.top_k
        )


def at_level(asked: RecallQuery, level: Level) -> RecallQuery:
    """The same question to what answers for `level` alone."""
    return dataclasses.replace(asked, where=conjunction(asked.where, of_level(level)))


def weighed(mode: SearchMode, ranking: Ranking, alpha: float) -> tuple[SearchMode, Ranking]:
    """The search that gives vectors the share `alpha`, see `Documents.search`."""
    if mode is not SearchMode.HYBRID:
        raise InvalidInputError(f"search: alpha weighs the legs of mode 'hybrid', not of {mode.value!r}")
    if alpha in (0, 1):
        # A leg without weight is not asked at all.
        return SearchMode.DENSE if alpha else SearchMode.KEYWORD, ranking
    return mode, dataclasses.replace(ranking, keyword=1 - alpha, dense=alpha)
