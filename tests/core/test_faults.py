"""The scenarios of `make faults`, in their short form; see `docs/faults.md`."""

import os
import time

import pytest

from faults.findings import Plan
from faults.scenarios import SCENARIOS

SHORT = [scenario for scenario in SCENARIOS if scenario.short]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills and forks processes as POSIX does")
@pytest.mark.parametrize("scenario", SHORT, ids=[scenario.name for scenario in SHORT])
def test_nothing_acknowledged_is_lost(tmp_path, scenario):
    """After the fault all that was acknowledged is there, once and whole, by every read path."""
    seed = int(time.time())
    findings = scenario.run(Plan(folder=tmp_path, amount=scenario.short, seed=seed))
    assert (findings.lost, findings.doubled, findings.problems) == (0, 0, []), f"seed {seed}"
    assert findings.verdict == "held"
