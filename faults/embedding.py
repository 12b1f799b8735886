"""An embedder that fails: records are kept and found by keyword, and get their vectors once it is well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from faults.consistency import KEYWORD, judge, opened
from faults.embedders import FaultyEmbedder
from faults.findings import Findings, Plan
from faults.work import ALICE, State, text_of, word_of
from memkit_core import Config, Memory, Message, NewMemory, Role, Scope

TALK = Scope.session("s", user=ALICE)
_EAGER = Config(outbox_seconds=0.05, outbox_attempts=2, disk_reserve=1)
_BATCH = 30
_PATIENCE = 10.0


def embedder_that(fault: str) -> Callable[[Plan], Findings]:
    """The scenario whose embedder has `fault`."""

    def run(plan: Plan) -> Findings:
        findings = Findings()
        for number in range(plan.amount):
            path = plan.folder / f"{fault}-{number}.db"
            # Healed in the process that saw the fault, or only after the memory was opened again.
            findings.add(_round(path, fault, reopened=number % 2 == 1, seed=plan.seed), f"round {number}")
        return findings

    return run


def _round(path: Path, fault: str, *, reopened: bool, seed: int) -> Findings:
    embedder, state, findings = FaultyEmbedder(), State(), Findings()
    with opened(path, embedder, _EAGER) as (memory, _):
        _write(memory, state, "well")
        embedder.fault = fault
        hanging = [_in_a_thread(memory, state)] if fault == "hangs" else []
        _write(memory, state, "ill", background=bool(hanging))
        findings.acknowledged = sum(1 for _ in state.rows())
        _while_ill(memory, state, fault, findings)
        if reopened:
            # What hangs would hold up closing; that it does so for seconds only is tested elsewhere.
            embedder.heal() if hanging else memory.close()
        embedder.heal()
        for thread in hanging:
            thread.join(_PATIENCE)
            findings.expect(not thread.is_alive(), "add did not return after the embedder went on")
        if not reopened:
            findings.expect(memory.flush(), f"flush left {memory.capabilities.outbox} waiting")
    findings.add(judge(path, [state], seed=seed, embedder=embedder), "afterwards")
    return findings


def _write(memory: Memory, state: State, when: str, *, background: bool = False) -> None:
    """One record, a batch that replaces what an earlier one wrote, and two messages."""
    memory.add(text_of(f"{when} one"), scope=ALICE, id=f"{when} one", background=background)
    state.put(ALICE, f"{when} one", text_of(f"{when} one"))
    batch = {f"{n}": text_of(f"{when} {n}") for n in range(_BATCH)}
    items = [NewMemory(content=text, id=record_id) for record_id, text in batch.items()]
    memory.add_many(items, scope=ALICE, background=background)
    for record_id, text in batch.items():
        state.put(ALICE, record_id, text)
    said = {f"{when} said {n}": text_of(f"{when} said {n}") for n in range(2)}
    memory.sessions.append([Message(role=Role.USER, text=t, id=i) for i, t in said.items()], scope=TALK)
    for message_id, text in said.items():
        state.say(TALK, message_id, text)


def _in_a_thread(memory: Memory, state: State) -> threading.Thread:
    """An `add` that waits for the embedder, in a thread of its own, once its record is stored."""
    text = text_of("waiting")
    state.put(ALICE, "waiting", text)
    call = {"scope": ALICE, "id": "waiting"}
    thread = threading.Thread(target=memory.add, args=(text,), kwargs=call, daemon=True)
    thread.start()
    ends = time.monotonic() + _PATIENCE
    while memory.get("waiting", scope=ALICE) is None and time.monotonic() < ends:
        time.sleep(0.002)
    return thread


def _while_ill(memory: Memory, state: State, fault: str, findings: Findings) -> None:
    """Every record is there, found by its word, and the answer says that the dense leg was incomplete."""
    for record_id in ("ill one", "0", str(_BATCH - 1), *(["waiting"] if fault == "hangs" else [])):
        text = state.records[ALICE, record_id]
        got = memory.get(record_id, scope=ALICE)
        findings.expect(got is not None and got.content == text, f"{record_id!r} is not stored")
        hits = memory.recall(text.split(" ", 1)[0], scope=ALICE)
        findings.expect(
            record_id in [hit.record.id for hit in hits], f"{record_id!r} is not found by its word"
        )
        findings.expect("dense" in hits.missing, f"recall claims to be whole: {sorted(hits.missing)}")
    hits = memory.recall(word_of("ill said 1"), scope=TALK, include_messages=True, ranking=KEYWORD)
    findings.expect("ill said 1" in [hit.record.id for hit in hits], "a message is not found by its word")
    outbox = memory.capabilities.outbox
    findings.expect(outbox.length > _BATCH, f"the outbox shows {outbox}")
    findings.expect(fault == "hangs" or outbox.last_error, "the outbox shows no error")
    began = time.monotonic()
    findings.expect(not memory.flush(timeout=0.2), "flush claims that nothing waits")
    findings.expect(time.monotonic() - began < _PATIENCE, "flush did not keep its deadline")
