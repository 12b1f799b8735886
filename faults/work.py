"""What a writer does, step by step, and what must be there after each step.

A step is one call of one verb. The writer runs it, the judge replays it on a `State`; both know a
step by its number alone, so a killed writer need only have said how many calls had returned.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import methodcaller

from memkit_core import Memory, Message, NewMemory, Role, Scope
from memkit_core.models import MEMORIES, MESSAGES

ALICE = Scope.user("alice")
_LETTERS = str.maketrans("0123456789abcdef", "bcdfghjkmnpqrtvz")
_LONG = 150
_BATCH = 20
_REPLACED = 5


def word_of(label: str) -> str:
    """A word that stands in no other text: letters only, and no ending that a stemmer knows."""
    return hashlib.blake2b(label.encode(), digest_size=6).hexdigest().translate(_LETTERS) + "x"


def text_of(label: str) -> str:
    """A text that holds the word of `label`; every fifth or so is long, so that files grow."""
    word = word_of(label)
    filler = "and much more of it " * (_LONG if word.startswith(("b", "c", "d")) else 1)
    return f"{word} is what {label} says {filler}".strip()


@dataclass(slots=True)
class State:
    """What must be stored.

    Attributes:
        records: content by (scope, id).
        messages: (id, text) of each session, in append order.
        ever: every text there ever was, with the scope and space it was in.
    """

    records: dict[tuple[Scope, str], str] = field(default_factory=dict)
    messages: dict[Scope, list[tuple[str, str]]] = field(default_factory=dict)
    ever: dict[str, tuple[Scope, str]] = field(default_factory=dict)

    def put(self, scope: Scope, record_id: str, content: str) -> None:
        """Keep a record."""
        self.records[scope, record_id] = content
        self.ever[content] = scope, MEMORIES

    def say(self, session: Scope, message_id: str, text: str) -> None:
        """Append a message, or replace the one with that id."""
        log = self.messages.setdefault(session, [])
        places = [place for place, (known, _) in enumerate(log) if known == message_id]
        log[slice(places[0], places[0] + 1) if places else slice(len(log), None)] = [(message_id, text)]
        self.ever[text] = session, MESSAGES

    def delete_user(self, user: Scope) -> None:
        """Forget a user with all sessions."""
        self.records = {key: text for key, text in self.records.items() if key[0] != user}
        self.messages = {scope: log for scope, log in self.messages.items() if scope.parent != user}

    def rows(self) -> Iterator[tuple[Scope, str, str, str]]:
        """Each searchable row: scope, space, id, text."""
        for (scope, record_id), content in self.records.items():
            yield scope, MEMORIES, record_id, content
        for session, log in self.messages.items():
            for message_id, text in log:
                yield session, MESSAGES, message_id, text

    def gone(self) -> Iterator[tuple[Scope, str, str]]:
        """Each text that was there once and is no more: scope, space, text."""
        present = {text for _, _, _, text in self.rows()}
        for text, (scope, space) in self.ever.items():
            if text not in present:
                yield scope, space, text


class Work(ABC):
    """A writer's steps; `name` tells two writers apart."""

    def __init__(self, name: str = "w") -> None:
        """Steps whose ids and texts begin with `name`."""
        self.name = name

    @abstractmethod
    def run(self, memory: Memory, step: int) -> int:
        """Do step number `step`, one call; how many records, messages or deletes it stands for."""

    @abstractmethod
    def replay(self, state: State, step: int) -> int:
        """Do to `state` what `run` does to a memory; the same count."""

    def state_after(self, steps: int) -> tuple[State, int]:
        """What must be there after so many steps, and how much was acknowledged by then."""
        state, count = State(), 0
        for step in range(steps):
            count += self.replay(state, step)
        return state, count


class Add(Work):
    """One record a call, every third in the background."""

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        record_id = f"{self.name}.{step}"
        memory.add(text_of(record_id), scope=ALICE, id=record_id, background=step % 3 == 0)
        return 1

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        state.put(ALICE, f"{self.name}.{step}", text_of(f"{self.name}.{step}"))
        return 1


class AddMany(Work):
    """Batches of 5 to 44 records; the last of each replaces that of the batch before."""

    def _batch(self, step: int) -> dict[str, str]:
        names = {f"{n}": f"{self.name}.{step}.{n}" for n in range(4 + step * 7 % 40)}
        batch = {f"{self.name}.{step}.{n}": text_of(label) for n, label in names.items()}
        return batch | {"newest": text_of(f"{self.name}.newest.{step}")}

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        items = [NewMemory(content=text, id=record_id) for record_id, text in self._batch(step).items()]
        return len(memory.add_many(items, scope=ALICE, background=step % 3 == 0))

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        batch = self._batch(step)
        for record_id, text in batch.items():
            state.put(ALICE, record_id, text)
        return len(batch)


