"""kill -9 in the middle of streamed turns, while another process talks in the same session.

`python -m faults.streaming <file> <name>` says turn after turn through the queue and prints the number
of each once a flush has returned.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from faults.consistency import opened
from faults.embedders import HashEmbedder
from faults.findings import Findings, Plan
from faults.kills import start
from memkit_core import Config, Memory, Message, Role, Scope, ToolCall
from memkit_core.conversation.windows import repaired

TALK = Scope.session("talk", user="alice")
BUSY = Config(queue_debounce=0.002, queue_age=0.01, outbox_seconds=0.02, disk_reserve=1)
"""Many writes in the middle of an answer."""
_PARTS = 12
_DELAY, _TURNS = 0.2, 8


def turn_of(name: str, number: int) -> list[Message]:
    """A whole turn: a question, an answer that asks for a tool, its result, and the last word."""
    label = f"{name}.{number}"
    ask = ToolCall(id="call_0", name="look_up", arguments=f'{{"of": "{label}"}}')
    answer = " ".join(f"{label}-{part}" for part in range(_PARTS))
    return [
        Message(role=Role.USER, text=f"what of {label}?", id=f"{label}.0"),
        Message(role=Role.ASSISTANT, text=answer, id=f"{label}.1", tool_calls=(ask,)),
        Message(role=Role.TOOL, text=f"found {label}", id=f"{label}.2", tool_call_id="call_0"),
        Message(role=Role.ASSISTANT, text=answer, id=f"{label}.3"),
    ]


def main(path: str, name: str) -> None:
    """Talk until killed."""
    with Memory.open(path, embedder=HashEmbedder(), config=BUSY) as memory:
        for number in count():
            question, *said = turn_of(name, number)
            with memory.sessions.queue.turn([question], scope=TALK) as turn:
                for message in said:
                    _stream(turn.add, message)
            if memory.sessions.queue.flush():
                os.write(1, b"%d\n" % number)


def _stream(add: Callable[[Message], None], message: Message) -> None:
    if message.role is Role.TOOL:
        add(message)
        return
    for part in message.text.split(" "):
        text = part if part.endswith("-0") else f" {part}"
        add(Message(role=Role.ASSISTANT, text=text, id=message.id))
        time.sleep(0.0005)
    add(Message(role=Role.ASSISTANT, text="", id=message.id, tool_calls=message.tool_calls))


def killed_while_streaming(plan: Plan) -> Findings:
    """Two processes talk in one session; both are killed at a random moment, and the log is read."""
    findings = Findings()
    chance = random.Random(f"{plan.seed} stream")  # noqa: S311 - moments to kill at, no secret
    for number in range(plan.amount):
        path = plan.folder / f"stream-{number}.db"
        delay = chance.uniform(0, _DELAY)
        said: dict[str, int] = {}
        with ExitStack() as stack:
            writers = {name: stack.enter_context(start("faults.streaming", path, name)) for name in "pq"}
            heard = dict.fromkeys(writers, "")
            for name, writer in writers.items():
                assert writer.stdout is not None
                turns = chance.randint(1, _TURNS)
                heard[name] = "".join(writer.stdout.readline() for _ in range(turns))
            time.sleep(delay)
            for name, writer in writers.items():
                assert writer.stdout is not None
                writer.kill()
                said[name] = (heard[name] + writer.stdout.read()).count("\n")
        findings.add(_judged(path, said), f"round {number}, killed {delay:.3f} s later")
    return findings


def _judged(path: Path, said: dict[str, int]) -> Findings:
    """Each process's flushed turns are there whole and in order; of the turn after them, a beginning is."""
    findings = Findings()
    with opened(path, HashEmbedder()) as (memory, _):
        log = memory.sessions.read(scope=TALK)
        findings.expect([m.position for m in log] == list(range(len(log))), "the log has a gap")
        findings.doubled += len(log) - len({message.id for message in log})
        for name, turns in said.items():
            own = [message for message in log if str(message.id).startswith(f"{name}.")]
            whole = [message for number in range(turns) for message in turn_of(name, number)]
            findings.acknowledged += len(whole)
            there = {m.id: (m.text, m.tool_calls) for m in own}
            findings.lost += sum(there.get(m.id) != (m.text, m.tool_calls) for m in whole)
            in_order = [m.id for m in own[: len(whole)]] == [m.id for m in whole]
            findings.expect(in_order, f"{name}: {[m.id for m in own][:9]} is not the order it was said in")
            _begun(own[len(whole) :], [m for n in (turns, turns + 1) for m in turn_of(name, n)], findings)
        view = memory.sessions.for_model(scope=TALK)
        findings.expect(view == repaired(view) == memory.sessions.for_model(scope=TALK), "the view changes")
        calls = sum(len(message.tool_calls) for message in view)
        results = sum(message.role is Role.TOOL for message in view)
        findings.expect(calls == results, f"the view has {calls} calls and {results} results")
        findings.expect(memory.flush(), f"flush left {memory.capabilities.outbox} waiting")
    return findings


def _begun(found: list[Message], turn: list[Message], findings: Findings) -> None:
    """What stands behind the acknowledged turns is how the next ones begin."""
    for message, whole in zip(found, turn, strict=False):
        begins = message.id == whole.id and whole.text.startswith(message.text)
        findings.expect(begins, f"{message.id} {message.text[:40]!r} is no beginning of {whole.id}")
    findings.expect(len(found) <= len(turn), f"{len(found)} messages of turns that were never said")


if __name__ == "__main__":
    main(*sys.argv[1:])
