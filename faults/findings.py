"""What a scenario is given, and what it reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a scenario is run.

    Attributes:
        folder: an empty folder to work in.
        amount: how many rounds, or seconds where the scenario lasts for a time.
        seed: of everything random; when a process is killed still depends on how fast it runs.
    """

    folder: Path
    amount: int
    seed: int


@dataclass(slots=True)
class Findings:
    """What a scenario found, added up over its rounds.

    Attributes:
        acknowledged: records, messages and deletes whose call had returned before the fault.
        lost: acknowledged ones that were not there afterwards, or not as they were written.
        doubled: what was there more often than it was written, or still there after its delete.
        problems: everything that was not as promised, in words; the first twenty are kept.
        notes: figures worth seeing beside the counts.
    """

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def expect(self, holds: object, problem: str) -> None:
        """Keep `problem` when `holds` is false."""
        if not holds and len(self.problems) < _SHOWN:
            self.problems.append(problem)

    def add(self, other: Findings, where: str) -> None:
        """Add the findings of one round, which `where` names."""
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.doubled += other.doubled
        for problem in other.problems:
            self.expect(holds=False, problem=f"{where}: {problem}")

    @property
    def verdict(self) -> str:
        """`"held"`, or what went wrong in one word."""
        if self.lost:
            return "LOST"
        return "WRONG" if self.doubled or self.problems else "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fault with the name it is run by.

    Attributes:
        what: the fault, in words for the table.
        run: causes it and says what was left.
        full: rounds (or seconds) of `make faults`.
        short: of `make test`.
        unit: what `full` and `short` count.
    """

    name: str
    what: str
    run: Callable[[Plan], Findings]
    full: int
    short: int
    unit: str = "rounds"
