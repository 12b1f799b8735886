"""`MessageBuffer`: the messages of one turn while they come in, in pieces."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, ScopeError, shown
from memkit_core.inputs import build_message, listed_messages
from memkit_core.jsonvalues import JsonValue
from memkit_core.locks import ThreadLock
from memkit_core.models import Message, Role, ToolCall
from memkit_core.scope import Scope

_VERSION = 1
_FIRST_NAMED = ("speaker", "created_at", "agent_id", "parent_agent_id", "indexed")
"""Fields of which the first part that names one decides."""


class MessageBuffer:
    """Puts the parts of a turn together and knows which messages are not saved yet.

    Thread-safe; a part costs its own length, however long the message has become. Nothing here writes:
    `drain` gives what is to be saved, `Turn` does both.
    """

    def __init__(self, saved: Iterable[Message] = (), *, max_chars: int | None = None) -> None:
        """An empty turn, or one that goes on behind messages which are stored already.

        Args:
            saved: stored messages, in order; they are not pending, and results of their calls may come.
            max_chars: the longest text of one message; that of `Config` when None.
        """
        self._max_chars = Config().max_content_chars if max_chars is None else max_chars
        self._mutex = ThreadLock()
        self._entries: dict[str, _Entry] = {}
        self._pending: set[str] = set()
        self._calls: dict[str, str] = {}
        self._results: dict[str, str] = {}
        self._open: str | None = None
        for message in listed_messages(saved, "saved"):
            self._keep(build_message(message, max_chars=self._max_chars))
        self._pending.clear()
        self._open = None

    # ------------------------------------------------------------------ taking parts

    def add(self, part: Message) -> None:
        """Take a message, or a part of one; what it changes becomes pending.

        - An assistant part without an id goes on with the assistant message just before it; one whose
          id is here goes on with that message; every other begins a message. Texts are joined, metadata
          keys added, and of the other fields the first part that names one decides. A call whose id the
          message has takes the place of that call, or, when it has no name, continues its arguments;
          one without an id continues the last call. A part that says nothing is left out.
        - A tool result belongs to the newest call with its `tool_call_id`. A second result of the same
          call takes the place of the first and keeps its id.
        - A system or user message whose id is here takes the place of that message.

        Raises:
            InvalidInputError: a value that cannot be stored, a result whose call is not here, an id
                that another kind of message has, a text that became too long, or a part that goes on
                with a message when either has a framework's payload: those are joined by the
                framework and then given to `replace`. Nothing is changed.
        """
        checked = build_message(part, max_chars=self._max_chars)
        with self._mutex:
            if checked.role is Role.TOOL:
                self._take_result(checked)
            elif checked.role is not Role.ASSISTANT:
                self._put(checked)
            elif checked.text or checked.tool_calls or checked.metadata or checked.payload is not None:
                goes_on = self._open if part.id is None else part.id
                if goes_on is not None and goes_on in self._entries:
                    self._go_on(self._known(goes_on, Role.ASSISTANT), checked)
                else:
                    self._keep(checked)

    def replace(self, message: Message) -> None:
        """Put `message` in the place of the one with its id; its place in the order stays.

        Raises:
            InvalidInputError: no message here has this id, or one of another role has it.
        """
        checked = build_message(message, max_chars=self._max_chars)
        with self._mutex:
            if message.id is None or message.id not in self._entries:
                raise InvalidInputError(f"replace: no message here has the id {shown(message.id)}")
            self._put(checked)

    def _take_result(self, result: Message) -> None:
        call = result.tool_call_id
        if call is None or call not in self._calls:
            raise InvalidInputError(
                f"no message here asks for the call {shown(call)}; give the stored messages that do as saved="
            )
        if call in self._results:
            result = dataclasses.replace(result, id=self._results[call])
        elif result.id in self._entries:
            raise InvalidInputError(f"another message here has the id {shown(result.id)} already")
        self._put(result)

    def _put(self, message: Message) -> None:
        """Put a whole message at its place, or at the end."""
        assert message.id is not None
        if message.id not in self._entries:
            self._keep(message)
            return
        entry = self._known(message.id, message.role)
        if entry.message() == message:
            return
        for call in entry.calls:
            if self._calls.get(call) == message.id and call not in {c.id for c in message.tool_calls}:
                del self._calls[call]
        self._ask(message, known=entry.calls)
        entry.begin(message)
        self._pending.add(message.id)

    def _keep(self, message: Message) -> None:
        assert message.id is not None
        self._ask(message, known={})
        self._entries[message.id] = _Entry(message, place=len(self._entries))
        if message.role is Role.TOOL and message.tool_call_id is not None:
            self._results[message.tool_call_id] = message.id
        self._open = message.id if message.role is Role.ASSISTANT else None
        self._pending.add(message.id)

    def _go_on(self, entry: _Entry, part: Message) -> None:
        if entry.base.payload is not None or part.payload is not None:
            raise InvalidInputError(
                f"message {shown(entry.base.id)}: parts with a payload are joined by their framework; "
                "give the joined message to replace"
            )
        if entry.size + len(part.text) > self._max_chars:
            raise InvalidInputError(
                f"message {shown(entry.base.id)}: the text would have more than {self._max_chars} characters"
            )
        self._ask(dataclasses.replace(part, id=entry.base.id), known=entry.calls)
        entry.go_on(part)
        self._pending.add(str(entry.base.id))

    def _ask(self, message: Message, *, known: Mapping[str, object]) -> None:
        """Have results of the calls that are new go to `message`."""
        for call in message.tool_calls:
            if call.id and call.id not in known:
                # Some models use an id again: its result is then the answer to the newer call.
                self._calls[call.id] = str(message.id)
                self._results.pop(call.id, None)

    def _known(self, message_id: str, role: Role) -> _Entry:
        entry = self._entries[message_id]
        if entry.base.role is not role:
            raise InvalidInputError(
                f"the id {shown(message_id)} is that of a message of the {entry.base.role}, not of the {role}"
            )
        return entry

    # ------------------------------------------------------------------ giving them

    @property
    def messages(self) -> list[Message]:
        """All messages in the order they began; costs the length of those that changed."""
        with self._mutex:
            return [entry.message() for entry in self._entries.values()]

    @property
    def pending(self) -> list[str]:
        """The ids of the messages to be saved, in order."""
        with self._mutex:
            return self._in_order()

    def result_of(self, call_id: str) -> Message | None:
        """The result of the newest call with this id, None while there is none; costs the same always."""
        with self._mutex:
            answer = self._results.get(call_id)
            return None if answer is None else self._entries[answer].message()

    def drain(self) -> list[Message]:
        """The messages to be saved, in order; they count as saved now and stay here for the prompt."""
        with self._mutex:
            drained = [self._entries[message_id].message() for message_id in self._in_order()]
            self._pending.clear()
            return drained

    def __len__(self) -> int:
        """How many messages there are."""
        return len(self._entries)

    def _in_order(self) -> list[str]:
        return sorted(self._pending, key=lambda message_id: self._entries[message_id].place)

    # ------------------------------------------------------------------ being kept

    def checkpoint(self) -> str:
        """All of it as JSON text, pending ids included; `restore` goes on from there."""
        with self._mutex:
            state = {
                "version": _VERSION,
                "messages": [_to_json(entry.message()) for entry in self._entries.values()],
                "pending": self._in_order(),
                "calls": self._calls,
                "results": self._results,
                "open": self._open,
            }
        return json.dumps(state, ensure_ascii=False)

    @classmethod
    def restore(cls, checkpoint: str) -> Self:
        """The buffer that `checkpoint` was taken of.

        Raises:
            InvalidInputError: not the JSON of a checkpoint.
        """
        try:
            state = json.loads(checkpoint)
            if state["version"] != _VERSION:
                raise InvalidInputError(f"restore: a checkpoint of version {shown(state['version'])}")
            buffer = cls(_from_json(one) for one in state["messages"])
            buffer._calls, buffer._results = dict(state["calls"]), dict(state["results"])
            buffer._pending, buffer._open = set(state["pending"]), state["open"]
            named = {*buffer._pending, *buffer._results.values(), *filter(None, [buffer._open])}
        except (KeyError, TypeError, ValueError, AttributeError, ScopeError) as error:
            raise InvalidInputError(f"restore: not a checkpoint of a buffer: {error}") from error
        if not named <= buffer._entries.keys():
            raise InvalidInputError("restore: the checkpoint names messages that it does not hold")
        return buffer


class _Entry:
    """A message that may still grow: its pieces, joined when it is asked for."""

    __slots__ = ("_joined", "_texts", "base", "calls", "place", "size")

    def __init__(self, message: Message, *, place: int) -> None:
        self.place = place
        self.begin(message)

    def begin(self, message: Message) -> None:
        """Be `message`."""
        self.base = message
        self.size = len(message.text)
        self.calls = {call.id: (call.name, [call.arguments]) for call in message.tool_calls}
        self._texts = [message.text]
        self._joined: Message | None = message

    def go_on(self, part: Message) -> None:
        """Join a part to it."""
        self._texts.append(part.text)
        self.size += len(part.text)
        for call in part.tool_calls:
            name = call.id or next(reversed(self.calls), "")
            if name in self.calls and not call.name:
                self.calls[name][1].append(call.arguments)
            else:
                self.calls[name] = (call.name, [call.arguments])
        named = {f: getattr(part, f) for f in _FIRST_NAMED if getattr(self.base, f) is None}
        metadata = {**self.base.metadata, **part.metadata}
        if part.metadata or any(value is not None for value in named.values()):
            self.base = dataclasses.replace(self.base, metadata=metadata, **named)
        self._joined = None

    def message(self) -> Message:
        """It as a value, as far as it has come."""
        if self._joined is None:
            self._texts = ["".join(self._texts)]
            self.calls = {key: (name, ["".join(pieces)]) for key, (name, pieces) in self.calls.items()}
            calls = tuple(ToolCall(id=key, name=n, arguments=a[0]) for key, (n, a) in self.calls.items())
            self._joined = dataclasses.replace(self.base, text=self._texts[0], tool_calls=calls)
        return self._joined


def _to_json(message: Message) -> dict[str, JsonValue]:
    plain: dict[str, Any] = {f.name: getattr(message, f.name) for f in dataclasses.fields(Message)}
    return {
        **plain,
        "role": message.role.value,
        "tool_calls": [dataclasses.asdict(call) for call in message.tool_calls],
        "created_at": None if message.created_at is None else message.created_at.isoformat(),
        "metadata": dict(message.metadata),
        "session": None if message.session is None else [list(step) for step in message.session.path],
    }


def _from_json(plain: dict[str, Any]) -> Message:
    created, session = plain["created_at"], plain["session"]
    return Message(
        **{
            **plain,
            "role": Role(plain["role"]),
            "tool_calls": tuple(ToolCall(**call) for call in plain["tool_calls"]),
            "created_at": None if created is None else datetime.fromisoformat(created),
            "session": None if session is None else Scope.from_path(tuple((k, i) for k, i in session)),
        }
    )
