"""The steps of one recall: filter, two legs, union, context, score, cut.

Both legs see only the rows of the named scopes that satisfy the filter. Their candidates are united,
so neither leg can hide what only the other finds; the turns around a candidate join, because an
answer often stands beside the turn that shares words with the question. What is scored how is in
`memkit_core.recall.ranking`.
"""

from __future__ import annotations

import bisect
import dataclasses
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from memkit_core.errors import MissingDependencyError, ModelError
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    MemoryRecord,
    RecallResult,
    ScoredRecord,
    Signals,
    Target,
)
from memkit_core.ports import RecordStore, Vector, VectorSpace
from memkit_core.recall.finishing import finished
from memkit_core.recall.pool import pool_of
from memkit_core.recall.query import Found, RecallQuery
from memkit_core.recall.ranking import (
    Pool,
    Scored,
    score_pool,
)
from memkit_core.recall.stored import StoredLegs
from memkit_core.text.clean import normal_form

if TYPE_CHECKING:
    from memkit_core.embedders.checked import CheckedEmbedder, CurrentModel
    from memkit_core.indexing import Indexer
    from memkit_core.recall.copies import PartitionCopies
    from memkit_core.recall.weights import Ranking
    from memkit_core.recall.words import Words

_log = logging.getLogger("memkit.recall")
_LEAST_KNOWN = 0.1
"""What is left of the dense leg when its model knows nothing of a query: it still finds equal texts."""


@dataclass(slots=True, kw_only=True)
class _Taken:
    """A candidate that becomes a hit: `row` of the pool, and the record with where it was found."""

    row: int
    record: MemoryRecord
    point: bytes
    target: Target


