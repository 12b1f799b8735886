"""`memkit repair` and `memkit reindex`."""

from __future__ import annotations

from typing import Annotated

import typer

from memkit_core import Memory
from memkit_core.cli.options import AsJson, Database, Embedder, open_existing
from memkit_core.cli.output import stderr, stdout, visible, write_json
from memkit_core.upkeep import Findings

_NOT_WHOLE = 1


def repairing(
    *,
    db: Database,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look, change nothing.")] = False,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> int:
    """Compare what is derived with the records, and mend it. Exits with 1 while something is wrong."""
    with open_existing(db, embedder) as memory:
        with stderr().status("comparing every row with its keyword rows and vectors"):
            findings = memory.upkeep.verify() if dry_run else memory.upkeep.repair()
        left = 0 if dry_run else _worked_off(memory)
    if as_json:
        write_json({"problems": findings.problems, "unchecked": findings.unchecked, "outbox": left})
    else:
        _show(findings)
    return 0 if findings.whole else _NOT_WHOLE


def reindexing(*, db: Database, embedder: Embedder = None, as_json: AsJson = False) -> None:
    """Build the vector index anew from the stored vectors; nothing is embedded."""
    with open_existing(db, embedder) as memory, stderr().status("building the vector index"):
        points = memory.upkeep.reindex()
    if as_json:
        write_json({"points": points})
    else:
        stderr().print(f"the index holds {points:,} vectors")


def _worked_off(memory: Memory) -> int:
    memory.flush()
    return memory.capabilities.outbox.length


def _show(findings: Findings) -> None:
    for problem in findings:
        state = "mended" if problem.mended else "found"
        stdout().print(
            f"{state}: {problem.count:,} {visible(problem.detail)} ({problem.kind})", soft_wrap=True
        )
    for name in findings.unchecked:
        stderr().print(
            f"not looked at: the index of {visible(name)}, another process holds it", soft_wrap=True
        )
    if not findings and not findings.unchecked:
        stderr().print("all is well")
