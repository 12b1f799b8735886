"""How candidates are scored: plain functions over arrays, one row a candidate, NumPy only.

`score_pool` composes them. The order of the steps and every default were chosen by measurement,
see `Ranking`. Scores are in [0, 1], higher is better, and order one result only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memkit_core.recall.bm25 import Floats, bm25, bm25_idf, counts_of_related

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memkit_core.recall.weights import Ranking

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pairs = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

_BEST_TURNS = 3
"""Turns by which a session is known to the dense leg; 1, 2 and 5 do about as well."""

_ROLE_NAMES = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot"})
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_QUOTES_AND_BRACKETS = " \t\n\"'\u201d\u2019)*_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What is known of `n` candidates and one query of `t` distinct terms; row i is candidate i.

    The pool is the union of both legs' candidates and, for `neighbour` and `passage`, of the turns
    up to `Ranking.passage_radius` positions before and after them.

    Attributes:
        keyword: `(n,)` raw BM25, 0 for a record that is not in the keyword leg.
        cosine: `(n,)` cosine, NaN for a record that is not in the dense leg.
        counts: `(n, t)` how often each query term occurs in each record, see `KeywordIndex.counts`;
            only what surrounds a turn is scored by them, so without turns `t` may be 0.
        related: `(n, t)` in [0, 1], see `memkit_core.recall.related.relatedness`; 0 where no words are compared.
        totals: `(n,)` number of terms of each record.
        session: `(n,)` any number naming the session, -1 for a record outside any.
        position: `(n,)` place of the turn in its session; ignored where session is -1.
        other_speaker: `(n,)` see `by_other_speaker`.
        asks: `(n,)` see `ends_in_question`.
        echoes: `(n,)` see `only_the_query`.
        dated: `(n,)` in [0, 1], how well the record's time fits a date that the query names.
        age_days: `(n,)` age, NaN where it is unknown or should not count.
        importance: `(n,)` in [0, 1].
    """

    keyword: Floats
    cosine: Floats
    counts: Floats
    related: Floats
    totals: Floats
    session: Ints
    position: Ints
    other_speaker: Bools
    asks: Bools
    echoes: Bools
    dated: Floats
    age_days: Floats
    importance: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """`score` `(n,)` in [0, 1] and, for explanations, each signal `(n,)` in [0, 1] by its name."""

    score: Floats
    signals: Mapping[str, Floats]


def score_pool(pool: Pool, ranking: Ranking) -> Scored:
    """Score every candidate: fusion, context, dampings and date, the blend with time, diversity."""
    idf = bm25_idf(np.count_nonzero(pool.counts, axis=0), len(pool.keyword))
    hinted = counts_of_related(pool.related * ranking.related)
    hints = bm25(hinted, pool.totals, idf) if hinted.any() else np.zeros_like(pool.keyword)
    words = pool.keyword + hints
    keyword, dense = scale_to_best(words), scale_above_floor(pool.cosine)
    fused = weighted_fusion(keyword, dense, ranking)
    if ranking.fusion == "rrf":
        fused = reciprocal_rank_fusion(words, pool.cosine, ranking)
    legs = {"keyword": keyword, "dense": dense, "fused": fused}
    signals = legs | _surroundings(legs, pool, pool.counts + hinted, idf, ranking)
    relevance = add_context(signals, pool.session, ranking)
    if pool.other_speaker.any():
        relevance *= 1 - ranking.other_speaker * pool.other_speaker
    if pool.asks.any():
        relevance *= 1 - ranking.question * pool.asks
    if pool.echoes.any():
        relevance *= 1 - ranking.echo * pool.echoes
    if pool.dated.any():
        relevance *= (1 + ranking.date * pool.dated) / (1 + ranking.date * _largest(pool.dated))
    signals |= {
        "relevance": relevance,
        "date": pool.dated,
        "recency": recency(pool.age_days, ranking.recency_days),
        "newer": newness(pool.age_days, pool.session),
        "importance": pool.importance,
        "related": hints / (_largest(words) or 1),
    }
    if pool.dated.any():
        signals |= {name: np.zeros_like(relevance) for name in ("recency", "newer")}
    score = spread_over_sessions(blend(signals, ranking), pool.session, ranking.diversity)
    return Scored(score=score, signals=signals)


