"""`memkit eval`."""

from __future__ import annotations

from collections.abc import Iterator
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

from memkit_core.cli.options import AsJson
from memkit_core.cli.output import stderr, stdout, write_json
from memkit_core.evaluation import compare_chunk_sizes, evaluate, read_dataset, summary, tables
from memkit_core.evaluation.run import DEFAULT_KS
from memkit_core.evaluation.run import Progress as Report


def evaluation(
    path: Annotated[Path, typer.Argument(help="A folder with conversations.jsonl and questions.jsonl.")],
    *,
    k: Annotated[
        list[str] | None, typer.Option("--k", help="How many hits to look at: 5,10 or repeated. [5,10,20]")
    ] = None,
    embedder: Annotated[
        str, typer.Option("--embedder", help="As in Memory.open: wordllama, or provider:model.")
    ] = "wordllama",
    chunk_sizes: Annotated[
        list[str] | None,
        typer.Option("--chunk-sizes", help="Compare chunks of these many characters: 256,512,1024."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure recall on conversations with gold evidence, beside BM25 alone and vectors alone."""
    ks = _counts(k, "--k") if k else DEFAULT_KS
    sizes = _counts(chunk_sizes, "--chunk-sizes") if chunk_sizes else []
    dataset = read_dataset(path)
    if sizes:
        with _progress() as report:
            compared = compare_chunk_sizes(dataset, sizes, ks=ks, embedder=embedder, progress=report)
        if as_json:
            write_json(compared.summary())
        else:
            stdout().print(*compared.tables(), sep="\n")
        return
    with _progress() as report:
        outcome = evaluate(dataset, ks=ks, embedder=embedder, progress=report)
    numbers = summary(outcome)
    if as_json:
        write_json(numbers)
        return
    console = stdout()
    for part in tables(numbers):
        console.print(part)


def _counts(given: list[str], option: str) -> list[int]:
    """The numbers of a list such as `["5,10", "20"]`.

    Raises:
        BadParameter: something is no whole number above 0.
    """
    parts = [part.strip() for text in given for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
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
