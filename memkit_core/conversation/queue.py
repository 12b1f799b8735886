"""`PersistQueue`: writes messages behind the caller's back, in order, soon, and never less than all."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable

from memkit_core.config import Config
from memkit_core.conversation.buffer import MessageBuffer
from memkit_core.conversation.lane import Lane, QueueState, session_of, talking_of
from memkit_core.conversation.turn import Turn
from memkit_core.errors import BackendError, ClosedError, MemkitError
from memkit_core.forks import start_over_in_children
from memkit_core.inputs import build_message, checked_timeout, listed_messages
from memkit_core.live import Live
from memkit_core.models import Message, Role
from memkit_core.scope import Scope, ScopeKind

_log = logging.getLogger("memkit.queue")

_FIRST_PAUSE = 0.1
"""Seconds before the first retry; doubled for each further one."""


class PersistQueue(Live):
    """Messages on their way into the store. Reached as `memory.sessions.queue`; thread-safe.

    Whoever puts in a message waits for no disk. A session is written `Config.queue_debounce` seconds
    after the last message or part for it, in one transaction; at once after a tool result, at the end of
    a turn, and when `queue_size` messages or the age `queue_age` are reached. Writes of one session
    never overlap; at most `queue_concurrency` sessions are written at a time. A failed write is tried
    `queue_retries` times more, after 0.1, 0.2, 0.4 … seconds; what still fails is kept in order and
    shown by `state`.

    What waits is seen by every read of the same memory. It is lost only with the process: killed, it
    loses what came after the last write; at its normal end, and by `Memory.close`, all is written. A
    forked child starts with an empty queue, since its parent writes what waits.
    """

    def __init__(
        self,
        write: Callable[[Scope, list[Message]], object],
        *,
        config: Config,
        monotonic: Callable[[], float] = time.monotonic,
        background: bool = True,
    ) -> None:
        """Nothing runs until the first message.

        Args:
            write: stores checked messages of a session in one transaction.
            config: the fields that begin with `queue_`.
            monotonic: the clock, in seconds.
            background: False for no threads: who calls `run_due` decides when something is written.
        """
        self._write = write
        self._config = config
        self._monotonic = monotonic
        self._background = background
        self._closed = False
        self._start_over()
        start_over_in_children(self, PersistQueue._start_over)

    def _start_over(self) -> None:
        self._lanes: dict[Scope, Lane] = {}
        self._changed = threading.Condition(threading.Lock())
        self._threads = self._idle = 0
        self._wakes_at = math.inf
        self._last_error: str | None = None

    # ------------------------------------------------------------------ putting in

    def append(self, messages: Iterable[Message], *, scope: Scope) -> list[Message]:
        """Have messages appended to a session soon, in order; returns them with their ids at once.

        See `Sessions.append` for what an id that the session has means.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a message that cannot be stored; none of the call is taken.
            ClosedError: the memory was closed.
        """
        session = session_of(scope, "append")
        most = self._config.max_content_chars
        checked = [build_message(message, max_chars=most) for message in listed_messages(messages, "append")]
        if checked:
            with self._changed:
                lane = self._lane(session)
                # What a turn has said so far stands before this.
                lane.gather()
                lane.waiting.update((str(message.id), message) for message in checked)
                self._put(lane, at_once=any(message.role is Role.TOOL for message in checked))
        return checked

    def turn(self, messages: Iterable[Message] = (), *, scope: Scope, saved: Iterable[Message] = ()) -> Turn:
        """A turn of a session, as a context manager: what is added to it is written as it comes in.

        Args:
            messages: what the turn begins with, the user's message above all: in the queue when this
                returns, so that a turn that fails or is cancelled has it.
            scope: the session.
            saved: stored messages that it goes on from, such as calls whose results are still to come.

        Raises:
            ScopeError: `scope` is not a session.
            InvalidInputError: a message that cannot be stored; none of the call is taken.
            ClosedError: the memory was closed.
        """
        session = session_of(scope, "turn")
        buffer = MessageBuffer(saved, max_chars=self._config.max_content_chars)

        def changed(at_once: bool) -> None:  # noqa: FBT001 - called by `Turn` alone
            with self._changed:
                if self._closed and not buffer.pending:
                    # A turn may end after `close`, which wrote all of it.
                    return
                lane = self._lane(session)
                if buffer not in lane.buffers:
                    lane.buffers.append(buffer)
                self._put(lane, at_once=at_once)

        for message in listed_messages(messages, "turn"):
            buffer.add(message)
        if buffer.pending:
            changed(any(message.role is Role.TOOL for message in buffer.messages))
        return Turn(buffer, changed)

    def _lane(self, session: Scope) -> Lane:
        if self._closed:
            raise ClosedError("the memory was closed; open it again")
        lane = self._lanes.get(session)
        if lane is None:
            lane = self._lanes[session] = Lane(session)
        return lane

    def _put(self, lane: Lane, *, at_once: bool) -> None:
        now = self._monotonic()
        lane.added += 1
        lane.first = now if lane.first is None else lane.first
        if 0 < lane.tries <= self._config.queue_retries:
            # The pause between two tries is not cut short.
            return
        lane.tries = 0
        if at_once or lane.count() >= self._config.queue_size:
            lane.due = now
        elif lane.due > now:
            lane.due = min(now + self._config.queue_debounce, lane.first + self._config.queue_age)
        self._wake(lane)

    def _wake(self, lane: Lane) -> bool:
        """See to it that a thread writes the lane when it is due; False when there is none."""
        if not self._background:
            return False
        if self._idle:
            if lane.due < self._wakes_at:
                self._wakes_at = lane.due
                self._changed.notify_all()
        elif self._threads < self._config.queue_concurrency:
            self._start_thread()
        return self._threads > 0

    # ------------------------------------------------------------------ writing

    def run_due(self) -> float | None:
        """Write every session that is due, in this thread; the seconds until the next, None for none."""
        with self._changed:
            while (lane := self._due()) is not None:
                self._write_lane(lane)
            due = self._next()
        return None if due == math.inf else max(due - self._monotonic(), 0.0)

    def _due(self) -> Lane | None:
        now = self._monotonic()
        ready = [lane for lane in self._lanes.values() if not lane.busy and lane.due <= now]
        return min(ready, key=lambda lane: lane.due, default=None)

    def _next(self) -> float:
        return min((lane.due for lane in self._lanes.values() if not lane.busy), default=math.inf)

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="memkit-queue", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The interpreter is shutting down and starts no more threads; `flush` writes itself then.
            return
        self._threads += 1

    def _run(self) -> None:
        # A forked child has a condition of its own; the parent's threads do not exist there.
        with self._changed:
            while not self._closed or self._lanes:
                lane = self._due()
                if lane is not None:
                    lane.busy = True
                    if not self._idle and self._threads < self._config.queue_concurrency and self._due():
                        self._start_thread()
                    lane.busy = False
                    self._write_lane(lane)
                elif self._idle:
                    # One thread is enough to wait.
                    break
                else:
                    self._wakes_at = self._next()
                    pause = self._wakes_at - self._monotonic()
                    self._idle += 1
                    self._changed.wait(None if pause == math.inf else max(pause, 0.0))
                    self._idle -= 1
                    self._wakes_at = -math.inf
            self._threads -= 1

    def _write_lane(self, lane: Lane) -> bool:
        """Write what waits in a lane; whether it is stored. The lock is let go of for the write itself."""
        lane.busy = True
        lane.gather()
        batch = list(lane.waiting.items())[: self._config.max_batch]
        added, lane.first, lane.due = lane.added, None, math.inf
        self._changed.release()
        error: MemkitError | None = None
        stored = False
        try:
            if batch:
                self._write(lane.scope, [message for _, message in batch])
            stored = True
        except MemkitError as failed:
            error = failed
        except Exception as failed:  # noqa: BLE001 - whatever a store raises: nothing is lost, and it is shown
            error = BackendError(f"{type(failed).__name__}: {failed}", backend="store", operation="append")
        finally:
            self._changed.acquire()
            lane.busy = False
            if stored:
                self._stored(lane, batch, added)
            else:
                self._failed(lane, error)
            self._changed.notify_all()
        return stored

    def _stored(self, lane: Lane, batch: list[tuple[str, Message]], added: int) -> None:
        for message_id, message in batch:
            # What has changed meanwhile is written again.
            if lane.waiting.get(message_id) is message:
                del lane.waiting[message_id]
        lane.tries, lane.given_up, lane.error = 0, False, None
        if not lane.waiting and not any(buffer.pending for buffer in lane.buffers):
            lane.stored = lane.added
            self._lanes.pop(lane.scope, None)
        else:
            lane.stored = added if len(batch) < self._config.max_batch else lane.stored
            now = self._monotonic()
            lane.first = now if lane.first is None else lane.first
            lane.due = min(lane.due, now + self._config.queue_debounce)
        if not any(other.tries for other in self._lanes.values()):
            self._last_error = None

    def _failed(self, lane: Lane, error: MemkitError | None) -> None:
        lane.tries += 1
        lane.error = error
        self._last_error = "interrupted" if error is None else str(error)
        now = self._monotonic()
        lane.first = now if lane.first is None else lane.first
        if lane.tries > self._config.queue_retries:
            lane.ends += 1
            lane.given_up = True
            lane.due = now + self._config.outbox_seconds
            _log.warning(
                "%d messages of a session wait: not stored after %d tries: %s",
                len(lane.waiting), lane.tries, type(error).__name__,
            )  # fmt: skip
        else:
            lane.due = now + _FIRST_PAUSE * 2 ** (lane.tries - 1)
        self._wake(lane)

    # ------------------------------------------------------------------ waiting for it

    @property
    def state(self) -> QueueState:
        """What is not stored yet, and why."""
        with self._changed:
            lanes = list(self._lanes.values())
            return QueueState(
                waiting=sum(lane.count() for lane in lanes),
                failed=sum(lane.count() for lane in lanes if lane.given_up),
                last_error=self._last_error,
            )

    def flush(self, timeout: float | None = None, *, scope: Scope | None = None) -> bool:
        """Write at once what waits, trying again what failed; whether all of it is stored now.

        Returns after `timeout` seconds at the latest, else when the tries are used up.

        Args:
            timeout: seconds, None for no limit.
            scope: only the sessions of this scope; a user stands for all of the user's.

        Raises:
            InvalidInputError: `timeout` is no number of seconds.
            ScopeError: `scope` is neither a session nor a user.
        """
        timeout = checked_timeout(timeout, "flush: timeout")
        talking_of(scope, "flush")
        with self._changed:
            lanes = [(lane, lane.added, lane.ends) for lane in self._lanes_of(scope)]
            helped = bool(lanes)
            for lane, _, _ in lanes:
                lane.tries, lane.due = 0, self._monotonic()
                helped = self._wake(lane) and helped
            if not helped:
                for lane, _, _ in lanes:
                    self._now(lane)
            self._changed.wait_for(
                lambda: not helped or all(one.stored >= n or one.ends > ends for one, n, ends in lanes),
                timeout,
            )
            return all(lane.stored >= added for lane, added, _ in lanes)

    def settle(self, scope: Scope | None, *, strict: bool = False) -> list[Message]:
        """Write what waits in a scope now, in this thread, for a verb that must see it.

        Returns what could not be written, in order. A session whose last write failed is not tried
        again, so that a reader need not wait for a store that is down.

        Args:
            scope: a session, a user for all of the user's sessions, None for everything.
            strict: try in any case, and raise what fails.

        Raises:
            BackendError: with `strict`, the store failed; what waits still waits.
        """
        if not self._lanes:
            return []
        left: list[Message] = []
        with self._changed:
            for lane in self._lanes_of(scope):
                added = lane.added
                if strict or not lane.tries:
                    self._now(lane)
                if lane.stored < added:
                    if strict and lane.error is not None:
                        raise lane.error
                    lane.gather()
                    left += lane.waiting.values()
        return left

    def close(self, timeout: float) -> bool:
        """Write what waits, waiting at most `timeout` seconds, and take no more; whether all is stored."""
        with self._changed:
            closing, self._closed = not self._closed, True
        stored = self.flush(timeout)
        if closing and not stored:
            _log.error("%d messages were not stored before the end", self.state.waiting)
        with self._changed:
            self._lanes.clear()
            self._changed.notify_all()
        return stored

    def _now(self, lane: Lane) -> None:
        """Write a lane in this thread unless another has done it meanwhile; the lock is held."""
        added = lane.added
        self._changed.wait_for(lambda: not lane.busy)
        while lane.stored < added and self._write_lane(lane):
            pass

    def _lanes_of(self, scope: Scope | None) -> list[Lane]:
        if scope is not None and scope.kind is ScopeKind.SESSION:
            return [self._lanes[scope]] if scope in self._lanes else []
        return [lane for lane in self._lanes.values() if scope is None or lane.scope.parent == scope]
