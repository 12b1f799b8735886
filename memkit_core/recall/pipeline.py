"""The steps of one recall: filter, two legs, union, context, score, cut.

Both legs see only the rows of the named scopes that satisfy the filter. Their candidates are united,
so neither leg can hide what only the other finds; the turns around a candidate join, because an
answer often stands beside the turn that shares words with the question. What is scored how is in
`memkit_core.recall.ranking`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.errors import ModelError
from memkit_core.filters import Condition, Filter, Op, conjunction
from memkit_core.indexing import Indexer
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    MemoryRecord,
    RecallResult,
    RecordType,
    Role,
    ScoredRecord,
    Signals,
    Status,
    Target,
)
from memkit_core.ports import Candidate, RecordStore, Vector
from memkit_core.recall.query_dates import date_fit, dates_in
from memkit_core.recall.ranking import (
    Bools,
    Floats,
    Pool,
    Ranking,
    Scored,
    by_other_speaker,
    ends_in_question,
    score_pool,
)
from memkit_core.scope import Scope, ScopeKind
from memkit_core.text.clean import normal_form
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import from_ms, to_ms

_DAY_MS = 86_400_000
_TALKING = (ScopeKind.SESSION, ScopeKind.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallQuery:
    """A checked question to `Recall.run`; see `Memory.recall` for the meaning of each field.

    `asked_at` is when recency counts back from, `now` when expiry is judged: the present, always.
    """

    text: str
    scopes: tuple[Scope, ...]
    top_k: int
    where: Filter | None
    types: tuple[RecordType, ...]
    statuses: tuple[Status, ...]
    include_messages: bool
    ranking: Ranking
    candidates: int
    asked_at: datetime
    now: datetime
    exclude: frozenset[UUID] = frozenset()
    space: str = MEMORIES
    vector: Vector | None = None
    """The query's own vector; None for the embedder's."""

    @property
    def condition(self) -> Filter:
        """Everything a row must satisfy besides belonging to a named scope."""
        statuses = Condition(("status",), Op.IN, [status.value for status in self.statuses])
        types = Condition(("type",), Op.IN, [kind.value for kind in self.types]) if self.types else None
        return conjunction(statuses, types, self.where) or statuses

    @property
    def targets(self) -> tuple[Target, ...]:
        """What is read, narrow scopes first; a session whose user is named too is read once."""
        memories = [Target(scope=scope, space=self.space) for scope in self.scopes]
        talks = [
            Target(scope=scope, space=MESSAGES)
            for scope in self.scopes
            if self.include_messages and scope.kind in _TALKING and scope.parent not in self.scopes
        ]
        return (*memories, *talks)


@dataclass(slots=True, kw_only=True)
class _Found:
    """One target's candidates, with what each leg said of them.

    By the integer of the point id: hashing a `UUID` runs Python code, and a recall does it a
    thousand times.
    """

    target: Target
    candidates: list[Candidate]
    counts: Floats
    keyword: dict[int, float]
    cosine: dict[int, float]

    def found(self, candidate: Candidate) -> bool:
        """Whether a leg brought it, rather than a turn beside it."""
        return candidate.point_id.int in self.keyword or candidate.point_id.int in self.cosine


class Recall:
    """Runs recalls over a store, its index and an embedder. Thread-safe."""

    def __init__(self, store: RecordStore, embedder: CheckedEmbedder, indexer: Indexer) -> None:
        """Read from these."""
        self._store = store
        self._embedder = embedder
        self._indexer = indexer

    def run(self, query: RecallQuery) -> RecallResult:
        """The hits of `query`, best first."""
        if not query.text.strip():
            return RecallResult()
        missing: set[str] = set()
        vector = self._embedded(query, missing)
        found = [self._gather(query, target, vector, missing) for target in query.targets]
        found = [one for one in found if one.candidates]
        if not found:
            return RecallResult(missing=frozenset(missing))
        scored = _scored(query, found)
        result = self._hits(query, found, scored, frozenset(missing))
        return result if vector is None else self._compared(query, result, found, vector)

    def _embedded(self, query: RecallQuery, missing: set[str]) -> Vector | None:
        if query.ranking.dense <= 0:
            return None
        if query.vector is not None:
            return query.vector
        try:
            return self._embedder.embed_query(query.text)
        except ModelError:
            # Documented degradation: the keyword leg answers, the result says what was missing.
            missing.add("dense")
            return None

    def _gather(self, query: RecallQuery, target: Target, vector: Vector | None, missing: set[str]) -> _Found:
        where, limit = query.condition, query.candidates + len(query.exclude)
        excluded = {point.int for point in query.exclude}
        points: dict[int, UUID] = {}
        keyword: dict[int, float] = {}
        if query.ranking.keyword > 0:
            hits = self._store.keywords.search(target, query.text, where=where, now=query.now, limit=limit)
            points = {hit.point_id.int: hit.point_id for hit in hits}
            keyword = {hit.point_id.int: hit.score for hit in hits if hit.point_id.int not in excluded}
        cosine: dict[int, float] = {}
        if vector is not None:
            answer = self._indexer.search(target, vector, where=where, now=query.now, limit=limit)
            points |= {hit.point_id.int: hit.point_id for hit in answer.hits}
            cosine = {hit.point_id.int: hit.cosine for hit in answer.hits if hit.point_id.int not in excluded}
            missing |= answer.missing
        pool = self._store.records.candidates(
            target,
            [points[number] for number in keyword | cosine],
            radius=query.ranking.passage_radius,
            where=where,
            now=query.now,
        )
        candidates = [candidate for candidate in pool if candidate.point_id.int not in excluded]
        counts = self._store.keywords.counts(target, query.text, candidates)
        return _Found(target=target, candidates=candidates, counts=counts, keyword=keyword, cosine=cosine)

    def _hits(
        self, query: RecallQuery, found: Sequence[_Found], scored: Scored, missing: frozenset[str]
    ) -> RecallResult:
        rows = [(one, candidate) for one in found for candidate in one.candidates]
        order = [
            int(i)
            for i in np.argsort(-scored.score, kind="stable")
            # What a leg found stays, however low; a turn that only stands beside one must score.
            if scored.score[i] > 0 or rows[i][0].found(rows[i][1])
        ]
        hits: list[ScoredRecord] = []
        texts: dict[str, int] = {}
        ahead = 0
        while ahead < len(order) and len(hits) < query.top_k:
            chosen = order[ahead : ahead + query.top_k]
            ahead += len(chosen)
            records = self._fetched([rows[i] for i in chosen])
            for i in chosen:
                one, candidate = rows[i]
                record = records.get(candidate.point_id.int)
                if record is None or _repeats(record, hits, texts):
                    continue
                hits.append(_hit(record, one, candidate, scored, i))
        truncated = len(hits) > query.top_k or ahead < len(order)
        return RecallResult(hits=tuple(hits[: query.top_k]), missing=missing, truncated=truncated)

    def _compared(
        self, query: RecallQuery, result: RecallResult, found: Sequence[_Found], vector: Vector
    ) -> RecallResult:
        """The result with the similarity of hits that the dense leg did not bring, too."""
        unknown = {hit.record.point_id for hit in result if hit.signals.similarity is None}
        cosines: dict[UUID, float] = {}
        for one in found if unknown else ():
            own = [c.point_id for c in one.candidates if c.point_id in unknown]
            if own:
                cosines |= self._indexer.compare(one.target, vector, own, now=query.now)
        hits = [
            dataclasses.replace(
                hit,
                signals=dataclasses.replace(hit.signals, similarity=similarity(cosines.get(point))),
            )
            if (point := hit.record.point_id) in cosines
            else hit
            for hit in result
        ]
        return dataclasses.replace(result, hits=tuple(hits))

    def _fetched(self, rows: Sequence[tuple[_Found, Candidate]]) -> dict[int, MemoryRecord]:
        wanted: dict[Target, list[UUID]] = {}
        for one, candidate in rows:
            wanted.setdefault(one.target, []).append(candidate.point_id)
        return {
            record.point_id.int: record
            for target, points in wanted.items()
            for record in self._store.records.fetch(target, points)
        }


def _repeats(record: MemoryRecord, hits: list[ScoredRecord], texts: dict[str, int]) -> bool:
    """Whether a memory with the same words was already taken from another scope.

    Then the narrower of the two stays, at the place of the better one. Within one scope both are
    kept: two records of a scope are two memories, whatever they say.
    """
    if record.space != MEMORIES:
        return False
    place = texts.setdefault(normal_form(record.content), len(hits))
    if place == len(hits) or hits[place].scope == record.scope:
        return False
    if record.scope.kind.breadth < hits[place].scope.kind.breadth:
        hits[place] = dataclasses.replace(hits[place], record=record)
    return True


def _scored(query: RecallQuery, found: Sequence[_Found]) -> Scored:
    candidates = [candidate for one in found for candidate in one.candidates]
    terms = keyword_terms(query.text)
    since = np.array([candidate.since for candidate in candidates], np.float64)
    names = {c.speaker: keyword_terms(c.speaker) for c in candidates if c.speaker is not None}
    pool = Pool(
        keyword=np.array([one.keyword.get(c.point_id.int, 0.0) for one in found for c in one.candidates]),
        cosine=np.array([one.cosine.get(c.point_id.int, np.nan) for one in found for c in one.candidates]),
        counts=np.concatenate([one.counts for one in found]),
        totals=np.array([c.length for c in candidates], np.float64),
        session=np.array([c.session for c in candidates], np.int64),
        position=np.array([c.position for c in candidates], np.int64),
        other_speaker=by_other_speaker(terms, [c.speaker for c in candidates], names),
        asks=_asking(candidates),
        dated=_dated(query.text, candidates),
        age_days=(to_ms(query.asked_at) - since) / _DAY_MS,
        importance=np.array([c.importance for c in candidates]),
    )
    return score_pool(pool, query.ranking)


def _asking(candidates: Sequence[Candidate]) -> Bools:
    # What a person asks an assistant tells about the person; between people the answer comes next.
    assisted = {c.session for c in candidates if c.role == Role.ASSISTANT}
    asks = [c.session not in assisted and ends_in_question(c.ending, c.speaker) for c in candidates]
    return np.array(asks, bool)


def _dated(text: str, candidates: Sequence[Candidate]) -> Floats:
    dates = dates_in(text)
    if not dates:
        return np.zeros(len(candidates))
    return np.array([date_fit(dates, from_ms(candidate.since)) for candidate in candidates])


def similarity(cosine: float | None) -> float | None:
    """(1 + cosine) / 2, kept in [0, 1]; None when there was nothing to compare.

    To six places, which is what float32 knows: identical vectors give 1, and pass a threshold of 1.
    """
    return None if cosine is None else min(max(round((1 + cosine) / 2, 6), 0.0), 1.0)


_LIFTS = ("neighbour", "passage", "session", "date", "newer")


def _hit(record: MemoryRecord, one: _Found, candidate: Candidate, scored: Scored, row: int) -> ScoredRecord:
    cosine = one.cosine.get(candidate.point_id.int)
    signals = {name: float(values[row]) for name, values in scored.signals.items()}
    return ScoredRecord(
        record=record,
        score=float(scored.score[row]),
        signals=Signals(
            similarity=similarity(cosine),
            keyword=one.keyword.get(candidate.point_id.int),
            relevance=signals["relevance"],
            importance=record.importance,
            recency=signals["recency"],
            lifts={name: signals[name] for name in _LIFTS if signals.get(name)},
        ),
    )
