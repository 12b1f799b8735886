"""`python -m benchmarks`: measure everything and print the table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.deleting import measured_deleting
from benchmarks.forgetting import measured_forgetting
from benchmarks.growth import measured_growth
from benchmarks.history import measured_history
from benchmarks.moving import measured_moving
from benchmarks.plan import Plan
from benchmarks.processes import measured_apart
from benchmarks.records import measured_records, write_vectors
from benchmarks.reembedding import measured_reembedding
from benchmarks.report import show
from benchmarks.turns import measured_turns

_USERS = 10


def main() -> int:
    """Run all measurements; 1 with `--strict` when a limit does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--records", type=int, default=50_000, help="how many, over 10 users (50,000)")
    parser.add_argument("--rounds", type=int, default=300, help="how often a quick call is timed (300)")
    parser.add_argument("--folder", type=Path, help="where to write, to measure its file system; must exist")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a limit does not hold")
    parser.add_argument(
        "--growth", action="store_true", help="only how recall grows, up to 200,000 records (about 4 minutes)"
    )
    options = parser.parse_args()
    if options.records < _USERS * 100 or options.rounds < 1:
        parser.error("at least 1,000 records and 1 round are needed")
    with tempfile.TemporaryDirectory(prefix="memkit-bench-", dir=options.folder) as folder:
        plan = Plan(folder=Path(folder), records=options.records, users=_USERS, rounds=options.rounds)
        if options.growth:
            show(measured_growth(plan))
            return 0
        write_vectors(plan)
        lines = [
            *measured_apart(plan),
            *measured_records(plan),
            *measured_turns(plan),
            *measured_history(plan),
            *measured_moving(plan),
            *measured_deleting(plan),
            *measured_forgetting(plan),
            *measured_reembedding(plan),
        ]
    show(lines)
    return int(options.strict and any(line.holds is False for line in lines))


if __name__ == "__main__":
    sys.exit(main())
