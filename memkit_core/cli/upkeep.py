"""`memkit doctor`, `memkit upkeep`, `memkit repair` and `memkit reindex`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from memkit_core import Config, Memory, RuleExtractor, Schedule
from memkit_core.cli.options import AsJson, Database, Embedder, open_existing
from memkit_core.cli.output import stderr, stdout, visible, write_json
from memkit_core.plurals import plural
from memkit_core.upkeep import Findings, JobRun, Level

_NOT_WHOLE = _FAILED = 1
_LOOK_SECONDS = 1.0


def examining(*, db: Database, embedder: Embedder = None, as_json: AsJson = False) -> int:
    """Say what is wrong with the file, or soon will be, and what to do.

    Exits with 1 when there is an ERROR.
    """
    with open_existing(db, embedder) as memory, stderr().status("looking at every row and every vector"):
        findings = memory.upkeep.doctor()
    if as_json:
        write_json(findings)
    else:
        for one in findings:
            stdout().print(f"{one.level}  {one.code}: {visible(one.what)}", soft_wrap=True)
            stdout().print(f"    {visible(one.remedy)}", soft_wrap=True)
        if not findings:
            stderr().print("all is well")
    return _FAILED if any(one.level is Level.ERROR for one in findings) else 0


def keeping_up(
    *,
    db: Database,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until interrupted, and do each job when it is due.")
    ] = False,
    forget_hour: Annotated[
        int | None,
        typer.Option(
            "--forget-hour", help="Also forget, daily at this hour, 0 to 23, UTC: see memkit forget."
        ),
    ] = None,
    form: Annotated[
        bool,
        typer.Option(
            "--form",
            help="Also form memories of sessions that are idle for five minutes, by rules, with no model.",
        ),
    ] = False,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> int:
    """Do the periodic work that is due.

    That is outbox: embed and index what waits; checkpoint: write the log into the file; sweep: delete what has
    expired. Exits with 1 when a job failed.
    """
    if watch and as_json:
        raise typer.BadParameter("--json prints one document; leave out --watch")
    plan = Schedule(thread=False, forget_hour=forget_hour)
    config = Config(upkeep=plan, extractor=RuleExtractor() if form else None)
    with open_existing(db, embedder, config=config) as memory:
        runs = memory.upkeep.run_due()
        if as_json:
            write_json({"done": runs, "jobs": memory.upkeep.jobs()})
        else:
            _tell(runs)
        while watch:
            time.sleep(_LOOK_SECONDS)
            _tell(memory.upkeep.run_due())
        if not runs and not as_json:
            stderr().print("nothing is due")
    return _FAILED if any(run.error for run in runs) else 0


def _tell(runs: list[JobRun]) -> None:
    for run in runs:
        ended = "done" if run.error is None else f"failed: {visible(run.error)}"
        stdout().print(f"{run.at:%Y-%m-%d %H:%M:%S}  {visible(run.name)}  {ended}", soft_wrap=True)


def repairing(
    *,
    db: Database,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look, change nothing.")] = False,
    embedder: Embedder = None,
    as_json: AsJson = False,
) -> int:
    """Mend what does not agree with the records.

    Keyword rows, tags, counters, vectors and the vector index are compared with them. Exits with 1 while something
    is wrong.
    """
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
    """Build the vector index anew; nothing is embedded."""
    with open_existing(db, embedder) as memory, stderr().status("building the vector index"):
        points = memory.upkeep.reindex()
    if as_json:
        write_json({"points": points})
    else:
        stderr().print(f"the index holds {points:,} {plural(points, 'vector')}")


def _worked_off(memory: Memory) -> int:
    memory.flush()
    return memory.capabilities.outbox.length


def _show(findings: Findings) -> None:
    for problem in findings:
        state = "mended" if problem.mended else "found"
        stdout().print(
            f"{state}: {visible(problem.detail)}: {problem.count:,} ({problem.kind})", soft_wrap=True
        )
    for name in findings.unchecked:
        stderr().print(
            f"not looked at: the index of {visible(name)}, another process holds it", soft_wrap=True
        )
    if not findings and not findings.unchecked:
        stderr().print("all is well")
