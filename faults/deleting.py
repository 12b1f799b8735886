"""kill -9 in the middle of deleting a user with all that is theirs: all of it is there, or nothing.

`python -m faults.deleting <file>` deletes the user and says when it begins, when the call has returned, and
when the index has been told.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from faults.consistency import QUIET, judge
from faults.embedders import HashEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from faults.work import ALICE, State, text_of
from faults.writer import BUSY
from memkit_core import Memory, Message, NewDocument, NewMemory, Role, Scope, Status

USER = Scope.user("leaving")
MARK = "zyxmarker"
"""Stands in all that is the user's, in nothing else."""
_RECORDS, _FEW = 5_000, 500
_FULL = 10
"""Fewer rounds than this are a short form, with fewer records."""
_SESSIONS, _SHARE = 10, 20
"""Sessions, each with so small a part of the number of records as messages."""
_EARLY = 0.1
_STARTING, _AFTERWARDS = 0.8, 0.3
"""Seconds within which it is killed after it was started; after the call there is time for so much more."""
_SAMPLE = 50
"""Texts of the user that are looked for one by one."""


def main(path: str) -> None:
    """Delete the user."""
    with Memory.open(path, embedder=HashEmbedder(), config=BUSY) as memory:
        os.write(1, b"begun\n")
        memory.delete(scope=USER)
        os.write(1, b"deleted\n")
        memory.flush()
        os.write(1, b"done\n")


def killed_while_deleting(plan: Plan) -> Findings:
    """Kill a delete at any moment, look whether it was all or nothing, delete again, and look everywhere."""
    findings = Findings()
    chance = random.Random(f"{plan.seed} delete-user")  # noqa: S311 - moments to kill at, no secret
    base, records = plan.folder / "base.db", _RECORDS if plan.amount >= _FULL else _FEW
    state, whole = _filled(base, records), _counts(base)
    takes = _longest(plan.folder / "timed.db", base)
    before = 0
    for number in range(plan.amount):
        path = plan.folder / f"delete-{number}.db"
        shutil.copy(base, path)
        early = chance.random() < _EARLY
        delay = chance.uniform(0, _STARTING if early else takes + _AFTERWARDS)
        said = _killed(path, wait=not early, delay=delay)
        left = _counts(path)
        found = Findings(acknowledged=records)
        found.expect(left in (whole, _nothing(whole)), f"half of it is left: {left} of {whole}")
        found.lost += "deleted" in said and left != _nothing(whole)
        before += left == whole
        found.add(_gone(path, state, seed=chance.getrandbits(32)), "deleted again")
        findings.add(
            found, f"round {number}, killed {delay:.3f} s after {'the start' if early else 'it began'}"
        )
        shutil.rmtree(path.with_name(path.name + ".index"), ignore_errors=True)
    findings.notes.append(f"{before} killed before the commit, {plan.amount - before} after it")
    return findings


