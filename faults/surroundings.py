"""Faults of what a memory stands on: too little room, a clock that is set back."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faults.consistency import QUIET, judge, opened
from faults.embedders import FaultyEmbedder, HashEmbedder
from faults.findings import Findings, Plan
from faults.work import ALICE, State, text_of
from memkit_core import Config, Memory, Message, Role, Scope

TALK = Scope.session("s", user=ALICE)
_NO_ROOM = Config(disk_reserve=2**53, outbox_seconds=0.05)
_RECORDS = 20
_PATIENCE = 15.0


def no_room(plan: Plan) -> Findings:
    """Less is free than the reserve, from the beginning and later on; the next opening has room again."""
    findings = Findings()
    for number in range(plan.amount):
        path, state, embedder = plan.folder / f"room-{number}.db", State(), HashEmbedder()
        if number % 2:
            with opened(path, embedder, QUIET) as (memory, _):
                _add(memory, state, "earlier", findings)
        with opened(path, embedder, _NO_ROOM) as (memory, _):
            _add(memory, state, "without room", findings)
            newest = f"without room {_RECORDS - 1}"
            hits = memory.recall(state.records[ALICE, newest], scope=ALICE)
            findings.expect(hits[0].record.id == newest, f"recall without room brings {hits[0]}")
            findings.expect(hits.missing == {"index"}, f"recall says {sorted(hits.missing)} is missing")
            findings.expect(not memory.capabilities.index, "the index is open without room")
            findings.expect(not memory.flush(timeout=0.2), "flush claims that nothing waits")
            outbox = memory.capabilities.outbox
            findings.expect((outbox.length, outbox.failed) == (_RECORDS, 0), f"the outbox shows {outbox}")
        embedded = embedder.texts
        findings.add(judge(path, [state], seed=plan.seed, embedder=embedder), f"round {number}")
        findings.expect(embedder.texts == embedded, "texts were embedded again")
    return findings


def _add(memory: Memory, state: State, name: str, findings: Findings) -> None:
    for n in range(_RECORDS):
        memory.add(text_of(f"{name} {n}"), scope=ALICE, id=f"{name} {n}")
        state.put(ALICE, f"{name} {n}", text_of(f"{name} {n}"))
        findings.acknowledged += 1


class _Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def clock_set_back(plan: Plan) -> Findings:
    """The clock is set back an hour while records wait for a model that was down."""
    findings = Findings()
    for number in range(plan.amount):
        findings.add(_set_back(plan.folder / f"clock-{number}.db", plan.seed), f"round {number}")
    return findings


def _set_back(path: Path, seed: int) -> Findings:
    clock, state, findings, embedder = _Clock(), State(), Findings(), FaultyEmbedder()
    config = Config(outbox_seconds=0.05, disk_reserve=1)
    ends = clock.now + timedelta(minutes=30)
    with Memory.open(path, embedder=embedder, config=config, clock=clock) as memory:
        _talk(memory, state, "before", findings)
        memory.add(text_of("short"), scope=ALICE, id="short", expires_at=ends)
        embedder.fault = "raises"
        _add(memory, state, "before", findings)
        clock.now -= timedelta(hours=1)
        _add(memory, state, "after", findings)
        _talk(memory, state, "after", findings)
        embedder.heal()
        # By the worker alone: nobody calls flush.
        patience = time.monotonic() + _PATIENCE
        while memory.capabilities.outbox.length and time.monotonic() < patience:
            time.sleep(0.02)
            clock.now += timedelta(milliseconds=20)
        outbox = memory.capabilities.outbox
        findings.expect(outbox.length == 0, f"the outbox waits for the clock: {outbox}")
        _read(memory, state, findings)
        clock.now = ends - timedelta(milliseconds=1)
        findings.expect(memory.get("short", scope=ALICE), "a record expired before its time")
        clock.now = ends
        findings.expect(memory.get("short", scope=ALICE) is None, "a record outlived its time")
        memory.delete("short", scope=ALICE)
    findings.add(judge(path, [state], seed=seed, embedder=embedder), "afterwards")
    return findings


def _talk(memory: Memory, state: State, when: str, findings: Findings) -> None:
    for n in range(5):
        text = text_of(f"{when} said {n}")
        memory.sessions.append([Message(role=Role.USER, text=text, id=f"{when} {n}")], scope=TALK)
        state.say(TALK, f"{when} {n}", text)
        findings.acknowledged += 1


def _read(memory: Memory, state: State, findings: Findings) -> None:
    """Everything is there, in the order it was appended, and no signal is out of its range."""
    log = [str(message.id) for message in memory.sessions.read(scope=TALK)]
    findings.expect(log == [message_id for message_id, _ in state.messages[TALK]], f"the log reads {log}")
    page = memory.list_records(scope=ALICE, limit=7)
    listed = [record.id for record in page]
    while page.cursor is not None:
        page = memory.list_records(scope=ALICE, limit=7, cursor=page.cursor)
        listed += [record.id for record in page]
    expected = [record_id for _, record_id in state.records] + ["short"]
    findings.expect(sorted(listed) == sorted(expected), f"listed: {listed}")
    hits = memory.recall("what says", scope=ALICE, top_k=100, include_messages=True)
    findings.expect(len(hits) == len(state.records) + len(log) + 1, f"{len(hits)} records are recalled")
    for hit in hits:
        inside = 0 <= hit.signals.recency <= 1 and 0 <= hit.score <= 1
        findings.expect(inside, f"{hit.record.id} has score {hit.score}, recency {hit.signals.recency}")
