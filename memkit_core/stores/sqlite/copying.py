"""`Copyable.copy_to` over SQLite: its backup API."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.looking import look, reading
from memkit_core.stores.sqlite.translating import translated

PAGES = 1024
"""Pages that are copied at once, 4 MiB: between two pieces a copy can be interrupted."""


def copy_file(database: Database, path: Path, progress: Callable[[int, int], object] | None) -> None:
    """Write the state of this moment into a new file, in pieces, while others go on.

    `progress` is told how many of how many pages are written.
    """

    def told(_: int, left: int, pages: int) -> None:
        if progress is not None:
            progress(pages - left, pages)

    # Inside a transaction that has read: SQLite begins anew whenever the state it copies changes.
    with database.snapshot() as source, closing(sqlite3.connect(path)) as copy:
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(copy, pages=PAGES, progress=told)


def copy_unopened(source: Path, path: Path) -> None:
    """Write the present state of the memkit file `source` into a new file; `source` is only read.

    Raises:
        SchemaError: it is not memkit's, or was written by a newer memkit.
        BackendError: it cannot be read.
    """
    look(source)
    with translated("copy"), reading(source) as original, closing(sqlite3.connect(path)) as copy:
        original.backup(copy)
