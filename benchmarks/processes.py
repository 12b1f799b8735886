"""What is measured in processes of their own: filling, opening, importing, and the memory they take.

Run as `python -m benchmarks.processes <what> <folder> <records> <users>`; prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.plan import DIMENSION, Plan
from benchmarks.report import MILLISECONDS, Line, at_least, at_most, ratio

_MEBIBYTE = 1024 * 1024
_QUERIES = 50
_IMPORTS = 10
_REOPENINGS = 3
_PROJECT = Path(__file__).resolve().parent.parent

Numbers = dict[str, float]


def measured_apart(plan: Plan) -> list[Line]:
    """Fill the store and the bare engine, open both again, and import memkit; the lines of the table."""
    filled, raw_filled = _child("fill", plan), _child("fill-raw", plan)
    opened = [_child("open", plan) for _ in range(_REOPENINGS)]
    raw_opened = _child("open-raw", plan)
    imports = [_import_seconds() for _ in range(_IMPORTS)]
    rate, raw_rate = plan.records / filled["seconds"], plan.records / raw_filled["seconds"]
    return [
        at_least(f"add_many of {plan.records:,} with embedding", rate, 3000, unit="records/s"),
        Line(
            name="  the raw engine's upsert, dense and sparse, without embedding",
            measured=f"{raw_rate:.0f} points/s",
        ),
        ratio("peak memory, filling", filled["peak"], raw_filled["peak"], 2, unit="MiB"),
        ratio("peak memory, open and asked", opened[0]["peak"], raw_opened["peak"], 2, unit="MiB"),
        at_most("reopening, index verified", _median(opened, "open"), 1, unit="s"),
        Line(
            name="  first recall after it, which loads the embedder",
            measured=f"{_median(opened, 'first') * MILLISECONDS:.0f} ms",
        ),
        at_most("import memkit_core after numpy", statistics.median(imports) * MILLISECONDS, 60, unit="ms"),
    ]


def _median(runs: list[Numbers], name: str) -> float:
    return statistics.median(run[name] for run in runs)


_IMPORT = "import time, numpy; t = time.perf_counter(); import memkit_core; print(time.perf_counter() - t)"


def _import_seconds() -> float:
    command = [sys.executable, "-c", _IMPORT]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=_PROJECT)  # noqa: S603 - ours
    return float(done.stdout)


def _child(what: str, plan: Plan) -> Numbers:
    done = subprocess.run(  # noqa: S603 - this very module, in a fresh interpreter
        [
            sys.executable,
            "-m",
            "benchmarks.processes",
            what,
            str(plan.folder),
            str(plan.records),
            str(plan.users),
        ],
        check=True,
        stdout=subprocess.PIPE,
        cwd=_PROJECT,
    )
    numbers: Numbers = json.loads(done.stdout)
    return numbers


def _fill(plan: Plan) -> Numbers:
    from memkit_core import Memory, Scope

    seconds = 0.0
    with Memory.open(plan.store) as memory:
        for user, texts in plan.texts():
            started = time.perf_counter()
            memory.add_many(texts, scope=Scope.user(user))
            seconds += time.perf_counter() - started
        memory.flush()
    return {"seconds": seconds, "peak": _peak()}


def _fill_raw(plan: Plan) -> Numbers:
    from benchmarks.raw import RawEngine, read_vectors

    seconds, first = 0.0, 0
    engine = RawEngine(plan.raw, DIMENSION)
    for user, texts in plan.texts():
        vectors = read_vectors(plan.vectors, first=first, count=len(texts), dimension=DIMENSION)
        first += len(texts)
        started = time.perf_counter()
        engine.fill(user, texts, vectors)
        seconds += time.perf_counter() - started
    engine.close()
    return {"seconds": seconds, "peak": _peak()}


def _open(plan: Plan) -> Numbers:
    from memkit_core import Memory

    questions = plan.questions(_QUERIES)
    started = time.perf_counter()
    with Memory.open(plan.store) as memory:
        # Asking for the capabilities loads the index and compares it with the store.
        assert memory.capabilities.index
        opened = time.perf_counter()
        memory.recall(questions[0], scope=plan.scope)
        first = time.perf_counter()
        for question in questions:
            memory.recall(question, scope=plan.scope)
        peak = _peak()
    return {"open": opened - started, "first": first - opened, "peak": peak}


def _open_raw(plan: Plan) -> Numbers:
    from benchmarks.raw import RawEngine, read_vectors

    engine = RawEngine(plan.raw, DIMENSION)
    vectors = read_vectors(plan.vectors, first=0, count=_QUERIES, dimension=DIMENSION)
    for question, vector in zip(plan.questions(_QUERIES), vectors, strict=True):
        engine.dense(plan.asked, vector)
        engine.keyword(plan.asked, question)
    return {"peak": _peak()}


def _peak() -> float:
    """The most memory this process ever had resident, in MiB.

    Not `ru_maxrss` on Linux: there it begins with what the parent had when it started us.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MEBIBYTE


_MEASUREMENTS: Mapping[str, Callable[[Plan], Numbers]] = {
    "fill": _fill,
    "fill-raw": _fill_raw,
    "open": _open,
    "open-raw": _open_raw,
}


def _main(what: str, folder: str, records: str, users: str) -> None:
    plan = Plan(folder=Path(folder), records=int(records), users=int(users))
    sys.stdout.write(json.dumps(_MEASUREMENTS[what](plan)) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
