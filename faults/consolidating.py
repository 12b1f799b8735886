"""kill -9 in the middle of a consolidation: the same again completes it, as if it had never been killed.

`python -m faults.consolidating <file>` consolidates, and says of each memory that it is judged now, and when
it is done.
"""

from __future__ import annotations

import dataclasses
import io
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from faults.consistency import QUIET
from faults.embedders import HashEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from faults.work import ALICE, text_of, word_of
from faults.writer import BUSY
from memkit_core import Config, Judgement, Memory, MemoryRecord, NewMemory, Status, Verdict

_GROUPS = 30
"""Memories that belong together; of each third group the judge says another thing."""
_EARLY = 0.1
"""The part of the rounds in which the process is killed while it starts, opens or looks for pairs."""
_STARTING, _BETWEEN = 0.8, 0.02
"""Seconds within which it is killed after it was started, or after it began to judge."""
_NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
"""The clock stands still, so that what was done twice would be written twice with the same times."""
_VERDICTS = (Verdict.SAME, Verdict.REPLACES, Verdict.UNRELATED)


def _group(record: MemoryRecord) -> int:
    return int(record.id.split(".")[0])


class GroupJudge:
    """Says of each group of memories what it was made for, and nothing of two groups."""

    name = "groups"

    def __init__(self, judged: Callable[[], object]) -> None:
        """`judged` is called before each answer."""
        self._judged = judged

    def __call__(self, new: MemoryRecord, olds: Sequence[MemoryRecord]) -> list[Judgement]:
        """See `Judge`."""
        self._judged()
        verdict = _VERDICTS[_group(new) % len(_VERDICTS)]
        return [
            Judgement(verdict=verdict if _group(old) == _group(new) else Verdict.UNRELATED, reason="as made")
            for old in olds
        ]


def main(path: str) -> None:
    """Consolidate."""
    with _memory(Path(path), dataclasses.replace(BUSY, wal_checkpoint_bytes=16 * 1024)) as memory:
        os.write(1, b"begun\n")
        _consolidate(memory, lambda: os.write(1, b"judged\n"))
        os.write(1, b"done\n")


def killed_while_consolidating(plan: Plan) -> Findings:
    """Kill a run at any moment, look at each pair it left, run it again, and compare all memories."""
    findings = Findings()
    chance = random.Random(f"{plan.seed} consolidate")  # noqa: S311 - moments to kill at, no secret
    base, whole = plan.folder / "base.db", plan.folder / "whole.db"
    _fill(base)
    shutil.copy(base, whole)
    with _memory(whole) as memory:
        _consolidate(memory)
        wanted = _rows(memory)
    begun = 0
    for number in range(plan.amount):
        path = plan.folder / f"consolidate-{number}.db"
        shutil.copy(base, path)
        early = chance.random() < _EARLY
        lines = 0 if early else chance.randint(1, 1 + _GROUPS)
        delay = chance.uniform(0, _STARTING if early else _BETWEEN)
        ended = _killed(path, lines=lines, delay=delay)
        found, left = _completed(path, wanted)
        begun += left and not ended
        findings.add(found, f"round {number}, killed {delay:.3f} s after line {lines}")
    findings.notes.append(f"{begun} killed between two decisions")
    return findings


def _memory(path: Path, config: Config = QUIET) -> Memory:
    return Memory.open(path, embedder=HashEmbedder(), config=config, clock=lambda: _NOW)


def _consolidate(memory: Memory, judged: Callable[[], object] = lambda: None) -> int:
    """Consolidate; how many decisions changed something."""
    report = memory.upkeep.consolidate(scope=ALICE, judge=GroupJudge(judged), dry_run=False)
    return sum(decision.applied for decision in report.decisions)


def _fill(path: Path) -> None:
    labels = {f"{group}.{name}": word_of(f"group {group}") for group in range(_GROUPS) for name in "ab"}
    # The word of the group, which is rare, brings its memories before the judge.
    news = [NewMemory(content=f"{text_of(label)} {word}", id=label) for label, word in labels.items()]
    with _memory(path) as memory:
        memory.add_many(news, scope=ALICE)
        memory.flush()


def _rows(memory: Memory) -> list[bytes]:
    """All memories with their histories, as an export has them."""
    file = io.BytesIO()
    memory.export_jsonl(file, scope=ALICE)
    return sorted(line for line in file.getvalue().split(b"\n")[1:] if b'"kind":"record"' in line)


def _killed(path: Path, *, lines: int, delay: float) -> bool:
    """Start a run, wait for so many lines, and kill it; whether it had ended by then."""
    with start("faults.consolidating", path) as run:
        assert run.stdout is not None
        said = "".join(run.stdout.readline() for _ in range(lines))
        time.sleep(delay)
        run.kill()
        return "done" in said + run.stdout.read()


def _completed(path: Path, wanted: list[bytes]) -> tuple[Findings, bool]:
    """Look at what a kill left, run it again and compare; also whether some pairs were decided and others not."""
    findings = Findings(acknowledged=2 * _GROUPS)
    with _memory(path) as memory:
        problems = memory.upkeep.verify().problems
        findings.expect(not problems, f"after the kill: {[one.detail for one in problems]}")
        decided = _decided(memory, findings)
        of_all = sum(group % len(_VERDICTS) < len(_VERDICTS) - 1 for group in range(_GROUPS))
        again = _consolidate(memory)
        findings.expect(decided + again == of_all, f"{decided} decisions and {again} more, not {of_all}")
        rows = _rows(memory)
        findings.lost += len(set(wanted) - set(rows))
        findings.doubled += len(rows) - len(set(rows))
        findings.expect(rows == wanted, "the memories are not those of a run that was not killed")
        findings.expect(_consolidate(memory) == 0, "a third run changed something")
        findings.expect(memory.flush(), f"flush left {memory.capabilities.outbox} waiting")
        problems = memory.upkeep.verify().problems
        findings.expect(not problems, f"at the end: {[one.detail for one in problems]}")
    return findings, 0 < decided < of_all


def _decided(memory: Memory, findings: Findings) -> int:
    """How many pairs were decided: of each both memories were changed, or neither was."""
    found = memory.list_records(scope=ALICE, status=list(Status), limit=10_000).records
    held = {record.id: record for record in found}
    findings.doubled += len(found) - len(held)
    decided = 0
    for group in range(_GROUPS):
        old, new = held.get(f"{group}.a"), held.get(f"{group}.b")
        findings.lost += (old is None) + (new is None)
        if old is None or new is None:
            continue
        changed = {len(memory.history(one.id, scope=ALICE)) > 1 for one in (old, new)}
        findings.expect(len(changed) == 1, f"of {old.id} and {new.id} only one was changed")
        decided += changed == {True}
    return decided


if __name__ == "__main__":
    main(*sys.argv[1:])