class Update(Work):
    """Twenty records, then new content for one after the other."""

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        if step == 0:
            return len(memory.add_many(_seed(self.name), scope=ALICE))
        # By name, so that this module can be read beside a memkit that has no such verb.
        new = text_of(f"{self.name}.{step}")
        methodcaller("update", str(step % _BATCH), scope=ALICE, content=new)(memory)
        return 1

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        if step == 0:
            for new in _seed(self.name):
                state.put(ALICE, str(new.id), new.content)
            return _BATCH
        state.put(ALICE, str(step % _BATCH), text_of(f"{self.name}.{step}"))
        return 1


def _seed(name: str) -> list[NewMemory]:
    return [NewMemory(content=text_of(f"{name}.seed.{n}"), id=str(n)) for n in range(_BATCH)]


class Delete(Work):
    """Writes twenty records, deletes half of them one by one, writes the same ids anew, and so on."""

    def _turn(self, step: int) -> tuple[int, int]:
        return divmod(step, _BATCH // 2 + 1)

    def _batch(self, turn: int) -> dict[str, str]:
        return {str(n): text_of(f"{self.name}.{turn}.{n}") for n in range(_BATCH)}

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        turn, place = self._turn(step)
        if place == 0:
            batch = self._batch(turn)
            return len(memory.add_many([NewMemory(content=t, id=i) for i, t in batch.items()], scope=ALICE))
        return memory.delete(str((turn + place) % _BATCH), scope=ALICE).records

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        turn, place = self._turn(step)
        if place == 0:
            for record_id, text in self._batch(turn).items():
                state.put(ALICE, record_id, text)
            return _BATCH
        del state.records[ALICE, str((turn + place) % _BATCH)]
        return 1


class DeleteScope(Work):
    """A user with ten records and a session of four messages after the other; every second is deleted."""

    def _user(self, step: int) -> Scope:
        return Scope.user(f"{self.name}.{step // 3}")

    def _texts(self, step: int, count: int) -> dict[str, str]:
        return {f"{n}": text_of(f"{self.name}.{step}.{n}") for n in range(count)}

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        user = self._user(step)
        match step % 3:
            case 0:
                items = [NewMemory(content=text, id=i) for i, text in self._texts(step, 10).items()]
                return len(memory.add_many(items, scope=user))
            case 1:
                session = Scope.session("s", user=user)
                said = [Message(role=Role.USER, text=text, id=i) for i, text in self._texts(step, 4).items()]
                return len(memory.sessions.append(said, scope=session))
        if step // 3 % 2:
            return 0
        receipt = memory.delete(scope=user)
        return receipt.records + receipt.messages

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        user = self._user(step)
        match step % 3:
            case 0:
                for record_id, text in self._texts(step, 10).items():
                    state.put(user, record_id, text)
                return 10
            case 1:
                for message_id, text in self._texts(step, 4).items():
                    state.say(Scope.session("s", user=user), message_id, text)
                return 4
        if step // 3 % 2:
            return 0
        state.delete_user(user)
        return 14


class Append(Work):
    """Two messages a call to one of three sessions; every fifth call replaces an earlier message."""

    def _said(self, step: int) -> tuple[Scope, dict[str, str]]:
        session = Scope.session(f"s{step % 3}", user=ALICE)
        said = {f"{self.name}.{step}.{n}": text_of(f"{self.name}.{step}.{n}") for n in range(2)}
        if step % _REPLACED == _REPLACED - 1:
            said = {f"{self.name}.{step - 3}.0": text_of(f"{self.name}.{step}")}
        return session, said

    def run(self, memory: Memory, step: int) -> int:
        """See `Work.run`."""
        session, said = self._said(step)
        messages = [Message(role=Role.USER, text=text, id=message_id) for message_id, text in said.items()]
        return len(memory.sessions.append(messages, scope=session))

    def replay(self, state: State, step: int) -> int:
        """See `Work.replay`."""
        session, said = self._said(step)
        for message_id, text in said.items():
            state.say(session, message_id, text)
        return len(said)


WORKS: dict[str, type[Work]] = {
    "add": Add,
    "add_many": AddMany,
    "update": Update,
    "delete": Delete,
    "delete_scope": DeleteScope,
    "append": Append,
}
"""Work by name."""
if not hasattr(Memory, "update"):
    del WORKS["update"]
