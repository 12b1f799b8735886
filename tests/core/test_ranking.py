"""The ranking functions: bounds, what a weight does, and each signal by example."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.errors import ConfigError
from memkit_core.recall import ranking as rk
from memkit_core.recall.bm25 import bm25, bm25_idf
from memkit_core.recall.ranking import Pool, score_pool
from memkit_core.recall.weights import Ranking

if TYPE_CHECKING:
    from random import Random


def pool(n: int, **given_arrays: Any) -> Pool:
    """A pool of `n` unremarkable records outside any session, with the given fields replaced."""
    fields: dict[str, Any] = {
        "keyword": np.zeros(n),
        "cosine": np.full(n, np.nan),
        "counts": np.zeros((n, 1)),
        "totals": np.full(n, 5.0),
        "session": np.full(n, -1),
        "position": np.zeros(n, int),
        "other_speaker": np.zeros(n, bool),
        "asks": np.zeros(n, bool),
        "echoes": np.zeros(n, bool),
        "dated": np.zeros(n),
        "age_days": np.full(n, np.nan),
        "importance": np.full(n, 0.5),
    }
    fields |= given_arrays
    return Pool(**({"related": np.zeros_like(fields["counts"])} | fields))


def best_first(scores: rk.Floats) -> list[int]:
    return [int(row) for row in np.argsort(-scores, kind="stable")]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    """Any pool that a pipeline may hand over, also an empty one."""
    n = draw(st.integers(0, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.poisson(0.7, (n, draw(st.integers(0, 4)))).astype(float)
    return Pool(
        keyword=rng.gamma(1, 5, n) * (rng.random(n) < 0.6),
        cosine=np.where(rng.random(n) < 0.6, rng.uniform(-1, 1, n), np.nan),
        counts=counts,
        related=rng.random(counts.shape) * (counts == 0),
        totals=counts.sum(axis=1) + rng.integers(0, 9, n),
        session=rng.integers(-1, 3, n),
        position=rng.permutation(n),
        other_speaker=rng.random(n) < 0.3,
        asks=rng.random(n) < 0.3,
        echoes=rng.random(n) < 0.2,
        dated=rng.random(n) * (rng.random() < 0.5),
        age_days=np.where(rng.random(n) < 0.8, rng.normal(50, 60, n), np.nan),
        importance=rng.random(n),
    )


weights = st.floats(0, 5)
shares = st.floats(0, 0.9)
rankings = st.builds(
    Ranking,
    keyword=weights.map(lambda weight: weight + 0.01),
    dense=weights,
    fusion=st.sampled_from(["weighted", "rrf"]),
    neighbour=weights,
    passage=weights,
    passage_radius=st.integers(0, 3),
    session=weights,
    other_speaker=shares,
    question=shares,
    echo=shares,
    date=weights,
    blend=st.sampled_from(["boost", "sum"]),
    recency=weights,
    newer=weights,
    importance=weights,
    diversity=shares,
)


@given(pools(), rankings)
def test_scores_and_signals_are_bounded(candidates: Pool, ranking: Ranking) -> None:
    """Every score and every signal is in [0, 1], whatever the weights."""
    scored = score_pool(candidates, ranking)

    for values in (scored.score, *scored.signals.values()):
        assert values.shape == candidates.keyword.shape
        assert np.all((values >= 0) & (values <= 1 + 1e-12))


@given(pools(), rankings)
def test_dense_weight_zero_removes_the_leg(candidates: Pool, ranking: Ranking) -> None:
    """With a dense weight of 0 the cosines do not matter."""
    ranking = dataclasses.replace(ranking, dense=0.0)
    without = dataclasses.replace(candidates, cosine=np.full(len(candidates.cosine), np.nan))

    with_leg, no_leg = score_pool(candidates, ranking), score_pool(without, ranking)

    np.testing.assert_array_equal(with_leg.score, no_leg.score)


@given(pools(), rankings)
def test_keyword_weight_zero_removes_the_leg(candidates: Pool, ranking: Ranking) -> None:
    """With a keyword weight of 0 neither BM25 scores nor term counts matter."""
    ranking = dataclasses.replace(ranking, keyword=0.0, dense=1.0)
    without = dataclasses.replace(
        candidates,
        keyword=np.zeros_like(candidates.keyword),
        counts=np.zeros_like(candidates.counts),
    )

    with_leg, no_leg = score_pool(candidates, ranking), score_pool(without, ranking)

    np.testing.assert_array_equal(with_leg.score, no_leg.score)


@given(pools(), rankings, st.randoms(use_true_random=False))
def test_order_of_candidates_does_not_matter(candidates: Pool, ranking: Ranking, random: Random) -> None:
    """A record's score does not depend on its row in the pool."""
    if ranking.fusion == "rrf":  # Ranks of equal scores are given in the pool's order.
        ranking = dataclasses.replace(ranking, fusion="weighted")
    rows = list(range(len(candidates.keyword)))
    random.shuffle(rows)
    shuffled = Pool(**{f.name: getattr(candidates, f.name)[rows] for f in dataclasses.fields(Pool)})

    expected = score_pool(candidates, ranking).score[rows]

    np.testing.assert_allclose(score_pool(shuffled, ranking).score, expected, atol=1e-12)


