"""How a ranking is scored against gold evidence: pure functions, everything in [0, 1].

A ranking is a list of ids, best first, without repeats. Evidence is a list of pieces, each the ids
of which any one will do; a piece is found when one of its ids is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Evidence = Sequence[Sequence[str]]


def ranks_of_evidence(ranking: Sequence[str], evidence: Evidence) -> list[int | None]:
    """The best rank of each piece of evidence, counted from 1; None for one that is not ranked."""
    place = {one: rank for rank, one in reversed(list(enumerate(ranking, 1)))}
    return [min((place[one] for one in piece if one in place), default=None) for piece in evidence]


def question_metrics(ranking: Sequence[str], evidence: Evidence, ks: Sequence[int]) -> dict[str, float]:
    """The metrics of one question.

    `recall@k` is the fraction of pieces found in the first k, `all@k` 1 when all of them are,
    `any@k` 1 when one is; `r@1` is 1 when the first id is evidence; `mrr` is 1 / rank of the first
    evidence, 0 when the ranking holds none.

    Raises:
        ValueError: there is no evidence, so there is nothing to find.
    """
    return rank_metrics(ranks_of_evidence(ranking, evidence), ks)


def rank_metrics(ranks: Sequence[int | None], ks: Sequence[int]) -> dict[str, float]:
    """The same from the rank of each piece of evidence, None for one that was not found.

    Raises:
        ValueError: there are no pieces.
    """
    if not ranks:
        raise ValueError("a question without evidence has no metrics")
    first = min((rank for rank in ranks if rank is not None), default=None)
    scores: dict[str, float] = {}
    for k in ks:
        found = sum(rank is not None and rank <= k for rank in ranks)
        scores[f"recall@{k}"] = found / len(ranks)
        scores[f"all@{k}"] = float(found == len(ranks))
        scores[f"any@{k}"] = float(found > 0)
    return scores | {"mrr": 1 / first if first else 0.0, "r@1": float(first == 1)}


def unwanted_metrics(
    ranking: Sequence[str], unwanted: Sequence[str], evidence: Evidence, ks: Sequence[int]
) -> dict[str, float]:
    """How high ids stand that should not be in the answer; lower is better.

    `in_top@k` is 1 when one of them is in the first k. `above_evidence` is 1 when one stands above
    the first evidence, or is ranked while no evidence is; it is left out without evidence.
    """
    unwanted_at = ranks_of_evidence(ranking, [unwanted])[0]
    scores = {f"in_top@{k}": float(unwanted_at is not None and unwanted_at <= k) for k in ks}
    if evidence:
        ranks = ranks_of_evidence(ranking, evidence)
        first = min((rank for rank in ranks if rank is not None), default=math.inf)
        scores["above_evidence"] = float(unwanted_at is not None and unwanted_at < first)
    return scores


def mean_metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the rows that have it; {} without rows."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: math.fsum(column) / len(column) for name, column in values.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of the values do not exceed (nearest rank).

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values have no percentile")
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]
