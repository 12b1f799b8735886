"""`memkit eval`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from memkit_core.cli.options import AsJson, all_as_typed
from memkit_core.cli.output import as_document, stderr, stdout, write_json
from memkit_core.evaluation import (
    Configuration,
    Dataset,
    LogOutcome,
    Outcome,
    compare_chunk_sizes,
    evaluate,
    parse_configuration,
    read_dataset,
    save_plot,
    summary,
    tables,
)
from memkit_core.evaluation.configurations import check_embedder, checked_configurations
from memkit_core.evaluation.filling import Progress as Report
from memkit_core.evaluation.from_log import TIME_AND_FUSION, evaluate_log, log_summary, log_tables
from memkit_core.evaluation.plot import check_plot
from memkit_core.evaluation.run import DEFAULT_KS
from memkit_core.jsonvalues import JsonValue

_Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="Folders with conversations.jsonl and questions.jsonl."),
]
_Ks = Annotated[
    list[str] | None,
    typer.Option("--k", metavar="NUMBERS", help="How many hits to look at: 5,10 or repeated. [5,10,20]"),
]
_Embedder = Annotated[
    str | None,
    typer.Option("--embedder", help="The embedding model, as provider:model. [the built-in wordllama]"),
]
_ChunkSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--chunk-sizes", metavar="NUMBERS", help="Compare chunks of so many characters: 256,512,1024."
    ),
]
_Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="TEXT",
        callback=all_as_typed,
        help='Compare a configuration with the default: "name:knob=value,knob=value". Repeatable.',
    ),
]
_FromLog = Annotated[
    Path | None,
    typer.Option(
        "--from-log",
        help="Instead of folders: ask again what this memory has in its recall log with feedback.",
    ),
]
_Seed = Annotated[int | None, typer.Option("--seed", min=0, help="The seed of the confidence intervals. [0]")]
_JsonFile = Annotated[
    Path | None, typer.Option("--json-file", help="Also write the JSON document to this file.")
]
_Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw recall@k with intervals: a .png, .svg or .pdf (extra: plot)."),
]


def evaluation(
    paths: _Paths = None,
    *,
    k: _Ks = None,
    embedder: _Embedder = None,
    chunk_sizes: _ChunkSizes = None,
    compare: _Compare = None,
    from_log: _FromLog = None,
    seed: _Seed = None,
    as_json: AsJson = False,
    json_file: _JsonFile = None,
    plot: _Plot = None,
) -> None:
    """Measure how well recall finds what answers questions.

    Each question names the turns of a conversation that answer it. The default ranking is compared with BM25 alone
    and vectors alone; see docs/eval.md for the files.
    """
    if bool(paths) == (from_log is not None):
        raise typer.BadParameter("give folders of data, or --from-log and the file of a memory")
    ks = _counts(k, "--k") if k else DEFAULT_KS
    sizes = _counts(chunk_sizes, "--chunk-sizes") if chunk_sizes else []
    if sizes and (from_log or compare or json_file or plot or seed is not None):
        raise typer.BadParameter(
            "--chunk-sizes stands alone: no --compare, --from-log, --seed, --json-file or --plot"
        )
    seed = seed or 0
    if from_log is None:
        check_embedder(embedder)
    configurations = checked_configurations([parse_configuration(text) for text in compare or ()])
    if plot is not None:
        check_plot(plot)
    if json_file is not None and (json_file.is_dir() or not json_file.parent.is_dir()):
        raise typer.BadParameter(f"--json-file {json_file} is a folder, or its folder does not exist")
    if from_log is not None:
        seen = _seen_in_log(from_log, ks, embedder, configurations or TIME_AND_FUSION)
        measured = [log_summary(seen, seed=seed)]
    elif sizes:
        _compare_sizes([read_dataset(path) for path in paths or ()], sizes, ks, embedder, as_json=as_json)
        return
    else:
        # All are read before the first is asked: a broken one is told at once.
        datasets = [read_dataset(path) for path in paths or ()]
        measured = [
            summary(_measured(dataset, ks, embedder, configurations), seed=seed) for dataset in datasets
        ]
    _tell(measured, log_tables if from_log else tables, as_json=as_json, json_file=json_file, plot=plot)


def _measured(
    dataset: Dataset, ks: Sequence[int], embedder: str | None, configurations: Sequence[Configuration]
) -> Outcome:
    with _progress() as report:
        return evaluate(dataset, ks=ks, embedder=embedder, configurations=configurations, progress=report)


def _compare_sizes(
    datasets: Sequence[Dataset],
    sizes: Sequence[int],
    ks: Sequence[int],
    embedder: str | None,
    *,
    as_json: bool,
) -> None:
    compared = []
    for dataset in datasets:
        with _progress() as report:
            compared.append(compare_chunk_sizes(dataset, sizes, ks=ks, embedder=embedder, progress=report))
    if as_json:
        write_json([one.summary() for one in compared] if len(compared) > 1 else compared[0].summary())
        return
    for one in compared:
        stdout().print(*one.tables(), sep="\n")


def _seen_in_log(
    store: Path, ks: Sequence[int], embedder: str | None, configurations: Sequence[Configuration]
) -> LogOutcome:
    with _progress() as report:
        return evaluate_log(store, ks=ks, embedder=embedder, configurations=configurations, progress=report)


def _tell(
    measured: Sequence[Mapping[str, JsonValue]],
    as_tables: Callable[[Mapping[str, JsonValue]], Sequence[Table | Text]],
    *,
    as_json: bool,
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Write the numbers everywhere they are wanted."""
    document = measured if len(measured) > 1 else measured[0]
    if plot is not None:
        save_plot(measured, plot)
    if json_file is not None:
        json_file.write_text(as_document(document), encoding="utf-8")
    if as_json:
        write_json(document)
        return
    console = stdout()
    for numbers in measured:
        for part in as_tables(numbers):
            console.print(part)


def _counts(given: list[str], option: str) -> list[int]:
    """The numbers of a list such as `["5,10", "20"]`.

    Raises:
        BadParameter: something is no whole number above 0 that fits into 64 bits.
    """
    parts = [part.strip() for text in given for part in text.split(",")]
    # As text first: Python reads no number of thousands of digits.
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,17}", part) for part in parts):
        raise typer.BadParameter(
            f"{option} takes whole numbers above 0 such as 5,10,20, got {','.join(given)!r}"
        )
    return [int(part) for part in parts]


@contextmanager
def _progress() -> Iterator[Report]:
    """A bar on stderr for each step of an evaluation."""
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr()) as progress:
        bars: dict[str, TaskID] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = progress.add_task(step, total=total)
            progress.update(bars[step], completed=done, total=total)

        yield report