@given(pools(), rankings, st.integers(0, 11))
def test_a_better_keyword_score_never_hurts(candidates: Pool, ranking: Ranking, row: int) -> None:
    """Raising the BM25 score of a record to the best never lowers its own score."""
    ranking = dataclasses.replace(ranking, fusion="weighted", blend="boost")
    n = len(candidates.keyword)
    if row >= n:
        return
    raised = candidates.keyword.copy()
    raised[row] = candidates.keyword.max()
    better = dataclasses.replace(candidates, keyword=raised)

    before, after = score_pool(candidates, ranking).score, score_pool(better, ranking).score

    assert after[row] >= before[row] - 1e-12


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
def test_neither_leg_gates_the_other(fusion: Any) -> None:
    """A record that only one leg knows is above one that no leg knows."""
    candidates = pool(3, keyword=np.array([4.0, 0, 0]), cosine=np.array([np.nan, 0.8, np.nan]))

    scores = score_pool(candidates, Ranking(fusion=fusion)).score

    assert scores[0] > scores[2]
    assert scores[1] > scores[2]


def test_legs_by_weight() -> None:
    """With all weight on one leg its best record is first, whatever the other leg says."""
    candidates = pool(2, keyword=np.array([25.9, 1.0]), cosine=np.array([0.1, 0.9]))

    assert best_first(score_pool(candidates, Ranking(keyword=1, dense=0)).score) == [0, 1]
    assert best_first(score_pool(candidates, Ranking(keyword=0, dense=1)).score) == [1, 0]


def test_bm25_by_hand() -> None:
    """BM25 is the sum of idf and saturated, length-normalised term frequency."""
    counts = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    totals = np.array([4.0, 8.0, 6.0])
    idf = bm25_idf(np.array([2, 1]), 3)

    scores = bm25(counts, totals, idf, k1=1.2, b=0.75)

    first = math.log(1 + 1.5 / 2.5) * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 6))
    rare = math.log(1 + 2.5 / 1.5)
    second = (math.log(1 + 1.5 / 2.5) + rare) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 8 / 6))
    np.testing.assert_allclose(scores, [first, second, 0.0])


def test_dense_scaling_counts_from_the_floor() -> None:
    """The lowest known cosine and unknown ones are 0, identical texts 1."""
    scaled = rk.scale_above_floor(np.array([0.7, 0.85, 1.0, np.nan]))

    np.testing.assert_allclose(scaled, [0, 0.5, 1, 0])
    assert rk.scale_above_floor(np.array([0.6, np.nan])).tolist() == [0.6, 0]
    assert rk.scale_above_floor(np.array([-0.2])).tolist() == [0]
    assert rk.scale_above_floor(np.array([np.nan])).tolist() == [0]


def pairs(session: np.ndarray, position: np.ndarray, distance: int = 1) -> rk.Pairs:
    """The turns that stand so close together."""
    return rk.pairs_within(rk.in_order(session, position), session, position, distance)


def test_neighbours_share_a_session() -> None:
    """A turn is lifted by the better turn beside it, never across sessions or gaps."""
    scores = np.array([0.9, 0.1, 0.5, 0.8, 0.7])
    session = np.array([1, 1, 1, 2, -1])
    position = np.array([0, 1, 2, 3, 1])

    assert rk.best_neighbour(scores, pairs(session, position)).tolist() == [0.1, 0.9, 0.1, 0, 0]
    assert rk.best_neighbour(scores, pairs(session, position * 2)).tolist() == [0, 0, 0, 0, 0]


def test_the_turns_beside_a_turn_share_their_meaning() -> None:
    """A turn's place among turns that are alike counts by their mean, never across sessions or gaps."""
    scores = np.array([0.9, 0.3, 0.0, 0.8, 0.7])
    session = np.array([1, 1, 1, 2, -1])
    position = np.array([0, 1, 2, 3, 1])

    assert rk.mean_beside(scores, pairs(session, position)) == pytest.approx([0.6, 0.4, 0.15, 0.8, 0.7])
    assert rk.mean_beside(scores, pairs(session, position * 2)).tolist() == scores.tolist()