def _surroundings(
    legs: Mapping[str, Floats], pool: Pool, counts: Floats, idf: Floats, ranking: Ranking
) -> dict[str, Floats]:
    """What surrounds each turn: the signals of `add_context`, 0 for a record outside any session."""
    turns = pool.session >= 0
    if not turns.any():
        return dict.fromkeys(("neighbour", "passage", "session"), np.zeros_like(legs["fused"]))
    order = in_order(pool.session, pool.position)
    around = pairs_within(order, pool.session, pool.position, ranking.passage_radius)
    directly = pairs_within(order, pool.session, pool.position, 1)
    passage = passage_scores(counts, pool.totals, idf, around)
    beside = mean_beside(legs["dense"], directly)
    group = grouped(pool.session)
    whole = session_scores(counts, pool.totals, session_idf(pool.counts, group), group)
    best = best_of_session(legs["dense"], group)
    return {
        "neighbour": best_neighbour(legs["fused"], directly),
        "passage": turns * weighted_fusion(passage, beside, ranking),
        "session": turns * weighted_fusion(whole, best, ranking),
    }


def scale_to_best(scores: Floats) -> Floats:
    """Divide by the largest score: the best becomes 1 and "no term in common" stays 0."""
    best = _largest(scores)
    return scores / best if best > 0 else np.zeros_like(scores)


def scale_above_floor(cosine: Floats) -> Floats:
    """Return (cosine - floor) / (1 - floor), floor being the lowest known cosine; unknown is 0.

    Embedders differ in the cosine of unrelated texts (0 or 0.7): the floor removes that. Counting
    up to 1, not to the best as min-max does, keeps a leg quiet in which nothing stands out.
    """
    # Rounding can take the cosine of equal vectors a little above 1.
    cosine = np.minimum(np.maximum(cosine, -1), 1)
    unknown = np.isnan(cosine)
    known = cosine[~unknown]
    floor, top = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    if floor == top:  # One record, or none stands out: only the absolute cosine can tell.
        floor = 0.0
    return np.where(unknown, 0.0, np.maximum((cosine - floor) / (1 - floor), 0))


def weighted_fusion(keyword: Floats, dense: Floats, ranking: Ranking) -> Floats:
    """Return the weighted mean of two scaled legs. A record missing from one leg has 0 there.

    Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval" (TOIS 2023),
    find such a convex combination better than reciprocal ranks.
    """
    both = ranking.keyword * keyword + ranking.dense * dense
    return both / (ranking.keyword + ranking.dense)


def reciprocal_rank_fusion(words: Floats, cosine: Floats, ranking: Ranking) -> Floats:
    """Return the weighted sum of (k + 1) / (k + rank) over both legs, divided by the weights.

    Rank starts at 1; a record missing from a leg adds nothing. Cormack, Clarke and Büttcher,
    SIGIR 2009 (k = 60); the factor k + 1 only brings the best possible score to 1.
    """
    fused = np.zeros_like(words)
    for weight, scores, present in (
        (ranking.keyword, words, words > 0),
        (ranking.dense, cosine, ~np.isnan(cosine)),
    ):
        rows = np.flatnonzero(present)
        best_first = rows[np.argsort(-scores[rows], kind="stable")]
        ranks = np.arange(1, len(rows) + 1)
        fused[best_first] += weight * (ranking.rrf_k + 1) / (ranking.rrf_k + ranks)
    return fused / (ranking.keyword + ranking.dense)


def best_neighbour(scores: Floats, directly: Pairs) -> Floats:
    """Return the higher score of the turns directly before and after each turn, else 0.

    The answer often stands beside the turn that shares words with the question.
    """
    best = np.zeros_like(scores)
    for left, right in directly:
        best[left] = np.maximum(best[left], scores[right])
        best[right] = np.maximum(best[right], scores[left])
    return best


def passage_scores(each: Floats, lengths: Floats, idf: Floats, around: Pairs) -> Floats:
    """Return the scaled BM25 of each turn joined with those it is paired with.

    Overlapping windows as passages: Kaszkiel and Zobel, "Effective Ranking with Arbitrary
    Passages" (JASIST 2001). Words of a question may be spread over an exchange.
    """
    counts, totals = each.copy(), lengths.copy()
    for left, right in around:
        counts[left] += each[right]
        counts[right] += each[left]
        totals[left] += lengths[right]
        totals[right] += lengths[left]
    return scale_to_best(bm25(counts, totals, idf))


