"""`KeywordIndex` in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memkit_core.filters import Filter
from memkit_core.models import Target
from memkit_core.ports import Candidate, KeywordHit
from memkit_core.stores.keyword_scores import average_length, query_terms, term_score, term_weights
from memkit_core.stores.memory.state import Row, State


class InMemoryKeywords:
    """BM25 over the term counts that stand beside each row."""

    def __init__(self, state: State) -> None:
        """Search in `state`."""
        self._state = state

    def search(
        self, target: Target, query: str, *, where: Filter | None, now: datetime, limit: int
    ) -> list[KeywordHit]:
        """See `KeywordIndex.search`."""
        terms = query_terms(query)
        with self._state.open():
            partition = self._state.partitions.get((target.owner, target.space))
            if partition is None:
                return []
            known = [term for term in terms if partition.frequencies[term] > 0]
            documents = len(partition.rows)
            weights = term_weights([partition.frequencies[term] for term in known], documents)
            average = average_length(documents, partition.terms)
            weight_of = dict(zip(known, weights, strict=True))
            scored = [
                (_score(row, weight_of, average), row) for row in self._state.visible(target, where, now)
            ]
            best = sorted((one for one in scored if one[0] > 0), key=lambda one: (-one[0], -one[1].seq))
            return [KeywordHit(self._state.candidate(row), score) for score, row in best[:limit]]

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """See `KeywordIndex.counts`."""
        terms = query_terms(query)
        counts = np.zeros((len(candidates), len(terms)))
        with self._state.open():
            rows = {row.seq: row for row in self._state.rows_of(target)}
            for place, candidate in enumerate(candidates):
                if (row := rows.get(candidate.row)) is not None:
                    counts[place] = [row.terms[term] for term in terms]
        return counts


def _score(row: Row, weight_of: dict[str, float], average: float) -> float:
    length = row.terms.total()
    return sum(
        term_score(weight, row.terms[term], length, average)
        for term, weight in weight_of.items()
        if row.terms[term]
    )
