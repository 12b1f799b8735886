"""What recall answers with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from memkit_core.models.records import MemoryRecord
from memkit_core.plurals import plural
from memkit_core.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Why a record was recalled and where it ranks. Higher is better in each.

    Attributes:
        similarity: (1 + cosine) / 2 of query and record in [0, 1]: identical is 1, a zero vector 0;
            None when there was no vector to compare. The only absolute number here: use it for
            thresholds.
        keyword: BM25 of the record inside its owner's records, 0 or more, None when no term matched.
        fused: both legs together, before the conversation around it counts, in [0, 1].
        relevance: the score before importance and recency, in [0, 1].
        importance: the record's own, in [0, 1].
        recency: exp(-age / time constant), in [0, 1].
        lifts: named contributions of words related to the query's, of the conversation around it and of time:
            `related`, `neighbour`, `passage`, `session`, `date`, `newer`; without those that are 0.
        rerank: what the reranker said, on its own scale; None when none was asked.
    """

    similarity: float | None = None
    keyword: float | None = None
    fused: float = 0.0
    relevance: float = 0.0
    importance: float = 0.0
    recency: float = 0.0
    lifts: Mapping[str, float] = field(default_factory=dict)
    rerank: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRecord:
    """A recalled record: `score` in [0, 1] orders one result and is not comparable across queries.

    `parent` is the larger chunk that a chunk of a document is part of, when the search was asked for it.
    When recall was asked to explain, `embedding` is the fingerprint of the vector space it was compared
    in (None where there was no vector), and `synced` whether the vector index has its newest state.
    """

    record: MemoryRecord
    score: float
    signals: Signals
    parent: MemoryRecord | None = None
    embedding: str | None = None
    synced: bool | None = None

    @property
    def scope(self) -> Scope:
        """Whose memory it is."""
        return self.record.scope

    @property
    def why(self) -> str:
        """In words why it is here: what it shares with the query, and what lifted it."""
        signals, reasons = self.signals, []
        if signals.rerank is not None:
            reasons.append(f"reranker {signals.rerank:.3g}")
        if signals.keyword:
            reasons.append(f"shares words (BM25 {signals.keyword:.2f})")
        if signals.similarity is not None:
            reasons.append(f"similar in meaning ({signals.similarity:.2f})")
        reasons += [_LIFTED[name] for name in signals.lifts if name in _LIFTED]
        return ", ".join(reasons) or "stands beside what was found"


_LIFTED = {
    "related": "has words related to the query's",
    "neighbour": "beside a turn that matches",
    "passage": "in a passage that matches",
    "session": "in a session that matches",
    "date": "from a time that the query names",
    "newer": "newer than others",
}


class Explanation(list[dict[str, object]]):
    """The rows of `RecallResult.explain`: a list of dicts, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        """What a notebook shows: one line a hit, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        columns = list(self[0]) if self else []
        return html.table(
            f"{len(self)} {plural(len(self), 'hit')} explained", columns, (list(row.values()) for row in self)
        )


_SHOWN_OF_HITS = ("rank", "content", "score", "why", "similarity", "keyword", "recency", "scope", "id")


@dataclass(frozen=True, slots=True)
class RecallResult(Sequence[ScoredRecord]):
    """The answer of `recall`: a sequence of hits, best first.

    Attributes:
        hits: the hits themselves.
        missing: what did not answer in full: `"dense"`; `"related"` when words could not be compared and only the
            query's own answered; `"reranker"` when it failed or was too slow and the hits are in the order they
            had without it; or `"index"` when this process has no vector index and scans instead; empty when
            nothing is degraded.
        truncated: whether a cap or budget left something out that would have ranked next.
        recall_id: names this answer to `memory.feedback`; None when it is not logged (`Config.recall_log`).
    """

    hits: tuple[ScoredRecord, ...] = ()
    missing: frozenset[str] = frozenset()
    truncated: bool = False
    recall_id: str | None = None

    @overload
    def __getitem__(self, index: int) -> ScoredRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScoredRecord]: ...
    def __getitem__(self, index: int | slice) -> ScoredRecord | Sequence[ScoredRecord]:
        """The hit at `index`, or a tuple of hits for a slice."""
        return self.hits[index]

    def explain(self) -> Explanation:
        """A row a hit, best first, with all that decided its rank; a list of dicts for `pandas.DataFrame`.

        `rank` counts from 1; `scope` is readable; the numbers are those of `score` and `Signals`, with
        each lift in a column of its own (`lift_date`, ...); `why` says it in words.
        """
        names = sorted({name for hit in self.hits for name in hit.signals.lifts})
        return Explanation(
            {
                "rank": rank,
                "id": hit.record.id,
                "content": hit.record.content,
                "scope": str(hit.scope),
                "score": hit.score,
                "similarity": hit.signals.similarity,
                "keyword": hit.signals.keyword,
                "fused": hit.signals.fused,
                "relevance": hit.signals.relevance,
                "importance": hit.signals.importance,
                "recency": hit.signals.recency,
                "rerank": hit.signals.rerank,
                **{f"lift_{name}": hit.signals.lifts.get(name, 0.0) for name in names},
                "embedding": hit.embedding,
                "synced": hit.synced,
                "why": hit.why,
            }
            for rank, hit in enumerate(self.hits, 1)
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the hits, best first, with why they are there, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        missing = f"; not in full: {', '.join(sorted(self.missing))}" if self.missing else ""
        cut = "; more would have ranked next" if self.truncated else ""
        rows = ([row[name] for name in _SHOWN_OF_HITS] for row in self.explain())
        heading = f"{len(self)} {plural(len(self), 'hit')}, best first{missing}{cut}"
        return html.table(heading, _SHOWN_OF_HITS, rows)

    def __len__(self) -> int:
        """How many hits there are."""
        return len(self.hits)

    def __iter__(self) -> Iterator[ScoredRecord]:
        """The hits, best first."""
        return iter(self.hits)
