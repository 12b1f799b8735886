"""A process that forks while its memory is open: `python -m faults.forking <file>`.

Prints as JSON what was acknowledged to parent and child, and what was not as promised.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from faults.consistency import opened
from faults.embedders import HashEmbedder
from faults.findings import Findings
from faults.work import ALICE, text_of
from memkit_core import Memory

_SECONDS = 5.0


def main(path: str) -> None:
    """Open, add, fork, add in the child, add in the parent."""
    findings = Findings()
    with opened(Path(path), HashEmbedder()) as (memory, _):
        _add(memory, "parent before", findings, missing=set())
        findings.expect(memory.capabilities.index, "the parent had no index before the fork")
        answer = _in_child(memory)
        if answer is None:
            findings.expect(holds=False, problem=f"the child did not answer within {_SECONDS:g} s")
        else:
            findings.add(Findings(**answer), "child")
        findings.expect(memory.capabilities.index, "the parent lost its index to the fork")
        _add(memory, "parent after", findings, missing=set())
        ids = {hit.record.id for hit in memory.recall("what says", scope=ALICE)}
        findings.expect(
            ids == {"parent before", "child", "parent after"}, f"the parent recalls {sorted(ids)}"
        )
    sys.stdout.write(json.dumps({"acknowledged": findings.acknowledged, "problems": findings.problems}))


def _add(memory: Memory, name: str, findings: Findings, *, missing: set[str]) -> None:
    memory.add(text_of(name), scope=ALICE, id=name)
    findings.acknowledged += 1
    hits = memory.recall(text_of(name), scope=ALICE)
    best = hits[0] if hits else None
    found = best is not None and best.record.id == name and (best.signals.similarity or 0) > 1 - 1e-3
    findings.expect(found, f"{name} recalls {best}")
    findings.expect(hits.missing == missing, f"{name} recalls without {sorted(hits.missing)}")


def _in_child(memory: Memory) -> dict[str, Any] | None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        findings = Findings()
        _add(memory, "child", findings, missing={"index"})
        answer = {"acknowledged": findings.acknowledged, "problems": findings.problems}
        os.write(writer, json.dumps(answer).encode())
        # At once: a child must run nothing of its parent's clean-up.
        os._exit(0)
    os.close(writer)
    ends = time.monotonic() + _SECONDS
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > ends:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return None
        time.sleep(0.005)
    with os.fdopen(reader) as said:
        text = said.read()
    answer_of_child: dict[str, Any] | None = json.loads(text) if text else None
    return answer_of_child


if __name__ == "__main__":
    main(*sys.argv[1:])
