"""Measurements and the table they are printed in."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

MILLISECONDS = 1000.0
_WIDTH = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of the table: what was measured, and the limit it must hold; None when it is only shown."""

    name: str
    measured: str
    limit: str = ""
    holds: bool | None = None


@dataclass(slots=True)
class Timings:
    """Seconds that one action took, each time."""

    seconds: list[float] = field(default_factory=list)

    @contextmanager
    def once(self) -> Iterator[None]:
        """Time the block."""
        started = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - started)

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        return float(np.percentile(self.seconds, share)) * MILLISECONDS

    @property
    def p50(self) -> float:
        """The median, in milliseconds."""
        return self.percentile(50)

    @property
    def p99(self) -> float:
        """The 99th percentile, in milliseconds."""
        return self.percentile(99)

    def __str__(self) -> str:
        """The three percentiles that are always shown."""
        return f"p50 {self.p50:.2f}  p95 {self.percentile(95):.2f}  p99 {self.p99:.2f} ms"


def interleaved(actions: Sequence[Callable[[int], object]], rounds: int, *, warm: int = 3) -> list[Timings]:
    """Time the actions in turn, `rounds` times each, so that what slows the machine slows them all.

    Each gets the number of the round; the first `warm` rounds are not counted.
    """
    timings = [Timings() for _ in actions]
    gc.collect()
    for number in range(-warm, rounds):
        for action, timing in zip(actions, timings, strict=True):
            started = time.perf_counter()
            action(number + warm)
            if number >= 0:
                timing.seconds.append(time.perf_counter() - started)
    return timings


def ratio(name: str, ours: float, theirs: float, most: float, *, unit: str = "ms") -> Line:
    """A line for `ours` measured against `theirs`, of which it may be `most` times."""
    times = ours / theirs if theirs else float("inf")
    return Line(
        name=name,
        measured=f"{ours:.2f} {unit} = {times:.2f} x {theirs:.2f}",
        limit=f"<= {most:g} x",
        holds=times <= most,
    )


def within(name: str, timings: Timings, *, p50: float, p95: float, p99: float) -> Line:
    """A line for a call whose three percentiles have upper bounds, in milliseconds."""
    bounds = {50: p50, 95: p95, 99: p99}
    return Line(
        name=name,
        measured=str(timings),
        limit=f"<= {p50:g} / {p95:g} / {p99:g} ms",
        holds=all(timings.percentile(share) <= most for share, most in bounds.items()),
    )


def at_most(name: str, ours: float, most: float, *, unit: str) -> Line:
    """A line for a plain upper bound."""
    return Line(name=name, measured=f"{ours:.2f} {unit}", limit=f"<= {most:g} {unit}", holds=ours <= most)


def at_least(name: str, ours: float, least: float, *, unit: str) -> Line:
    """A line for a plain lower bound."""
    return Line(name=name, measured=f"{ours:.0f} {unit}", limit=f">= {least:g} {unit}", holds=ours >= least)


def show(lines: Sequence[Line]) -> None:
    """Print the table."""
    table = Table(
        "what", "measured", "limit", "held", title="memkit benchmarks", title_justify="left", box=None
    )
    for line in lines:
        held = "" if line.holds is None else "yes" if line.holds else "NO"
        table.add_row(line.name, line.measured, line.limit, held)
    # Wide enough for every cell in one line, also where the output is no terminal.
    Console(markup=False, highlight=False, width=_WIDTH).print(table)
