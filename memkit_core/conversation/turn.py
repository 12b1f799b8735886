"""`Turn`: one turn of a conversation, written as it comes in."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from memkit_core.conversation.buffer import MessageBuffer
from memkit_core.live import Live
from memkit_core.models import Message, Role


class Turn(Live):
    """The messages of a turn, in a `MessageBuffer` that a queue drains. Made by `PersistQueue.turn`.

    Nothing here waits, so it may be used in async code as it is:

        with memory.sessions.queue.turn([question], scope=session) as turn:
            for part in answer:
                turn.add(part)

    At the end of the block, by an error or a cancellation too, all of it is written at once, behind
    the caller; `queue.flush` waits for that.

    Attributes:
        buffer: the messages, and the checkpoint of the turn.
    """

    def __init__(self, buffer: MessageBuffer, changed: Callable[[bool], None]) -> None:
        """Tell `changed` of every part, with True when it is to be written at once."""
        self.buffer = buffer
        self._changed = changed

    @property
    def messages(self) -> list[Message]:
        """All messages of the turn so far, saved or not, for the prompt."""
        return self.buffer.messages

    def add(self, part: Message) -> None:
        """Take a message or a part of one, see `MessageBuffer.add`; a tool result is written at once."""
        self.buffer.add(part)
        self._changed(part.role is Role.TOOL)

    def replace(self, message: Message) -> None:
        """Put `message` in the place of the one with its id, see `MessageBuffer.replace`."""
        self.buffer.replace(message)
        self._changed(False)

    def __enter__(self) -> Self:
        """The turn itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have all of it written now."""
        self._changed(True)
