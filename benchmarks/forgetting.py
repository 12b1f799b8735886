"""Forgetting: going over all records, archiving every one of them, and what other threads notice."""

from __future__ import annotations

import gc
import threading
import time
from datetime import timedelta
from typing import Self

from benchmarks.plan import Plan
from benchmarks.report import MILLISECONDS, Line, Timings, at_most
from memkit_core import Memory, NewMemory, Scope
from memkit_core.times import utc_now

_SECONDS, _BLOCKED_MS = 5.0, 50.0
"""For 50,000 records (spec E1), and for any other thread."""
_TICK = 0.001
_YEAR = timedelta(days=365)


def measured_forgetting(plan: Plan) -> list[Line]:
    """A year after they were made, when all of them are archived: nothing more can be to do."""
    with Memory.open(plan.folder / "forgetting.db", embedder="none") as memory:
        for user, texts in plan.texts():
            news = [NewMemory(content=text, importance=0.4) for text in texts]
            memory.add_many(news, scope=Scope.user(user))
    later = Memory.open(plan.folder / "forgetting.db", embedder="none", clock=lambda: utc_now() + _YEAR)
    looked, archived = Timings(), Timings()
    # What filling left behind would be collected while it is measured.
    gc.collect()
    with later as memory, Ticker() as ticker:
        with looked.once():
            memory.upkeep.forget()
        with archived.once():
            count = len(memory.upkeep.forget(apply=True).archived)
    return [
        at_most(f"forgetting: all of {count:,} records archived", archived.seconds[0], _SECONDS, unit="s"),
        Line(name="  only looked at (dry run)", measured=f"{looked.seconds[0]:.2f} s"),
        at_most("  longest wait of another thread", ticker.longest, _BLOCKED_MS, unit="ms"),
    ]


class Ticker:
    """A thread that wants to run every millisecond, and the longest that it could not."""

    def __init__(self) -> None:
        """Not running yet; `longest` is in milliseconds."""
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start it."""
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._stop.is_set():
            time.sleep(_TICK)
            now = time.perf_counter()
            self.longest = max(self.longest, (now - last) * MILLISECONDS)
            last = now
