"""Metrics on cases that were worked out by hand."""

import math

import pytest

from memkit_core.evaluation.metrics import (
    mean_metrics,
    percentile,
    question_metrics,
    ranks_of_evidence,
    unwanted_metrics,
)

RANKING = ["d", "a", "e", "b", "f"]


def test_ranks_count_from_one_and_missing_evidence_has_none():
    """A piece of evidence stands where its best member stands; one that is not ranked is None."""
    assert ranks_of_evidence(RANKING, [["a"], ["b", "f"], ["x"], ["x", "d"]]) == [2, 4, None, 1]


def test_recall_all_and_any_at_k():
    """recall@k is a fraction of the evidence, all@k needs every piece, any@k one."""
    scores = question_metrics(RANKING, [["a"], ["b"], ["x"]], (1, 2, 4))

    assert scores == {
        "recall@1": 0.0, "all@1": 0.0, "any@1": 0.0,
        "recall@2": 1 / 3, "all@2": 0.0, "any@2": 1.0,
        "recall@4": 2 / 3, "all@4": 0.0, "any@4": 1.0,
        "mrr": 1 / 2, "r@1": 0.0,
    }  # fmt: skip


def test_any_member_of_a_group_finds_it():
    """Two turns that say the same thing are one piece of evidence."""
    scores = question_metrics(RANKING, [["x", "d"], ["b", "f"]], (1, 4))

    assert scores["recall@1"] == 0.5
    assert scores["all@4"] == 1.0
    assert scores["r@1"] == 1.0
    assert scores["mrr"] == 1.0


def test_nothing_found_scores_zero():
    """Evidence that is not ranked gives zeros, not an error."""
    assert set(question_metrics(RANKING, [["x"]], (5,)).values()) == {0.0}
    assert set(question_metrics([], [["x"]], (5,)).values()) == {0.0}


def test_a_question_without_evidence_has_no_metrics():
    """No evidence is no zero: such a question must not be counted."""
    with pytest.raises(ValueError, match="without evidence"):
        question_metrics(RANKING, [], (5,))


@pytest.mark.parametrize(
    ("unwanted", "evidence", "expected"),
    [
        (["d"], [["a"]], {"in_top@1": 1.0, "in_top@3": 1.0, "above_evidence": 1.0}),
        (["e"], [["a"]], {"in_top@1": 0.0, "in_top@3": 1.0, "above_evidence": 0.0}),
        (["f"], [["x"]], {"in_top@1": 0.0, "in_top@3": 0.0, "above_evidence": 1.0}),
        (["y"], [["x"]], {"in_top@1": 0.0, "in_top@3": 0.0, "above_evidence": 0.0}),
        (["y", "d"], [], {"in_top@1": 1.0, "in_top@3": 1.0}),
    ],
)
def test_unwanted_turns(unwanted, evidence, expected):
    """A stale turn above the first evidence, or alone, is counted; without evidence there is no above."""
    assert unwanted_metrics(RANKING, unwanted, evidence, (1, 3)) == expected


def test_the_mean_is_over_the_rows_that_have_a_metric():
    """A row without a metric does not pull its mean down."""
    means = mean_metrics([{"a": 1.0, "b": 0.5}, {"a": 0.0}])

    assert means == {"a": 0.5, "b": 0.5}
    assert mean_metrics([]) == {}


def test_percentiles_are_values_that_occurred():
    """The nearest-rank percentile of 1..100 is the number itself."""
    values = [float(value) for value in range(100, 0, -1)]

    assert [percentile(values, p) for p in (50, 95, 100, 0)] == [50.0, 95.0, 100.0, 1.0]
    assert percentile([3.0], 95) == 3.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    assert math.isfinite(percentile([1.0, 2.0], 50))
