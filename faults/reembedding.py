"""kill -9 in the middle of a change of the embedding model, while others write: the same again completes it."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from faults.consistency import QUIET, judge
from faults.embedders import HashEmbedder, OldEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from faults.work import WORKS, State
from memkit_core import ConfigError, Memory

_EARLY, _LATE = 0.1, 0.3
"""The parts of the rounds in which the process is killed while it opens, and when it has just switched."""
_STARTING, _BETWEEN = 0.8, 0.05
"""Seconds within which it is killed after it was started, or after what it was waited for."""
_LINES = 50
"""So many lines it says at least."""
_STEPS = 14
"""Calls that fill the store: about three hundred records."""
_WRITES = ("add", "delete", "update")
"""What another thread does meanwhile, by turns."""


def killed_while_reembedding(plan: Plan) -> Findings:
    """Kill a run at any moment, look at what it left, run it again, and look at everything."""
    findings = Findings()
    chance = random.Random(f"{plan.seed} reembed")  # noqa: S311 - moments to kill at, no secret
    switched = 0
    for number in range(plan.amount):
        path = plan.folder / f"reembed-{number}.db"
        # Vectors of the same length are told from the new ones by their model alone.
        old = OldEmbedder(dimension=(32, 24)[number % 2])
        state = _filled(path, old)
        work, moment = _WRITES[number % len(_WRITES)], chance.random()
        lines = 0 if moment < _EARLY else None if moment > 1 - _LATE else chance.randint(1, _LINES)
        delay = chance.uniform(0, _BETWEEN if lines != 0 else _STARTING)
        said = _killed(path, old, work, lines=lines, delay=delay)
        after = "the switch" if lines is None else f"line {lines}"
        where = f"round {number}, {work} meanwhile, killed {delay:.3f} s after {after}"
        found = Findings()
        switched += _left(path, old, found)
        steps = sum(line.isdigit() for line in said.splitlines())
        found.add(_completed(path, old, work, steps, state, seed=chance.getrandbits(32)), "run again")
        findings.add(found, where)
    findings.notes.append(f"{plan.amount - switched} killed before the switch, {switched} after it")
    return findings


def _filled(path: Path, old: OldEmbedder) -> State:
    state, base = State(), WORKS["add_many"]("base")
    with Memory.open(path, embedder=old, config=QUIET) as memory:
        for step in range(_STEPS):
            base.run(memory, step)
            base.replay(state, step)
        memory.flush()
    return state


def _killed(path: Path, old: OldEmbedder, work: str, *, lines: int | None, delay: float) -> str:
    """Start a run, kill it after so many lines, or None for the switch, and return what it said."""
    with start("faults.reembedder", path, old.dimension, work) as run:
        assert run.stdout is not None
        said = "".join(run.stdout.readline() for _ in range(lines or 0))
        while lines is None and run.poll() is None and _models(path, in_use=1) != [HashEmbedder.model]:
            time.sleep(0.001)
        time.sleep(delay)
        run.kill()
        said += run.stdout.read()
    # A number that was cut off in the middle would have no line end.
    return said[: said.rfind("\n") + 1]


def _left(path: Path, old: OldEmbedder, findings: Findings) -> bool:
    """Look at what a kill left, as whoever opens it next; returns whether it had switched."""
    try:
        memory = Memory.open(path, embedder=old, config=QUIET)
    except ConfigError:
        memory = Memory.open(path, embedder=HashEmbedder(), config=QUIET)
    with memory:
        # First, so that nothing is embedded while it is compared.
        findings.expect(memory.flush(), f"after the kill: flush left {memory.capabilities.outbox} waiting")
        problems = memory.upkeep.verify()
        findings.expect(not problems.problems, f"after the kill: {[one.detail for one in problems]}")
        return memory.capabilities.embedding_model == HashEmbedder.model


def _completed(path: Path, old: OldEmbedder, work: str, steps: int, state: State, *, seed: int) -> Findings:
    findings = Findings()
    try:
        memory = Memory.open(path, embedder=old, config=QUIET)
    except ConfigError:
        memory = Memory.open(path, embedder="none", config=QUIET)
    with memory:
        report = memory.upkeep.reembed(HashEmbedder())
        findings.expect(report.waiting == 0, f"{report.waiting} records wait for their vector")
        findings.expect(memory.flush(), f"flush left {memory.capabilities.outbox} waiting")
    allowed = []
    for one_more in (0, 1):
        after = State(records=dict(state.records), ever=dict(state.ever))
        count = sum(WORKS[work]("w").replay(after, step) for step in range(steps + one_more))
        allowed.append(after)
        findings.acknowledged = findings.acknowledged or len(state.records) + count
    findings.add(judge(path, allowed, seed=seed), "judged")
    spaces = _models(path)
    findings.expect(spaces == [HashEmbedder.model], f"the file has vector spaces {spaces}")
    left = [one.name for one in path.with_name(path.name + ".index").iterdir() if one.is_dir()]
    findings.expect(len(left) == 1, f"the index folder holds {left}")
    return findings


def _models(path: Path, *, in_use: int | None = None) -> list[str]:
    """The models of the vector spaces in the file, or of the one in use."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT model FROM vector_spaces WHERE ?1 IS NULL OR in_use = ?1", (in_use,)
        ).fetchall()
    return [row[0] for row in rows]