def test_several_close_turns_make_a_session_close() -> None:
    """A session is known by the mean of its three best turns, or of all it has; a fact by itself."""
    scores = np.array([0.9, 0.6, 0.0, 0.3, 0.8, 0.2, 0.5])
    session = np.array([1, 1, 1, 1, 2, -1, -1])

    assert rk.best_of_session(scores, rk.grouped(session)) == pytest.approx(
        [0.6, 0.6, 0.6, 0.6, 0.8, 0.2, 0.5]
    )
    assert rk.best_of_session(np.zeros(0), rk.grouped(np.zeros(0, int))).size == 0


def test_meaning_around_a_turn_lifts_it() -> None:
    """Of two turns with equal cosines the one among turns that are close to the query is first."""
    candidates = pool(
        4,
        cosine=np.array([0.5, 0.5, 0.7, 0.1]),
        session=np.array([1, 2, 2, 1]),
        position=np.array([0, 0, 1, 1]),
        counts=np.zeros((4, 1)),
    )

    scores = score_pool(candidates, Ranking()).score

    assert scores[1] > scores[0]


def test_diversity_lets_more_sessions_be_heard() -> None:
    """Each better turn of its session takes the same share from a turn; a fact keeps its score."""
    scores = np.array([0.9, 0.8, 0.85, 0.7, 0.6, 0.5])
    session = np.array([1, 1, 1, 2, -1, -1])

    assert rk.spread_over_sessions(scores, session, 0.5) == pytest.approx([0.9, 0.2, 0.425, 0.7, 0.6, 0.5])
    assert rk.spread_over_sessions(scores, session, 0.0) is scores


def test_what_says_only_what_the_query_says() -> None:
    """A row is an echo if it has all terms of the query, as often, and none besides."""
    counts = np.array([[1.0, 1, 2], [1, 1, 1], [1, 1, 2], [0, 2, 2]])
    totals = np.array([4.0, 3, 5, 4])

    assert rk.only_the_query(counts, totals, 4).tolist() == [True, False, False, False]
    assert rk.only_the_query(np.zeros((2, 0)), np.zeros(2), 0).tolist() == [False, False]


def test_answer_beside_the_question() -> None:
    """The turn after the one with the query's words is above a turn far away."""
    candidates = pool(
        3,
        keyword=np.array([6.0, 0, 0]),
        counts=np.array([[1.0], [0], [0]]),
        session=np.array([0, 0, 0]),
        position=np.array([4, 5, 9]),
    )

    assert best_first(score_pool(candidates, Ranking()).score) == [0, 1, 2]


def test_words_spread_over_an_exchange() -> None:
    """Two turns that hold the query's words together are above two equal turns far apart."""
    candidates = pool(
        4,
        keyword=np.full(4, 3.0),
        counts=np.array([[1.0, 0], [0, 1], [1, 0], [1, 0]]),
        session=np.zeros(4, int),
        position=np.array([0, 2, 10, 20]),
    )

    around = pairs(candidates.session, candidates.position, 2)
    passages = rk.passage_scores(candidates.counts, candidates.totals, np.ones(2), around)

    assert passages[0] == passages[1] == 1
    assert passages[2] == passages[3] < 1


def test_session_lifts_its_turns() -> None:
    """Of two equal turns the one whose session holds the query's other word is first."""
    candidates = pool(
        3,
        keyword=np.array([3.0, 3.0, 2.0]),
        counts=np.array([[1.0, 0], [1, 0], [0, 1]]),
        session=np.array([7, 8, 8]),
        position=np.array([0, 0, 9]),
    )

    scores = score_pool(candidates, Ranking()).score

    assert scores[1] > scores[0]


def test_a_record_without_a_session_keeps_its_fused_score() -> None:
    """A fact is neither helped nor hurt by having no turns around it."""
    candidates = pool(2, keyword=np.array([4.0, 2.0]), counts=np.array([[2.0], [1.0]]))

    scored = score_pool(candidates, Ranking())

    np.testing.assert_array_equal(scored.signals["relevance"], scored.signals["fused"])


@pytest.mark.parametrize("sessions", [[-1, -1, -1], [-1, 4, 4]], ids=["alone", "among turns"])
def test_nothing_lifts_a_record_without_a_session(sessions: list[int]) -> None:
    """What does not count for a fact is not shown as having lifted it, also when turns were found with it."""
    candidates = pool(
        3,
        keyword=np.array([4.0, 2.0, 3.0]),
        counts=np.array([[2.0], [1.0], [1.0]]),
        session=np.array(sessions),
        position=np.array([0, 1, 2]),
    )

    scored = score_pool(candidates, Ranking())

    for name in ("neighbour", "passage", "session"):
        assert scored.signals[name][0] == 0
        assert scored.signals[name].any() == (sessions[1] >= 0)