def session_scores(each: Floats, lengths: Floats, idf: Floats, group: NDArray[np.intp]) -> Floats:
    """Return the scaled BM25 of the pool's part of each turn's session, coarse to fine; `group` is that of `grouped`."""
    totals: Floats = np.bincount(group, lengths).astype(np.float64)
    return scale_to_best(bm25(summed(each, group), totals, idf))[group]


def session_idf(counts: Floats, group: NDArray[np.intp]) -> Floats:
    """Return the idf of each term where a session is one document: what all talk about tells none from another."""
    sessions = summed(counts, group)
    return bm25_idf(np.count_nonzero(sessions, axis=0), len(sessions))


def summed(each: Floats, group: NDArray[np.intp]) -> Floats:
    """Return the sums of the rows of each group, `(groups, t)`."""
    sums = np.zeros((group.max(initial=-1) + 1, each.shape[1]))
    for column, values in enumerate(each.T):
        sums[:, column] = np.bincount(group, values)
    return sums


def mean_beside(scores: Floats, directly: Pairs) -> Floats:
    """Return the mean score of each turn and those directly before and after it.

    With cosines that is, but for the lengths of the vectors, the cosine of the three turns together: the dense
    counterpart of `passage_scores`.
    """
    total, turns = scores.copy(), np.ones_like(scores)
    for left, right in directly:
        total[left] += scores[right]
        total[right] += scores[left]
        turns[left] += 1
        turns[right] += 1
    return total / turns


def best_of_session(scores: Floats, group: NDArray[np.intp], *, turns: int = _BEST_TURNS) -> Floats:
    """Return the mean of the best few scores of each turn's session, of all if it has fewer.

    The dense counterpart of `session_scores`: one turn that is close by chance lifts a session less than several.
    """
    chosen = np.flatnonzero(places_in(group, scores) < turns)
    total = np.bincount(group[chosen], scores[chosen])
    mean: Floats = (total / np.bincount(group[chosen]))[group]
    return mean


def add_context(signals: Mapping[str, Floats], session: Ints, ranking: Ranking) -> Floats:
    """Return the weighted mean of a turn's fused score and those of what surrounds it.

    A record outside any session keeps its fused score.
    """
    context = (
        signals["fused"]
        + ranking.neighbour * signals["neighbour"]
        + ranking.passage * signals["passage"]
        + ranking.session * signals["session"]
    )
    mean = context / (1 + ranking.neighbour + ranking.passage + ranking.session)
    return np.where(session < 0, signals["fused"], mean)


def by_other_speaker(
    query_terms: Collection[str],
    speakers: Sequence[str | None],
    names: Mapping[str, Collection[str]],
) -> Bools:
    """Return which rows are not by the one speaker whom the query names; all False if not one.

    `names` maps each speaker of the conversation to the terms of the name. A speaker is named if
    the query holds all of them. Rows by nobody, or by a role such as "user", are never marked: the
    user of an assistant tells about others too.
    """
    asked = set(query_terms)
    people = {name: terms for name, terms in names.items() if is_person(name)}
    named = [name for name, terms in people.items() if terms and asked.issuperset(terms)]
    others = people.keys() - set(named) if len(named) == 1 else set()
    return np.array([speaker in others for speaker in speakers], bool)


def only_the_query(counts: Floats, totals: Floats, terms: int) -> Bools:
    """Return which rows have the terms of the query and no other; `terms` is how many it has, repeats included.

    Who asks again is not answered by the question, which is nearer to itself than any answer; so it matters only
    where the query is a question, see `is_question`.
    """
    if not terms or not counts.shape[1]:
        return np.zeros(len(totals), bool)
    echoes: Bools = (totals == terms) & (counts.sum(axis=1) == terms) & (counts > 0).all(axis=1)
    return echoes


def ends_in_question(text: str, speaker: str | None) -> bool:
    """Return whether a turn between people ends in a question: the answer is in the next turn.

    What a user asks an assistant tells about the user, so turns by a mere role never count.
    """
    return is_question(text) and is_person(speaker)


