"""Several configurations over the same questions, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from memkit_core.jsonvalues import JsonValue
from memkit_core.plurals import plural

Numbers = Mapping[str, JsonValue]

_NAME_WIDTH = 18
_INTERVAL = 3


def mapping(value: JsonValue) -> Mapping[str, JsonValue]:
    """The value, which is a JSON object."""
    assert isinstance(value, dict)
    return value


def cell(value: JsonValue) -> str:
    """A metric as it stands in a table."""
    return f"{value:.3f}" if isinstance(value, int | float) else "-"


def difference(value: JsonValue) -> str:
    """A mean difference with the ends of its interval; blank when there is none."""
    if not isinstance(value, list) or len(value) != _INTERVAL:
        return ""
    mean, low, high = (f"{end:+.3f}".replace("0.", ".") for end in value if isinstance(end, int | float))
    return f"{mean} [{low}, {high}]"


def missed_a_leg(many: JsonValue, what: str) -> str:
    """The warning that so many questions, or recalls, were answered without one of the legs."""
    return f"{many} {plural(many, what)} missed a leg: these are not the ranking's numbers"


def comparison_tables(numbers: Numbers) -> list[Table]:
    """One table of how well each configuration finds the evidence, by category, and one of what it costs."""
    ks = numbers["k"]
    assert isinstance(ks, list)
    # The middle one says most: the first few hits differ by chance, among many all find the same.
    middle = ks[min(1, len(ks) - 1)]
    shown = [_found_table(numbers, [f"recall@{k}" for k in ks[:2]], f"recall@{middle}")]
    shown.append(_cost_table(numbers, str(middle)))
    for kind in ("stale", "forbidden"):
        if numbers[kind]:
            title = f"{kind} {numbers['scored']} (lower is better)"
            table = _table(
                title, [f"in_top@{middle}", "above_evidence", f"above_evidence - {_first(numbers)}"]
            )
            _add_rows(table, numbers, kind, [f"in_top@{middle}", "above_evidence"], "above_evidence")
            shown.append(table)
    return shown


def _found_table(numbers: Numbers, recalls: Sequence[str], compared: str) -> Table:
    metrics = [*recalls, "mrr", "r@1"]
    title = f"the same questions for all; differences with 95 % intervals, drawn by {_unit(numbers)}"
    table = _table(title, [*metrics, f"{compared} - {_first(numbers)}"])
    sections = {str(numbers["scored"]): "overall", "sessions": "session"}
    for label, part in sections.items():
        _add_section(table, label, numbers, part, metrics, compared)
    kinds = mapping(numbers["categories"])
    # A single one is all of them, and stands there already.
    for kind in kinds if len(kinds) > 1 else ():
        _add_section(table, kind, _of_category(numbers, kind), kind, metrics, compared)
    _add_section(table, "(adversarial)", numbers, "adversarial", metrics, compared)
    return table


def _of_category(numbers: Numbers, kind: str) -> Numbers:
    """The numbers of one category, laid out as those of a part."""
    return {
        "configurations": numbers["configurations"],
        kind: mapping(numbers["categories"])[kind],
        "differences": {kind: mapping(mapping(numbers["differences"])["categories"])[kind]},
    }


def _add_section(
    table: Table, label: str, numbers: Numbers, part: str, metrics: Sequence[str], compared: str
) -> None:
    legs = mapping(numbers[part])
    if not legs:
        return
    questions = mapping(next(iter(legs.values())))["questions"]
    table.add_row(Text(f"{label}, n={questions}", style="bold"))
    _add_rows(table, numbers, part, metrics, compared)
    table.add_section()


def _add_rows(table: Table, numbers: Numbers, part: str, metrics: Sequence[str], compared: str) -> None:
    changes = mapping(mapping(numbers["differences"])[part])
    for name, values in mapping(numbers[part]).items():
        found = mapping(values)
        change = difference(mapping(changes[name]).get(compared)) if name in changes else ""
        table.add_row(Text(name), *(cell(found.get(metric)) for metric in metrics), change)


def _cost_table(numbers: Numbers, k: str) -> Table:
    part = "overall" if numbers["overall"] else "session"
    metrics = [f"any@{k}", f"all@{k}"]
    label = numbers["scored"] if part == "overall" else "sessions"
    table = _table(f"{label}, tokens of the first {k}, and time of a recall", [*metrics, "tokens", "p50 ms"])
    legs = mapping(numbers[part])
    for name, told in mapping(numbers["configurations"]).items():
        costs, found = mapping(told), mapping(legs.get(name, {}))
        tokens = mapping(costs["tokens"]).get(f"top@{k}")
        median = mapping(costs["latency_ms"]).get("p50")
        table.add_row(
            Text(name),
            *(cell(found.get(metric)) for metric in metrics),
            f"{tokens:.0f}" if isinstance(tokens, int | float) else "-",
            f"{median:.2f}" if isinstance(median, int | float) else "-",
        )
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    # One blank between columns: a difference and its interval are wide.
    table = Table(
        title=title,
        title_justify="left",
        title_style="",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("configuration", width=_NAME_WIDTH, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _first(numbers: Numbers) -> str:
    return next(iter(mapping(numbers["configurations"])))


def _unit(numbers: Numbers) -> JsonValue:
    return mapping(numbers["bootstrap"])["unit"]
