"""`memkit reembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit_core.cli.options import AsJson, Database, open_existing
from memkit_core.cli.output import bar, stderr, visible, write_json


def reembedding(
    *,
    db: Database,
    embedder: Annotated[
        str, typer.Option("--embedder", help="The new model, as in Memory.open: wordllama or provider:model.")
    ],
    as_json: AsJson = False,
) -> None:
    """Change the embedding model of the file; it stays in use meanwhile. Run it again if it was stopped."""
    with open_existing(db, None) as memory:
        with bar("embedding") as progress:
            report = memory.upkeep.reembed(embedder, progress=progress)
        with stderr().status("embedding what was written meanwhile"):
            memory.flush()
            left = memory.capabilities.outbox.length
    if as_json:
        write_json({"report": report, "outbox": left})
        return
    stderr().print(
        f"{report.records:,} records have vectors of {visible(report.model)} ({report.dimension} dimensions); "
        f"{report.embedded:,} were embedded now",
        soft_wrap=True,
    )
    if left:
        stderr().print(f"still waiting to be embedded or indexed: {left:,}")
