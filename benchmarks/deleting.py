"""Deleting a user: what one call takes, with everything that hangs on the records."""

from __future__ import annotations

from benchmarks.plan import Plan
from benchmarks.report import Line, Timings, at_most
from benchmarks.texts import Texts
from memkit_core import Memory, Scope

_RECORDS = 5_000
_SECONDS = 1.0
_ROUNDS = 3


def measured_deleting(plan: Plan) -> list[Line]:
    """A user with 5,000 records beside another one; the shortest of three."""
    took, swept = Timings(), Timings()
    with Memory.open(plan.folder / "deleting.db") as memory:
        memory.add_many(Texts(seed=9).sentences(_RECORDS), scope=Scope.user("who stays"))
        for number in range(_ROUNDS):
            leaving = Scope.user(f"who leaves {number}")
            memory.add_many(Texts(seed=10 + number).sentences(_RECORDS), scope=leaving)
            memory.flush()
            with took.once():
                memory.delete(scope=leaving)
            with swept.once():
                memory.flush()
    return [
        at_most(f"delete of a user with {_RECORDS:,} records", min(took.seconds), _SECONDS, unit="s"),
        Line(name="  until they are out of the vector index", measured=f"{min(swept.seconds):.2f} s more"),
    ]
