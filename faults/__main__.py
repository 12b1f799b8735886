"""`python -m faults`: cause every fault and print what was acknowledged, lost and doubled."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import random
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from faults.findings import Findings, Plan, Scenario
from faults.scenarios import SCENARIOS

_WIDTH = 140
_LARGEST_SEED = 2**32


def main() -> int:
    """Run the scenarios; 1 when anything was not as promised."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    names = [scenario.name for scenario in SCENARIOS]
    parser.add_argument("--only", choices=names, help="one scenario alone", metavar="NAME")
    parser.add_argument("--rounds", type=int, help="rounds of each, or seconds where it runs for a time")
    parser.add_argument("--seed", type=int, help="of when to kill and what to look at; random when left out")
    parser.add_argument("--folder", type=Path, help="where to write, to try its file system; must exist")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("at least 1 round is needed")
    seed = random.randrange(_LARGEST_SEED) if options.seed is None else options.seed  # noqa: S311 - no secret
    # The faults are meant: what memkit logs about them would hide the table.
    logging.getLogger("memkit").setLevel(logging.ERROR)
    console = Console(width=_WIDTH)
    console.print(f"seed {seed}")
    failed = False
    table = Table("scenario", "rounds", "acknowledged", "lost", "doubled", "verdict", "", title="Faults")
    for scenario in SCENARIOS:
        if options.only in (None, scenario.name):
            chosen = dataclasses.replace(scenario, full=options.rounds or scenario.full)
            findings = _run(chosen, seed, options.folder, console)
            failed |= findings.verdict != "held"
            table.add_row(*_row(chosen, findings))
    console.print(table)
    return int(failed)


def _run(scenario: Scenario, seed: int, folder: Path | None, console: Console) -> Findings:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memkit-faults-", dir=folder) as place:
        findings = scenario.run(Plan(folder=Path(place), amount=scenario.full, seed=seed))
    console.print(f"{scenario.name}: {findings.verdict} after {time.monotonic() - started:.0f} s")
    for problem in findings.problems:
        console.print(f"  {problem}", markup=False)
    return findings


def _row(scenario: Scenario, findings: Findings) -> list[str]:
    amount = f"{scenario.full} s" if scenario.unit == "seconds" else f"{scenario.full}"
    counts = [f"{n:,}" for n in (findings.acknowledged, findings.lost, findings.doubled)]
    return [scenario.what, amount, *counts, findings.verdict, "; ".join(findings.notes)]


if __name__ == "__main__":
    sys.exit(main())
