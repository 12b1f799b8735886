"""The keyword leg of a recall."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memkit_core.filters import Filter
from memkit_core.models import Target
from memkit_core.ports.rows import Candidate


class KeywordHit(NamedTuple):
    """A row the keyword leg found, with what ranking needs of it; `score` is BM25, above 0."""

    candidate: Candidate
    score: float

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return self.candidate.point_id


class KeywordIndex(Protocol):
    """Finds rows by their words. Written in the record's own transaction, so it never lags."""

    def search(
        self, target: Target, query: str, *, where: Filter | None, now: datetime, limit: int
    ) -> list[KeywordHit]:
        """The visible rows of `target` that share a term with `query` and satisfy `where`, best first.

        BM25 with the statistics (document count, lengths, document frequencies) of the target's
        owner alone, so that one owner's rows never change another's scores. `query` is text, never
        a query language: no character of it can raise.
        """

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Shape `(n, t)`: how often each of the `t` distinct terms of `query` is in each candidate."""
