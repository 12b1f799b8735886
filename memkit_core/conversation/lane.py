"""What waits for one session."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from memkit_core.conversation.buffer import MessageBuffer
from memkit_core.errors import MemkitError, ScopeError, shown
from memkit_core.models import Message
from memkit_core.scope import Scope, ScopeKind, require_scope

_TALKING = (ScopeKind.SESSION, ScopeKind.USER)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What a queue has not written yet.

    Attributes:
        waiting: messages that are not stored yet, the failed ones among them.
        failed: messages of sessions whose tries are used up; they are kept, in order, and tried again
            when more comes for the session, by `flush`, and every `Config.outbox_seconds`.
        last_error: what the newest failed write raised; None once everything is stored.
    """

    waiting: int = 0
    failed: int = 0
    last_error: str | None = None


@dataclass(slots=True, eq=False)
class Lane:
    """What waits for one session; its queue's lock is held for every use.

    Attributes:
        waiting: messages by id, in order.
        buffers: of open turns, with messages that are not in `waiting` yet.
        busy: whether a thread writes it; one at a time does.
        first: since when something waits, None for nothing.
        due: when it is to be written.
        tries: failed writes since the last one that succeeded or began anew.
        given_up: whether the tries were used up since something was stored.
        error: what the last write raised.
        added, stored, ends: how often something was put in, how many of these are stored, and how often
            the tries were used up; a flush waits for these.
    """

    scope: Scope
    waiting: dict[str, Message] = field(default_factory=dict)
    buffers: list[MessageBuffer] = field(default_factory=list)
    busy: bool = False
    first: float | None = None
    due: float = math.inf
    tries: int = 0
    given_up: bool = False
    error: MemkitError | None = None
    added: int = 0
    stored: int = 0
    ends: int = 0

    def gather(self) -> None:
        """Take what the buffers have not given yet."""
        for buffer in self.buffers:
            self.waiting.update((str(message.id), message) for message in buffer.drain())
        self.buffers.clear()

    def count(self) -> int:
        """How many messages wait."""
        return len(self.waiting) + sum(len(buffer.pending) for buffer in self.buffers)


def talking_of(scope: object, verb: str) -> None:
    """Refuse a scope that has no messages; None stands for all that have."""
    if scope is not None and require_scope(scope, verb=f"queue.{verb}").kind not in _TALKING:
        raise ScopeError(f"queue.{verb}: scope must be a session or a user, got {shown(scope)}")


def session_of(scope: object, verb: str) -> Scope:
    """`scope` when it is a session, else a `ScopeError` that names the verb."""
    session = require_scope(scope, verb=f"queue.{verb}")
    if session.kind is not ScopeKind.SESSION:
        raise ScopeError(
            f"queue.{verb}: scope must be a session, Scope.session(id, user=...), got {shown(session)}"
        )
    return session