def _filled(path: Path, records: int) -> State:
    """A user with something of everything, and another one; returns what is the other's."""
    state = State()
    with Memory.open(path, embedder=HashEmbedder(), config=QUIET) as memory:
        labels = [f"u{n}" for n in range(records)]
        news = [
            NewMemory(
                content=f"{text_of(label)} {MARK}", id=label, tags=[MARK], metadata={MARK: MARK}, source=MARK
            )
            for label in labels
        ]
        memory.add_many(news, scope=USER)
        for label in labels[:_SAMPLE]:
            state.put(USER, label, f"{text_of(label)} {MARK}")
        for text in ("dark", "light"):
            memory.add(f"{MARK} {text}", scope=USER, key=MARK)
        memory.documents(MARK, scope=USER).put([NewDocument(content=f"{MARK} document", id=MARK)])
        memory.runs.save(MARK, {"secret": MARK}, scope=USER)
        for number in range(_SESSIONS):
            _talk(memory, Scope.session(f"{MARK} {number}", user=USER), records // _SHARE)
        memory.working.update(f"{MARK} note", scope=USER)
        kept = {f"k{n}": text_of(f"k{n}") for n in range(20)}
        memory.add_many([NewMemory(content=text, id=name) for name, text in kept.items()], scope=ALICE)
        for name, text in kept.items():
            state.put(ALICE, name, text)
        memory.flush()
    state.delete_user(USER)
    return state


def _talk(memory: Memory, session: Scope, messages: int) -> None:
    said = [
        Message(role=Role.USER, text=f"{MARK} said number {n} of it", speaker=MARK, id=f"{MARK}{n}")
        for n in range(messages)
    ]
    memory.sessions.append(said, scope=session)
    memory.sessions.update(scope=session, title=MARK)
    memory.summaries.update(scope=session, threshold=100, keep=1)
    memory.working.update(f"{MARK} note", scope=session)


def _longest(path: Path, base: Path) -> float:
    """How long the delete takes when nobody kills it, in seconds."""
    shutil.copy(base, path)
    with Memory.open(path, embedder=HashEmbedder(), config=QUIET) as memory:
        started = time.monotonic()
        memory.delete(scope=USER)
        return time.monotonic() - started


def _killed(path: Path, *, wait: bool, delay: float) -> str:
    """Start a delete, wait until it begins, and kill it; what it said by then."""
    with start("faults.deleting", path) as deleter:
        assert deleter.stdout is not None
        said = deleter.stdout.readline() if wait else ""
        time.sleep(delay)
        deleter.kill()
        return said + deleter.stdout.read()


_TABLES = (
    "records",
    "messages",
    "sessions",
    "summaries",
    "stored_values",
    "history",
    "record_tags",
    "vectors",
)


def _counts(path: Path) -> tuple[int, ...]:
    """The rows of each table that hang on the user's scopes."""
    mine = "SELECT id FROM scopes WHERE path LIKE '%leaving%'"
    # What belongs to no record any more is the user's, too.
    of = {"history": f"seq NOT IN (SELECT seq FROM records WHERE scope_id NOT IN ({mine}))"}
    of["vectors"] = of["history"]
    with closing(sqlite3.connect(path)) as connection:
        return tuple(
            connection.execute(
                f"SELECT count(*) FROM {table} WHERE {of.get(table, f'scope_id IN ({mine})')}"
            ).fetchone()[0]
            for table in _TABLES
        )


def _nothing(whole: tuple[int, ...]) -> tuple[int, ...]:
    return (0,) * len(whole)


def _gone(path: Path, state: State, *, seed: int) -> Findings:
    """Delete again, then look for the user in every read path, and after a purge in the file."""
    findings = Findings()
    with Memory.open(path, embedder=HashEmbedder(), config=QUIET) as memory:
        problems = memory.upkeep.verify().problems
        findings.expect(not problems, f"after the kill: {[one.detail for one in problems]}")
        memory.delete(scope=USER)
        findings.expect(memory.delete(scope=USER).nothing, "a third delete found something")
        for name, shown in _shown(memory).items():
            findings.doubled += bool(shown)
            findings.expect(not shown, f"the user is still in {name}: {shown!r:.200}")
    findings.add(judge(path, [state], seed=seed), "judged")
    with Memory.open(path, embedder=HashEmbedder(), config=QUIET) as memory:
        memory.upkeep.purge()
    findings.expect(MARK.encode() not in path.read_bytes(), "the file still holds the marker after a purge")
    return findings


def _shown(memory: Memory) -> dict[str, object]:
    """All that any read shows of the user."""
    session = Scope.session(f"{MARK} 0", user=USER)
    scopes, file = (USER, session), io.BytesIO()
    memory.export_jsonl(file, everything=True)
    return {
        "lists": [
            one
            for scope in scopes
            for space in ("memories", "messages")
            for one in memory.list_records(scope=scope, space=space, status=list(Status))
        ],
        "recall": list(memory.recall(MARK, scope=scopes, include_messages=True, status=list(Status))),
        "documents": list(memory.documents(MARK, scope=USER).list().records),
        "messages": memory.sessions.read(scope=session),
        "sessions": list(memory.sessions.list(scope=USER)),
        "runs": [one for scope in scopes for one in memory.runs.list(scope=scope)],
        "notes": [
            memory.working.get(scope=scope).text for scope in scopes if memory.working.get(scope=scope).text
        ],
        "summaries": memory.summaries.get(scope=session),
        "prompts": memory.turn_context(session, MARK).prompt,
        "history": memory.history("u0", scope=USER),
        "exports": MARK.encode() in file.getvalue(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
