"""`memkit reembed`."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit_core import Memory
from memkit_core.cli.options import AsJson, Database, open_existing
from memkit_core.cli.output import bar, stderr, visible, write_json
from memkit_core.cli.settling import Settled, settled
from memkit_core.plurals import plural
from memkit_core.upkeep import ReembedReport


def reembedding(
    *,
    db: Database,
    embedder: Annotated[
        str,
        typer.Option(
            "--embedder",
            help="The new model: wordllama, or provider:model such as openai:text-embedding-3-small.",
        ),
    ],
    as_json: AsJson = False,
) -> int:
    """Change the embedding model of a file that stays in use meanwhile.

    Run it again if it was stopped. Exits with 1 while records are without a vector of the new model.
    """
    # Without a model: what waits is to be embedded with the new one, not with the one before.
    with open_existing(db, "none") as memory:
        with bar("embedding") as progress:
            report = memory.upkeep.reembed(embedder, progress=progress)
        left = settled(memory)
        bare = _without_vectors(memory, report, left)
        error = memory.capabilities.outbox.last_error
    if as_json:
        write_json(
            {"report": report, "outbox": left.outbox, "without_vectors": bare, "no_index": left.no_index}
        )
        return int(bare > 0)
    have = report.records - bare
    stderr().print(
        f"{have:,} {plural(have, 'record has a vector', 'records have vectors')} of {visible(report.model)} "
        f"({report.dimension} dimensions); {report.embedded:,} embedded by this run",
        soft_wrap=True,
    )
    if bare:
        why = "" if error is None else f"; the last error: {visible(error)}"
        stderr().print(
            f"{bare:,} {plural(bare, 'has none and is', 'have none and are')} found by words only{why}; mend "
            "what failed and run this command again",
            soft_wrap=True,
        )
    left.tell()
    if left.no_index is not None:
        stderr().print(
            "whoever has the file open with another model finds by words only until it opens it again",
            soft_wrap=True,
        )
    return int(bare > 0)


def _without_vectors(memory: Memory, report: ReembedReport, left: Settled) -> int:
    """How many of the records that were counted wait for a vector, and not only for the index."""
    if not left.outbox:
        return 0
    own = memory.upkeep.stats().vector_spaces[0]
    return max(report.records - own.vectors, 0)