def test_without_turns_the_counts_change_nothing() -> None:
    """Facts alone need no term counts: the scores with and without them are the same."""
    counted = pool(3, keyword=np.array([4.0, 2.0, 0]), counts=np.array([[2.0], [1.0], [0.0]]))
    bare = dataclasses.replace(counted, counts=np.zeros((3, 0)))

    np.testing.assert_array_equal(score_pool(counted, Ranking()).score, score_pool(bare, Ranking()).score)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (["ann", "dog"], [False, True, False, False]),
        (["ann", "bob"], [False] * 4),
        (["dog"], [False] * 4),
        (["user", "dog"], [False] * 4),
    ],
)
def test_named_speaker(query: list[str], expected: list[bool]) -> None:
    """Turns of other people are marked only if the query names exactly one person."""
    names = {"Ann": ["ann"], "Bob": ["bob"], "Bob Lee": ["bob", "lee"], "User": ["user"]}
    speakers = ["Ann", "Bob", None, "User"]

    assert rk.by_other_speaker(query, speakers, names).tolist() == expected


@pytest.mark.parametrize(
    ("text", "speaker", "expected"),
    [
        ("Where did you go?", "Ann", True),
        ('She said "why?"', "Ann", True),
        ("你去哪里了\uff1f", "Ann", True),
        ("Why? Because.", "Ann", False),
        ("How do I renew my visa?", "User", False),
        ("Where did you go?", None, False),
        ("", "Ann", False),
    ],
)
def test_question_turns(text: str, speaker: str | None, expected: bool) -> None:  # noqa: FBT001
    """A turn between people that ends in a question is one; what is put to an assistant never."""
    assert rk.ends_in_question(text, speaker) is expected


def test_recency_and_date() -> None:
    """Of two equal records the newer is first, unless the query names the date of the older."""
    recent = pool(2, keyword=np.ones(2), age_days=np.array([90.0, 1.0]))
    dated = dataclasses.replace(recent, dated=np.array([1.0, 0.0]))

    assert best_first(score_pool(recent, Ranking()).score) == [1, 0]
    assert best_first(score_pool(dated, Ranking()).score) == [0, 1]
    assert score_pool(dated, Ranking()).signals["recency"].tolist() == [0, 0]


def test_recency_decays_with_the_time_constant() -> None:
    """Recency is 1 now and in the future, 1/e after the constant, 0 for an unknown age."""
    values = rk.recency(np.array([0.0, -3.0, 30.0, np.nan]), 30.0)

    np.testing.assert_allclose(values, [1, 1, math.exp(-1), 0])


def test_newer_fact_above_the_older() -> None:
    """Two facts of the same minute that fit equally are ordered newest first."""
    candidates = pool(2, keyword=np.ones(2), age_days=np.array([2e-5, 1e-5]))

    assert best_first(score_pool(candidates, Ranking()).score) == [1, 0]
    assert rk.newness(candidates.age_days, np.array([0, 0])).tolist() == [0, 0]


@given(st.floats(0, 1), st.floats(0, 1000))
def test_a_boost_never_hides(importance: float, age: float) -> None:
    """However new and important, a record twice as relevant is never passed."""
    candidates = pool(
        2,
        keyword=np.array([2.0, 1.0]),
        age_days=np.array([age, 0.0]),
        importance=np.array([0.0, importance]),
    )

    assert best_first(score_pool(candidates, Ranking()).score) == [0, 1]


def test_weighted_sum_blend() -> None:
    """The sum blend is the weighted mean of scaled relevance, importance and recency."""
    candidates = pool(
        2,
        keyword=np.array([4.0, 2.0]),
        age_days=np.array([30.0, 0.0]),
        importance=np.array([0.0, 1.0]),
    )

    scores = score_pool(candidates, Ranking(blend="sum")).score

    np.testing.assert_allclose(scores, [0.6 + 0.15 * math.exp(-1), 0.3 + 0.25 + 0.15])


@pytest.mark.parametrize(
    "wrong",
    [
        {"keyword": -1.0},
        {"dense": math.nan},
        {"session": math.inf},
        {"keyword": 0.0, "dense": 0.0},
        {"other_speaker": 1.0},
        {"recency_days": 0.0},
        {"sum_weights": (0.0, 0.0, 0.0)},
        {"fusion": "max"},
        {"blend": "product"},
    ],
)
def test_weights_that_cannot_rank_raise(wrong: dict[str, Any]) -> None:
    """Weights that are negative, not finite, hide records or rank by nothing are refused."""
    with pytest.raises(ValueError, match=r"ranking|must be|unknown"):
        Ranking(**wrong)


@pytest.mark.parametrize("radius", [-1, 101, 10**9, 1.5, 2.0, True, None, "2"])
def test_a_radius_is_a_small_whole_number(radius: Any) -> None:
    """Each turn of the radius costs time, so a huge one is refused as a number that is none."""
    with pytest.raises(ConfigError, match="passage_radius"):
        Ranking(passage_radius=radius)
