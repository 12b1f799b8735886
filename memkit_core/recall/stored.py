"""Both legs over the store and its vector index, for what no copy in memory can answer."""

from __future__ import annotations

import dataclasses
import math
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from memkit_core.recall.columns import Speakers, columns_of
from memkit_core.recall.query import Found

if TYPE_CHECKING:
    from memkit_core.indexing import Indexer
    from memkit_core.indexing.indexer import DenseAnswer
    from memkit_core.models import Target
    from memkit_core.ports import Candidate, RecordStore, Vector, VectorSpace
    from memkit_core.recall.query import RecallQuery

_row = attrgetter("row")


class StoredLegs:
    """Asks the keyword index and the vector index. Thread-safe."""

    def __init__(self, store: RecordStore, indexer: Indexer) -> None:
        """Read from these."""
        self._store = store
        self._indexer = indexer

    def find(
        self,
        query: RecallQuery,
        target: Target,
        vector: Vector | None,
        space: VectorSpace | None,
        missing: set[str],
    ) -> Found:
        """The target's candidates; what did not answer in full is added to `missing`."""
        where, limit = query.condition, query.per_leg
        known: dict[bytes, Candidate] = {}
        keyword: dict[bytes, float] = {}
        if query.ranking.keyword > 0:
            hits = self._store.keywords.search(target, query.text, where=where, now=query.now, limit=limit)
            known = {candidate.point: candidate for candidate, _ in hits}
            keyword = {candidate.point: score for candidate, score in hits}
        points: dict[bytes, UUID] = {}
        cosine: dict[bytes, float] = {}
        if vector is not None:
            answer = self._nearest(query, target, vector, space)
            points = {point.bytes: point for point, _ in answer.hits}
            cosine = dict(zip(points, [hit.cosine for hit in answer.hits], strict=True))
            missing |= answer.missing
        excluded = {point.bytes for point in query.exclude}
        radius = query.radius(target)
        if radius:  # What stands beside them is asked for together with them.
            points |= {point: candidate.point_id for point, candidate in known.items()}
        asked = [
            number
            for point, number in points.items()
            if point not in excluded and (radius or point not in known)
        ]
        pool = self._store.records.candidates(target, asked, radius=radius, where=where, now=query.now)
        known |= {candidate.point: candidate for candidate in pool}
        # In the order of writing, so that equal scores come in the same order on every run.
        candidates = sorted(known.values(), key=_row)
        if excluded:
            candidates = [candidate for candidate in candidates if candidate.point not in excluded]
        speakers: Speakers = {}
        return Found(
            target=target,
            candidates=candidates,
            columns=columns_of(candidates, speakers),
            speakers=tuple(speakers),
            keyword=np.array([keyword.get(one.point, 0.0) for one in candidates]),
            cosine=np.array([cosine.get(one.point, math.nan) for one in candidates]),
            counts=self._store.keywords.counts(target, query.text, candidates) if query.counted else None,
        )

    def _nearest(
        self, query: RecallQuery, target: Target, vector: Vector, space: VectorSpace | None
    ) -> DenseAnswer:
        where, now, limit = query.condition, query.now, query.per_leg
        if query.as_of is not None:
            # An index knows nothing of what held when: it is asked for more, and the store tells.
            wider = self._indexer.search(
                target, vector, space=space, where=query.condition_now, now=now, limit=2 * limit
            )
            points = [point for point, _ in wider.hits]
            held = self._store.records.candidates(target, points, radius=0, where=where, now=now)
            known = {candidate.point for candidate in held}
            hits = [hit for hit in wider.hits if hit.point_id.bytes in known]
            if len(hits) >= limit or len(points) < 2 * limit:
                return dataclasses.replace(wider, hits=hits[:limit])
        return self._indexer.search(target, vector, space=space, where=where, now=now, limit=limit)
