"""What a recall asks, and what each way of answering it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self
from uuid import UUID

import numpy as np

from memkit_core.filters import Condition, Filter, Op, conjunction
from memkit_core.models import MEMORIES, MESSAGES, RecordType, Status, Target
from memkit_core.ports import Candidate, Vector, VectorSpace
from memkit_core.recall.as_of import held_at
from memkit_core.recall.bm25 import Floats
from memkit_core.recall.columns import Columns, columns_of
from memkit_core.recall.finishing import Finish
from memkit_core.recall.weights import Ranking
from memkit_core.recall.words import WordTable
from memkit_core.scope import Scope, ScopeKind

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
    vector_space: VectorSpace | None = None
    """The space of `vector`; None for the one in use."""
    as_of: datetime | None = None
    """Only what held at this moment; None for what is stored as it is now."""

    explain: bool = False
    """Whether the hits also say which vectors they were compared by."""
    finish: Finish | None = None
    """What is done with the ranked hits; None for nothing."""
    words: WordTable | None = None
    """By what the words of turns are compared; None where they are not."""

    @property
    def condition(self) -> Filter:
        """Everything a row must satisfy besides belonging to a named scope."""
        asked = self.condition_now
        return asked if self.as_of is None else conjunction(asked, held_at(self.as_of)) or asked

    @property
    def condition_now(self) -> Filter:
        """As `condition`, but for having held at a moment."""
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

    @property
    def per_leg(self) -> int:
        """Rows each leg brings at most: what is excluded may be among the best."""
        return self.candidates + len(self.exclude)

    @property
    def counted(self) -> bool:
        """Whether term counts are needed: of turns, they score what surrounds them, and tell whose words are related."""
        return any(target.space == MESSAGES for target in self.targets)

    def radius(self, target: Target) -> int:
        """How many turns before and after one that was found are candidates too."""
        return self.ranking.passage_radius if target.space == MESSAGES else 0


@dataclass(slots=True, kw_only=True)
class Found:
    """One target's `n` candidates in the order of writing, with what each leg said of them.

    Attributes:
        target: whose they are.
        candidates: what the store says of each.
        columns: `(n,)` what ranking reads of each.
        speakers: the names by their numbers in `columns`.
        keyword: `(n,)` BM25, 0 for what the keyword leg did not bring.
        cosine: `(n,)`, NaN for what the dense leg did not bring.
        counts: `(n, t)` how often each of the `t` terms of the query is in each; None unless asked for.
        compared: `(n,)` the cosine of each, NaN without a vector; None where it was not computed.
    """

    target: Target
    candidates: Sequence[Candidate]
    columns: Columns
    speakers: Sequence[str | None]
    keyword: Floats
    cosine: Floats
    counts: Floats | None = None
    compared: Floats | None = None

    @classmethod
    def nothing(cls, target: Target, terms: Sequence[str] | None) -> Self:
        """What is found where there are no rows; with counts of `terms` if given."""
        none = np.zeros(0)
        counts = None if terms is None else np.zeros((0, len(terms)))
        return cls(
            target=target,
            candidates=(),
            columns=columns_of((), {}),
            speakers=(),
            keyword=none,
            cosine=none,
            counts=counts,
            compared=none,
        )