class Recall:
    """Runs recalls over a store, its index and an embedder. Thread-safe."""

    def __init__(
        self,
        store: RecordStore,
        model: CurrentModel,
        indexer: Indexer,
        copies: PartitionCopies,
        *,
        words: Words | None = None,
    ) -> None:
        """Read from these: `copies` where they can answer, else the store and the index.

        `model` gives what queries are embedded with now; `words` compares those of turns, which only a
        memory itself has.
        """
        self._store = store
        self._model = model
        self._indexer = indexer
        self._copies = copies
        self._words = words
        self._stored = StoredLegs(store, indexer)

    def run(self, query: RecallQuery) -> RecallResult:
        """The hits of `query`, best first."""
        if not query.text.strip():
            return RecallResult()
        model = self._model()
        result = self._answered(query, model)
        if "dense" in result.missing and (changed := self._model(settled=True)) is not model:
            # The memory got another model after the query was embedded.
            return self._answered(query, changed)
        return result

    def _answered(self, query: RecallQuery, model: CheckedEmbedder) -> RecallResult:
        missing: set[str] = set()
        vector, space, ranking = self._embedded(query, model, missing)
        if self._words is not None and ranking.related > 0 and ranking.keyword > 0 and query.counted:
            query = dataclasses.replace(query, words=self._words.table(model))
        try:
            found, pool = self._candidates(query, vector, space, missing)
        except (ModelError, MissingDependencyError) as error:
            if query.words is None:
                raise
            # Documented degradation: the words themselves still answer, without those related to them.
            _log.warning("words are not compared, and answer alone: %s", error)
            missing.add("related")
            query = dataclasses.replace(query, words=None)
            found, pool = self._candidates(query, vector, space, missing)
        if pool is None:
            return RecallResult(missing=frozenset(missing))
        scored = score_pool(pool, ranking)
        taken, truncated = self._taken(query, found, pool, scored)
        cosines = {} if vector is None else self._cosines(query, vector, space, found, taken)
        hits = [_hit(one, pool, scored, cosines.get(one.row)) for one in taken]
        if query.explain:
            hits = self._explained(taken, hits)
        result = RecallResult(hits=tuple(hits), missing=frozenset(missing), truncated=truncated)
        return result if query.finish is None else finished(query.text, result, query.finish)

    def _explained(self, taken: Sequence[_Taken], hits: Sequence[ScoredRecord]) -> list[ScoredRecord]:
        """The hits with the vector space each was compared in, and whether the index has it."""
        targets = {one.target for one in taken}
        spaces = {target: self._store.space_of(target) for target in targets}
        waiting = {row.point for target in targets for row in self._store.outbox.pending(target)}
        explained = []
        for one, hit in zip(taken, hits, strict=True):
            space = spaces[one.target]
            compared = hit.signals.similarity is not None and space is not None
            explained.append(
                dataclasses.replace(
                    hit,
                    embedding=space.fingerprint if compared and space is not None else None,
                    synced=one.point not in waiting,
                )
            )
        return explained

    def _embedded(
        self, query: RecallQuery, model: CheckedEmbedder, missing: set[str]
    ) -> tuple[Vector | None, VectorSpace | None, Ranking]:
        """The vector of the query, the space it is of, and the weights as far as its model knows the text."""
        if query.ranking.dense <= 0:
            return None, None, query.ranking
        if query.vector is not None:
            space = query.vector_space or self._indexer.compared_with(query.vector)
            return query.vector, space, query.ranking
        try:
            vector, known = model.embed_query(query.text), max(model.knows(query.text), _LEAST_KNOWN)
            return vector, model.space(), _trusting(query.ranking, known)
        except ModelError as error:
            # Documented degradation: the keyword leg answers, the result says what was missing.
            if not model.absent:
                _log.warning("the query was not embedded, words answer alone: %s", error)
            missing.add("dense")
            return None, None, query.ranking

    def _candidates(
        self, query: RecallQuery, vector: Vector | None, space: VectorSpace | None, missing: set[str]
    ) -> tuple[list[Found], Pool | None]:
        """What was found for each target that has anything, and all of it as one pool; None when there is nothing."""
        found = [self._found(query, target, vector, space, missing) for target in query.targets]
        found = [one for one in found if one.candidates]
        return found, pool_of(query, found) if found else None

    def _found(
        self,
        query: RecallQuery,
        target: Target,
        vector: Vector | None,
        space: VectorSpace | None,
        missing: set[str],
    ) -> Found:
        found = self._copies.find(self._store.partitions, query, target, vector, space)
        if found is None:
            return self._stored.find(query, target, vector, space, missing)
        if space is not None and self._indexer.held() is None and self._store.vectors.space() is not None:
            # The answer is whole, but larger partitions and filters will be slow. Before the first vector
            # there is nothing to index.
            missing.add("index")
        return found

    def _taken(
        self, query: RecallQuery, found: Sequence[Found], pool: Pool, scored: Scored
    ) -> tuple[list[_Taken], bool]:
        """What becomes hits, best first, and whether there was more."""
        ends = np.cumsum([len(one.candidates) for one in found]).tolist()
        # What a leg found stays, however low; a turn that only stands beside one must score.
        stays = (scored.score > 0) | (pool.keyword > 0) | ~np.isnan(pool.cosine)
        order = np.argsort(-scored.score, kind="stable")
        order = order[stays[order]]
        taken: list[_Taken] = []
        known: dict[tuple[str, str], int] = {}
        said: set[tuple[object, str]] = set()
        ahead = 0
        while ahead < len(order) and len(taken) < query.top_k:
            chosen = order[ahead : ahead + query.top_k].tolist()
            ahead += len(chosen)
            places = {row: _place(found, ends, row) for row in chosen}
            records = self._fetched(list(places.values()))
            for row in chosen:
                target, point = places[row]
                record = records.get(point)
                if record is not None and not _said_before(record, said):
                    one = _Taken(row=row, record=record, point=point, target=target)
                    if len(found) == 1 or not _repeats(one, taken, known):
                        taken.append(one)
        return taken[: query.top_k], len(taken) > query.top_k or ahead < len(order)

    def _fetched(self, places: Sequence[tuple[Target, bytes]]) -> dict[bytes, MemoryRecord]:
        return {
            point.bytes: record
            for target, points in _by_target(places).items()
            for point, record in self._store.records.fetch(target, points).items()
        }

    def _cosines(
        self,
        query: RecallQuery,
        vector: Vector,
        space: VectorSpace | None,
        found: Sequence[Found],
        taken: Sequence[_Taken],
    ) -> dict[int, float]:
        """The cosines of the hits, by their rows of the pool."""
        many = [len(one.candidates) for one in found]
        known = [
            np.full(n, math.nan) if one.compared is None else one.compared
            for one, n in zip(found, many, strict=True)
        ]
        compared = np.concatenate(
            [np.where(np.isnan(one.cosine), more, one.cosine) for one, more in zip(found, known, strict=True)]
        )
        unknown = np.repeat([one.compared is None for one in found], many) & np.isnan(compared)
        cosines = {one.row: float(compared[one.row]) for one in taken if not math.isnan(compared[one.row])}
        asked = {one.point: one for one in taken if unknown[one.row]}
        for target, points in _by_target([(one.target, one.point) for one in asked.values()]).items():
            alike = self._indexer.compare(target, vector, points, space=space, now=query.now)
            for point, cosine in alike.items():
                cosines[asked[point.bytes].row] = cosine
        return cosines


