"""Several processes on one file: writers beside a reader, a fork, a reader that never ends."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from faults.consistency import judge, opened
from faults.embedders import HashEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from faults.work import ALICE, WORKS, State, text_of
from memkit_core import Config

_MEBIBYTE = 2**20


def writers_and_reader(plan: Plan) -> Findings:
    """Two writers in two processes and a reader in a third, for `amount` seconds."""
    findings, path = Findings(), plan.folder / "m.db"
    names = {"p": "add", "q": "add", "r": "append"}
    writers = {name: start("faults.writer", path, work, name, plan.amount) for name, work in names.items()}
    reader = start("faults.reader", path, plan.amount)
    state = State()
    for name, writer in writers.items():
        steps = _said(writer, findings, f"writer {name}").count("\n")
        _, count = WORKS[names[name]](name).state_after(steps)
        findings.acknowledged += count
        for step in range(steps):
            WORKS[names[name]](name).replay(state, step)
    seen = json.loads(_said(reader, findings, "reader") or "{}")
    findings.problems += seen.get("problems", [])
    findings.expect(seen.get("reads", 0) > 0, "the reader never read")
    findings.notes.append(f"{seen.get('reads', 0):,} reads meanwhile")
    findings.add(judge(path, [state], seed=plan.seed), "afterwards")
    return findings


def _said(process: subprocess.Popen[str], findings: Findings, name: str) -> str:
    """What a process printed until it ended; that it failed is a finding."""
    with process:
        said, _ = process.communicate()
    findings.expect(process.returncode == 0, f"the {name} ended with {process.returncode}")
    return said


def forked(plan: Plan) -> Findings:
    """A process opens a memory and forks; see `faults.forking`."""
    findings = Findings()
    for number in range(plan.amount):
        path = plan.folder / f"fork-{number}.db"
        answer = json.loads(_said(start("faults.forking", path), findings, "parent") or "{}")
        findings.expect(answer.get("problems") == [], f"round {number}: {answer.get('problems')}")
        state = State()
        for name in ("parent before", "child", "parent after"):
            state.put(ALICE, name, text_of(name))
        findings.acknowledged += answer.get("acknowledged", 0)
        findings.add(judge(path, [state], seed=plan.seed), f"round {number}")
    return findings


def long_reader(plan: Plan) -> Findings:
    """Another process reads one state for `amount` seconds: the log grows, nobody waits, and it recovers."""
    findings, path, state = Findings(), plan.folder / "m.db", State()
    limit = 256 * 1024
    config = Config(wal_checkpoint_bytes=limit, outbox_seconds=0.05, disk_reserve=1)
    with opened(path, HashEmbedder(), config) as (memory, _):

        def add(name: str) -> None:
            memory.add(text_of(name), scope=ALICE, id=name)
            state.put(ALICE, name, text_of(name))
            findings.acknowledged += 1

        add("before")
        with start("faults.reader", path, "held") as reader:
            assert reader.stdin is not None
            assert reader.stdout is not None
            held = reader.stdout.readline()
            ends, slowest, peak = time.monotonic() + plan.amount, 0.0, 0
            while time.monotonic() < ends:
                began = time.monotonic()
                add(f"while held {findings.acknowledged}")
                slowest = max(slowest, time.monotonic() - began)
                peak = max(peak, _log_bytes(path))
            findings.expect(peak > limit, f"the log never grew above {peak} bytes")
            reader.stdin.write("go\n")
            reader.stdin.flush()
            findings.expect(reader.stdout.readline() == held, "the reader's state changed under it")
        findings.expect(held == "1\n", f"the reader began with {held!r} records")
        add("after")
        left = _log_bytes(path)
        findings.expect(left <= limit, f"the log still has {left} bytes after the reader has gone")
    findings.notes.append(f"log of {peak / _MEBIBYTE:.1f} MiB, slowest add {slowest * 1000:.0f} ms")
    findings.add(judge(path, [state], seed=plan.seed), "afterwards")
    return findings


def _log_bytes(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size
