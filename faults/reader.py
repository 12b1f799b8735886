"""A reader in a process of its own: `python -m faults.reader <file> <seconds>`, or `<file> held`.

For so many seconds it reads again and again what others write, and prints as JSON how often, and
what was not as promised. With `held` it reads one state until a line comes in, and prints how many
records it saw, before and after.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from faults.consistency import opened
from faults.embedders import HashEmbedder
from faults.findings import Findings
from faults.work import ALICE, text_of
from faults.writer import BUSY
from memkit_core import Memory, Scope

_SESSIONS = [Scope.session(f"s{n}", user=ALICE) for n in range(3)]
_NUMBERED = re.compile(r"(\w+)\.(\d+)")


def main(path: str, seconds: str) -> None:
    """Read."""
    if seconds == "held":
        _hold(path)
        return
    findings, reads = Findings(), 0
    ends = time.monotonic() + float(seconds)
    with opened(Path(path), HashEmbedder(), BUSY) as (memory, _):
        seen = _Seen(memory, findings)
        while time.monotonic() < ends:
            seen.look()
            reads += 1
    sys.stdout.write(json.dumps({"reads": reads, "problems": findings.problems}))


class _Seen:
    """What was seen so far, to compare what is seen next with."""

    def __init__(self, memory: Memory, findings: Findings) -> None:
        self._memory = memory
        self._findings = findings
        self._ids: set[str] = set()
        self._logs: dict[Scope, list[str]] = defaultdict(list)

    def look(self) -> None:
        """Read records and messages once: nothing that was seen is gone, and nothing has a gap."""
        expect = self._findings.expect
        page = self._memory.list_records(scope=ALICE, limit=10_000)
        ids = {record.id for record in page}
        expect(len(ids) == len(page), "a record is listed twice")
        expect(ids >= self._ids, f"seen and gone: {sorted(self._ids - ids)[:5]}")
        expect(all(r.content == text_of(r.id) for r in page), "a record has another's text")
        numbers = defaultdict(set)
        for writer, number in (_NUMBERED.fullmatch(one).groups() for one in ids):  # type: ignore[union-attr]  # made so
            numbers[writer].add(int(number))
        whole = all(found == set(range(len(found))) for found in numbers.values())
        expect(whole, "a later record of a writer is seen without an earlier one")
        for newest in page.records[:1]:
            hits = self._memory.recall(newest.content, scope=ALICE)
            expect(newest.id in [hit.record.id for hit in hits], f"{newest.id} is listed, not recalled")
        self._ids = ids
        for session in _SESSIONS:
            log = self._memory.sessions.read(scope=session)
            expect([m.position for m in log] == list(range(len(log))), f"{session} has a gap")
            said = [str(message.id) for message in log]
            known = self._logs[session]
            expect(said[: len(known)] == known, f"{session} changed its order")
            self._logs[session] = said


def _hold(path: str) -> None:
    count = "SELECT count(*) FROM records"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for _ in range(2):
            sys.stdout.write(f"{connection.execute(count).fetchone()[0]}\n")
            sys.stdout.flush()
            sys.stdin.readline()
        connection.execute("ROLLBACK")


if __name__ == "__main__":
    main(*sys.argv[1:])
