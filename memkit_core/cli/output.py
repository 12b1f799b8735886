"""What goes to the terminal: data to stdout, everything else to stderr."""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from memkit_core import MemoryRecord, Scope, ScoredRecord
from memkit_core.models import MESSAGES
from memkit_core.text.clean import storable

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WIDTH = 80


def use_utf8() -> None:
    """Make stdout and stderr UTF-8, so that every text can be printed in every locale.

    What the process was started without, as by `>&-`, is empty or leads nowhere from now on: else the
    first files that are opened would take its place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def drop_stdout() -> None:
    """Let stdout lead nowhere, once its reader has gone: Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout() -> Console:
    """A console for data: at most as wide as the terminal, 80 columns and no colour elsewhere."""
    return _console(stderr=False)


def stderr() -> Console:
    """A console for everything that is not data."""
    return _console(stderr=True)


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr for as long as the block lasts; nothing where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _console(*, stderr: bool) -> Console:
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    # Text from a memory is data: no markup, no emoji codes, no colouring of numbers.
    return Console(
        stderr=stderr, width=None if terminal else _WIDTH, markup=False, emoji=False, highlight=False
    )


def visible(text: str) -> str:
    """The text without control characters, which could reprogram a terminal; they become U+FFFD."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text in one line."""
    return visible(" ".join(text.split()))


def write_json(document: object) -> None:
    """One JSON document on stdout, times in ISO 8601."""
    sys.stdout.write(as_document(document))


def as_document(document: object) -> str:
    """One JSON document as text that any file can hold, times in ISO 8601."""
    # The name of a file may hold lone surrogates.
    return storable(json.dumps(plain(document), ensure_ascii=False, indent=2)) + "\n"


def plain(value: object) -> object:
    """JSON for values of memkit: fields by name, a scope as ids by kind, times in ISO 8601."""
    if isinstance(value, Scope):
        return dict(value.path)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    return _plain_parts(value)


def _plain_parts(value: object) -> object:
    """`plain` of what holds other values; scalars are returned as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def when(record: MemoryRecord) -> str:
    """When it was said or happened, to the minute, UTC."""
    return (record.occurred_at or record.created_at).strftime("%Y-%m-%d %H:%M")


def record_text(record: MemoryRecord) -> str:
    """What a record says, led by who said it."""
    return visible(record.index_text)


def hit_table(hits: list[ScoredRecord], *, ids: bool = False) -> Table:
    """Recalled records, best first: rank, score, time and text; with `ids` below, of a turn its session."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rank, hit in enumerate(hits, 1):
        text = Text(record_text(hit.record))
        if ids:
            turn = hit.record.space == MESSAGES
            named = (
                f"said in session {hit.record.metadata.get('session_id')}" if turn else f"id {hit.record.id}"
            )
            text.append(f"\n{visible(named)}", style="dim")
        table.add_row(str(rank), f"{hit.score:.3f}", when(hit.record), text)
    return table


def record_table(records: list[MemoryRecord]) -> Table:
    """Listed records: time, type, id and text with tags."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for record in records:
        tags = "".join(f" #{visible(tag)}" for tag in record.tags)
        text = Text(record_text(record) + tags)
        text.append(f"\nid {visible(record.id)}", style="dim")
        table.add_row(when(record), record.type.value, text)
    return table