def is_question(text: str) -> bool:
    """Return whether a text ends in a question mark, whatever quotes and brackets follow it."""
    return text.rstrip(_QUOTES_AND_BRACKETS).endswith(_QUESTION_MARKS)


def is_person(speaker: str | None) -> bool:
    """Return whether a speaker has a name of their own, not only a role in a chat."""
    return speaker is not None and speaker.casefold() not in _ROLE_NAMES


def recency(age_days: Floats, constant_days: float) -> Floats:
    """Return exp(-age / constant): 1 for now or later, 0 where the age is unknown.

    The decay of Park et al., "Generative Agents" (UIST 2023), with a longer constant.
    """
    return np.where(np.isnan(age_days), 0.0, np.exp(-np.maximum(age_days, 0) / constant_days))


def newness(age_days: Floats, session: Ints) -> Floats:
    """Return the rank by age of each record outside any session, 1 the newest, 0 the oldest.

    Equal ages are equal. Unlike `recency` it tells facts of the same minute apart.
    """
    rows = np.flatnonzero((session < 0) & ~np.isnan(age_days))
    newest = np.zeros_like(age_days)
    distinct, place = np.unique(-age_days[rows], return_inverse=True)
    if len(distinct) > 1:
        newest[rows] = place / (len(distinct) - 1)
    return newest


def blend(signals: Mapping[str, Floats], ranking: Ranking) -> Floats:
    """Return relevance blended with recency, newness and importance, in [0, 1].

    "boost" multiplies, so what is irrelevant stays last however new it is. "sum" is the weighted
    sum of Generative Agents, with relevance scaled to its best.
    """
    relevance = signals["relevance"]
    if ranking.blend == "sum":
        parts = (scale_to_best(relevance), signals["importance"], signals["recency"])
        weighted = zip(ranking.sum_weights, parts, strict=True)
        total: Floats = np.sum([weight * part for weight, part in weighted], axis=0)
        return total / sum(ranking.sum_weights)
    weights = (ranking.recency, ranking.newer, ranking.importance)
    boosts = (signals["recency"], signals["newer"], signals["importance"])
    gain = sum((w * boost for w, boost in zip(weights, boosts, strict=True)), start=1.0)
    return relevance * gain / (1 + sum(weights))


def spread_over_sessions(scores: Floats, session: Ints, diversity: float) -> Floats:
    """Return score * (1 - diversity)^n, n being how many turns of the same session score higher.

    What a greedy choice would take that discounts a session each time it takes one of its turns: a quantitative form
    of the diversity of Carbonell and Goldstein (SIGIR 1998). A record outside any session keeps its score.
    """
    if not diversity or not (session >= 0).any():
        return scores
    better = places_in(grouped(session), scores)
    spread: Floats = scores * (1 - diversity) ** better
    return spread


def grouped(session: Ints) -> NDArray[np.intp]:
    """Return the number of each row's session, all from 0; a record outside any session is one of its own."""
    alone = -1 - np.arange(len(session))
    _, group = np.unique(np.where(session < 0, alone, session), return_inverse=True)
    return group


def places_in(group: NDArray[np.intp], scores: Floats) -> NDArray[np.intp]:
    """Return how many rows of each row's group have a higher score, or the same and come before it."""
    order = np.lexsort((-scores, group))
    first = np.searchsorted(group[order], np.arange(group.max(initial=-1) + 1))
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order)) - first[group[order]]
    return places


def in_order(session: Ints, position: Ints) -> NDArray[np.intp]:
    """Return the rows that are turns, by session and position."""
    order = np.lexsort((position, session))
    return order[session[order] >= 0]


def pairs_within(order: NDArray[np.intp], session: Ints, position: Ints, distance: int) -> Pairs:
    """Return the rows of turns of one session that are at most `distance` positions apart.

    `order` is that of `in_order`. Each element pairs its left with its right rows one to one, the earlier turns on
    the left; no row comes twice on one side of an element.
    """
    pairs = []
    for step in range(1, distance + 1):
        left, right = order[:-step], order[step:]
        near = session[left] == session[right]
        near &= position[right] - position[left] <= distance
        pairs.append((left[near], right[near]))
    return pairs


def _largest(values: Floats) -> float:
    return float(values.max()) if values.size else 0.0
