"""How recall grows: with the store around a scope, and with the scope itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.plan import Plan
from benchmarks.report import Line, interleaved
from benchmarks.texts import Texts
from memkit_core import Memory, Message, Role, Scope
from memkit_core.sequences import chunked

STORES = (1_000, 10_000, 50_000, 200_000)
SCOPES = (100, 1_000, 5_000, 20_000)
_SMALL = 1_000
_AT_ONCE = 5_000
_TURNS_OF_A_SESSION = 20
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class _Growing:
    """A memory that is filled as the measurement goes on."""

    memory: Memory
    texts: Texts

    def remember(self, scope: Scope, count: int) -> None:
        """Add so many memories."""
        for some in chunked(range(count), _AT_ONCE):
            self.memory.add_many(self.texts.sentences(len(some)), scope=scope)
        self.memory.flush()

    def say(self, user: str, count: int) -> None:
        """Append so many turns of a user, in sessions of twenty."""
        for number, texts in enumerate(chunked(self.texts.sentences(count), _TURNS_OF_A_SESSION)):
            turns = [Message(role=Role.USER, text=text) for text in texts]
            self.memory.sessions.append(turns, scope=Scope.session(f"session-{number}", user=user))
        self.memory.flush()

    def asked(self, name: str, scopes: Sequence[Scope], *, turns: bool = False) -> Iterator[Line]:
        """Time recall in each scope, in turn; the first two recalls, which read a partition, do not count."""
        questions = self.texts.questions(_ROUNDS + 2)
        for scope in scopes:
            (times,) = interleaved(
                [
                    lambda number, scope=scope: self.memory.recall(  # type: ignore[misc]
                        questions[number], scope=scope, include_messages=turns
                    )
                ],
                _ROUNDS,
                warm=2,
            )
            yield Line(name=name.format(scope=scope.id), measured=str(times))


def measured_growth(plan: Plan) -> list[Line]:
    """Time recall while a store and the scopes in it grow; the lines of the table, none with a limit."""
    lines: list[Line] = []
    with Memory.open(plan.folder / "growing.db") as memory:
        growing = _Growing(memory, Texts(seed=17))
        growing.remember(Scope.user("asked"), _SMALL)
        filled = _SMALL
        for size in STORES:
            growing.remember(Scope.user(f"other-{size}"), size - filled)
            filled = size
            name = f"recall among {_SMALL:,} memories of a user, {size:,} in the store"
            lines += growing.asked(name, [Scope.user("asked")])
    with Memory.open(plan.folder / "scopes.db") as memory:
        growing = _Growing(memory, Texts(seed=19))
        for size in SCOPES:
            growing.remember(Scope.user(f"{size:,}"), size)
        lines += growing.asked("recall among {scope} memories", [Scope.user(f"{n:,}") for n in SCOPES])
    with Memory.open(plan.folder / "turns.db") as memory:
        growing = _Growing(memory, Texts(seed=23))
        for size in SCOPES:
            growing.say(f"{size:,}", size)
        lines += growing.asked(
            "recall among {scope} turns", [Scope.user(f"{n:,}") for n in SCOPES], turns=True
        )
    return lines
