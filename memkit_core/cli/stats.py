"""`memkit stats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table
from rich.text import Text

from memkit_core.cli.options import AsJson, Database, Embedder, open_existing
from memkit_core.cli.output import one_line, stdout, write_json
from memkit_core.plurals import plural
from memkit_core.upkeep import Stats


def counting(*, db: Database, embedder: Embedder = None, as_json: AsJson = False) -> None:
    """Count what the file holds, of all users."""
    with open_existing(db, embedder) as memory:
        stats = memory.upkeep.stats()
    if as_json:
        write_json(stats)
        return
    table = Table.grid(padding=(0, 2))
    for name, value in _lines(stats):
        table.add_row(name, Text(one_line(value)))
    stdout().print(table)


def _lines(stats: Stats) -> Iterator[tuple[str, str]]:
    yield "memories", _listed(f"{many:,} {name}" for name, many in sorted(stats.by_status.items()))
    yield "types", _listed(f"{many:,} {plural(many, name)}" for name, many in sorted(stats.by_type.items()))
    yield "spaces", _listed(f"{many:,} in {name}" for name, many in sorted(stats.by_space.items()))
    yield (
        "conversations",
        (
            f"{stats.sessions:,} {plural(stats.sessions, 'session')}, "
            f"{stats.messages:,} {plural(stats.messages, 'message')}"
        ),
    )
    for space in stats.vector_spaces:
        yield (
            "vectors",
            f"{space.vectors:,} of {space.name}, in {space.index or 'no index that this process can use'}",
        )
    outbox = stats.outbox
    yield (
        "outbox",
        f"{outbox.length:,} {plural(outbox.length, 'waits', 'wait')}, {outbox.failed:,} used up their tries",
    )
    if stats.file_bytes is not None:
        yield "bytes", f"{stats.file_bytes:,} in the file, {stats.log_bytes:,} in its write-ahead log"


def _listed(counts: Iterable[str]) -> str:
    return ", ".join(counts) or "none"
