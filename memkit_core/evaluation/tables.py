"""The numbers of an evaluation as tables for people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from memkit_core.evaluation.comparison import Numbers, cell, comparison_tables, mapping, missed_a_leg
from memkit_core.evaluation.configurations import DENSE, HYBRID, KEYWORD
from memkit_core.jsonvalues import JsonValue
from memkit_core.plurals import plural

_DIGEST = 12
_LEGS = (HYBRID, KEYWORD, DENSE)


def tables(numbers: Numbers) -> list[Table | Text]:
    """What `summary` returned, for people: to be printed in order, at most 80 columns wide."""
    overall, session = _legs(numbers, "overall"), _legs(numbers, "session")
    ks = numbers["k"]
    assert isinstance(ks, list)
    if len(mapping(numbers["configurations"])) > len(_LEGS):
        return [Text(_heading(numbers)), *comparison_tables(numbers), Text(_footing(numbers))]
    shown: list[Table | Text] = [Text(_heading(numbers))]
    metrics = [f"{name}@{k}" for name in ("recall", "all", "any") for k in ks] + ["mrr", "r@1"]
    if overall or session:
        shown.append(_metric_table(metrics, {"turns": overall, "sessions": session}))
    rows = {**mapping(numbers["categories"])}
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


def _legs(numbers: Numbers, part: str) -> Mapping[str, Mapping[str, JsonValue]]:
    return {leg: mapping(values) for leg, values in mapping(numbers[part]).items()}


def _heading(numbers: Numbers) -> str:
    counts, digests = mapping(numbers["counts"]), mapping(numbers["sha256"])
    files = ", ".join(f"{name} {str(digest)[:_DIGEST]}" for name, digest in digests.items())
    talks, turns, asked = counts["conversations"], counts["turns"], counts["questions"]
    return (
        f"{numbers['dataset']}: {talks} {plural(talks, 'conversation')}, {turns} {plural(turns, 'turn')} "
        f"({counts['skipped']} empty skipped),\n{asked} {plural(asked, 'question')} asked "
        f"({counts['unasked']} without evidence left out),\nembedder {numbers['embedder']}\n"
        f"sha256 {files or 'unknown'}"
    )


def _footing(numbers: Numbers) -> str:
    latency, counts = mapping(numbers["latency_ms"]), mapping(numbers["counts"])
    times = ", ".join(f"{name} {value} ms" for name, value in latency.items())
    tokens = ", ".join(f"{name} {value:.0f}" for name, value in mapping(numbers["tokens"]).items())
    seed = f"seed {mapping(numbers['bootstrap'])['seed']}"
    lines = [f"recall: {times or 'not timed'}", f"tokens: {tokens or 'none'}", f"{numbers['date']}, {seed}"]
    if counts["degraded"]:
        lines.insert(0, missed_a_leg(counts["degraded"], "question"))
    return "\n".join(lines)


def _metric_table(
    metrics: Sequence[str], groups: Mapping[str, Mapping[str, Mapping[str, JsonValue]]]
) -> Table:
    """One line a metric, one column a leg of each group that has questions."""
    filled = {name: legs for name, legs in groups.items() if legs}
    title = ", ".join(
        f"{name}: {_questions(legs)} {plural(_questions(legs), 'question')}" for name, legs in filled.items()
    )
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for (place, _), leg in itertools.product(enumerate(filled), _LEGS):
        table.add_column(leg if place == 0 else f"{leg} (s)", justify="right")
    for metric in metrics:
        cells = [legs.get(leg, {}).get(metric) for legs in filled.values() for leg in _LEGS]
        if any(cell is not None for cell in cells):
            table.add_row(metric, *map(cell, cells))
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
        hybrid, bm25 = (mapping(mapping(legs)[leg]) for leg in (HYBRID, KEYWORD))
        cells = [hybrid.get(metric) for metric in metrics] + [bm25.get(f"recall@{ks[0]}")]
        table.add_row(Text(name), str(hybrid["questions"]), *map(cell, cells))
    return table


def _questions(legs: Mapping[str, Mapping[str, JsonValue]]) -> JsonValue:
    return next(iter(legs.values()))["questions"]
