"""How sure a difference is: the paired bootstrap over questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
UNIT = "question"
"""What is drawn. Questions of one conversation are not independent, so with few conversations the
intervals are narrower than those for conversations nobody has seen."""

_AT_ONCE = 1_000_000


class Interval(NamedTuple):
    """A mean with the ends of its confidence interval."""

    mean: float
    low: float
    high: float


def bootstrap(values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = 0) -> list[Interval]:
    """The mean of each column with its 95 % percentile interval.

    Rows are drawn with replacement, whole, so that columns stay paired: with differences between two
    rankings as values this is the paired bootstrap (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, sections 13.3 and 16; Koehn, Statistical Significance Tests for Machine
    Translation Evaluation, EMNLP 2004). The same seed and values give the same interval.

    Args:
        values: `(n, m)`, a row a question, n at least 1.
        resamples: how many draws of n rows.
        seed: of the draws.
    """
    rows = len(values)
    random = np.random.default_rng(seed)
    step = max(_AT_ONCE // rows, 1)
    means = np.empty((resamples, values.shape[1]))
    for first in range(0, resamples, step):
        many = min(step, resamples - first)
        drawn = random.integers(rows, size=(many, rows)) + rows * np.arange(many)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=many * rows).reshape(many, rows)
        means[first : first + many] = counts @ values / rows
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    ends = zip(values.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True)
    return [Interval(*one) for one in ends]


Rows = Mapping[str, Sequence[Mapping[str, float]]]
"""By configuration, the metrics of each question; the same questions in the same order in each."""


def differences(rows: Rows, *, resamples: int, seed: int) -> dict[str, dict[str, Interval]]:
    """By configuration but the first, how much more it has of each metric than the first one."""
    if not rows:
        return {}
    first, *others = rows
    found: dict[str, dict[str, Interval]] = {other: {} for other in others}
    for names, places in _alike(rows[first]):
        base = _matrix(rows[first], names, places)
        columns = [_matrix(rows[other], names, places) - base for other in others]
        if not columns:
            continue
        intervals = iter(bootstrap(np.hstack(columns), resamples=resamples, seed=seed))
        for other in others:
            found[other] |= {name: next(intervals) for name in names}
    return found


def means(rows: Rows, *, resamples: int, seed: int) -> dict[str, dict[str, Interval]]:
    """By configuration, each metric with its interval; drawn from the same questions for all."""
    return {
        name: {
            metric: interval
            for names, places in _alike(metrics)
            for metric, interval in zip(
                names, bootstrap(_matrix(metrics, names, places), resamples=resamples, seed=seed), strict=True
            )
        }
        for name, metrics in rows.items()
    }


def _alike(metrics: Sequence[Mapping[str, float]]) -> list[tuple[list[str], list[int]]]:
    """Metrics that the same questions have, with the places of these questions."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for row in metrics for name in row):
        places = tuple(place for place, row in enumerate(metrics) if name in row)
        groups.setdefault(places, []).append(name)
    return [(names, list(places)) for places, names in groups.items()]


def _matrix(
    metrics: Sequence[Mapping[str, float]], names: Sequence[str], places: Sequence[int]
) -> NDArray[np.float64]:
    return np.array([[metrics[place][name] for name in names] for place in places], np.float64)
