"""From what an evaluation saw to numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from memkit_core.evaluation.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    UNIT,
    Interval,
    Rows,
    differences,
    means,
)
from memkit_core.evaluation.configurations import HYBRID, changed_knobs
from memkit_core.evaluation.metrics import mean_metrics, percentile, question_metrics, unwanted_metrics
from memkit_core.evaluation.run import Asked, Compared, Outcome
from memkit_core.jsonvalues import JsonValue

_DIGITS = 4
_Row = Callable[[Asked, str], Mapping[str, float] | None]


def summary(outcome: Outcome, *, seed: int = 0, resamples: int = RESAMPLES) -> dict[str, JsonValue]:
    """The numbers of an evaluation as plain JSON, rounded to 4 decimals.

    - `overall`, `adversarial` and `session` hold, for `hybrid`, each configuration that was given,
      `bm25` and `dense`, `questions`, `recall@k`, `all@k` and `any@k` for each k, `mrr` and `r@1`;
      without questions they are {}. `categories` holds the same for each category. `mrr` looks at the
      largest k.
    - `overall` and `session` leave the adversarial questions out. `session` ranks each session by
      its first turn, and also counts questions whose evidence is only known by session.
    - `stale` and `forbidden` hold, for questions with such turns, how often one is in the first k
      (`in_top@k`) and above the first evidence (`above_evidence`); lower is better.
    - `differences` holds, for all of these, how much more than the first configuration each other one
      has of a metric, as [mean, low, high], and `intervals` each metric itself: 95 % percentile
      intervals of `bootstrap`, the same whenever `seed` is.
    - `configurations` holds for each its embedder, the weights that are not the default,
      `latency_ms` as percentiles of the ordinary recall (with other configurations beside it without
      embedding the question) and `tokens`, the mean estimate of what the first k hits take;
      `latency_ms` and `tokens` are also there for `hybrid` alone.
    - `scored` says what is ranked: turns, or the records of a log. `counts` is what was remembered and asked, `sha256` the digests of the files. `degraded` counts
      questions that a leg did not answer in full: when it is not 0, the numbers are not those of
      the ranking.
    """
    parts, by_kind = _parts(outcome), _categories(outcome)
    legs = {one.name: _leg(outcome, one) for one in outcome.configurations}
    draw = partial(differences, resamples=resamples, seed=seed)
    spread = partial(means, resamples=resamples, seed=seed)
    numbers: dict[str, JsonValue] = {
        "dataset": outcome.dataset,
        "scored": outcome.scored,
        "sha256": dict(outcome.sha256),
        "date": outcome.date.isoformat(),
        "embedder": outcome.embedder,
        "k": list(outcome.ks),
        "configurations": {**legs},
        **{name: _means(rows) for name, rows in parts.items()},
        "categories": {kind: _means(rows) for kind, rows in by_kind.items()},
        "latency_ms": legs[HYBRID]["latency_ms"],
        "tokens": legs[HYBRID]["tokens"],
        "counts": {
            "conversations": outcome.conversations,
            "turns": outcome.turns,
            "skipped": outcome.skipped,
            "questions": len(outcome.asked),
            "unasked": outcome.unasked,
            "degraded": sum(asked.degraded for asked in outcome.asked),
        },
        "fill_seconds": round(outcome.fill_seconds, 1),
        "bootstrap": {"unit": UNIT, "resamples": resamples, "seed": seed, "confidence": CONFIDENCE},
    }
    for name, compute in (("intervals", spread), ("differences", draw)):
        numbers[name] = {
            **{part: _intervals(compute(rows)) for part, rows in parts.items()},
            "categories": {kind: _intervals(compute(rows)) for kind, rows in by_kind.items()},
        }
    return numbers


def _parts(outcome: Outcome) -> dict[str, Rows]:
    """The metrics of each question by part and configuration."""
    plain = [asked for asked in outcome.asked if not asked.adversarial]
    hostile = [asked for asked in outcome.asked if asked.adversarial]
    ks = outcome.ks
    return {
        "overall": _rows(outcome, plain, _turn_row(ks)),
        "adversarial": _rows(outcome, hostile, _turn_row(ks)),
        "session": _rows(outcome, plain, _session_row(ks)),
        "stale": _rows(
            outcome, outcome.asked, _unwanted_row(ks, lambda asked: asked.question.stale_turn_ids)
        ),
        "forbidden": _rows(
            outcome, outcome.asked, _unwanted_row(ks, lambda asked: asked.question.forbidden_turn_ids)
        ),
    }


def _categories(outcome: Outcome) -> dict[str, Rows]:
    kinds: dict[str, list[Asked]] = {}
    for asked in outcome.asked:
        if not asked.adversarial:
            kinds.setdefault(asked.question.category, []).append(asked)
    found = {kind: _rows(outcome, kinds[kind], _turn_row(outcome.ks)) for kind in sorted(kinds)}
    return {kind: rows for kind, rows in found.items() if rows}


def _rows(outcome: Outcome, asked: Sequence[Asked], row: _Row) -> Rows:
    """The metrics of each question that `row` can score, by configuration; {} when there is none."""
    found: dict[str, list[Mapping[str, float]]] = {}
    for one in asked:
        for configuration in outcome.configurations:
            if (values := row(one, configuration.name)) is not None:
                found.setdefault(configuration.name, []).append(values)
    return found


def _means(rows: Rows) -> dict[str, JsonValue]:
    return {
        name: {"questions": len(metrics)}
        | {metric: round(mean, _DIGITS) for metric, mean in mean_metrics(metrics).items()}
        for name, metrics in rows.items()
    }


def _intervals(found: Mapping[str, Mapping[str, Interval]]) -> JsonValue:
    return {
        name: {metric: [round(end, _DIGITS) for end in interval] for metric, interval in metrics.items()}
        for name, metrics in found.items()
    }


def _leg(outcome: Outcome, configuration: Compared) -> dict[str, JsonValue]:
    ranked = [asked.legs[configuration.name] for asked in outcome.asked]
    times = [one.milliseconds for one in ranked]
    return {
        "embedder": configuration.embedder,
        "ranking": changed_knobs(configuration.ranking),
        "latency_ms": {f"p{percent}": round(percentile(times, percent), 2) for percent in (50, 95) if times},
        "tokens": {
            f"top@{k}": round(sum(one.tokens[k] for one in ranked) / len(ranked), 1)
            for k in outcome.ks
            if ranked
        },
    }


def _turn_row(ks: Sequence[int]) -> _Row:
    def row(asked: Asked, leg: str) -> Mapping[str, float] | None:
        question = asked.question
        if question.session_level or not question.evidence:
            return None
        return question_metrics(asked.legs[leg].turns, question.evidence, ks)

    return row


def _session_row(ks: Sequence[int]) -> _Row:
    def row(asked: Asked, leg: str) -> Mapping[str, float] | None:
        if not asked.evidence_sessions:
            return None
        return question_metrics(asked.legs[leg].sessions, asked.evidence_sessions, ks)

    return row


def _unwanted_row(ks: Sequence[int], unwanted: Callable[[Asked], Sequence[str]]) -> _Row:
    def row(asked: Asked, leg: str) -> Mapping[str, float] | None:
        turns = unwanted(asked)
        if not turns:
            return None
        evidence = () if asked.question.session_level else asked.question.evidence
        return unwanted_metrics(asked.legs[leg].turns, turns, evidence, ks)

    return row