def _trusting(ranking: Ranking, known: float) -> Ranking:
    """The weights with the dense leg counting for as much as its model knows of the text."""
    return ranking if known >= 1 else dataclasses.replace(ranking, dense=ranking.dense * known)


def _place(found: Sequence[Found], ends: Sequence[int], row: int) -> tuple[Target, bytes]:
    """Whose a row of the pool is, and its point."""
    number = bisect.bisect_right(ends, row)
    one = found[number]
    return one.target, one.candidates[row - ends[number]].point


def _by_target(places: Iterable[tuple[Target, bytes]]) -> dict[Target, list[UUID]]:
    found: dict[Target, list[UUID]] = {}
    for target, point in places:
        found.setdefault(target, []).append(UUID(bytes=point))
    return found


def _said_before(record: MemoryRecord, said: set[tuple[object, str]]) -> bool:
    """Whether a better turn of the same speaker has the same words: what is said often would crowd out the rest."""
    if record.space != MESSAGES:
        return False
    words = (record.speaker or record.metadata.get("role"), normal_form(record.content))
    if words in said:
        return True
    said.add(words)
    return False


def _repeats(one: _Taken, taken: list[_Taken], known: dict[tuple[str, str], int]) -> bool:
    """Whether what it was promoted from or to, or the same words, was already taken from another scope.

    Then the narrower of the two stays, at the place of the better one. Within one scope both are
    kept: two records of a scope are two memories, whatever they say.
    """
    record = one.record
    if record.space != MEMORIES:
        return False
    words = ("words", normal_form(record.content))
    source = [] if record.promoted_from_id is None else [("source", record.promoted_from_id)]
    line = [("source", record.id), *source, *(("id", name) for _, name in source)]
    places = [known[key] for key in (*line, words) if key in known]
    place = next((i for i in places if taken[i].record.scope != record.scope), len(taken))
    for key in (("id", record.id), *source, words):
        known.setdefault(key, place)
    if place == len(taken):
        return False
    if record.scope.kind.breadth < taken[place].record.scope.kind.breadth:
        taken[place] = dataclasses.replace(one, row=taken[place].row)
    return True


def similarity(cosine: float | None) -> float | None:
    """(1 + cosine) / 2, kept in [0, 1]; None when there was nothing to compare.

    To six places, which is what float32 knows: identical vectors give 1, and pass a threshold of 1.
    """
    return None if cosine is None else min(max(round((1 + cosine) / 2, 6), 0.0), 1.0)


_LIFTS = ("related", "neighbour", "passage", "session", "date", "newer")


def _hit(one: _Taken, pool: Pool, scored: Scored, compared: float | None) -> ScoredRecord:
    row = one.row
    found, cosine = float(pool.keyword[row]), float(pool.cosine[row])
    return ScoredRecord(
        record=one.record,
        score=float(scored.score[row]),
        signals=Signals(
            similarity=similarity(compared if math.isnan(cosine) else cosine),
            keyword=found or None,
            fused=float(scored.signals["fused"][row]),
            relevance=float(scored.signals["relevance"][row]),
            importance=one.record.importance,
            recency=float(scored.signals["recency"][row]),
            lifts={name: lift for name in _LIFTS if (lift := float(scored.signals[name][row]))},
        ),
    )
