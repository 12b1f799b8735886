"""Export, import and backup of a fifth of the records, vectors included."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.plan import Plan
from benchmarks.report import Line, Timings, at_most
from benchmarks.texts import Texts
from memkit_core import Memory, Scope

_SHARE = 5
_ROUNDS = 3
_EXPORT, _IMPORT = 1.0, 3.0
"""Seconds for 10,000 records."""


def measured_moving(plan: Plan) -> list[Line]:
    """The shortest of three runs each: other work on the machine can only lengthen them."""
    folder, count = plan.folder, plan.records // _SHARE
    file = folder / "export.jsonl"
    scope = Scope.user("mover")
    with Memory.open(folder / "moving.db") as memory:
        memory.add_many(Texts(seed=7).sentences(count), scope=scope)
        memory.flush()
        out = _shortest(lambda _: memory.export_jsonl(file, scope=scope))
        copied = _shortest(lambda i: memory.transfer.backup(folder / f"copy-{i}.db"))
    came, indexed, again = Timings(), Timings(), Timings()
    for number in range(_ROUNDS):
        with Memory.open(folder / f"moved-{number}.db") as memory:
            with came.once():
                memory.import_jsonl(file)
            with indexed.once():
                while not (memory.flush() and memory.capabilities.index):
                    time.sleep(0.01)
            with again.once():
                memory.import_jsonl(file)
    return [
        at_most(f"export of {count:,} records with vectors", out, _EXPORT, unit="s"),
        at_most(f"import of {count:,} records with vectors", min(came.seconds), _IMPORT, unit="s"),
        Line(name="  until they are in the vector index", measured=f"{min(indexed.seconds):.2f} s more"),
        Line(name="  the same again, nothing changed", measured=f"{min(again.seconds):.2f} s"),
        Line(name=f"backup of {count:,} records with vectors", measured=f"{copied:.2f} s"),
    ]


def _shortest(call: Callable[[int], object]) -> float:
    timings = Timings()
    for number in range(_ROUNDS):
        with timings.once():
            call(number)
    return min(timings.seconds)
