"""From what an evaluation saw to numbers, and from numbers to tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from memkit_core.evaluation.metrics import mean_metrics, percentile, question_metrics, unwanted_metrics
from memkit_core.evaluation.run import Asked, Outcome
from memkit_core.jsonvalues import JsonValue

LEGS = ("hybrid", "bm25", "dense")

_DIGITS = 4
_Row = Callable[[Asked, str], Mapping[str, float] | None]


def summary(outcome: Outcome) -> dict[str, JsonValue]:
    """The numbers of an evaluation as plain JSON, rounded to 4 decimals.

    - `overall`, `adversarial` and `session` hold `hybrid`, `bm25` and `dense`, each with
      `questions`, `recall@k`, `all@k` and `any@k` for each k, `mrr` and `r@1`; without questions
      they are {}. `categories` holds the same for each category. `mrr` looks at the largest k.
    - `overall` and `session` leave the adversarial questions out. `session` ranks each session by
      its first turn, and also counts questions whose evidence is only known by session.
    - `stale` and `forbidden` hold, for questions with such turns, how often one is in the first k
      (`in_top@k`) and above the first evidence (`above_evidence`); lower is better.
    - `latency_ms` are percentiles of the ordinary recall, `tokens` the mean estimate of what the
      first k hits take, `counts` what was remembered and asked. `degraded` counts questions that a
      leg did not answer in full: when it is not 0, the numbers are not those of the ranking.
    """
    ks = outcome.ks
    plain = [asked for asked in outcome.asked if not asked.adversarial]
    hostile = [asked for asked in outcome.asked if asked.adversarial]
    kinds = sorted({asked.question.category for asked in plain if _turn_row(ks)(asked, LEGS[0])})
    return {
        "dataset": outcome.dataset,
        "date": outcome.date.isoformat(),
        "embedder": outcome.embedder,
        "k": list(ks),
        "overall": _by_leg(plain, _turn_row(ks)),
        "categories": {
            kind: _by_leg([asked for asked in plain if asked.question.category == kind], _turn_row(ks))
            for kind in kinds
        },
        "adversarial": _by_leg(hostile, _turn_row(ks)),
        "session": _by_leg(plain, _session_row(ks)),
        "stale": _by_leg(outcome.asked, _unwanted_row(ks, lambda asked: asked.question.stale_turn_ids)),
        "forbidden": _by_leg(
            outcome.asked, _unwanted_row(ks, lambda asked: asked.question.forbidden_turn_ids)
        ),
        "latency_ms": _latency(outcome.asked),
        "tokens": {
            f"top@{k}": round(sum(asked.tokens[k] for asked in outcome.asked) / len(outcome.asked), 1)
            for k in ks
            if outcome.asked
        },
        "counts": {
            "conversations": outcome.conversations,
            "turns": outcome.turns,
            "skipped": outcome.skipped,
            "questions": len(outcome.asked),
            "unasked": outcome.unasked,
            "degraded": sum(asked.degraded for asked in outcome.asked),
        },
        "fill_seconds": round(outcome.fill_seconds, 1),
    }


def _by_leg(asked: Sequence[Asked], row: _Row) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for leg in LEGS:
        rows = [values for one in asked if (values := row(one, leg)) is not None]
        if rows:
            means = {name: round(mean, _DIGITS) for name, mean in mean_metrics(rows).items()}
            found[leg] = {"questions": len(rows), **means}
    return found


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


def _latency(asked: Sequence[Asked]) -> dict[str, JsonValue]:
    times = [one.milliseconds for one in asked]
    return {f"p{percent}": round(percentile(times, percent), 2) for percent in (50, 95) if times}


# ---------------------------------------------------------------------- tables

Numbers = Mapping[str, JsonValue]


def tables(numbers: Numbers) -> list[Table | Text]:
    """What `summary` returned, for people: to be printed in order, at most 80 columns wide."""
    overall, session = _legs(numbers, "overall"), _legs(numbers, "session")
    ks = numbers["k"]
    assert isinstance(ks, list)
    shown: list[Table | Text] = [Text(_heading(numbers))]
    metrics = [f"{name}@{k}" for name in ("recall", "all", "any") for k in ks] + ["mrr", "r@1"]
    if overall or session:
        shown.append(_metric_table(metrics, {"turns": overall, "sessions": session}))
    rows = {**_mapping(numbers["categories"])}
    if numbers["adversarial"]:
        rows["(adversarial)"] = numbers["adversarial"]
    if rows:
        shown.append(_category_table(rows, [int(str(k)) for k in ks]))
    for kind in ("stale", "forbidden"):
        if legs := _legs(numbers, kind):
            names = [f"in_top@{k}" for k in ks] + ["above_evidence"]
            shown.append(_metric_table(names, {f"{kind} turns (lower is better)": legs}))
    shown.append(Text(_footing(numbers)))
    return shown


def _mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    assert isinstance(value, dict)
    return value


def _legs(numbers: Numbers, part: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return {leg: _mapping(values) for leg, values in _mapping(numbers[part]).items()}


def _heading(numbers: Numbers) -> str:
    counts = _mapping(numbers["counts"])
    return (
        f"{numbers['dataset']}: {counts['conversations']} conversations, {counts['turns']} turns "
        f"({counts['skipped']} empty ones skipped),\n{counts['questions']} questions asked "
        f"({counts['unasked']} without evidence left out),\nembedder {numbers['embedder']}"
    )


def _footing(numbers: Numbers) -> str:
    latency, counts = _mapping(numbers["latency_ms"]), _mapping(numbers["counts"])
    times = ", ".join(f"{name} {value} ms" for name, value in latency.items())
    tokens = ", ".join(f"{name} {value:.0f}" for name, value in _mapping(numbers["tokens"]).items())
    lines = [f"recall: {times or 'not timed'}", f"tokens: {tokens or 'none'}", str(numbers["date"])]
    if counts["degraded"]:
        lines.insert(0, f"{counts['degraded']} questions missed a leg: these are not the ranking's numbers")
    return "\n".join(lines)


def _metric_table(
    metrics: Sequence[str], groups: Mapping[str, Mapping[str, Mapping[str, JsonValue]]]
) -> Table:
    """One line a metric, one column a leg of each group that has questions."""
    filled = {name: legs for name, legs in groups.items() if legs}
    title = ", ".join(f"{name}: {_questions(legs)} questions" for name, legs in filled.items())
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for (place, _), leg in itertools.product(enumerate(filled), LEGS):
        table.add_column(leg if place == 0 else f"{leg} (s)", justify="right")
    for metric in metrics:
        cells = [legs.get(leg, {}).get(metric) for legs in filled.values() for leg in LEGS]
        if any(cell is not None for cell in cells):
            table.add_row(metric, *map(_number, cells))
    return table


def _category_table(rows: Mapping[str, JsonValue], ks: Sequence[int]) -> Table:
    """One line a category; the default ranking, and BM25 at the first k to compare."""
    table = Table(
        title="hybrid, by category; adversarial questions are not in overall",
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("category", max_width=18)
    metrics = [*(f"recall@{k}" for k in ks[:3]), "mrr"]
    for name in ("n", *metrics, f"bm25 @{ks[0]}"):
        table.add_column(name, justify="right")
    for name, legs in rows.items():
        hybrid, bm25 = (_mapping(_mapping(legs)[leg]) for leg in ("hybrid", "bm25"))
        cells = [hybrid.get(metric) for metric in metrics] + [bm25.get(f"recall@{ks[0]}")]
        table.add_row(Text(name), str(hybrid["questions"]), *map(_number, cells))
    return table


def _questions(legs: Mapping[str, Mapping[str, JsonValue]]) -> JsonValue:
    return next(iter(legs.values()))["questions"]


def _number(value: JsonValue) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "-"
