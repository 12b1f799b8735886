"""kill -9 in the middle of an import: the same import again must complete it."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from faults.consistency import judge, opened
from faults.embedders import HashEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from faults.work import WORKS, State
from memkit_core import Memory
from memkit_core.transfer import ImportReport

_EARLY = 0.1
"""The part of the rounds in which the process is killed while it starts or opens."""
_STARTING, _BETWEEN = 0.8, 0.03
"""Seconds within which it is killed after it was started, or after so many pieces."""
_FIRST = {"add_many": range(14), "append": range(60), "delete": range(1), "delete_scope": range(8)}
_THEN = {"delete": range(1, 9), "append": range(60, 90), "delete_scope": range(8, 12), "update": range(3)}


class _House(NamedTuple):
    """What is moved: all of it, and what changed afterwards, with how many rows each file has."""

    state: State
    full: Path
    increment: Path
    rows: dict[Path, int]
    body: list[bytes]


def killed_while_importing(plan: Plan) -> Findings:
    """Kill the import of a full export, or of the increment after it; then run both to their end."""
    findings = Findings()
    chance = random.Random(f"{plan.seed} import")  # noqa: S311 - moments to kill at, no secret
    house, in_time = _built(plan.folder), 0
    for number in range(plan.amount):
        folder = plan.folder / f"import-{number}"
        folder.mkdir()
        path = folder / "m.db"
        killed = house.increment if number % 2 else house.full
        if killed == house.increment:
            with _memory(path) as memory:
                memory.import_jsonl(house.full)
        early = chance.random() < _EARLY
        pieces = 0 if early else chance.randint(1, 1 + house.rows[killed] // 10)
        delay = chance.uniform(0, _STARTING if early else _BETWEEN)
        in_time += not _killed(path, killed, pieces=pieces, delay=delay)
        where = f"round {number}, {killed.name} killed {delay:.3f} s after piece {pieces}"
        findings.add(_completed(path, house, killed, seed=chance.getrandbits(32)), where)
    findings.notes.append(f"{in_time} killed before the import had ended")
    return findings


def _built(folder: Path) -> _House:
    state, files = State(), (folder / "full.jsonl", folder / "increment.jsonl")
    with _memory(folder / "house.db") as memory:
        _run(memory, state, _FIRST)
        full = memory.export_jsonl(files[0], everything=True)
        _run(memory, state, _THEN)
        more = memory.export_jsonl(files[1], everything=True, watermark=full.watermark)
        return _House(state, *files, {files[0]: full.rows, files[1]: more.rows}, _body(memory))


@contextmanager
def _memory(path: Path) -> Iterator[Memory]:
    with opened(path, HashEmbedder()) as (memory, _):
        yield memory


def _run(memory: Memory, state: State, steps: dict[str, range]) -> None:
    for name, numbers in steps.items():
        work = WORKS[name](name)
        for step in numbers:
            work.run(memory, step)
            work.replay(state, step)
    memory.flush()


def _body(memory: Memory) -> list[bytes]:
    """The lines of an export, but for the header that names the store."""
    file = io.BytesIO()
    memory.export_jsonl(file, everything=True)
    return file.getvalue().split(b"\n")[1:]


def _killed(path: Path, export: Path, *, pieces: int, delay: float) -> bool:
    """Start an import, wait for so many pieces, and kill it; whether it had ended by then."""
    with start("faults.importer", path, export) as importer:
        assert importer.stdout is not None
        said = "".join(importer.stdout.readline() for _ in range(pieces))
        time.sleep(delay)
        importer.kill()
        return "done" in said + importer.stdout.read()


def _completed(path: Path, house: _House, killed: Path, *, seed: int) -> Findings:
    """Run the killed import again, and what comes after it, and look at everything."""
    findings = Findings()
    with _memory(path) as memory:
        before = memory.upkeep.verify()
        findings.expect(before.whole, f"after the kill: {[problem.detail for problem in before]}")
        reports = [memory.import_jsonl(killed)]
        findings.acknowledged += _rows(reports[0])
        if killed == house.full:
            reports.append(memory.import_jsonl(house.increment))
            findings.acknowledged += _rows(reports[1])
        findings.expect(not any(report.skipped for report in reports), f"lines were skipped: {reports}")
        again = memory.import_jsonl(house.increment)
        findings.expect(not again.changed, f"imported again it changed something: {again}")
        memory.flush()
        findings.expect(sorted(_body(memory)) == sorted(house.body), "an export is not that of the source")
    findings.add(judge(path, [house.state], seed=seed), "judged")
    return findings


def _rows(report: ImportReport) -> int:
    counts = (report.inserted, report.updated, report.unchanged)
    return sum(sum(count.values()) for count in counts) + report.deleted
