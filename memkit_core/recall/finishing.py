"""The last steps of a recall: reranking within a time limit, and budgets of tokens."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from memkit_core.errors import ModelError
from memkit_core.models import RecallResult, RecordType, ScoredRecord
from memkit_core.observing import carried
from memkit_core.ports import Reranker, TokenCounter

_log = logging.getLogger("memkit.recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What is done with the ranked hits.

    Attributes:
        top_k: the most hits that are returned.
        count: counts the tokens of a text.
        reranker: orders the first `depth` hits anew within `seconds`; None for no reranking.
        token_budget: the most tokens of all hits together; None for no limit.
        type_budgets: the most tokens of the hits of a type.
    """

    top_k: int
    count: TokenCounter
    reranker: Reranker | None = None
    depth: int = 0
    seconds: float = 0.0
    token_budget: int | None = None
    type_budgets: Mapping[RecordType, int] = field(default_factory=dict)

    @property
    def wanted(self) -> int:
        """How many ranked hits are needed."""
        return self.top_k if self.reranker is None else max(self.top_k, self.depth)


def finished(query: str, result: RecallResult, finish: Finish) -> RecallResult:
    """`result` reranked, cut to `top_k` and fitted into the budgets."""
    if finish.reranker is not None:
        result = _reranked(query, result, finish)
    cut = result.hits[: finish.top_k]
    kept = _within_budgets(cut, finish)
    return dataclasses.replace(
        result, hits=tuple(kept), truncated=result.truncated or len(kept) < len(result.hits)
    )


def _reranked(query: str, result: RecallResult, finish: Finish) -> RecallResult:
    """The hits in the reranker's order; in their own, and saying so, when it fails or is too slow."""
    if len(result.hits) < 2:  # noqa: PLR2004 - one hit is in order
        return result
    scores = _scores(query, [hit.record.index_text for hit in result.hits], finish)
    if scores is None:
        return dataclasses.replace(result, missing=result.missing | {"reranker"})
    order = np.argsort(-np.array(scores), kind="stable")
    hits = [
        dataclasses.replace(
            hit,
            score=_in_unit(scores, scores[place]),
            signals=dataclasses.replace(hit.signals, rerank=scores[place]),
        )
        for place in order.tolist()
        for hit in [result.hits[place]]
    ]
    return dataclasses.replace(result, hits=tuple(hits))


def _scores(query: str, texts: Sequence[str], finish: Finish) -> Sequence[float] | None:
    """What the reranker says in time; None when it fails. One that hangs goes on in its own thread."""
    reranker, said, failed = finish.reranker, list[Sequence[float]](), list[ModelError]()
    assert reranker is not None

    def ask() -> None:
        try:
            said.append(reranker(query, texts))
        except ModelError as error:
            failed.append(error)

    # What traces the call, memkit's own or not, sees where it belongs.
    thread = threading.Thread(target=carried(ask), name="memkit-rerank", daemon=True)
    thread.start()
    thread.join(finish.seconds)
    if said:
        return said[0]
    reason = failed[0] if failed else f"no answer within {finish.seconds:g} s"
    _log.warning("the hits keep their order, the reranker failed: %s", reason)
    return None


def _in_unit(scores: Sequence[float], score: float) -> float:
    """A score in [0, 1]: as it is where all are, else by the logistic function, which keeps the order."""
    if min(scores) >= 0 and max(scores) <= 1:
        return score
    return float(0.5 * (1 + np.tanh(score / 2)))


def _within_budgets(hits: Sequence[ScoredRecord], finish: Finish) -> list[ScoredRecord]:
    """The hits that fit, best first and whole; one that does not fit leaves its room to those behind it."""
    if finish.token_budget is None and not finish.type_budgets:
        return list(hits)
    left, left_of, kept = finish.token_budget, dict(finish.type_budgets), list[ScoredRecord]()
    for hit in hits:
        tokens = finish.count(hit.record.index_text)
        kind = hit.record.type
        if (left is None or tokens <= left) and tokens <= left_of.get(kind, tokens):
            kept.append(hit)
            left = None if left is None else left - tokens
            if kind in left_of:
                left_of[kind] -= tokens
    return kept
