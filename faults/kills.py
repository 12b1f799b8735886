"""kill -9 in the middle of writing, at any moment from the first import on."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from faults.consistency import judge
from faults.findings import Findings, Plan
from faults.work import WORKS

PROJECT = Path(__file__).resolve().parent.parent
_EARLY = 0.15
"""The part of the rounds in which the process is killed while it starts, opens or makes its index."""
_STARTING, _WRITING = 0.8, 0.05
"""Seconds within which it is killed after it was started, or after so many calls had returned."""
_CALLS = 40


def start(module: str, *arguments: object) -> subprocess.Popen[str]:
    """A module of this package in a process of its own, with pipes to it and from it."""
    return subprocess.Popen(  # noqa: S603 - our own modules, in a fresh interpreter
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_while(work: str) -> Callable[[Plan], Findings]:
    """The scenario that kills a writer that does `work`."""

    def run(plan: Plan) -> Findings:
        findings = Findings()
        chance = random.Random(f"{plan.seed} {work}")  # noqa: S311 - moments to kill at, no secret
        for number in range(plan.amount):
            folder = plan.folder / f"{work}-{number}"
            folder.mkdir()
            early = chance.random() < _EARLY
            calls = 0 if early else chance.randint(1, _CALLS)
            delay = chance.uniform(0, _STARTING if early else _WRITING)
            steps = _killed(folder / "m.db", work, calls=calls, delay=delay)
            where = f"round {number}, killed {delay:.3f} s after call {calls}"
            findings.add(_judged(folder / "m.db", work, steps, seed=chance.getrandbits(32)), where)
        return findings

    return run


def _killed(path: Path, work: str, *, calls: int, delay: float) -> int:
    """Start a writer, wait for some calls to return, and kill it; how many had returned by then."""
    with start("faults.writer", path, work, "w", 60) as writer:
        assert writer.stdout is not None
        said = "".join(writer.stdout.readline() for _ in range(calls))
        time.sleep(delay)
        writer.kill()
        said += writer.stdout.read()
    # A number that was cut off in the middle would have no line end.
    return said.count("\n")


def _judged(path: Path, work: str, steps: int, *, seed: int) -> Findings:
    acknowledged, count = WORKS[work]().state_after(steps)
    one_more, _ = WORKS[work]().state_after(steps + 1)
    findings = judge(path, [acknowledged, one_more], seed=seed)
    findings.acknowledged = count
    return findings
