"""Filling a memory with a data set, as an application would."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime

from memkit_core.errors import ModelError
from memkit_core.evaluation.dataset import Dataset, Turn
from memkit_core.memory import Memory
from memkit_core.models import Message, Role
from memkit_core.plurals import plural
from memkit_core.scope import Scope

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

LINE = "line"
"""The metadata key of a turn's place in its conversation."""

_PATIENCE = 60


def remember(memory: Memory, dataset: Dataset, report: Progress) -> tuple[int, int]:
    """Append every turn; returns how many were remembered and how many were empty."""
    total = sum(map(len, dataset.conversations.values()))
    remembered = skipped = 0
    for name, turns in dataset.conversations.items():
        places = zip(itertools.count(), turns, said_at(turns), strict=False)
        for session, run in itertools.groupby(places, key=lambda place: place[1].session_id):
            run_of_turns = list(run)
            messages = [
                _message(turn, place, said) for place, turn, said in run_of_turns if turn.said.strip()
            ]
            memory.sessions.append(messages, scope=Scope.session(session, user=name))
            remembered += len(messages)
            skipped += len(run_of_turns) - len(messages)
            report("remembering", remembered + skipped, total)
    return remembered, skipped


def _message(turn: Turn, place: int, said: datetime | None) -> Message:
    return Message(
        id=turn.turn_id,
        role=turn.role or Role.USER,
        speaker=turn.speaker,
        text=turn.said,
        created_at=said,
        metadata={LINE: place},
        # A system or tool turn can be evidence, so it is made searchable as well.
        indexed=True,
    )


def said_at(turns: Sequence[Turn]) -> list[datetime | None]:
    """The time of each turn, that of the turn before where there is none; all None without times."""
    known = next((turn.timestamp for turn in turns if turn.timestamp), None)
    times = []
    for turn in turns:
        known = turn.timestamp or known
        times.append(known)
    return times


def embed(memory: Memory, report: Progress) -> None:
    """Wait until every turn has its vector.

    Raises:
        ModelError: what waits no longer becomes less: after a failure at once, else after a minute.
    """
    total = left = memory.capabilities.outbox.length
    idle = 0
    while not memory.flush(timeout=1.0):
        outbox = memory.capabilities.outbox
        idle = 0 if outbox.length < left else idle + 1
        left = outbox.length
        report("embedding", max(total - left, 0), total)
        # A model that only loads slowly is waited for.
        if idle and (outbox.last_error is not None or idle >= _PATIENCE):
            raise ModelError(
                f"{left} {plural(left, 'turn')} could not be embedded",
                model=memory.capabilities.embedding_model,
            )
    report("embedding", total, total)
