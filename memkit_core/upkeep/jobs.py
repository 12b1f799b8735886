"""The one scheduler of all periodic work: what is due is done, by one process, and a restart goes on."""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from memkit_core.errors import ClosedError, LeaseLostError, MemkitError
from memkit_core.locks import ThreadLock
from memkit_core.observing import observer_of, use
from memkit_core.ports import JobState, RecordStore
from memkit_core.times import Clock

_log = logging.getLogger("memkit.upkeep")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
"""Seconds that the thread waits: the longest is how late it notices that a clock was set."""


class Plan(Protocol):
    """When a job is due."""

    def first(self, now: datetime) -> datetime:
        """When a job that was never done is due."""

    def after(self, now: datetime) -> datetime:
        """When a job that was done at `now` is due again."""


@dataclass(frozen=True, slots=True)
class Every:
    """So many seconds after the last time; at once when it was never done."""

    seconds: float

    def first(self, now: datetime) -> datetime:
        """See `Plan.first`."""
        return now

    def after(self, now: datetime) -> datetime:
        """See `Plan.after`."""
        return now + timedelta(seconds=self.seconds)


@dataclass(frozen=True, slots=True)
class Daily:
    """Once a day at this hour, UTC."""

    hour: int

    def first(self, now: datetime) -> datetime:
        """See `Plan.first`."""
        return self.after(now)

    def after(self, now: datetime) -> datetime:
        """See `Plan.after`: the next such hour."""
        today = now.replace(hour=self.hour, minute=0, second=0, microsecond=0)
        return today if today > now else today + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Job:
    """Periodic work.

    `run` is given a function to call now and then when it takes long, so that its lease is renewed. It
    raises `LeaseLostError` once another process has the job: what was done until then must be whole.
    """

    name: str
    plan: Plan
    run: Callable[[Callable[[], None]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A job that was done just now; `error` is what it failed with, None when it went well."""

    name: str
    at: datetime
    error: str | None = None


class Scheduler:
    """Does the jobs of a store when they are due. Thread-safe; safe after fork.

    Any number of threads and processes may have one on the same store: each job is leased, so that
    one of them does it. One that is killed keeps a job until its lease ends.
    """

    def __init__(
        self, store: RecordStore, clock: Clock, jobs: Iterable[Job], *, lease_seconds: float
    ) -> None:
        """Nothing is done yet."""
        self._store = store
        self._clock = clock
        self._jobs = list(jobs)
        self._lease = timedelta(seconds=lease_seconds)
        self._name = uuid.uuid4().hex
        self._mutex = ThreadLock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def add(self, job: Job) -> None:
        """Do one more job from now on, after those that are there; its name must be its own."""
        self._jobs.append(job)

    def run_due(self) -> list[JobRun]:
        """Do what is due and nobody else does; a job that fails is told, and the others are done.

        Raises:
            BackendError: the store cannot say what is due.
            ClosedError: the memory was closed.
        """
        return [run for job in list(self._jobs) if (run := self._run_if_due(job)) is not None]

    def start(self) -> None:
        """Have a thread do what is due from now on; nothing when it does already."""
        with self._mutex:
            if self._thread is None or not self._thread.is_alive():
                # An event of its own: a forked child must not wait on its parent's.
                self._stopping = threading.Event()
                self._thread = threading.Thread(
                    target=self._go_on, args=(self._stopping,), name="memkit-upkeep", daemon=True
                )
                self._thread.start()

    def stop(self, timeout: float | None) -> bool:
        """End the thread, waiting for its present job at most `timeout` seconds; whether it ended."""
        with self._mutex:
            thread = self._thread
            self._stopping.set()
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)
            return not thread.is_alive()
        return True

    def seconds_to_next(self) -> float:
        """How long until a job is due, in seconds; at most `_LONGEST_PAUSE`."""
        names = {job.name for job in self._jobs}
        now = self._clock()
        waits = [(job.due_at - now).total_seconds() for job in self._store.jobs.list() if job.name in names]
        return min(max(min(waits, default=0.0), _SHORTEST_PAUSE), _LONGEST_PAUSE)

    def _go_on(self, stopping: threading.Event) -> None:
        use(observer_of(self._store))
        pause = 0.0
        while not stopping.wait(pause):
            pause = _LONGEST_PAUSE
            try:
                self.run_due()
                pause = self.seconds_to_next()
            except ClosedError:
                return
            except MemkitError as error:
                _log.warning("periodic work waits: %s", error)

    def _run_if_due(self, job: Job) -> JobRun | None:
        now, jobs = self._clock(), self._store.jobs
        # The lock of all writers is taken only for what looks due.
        if not _looks_due(jobs.list(), job, now):
            return None
        holder = f"{self._name}:{os.getpid()}"
        if not jobs.claim(
            job.name,
            holder=holder,
            first=job.plan.first(now),
            latest=job.plan.after(now),
            now=now,
            until=now + self._lease,
        ):
            return None
        error = self._failure(job, holder)
        done = self._clock()
        jobs.finish(job.name, holder=holder, now=done, due=job.plan.after(done), error=error)
        return JobRun(name=job.name, at=done, error=error)

    def _failure(self, job: Job, holder: str) -> str | None:
        def renew() -> None:
            if not self._store.jobs.renew(job.name, holder=holder, until=self._clock() + self._lease):
                raise LeaseLostError(
                    f"the job {job.name} lost its lease: it took longer than {self._lease.total_seconds():g} s "
                    "without renewing it, and another process does it now; set Schedule.lease_seconds higher"
                )

        try:
            job.run(renew)
        except ClosedError:
            raise
        except MemkitError as error:
            _log.warning("the job %s failed: %s", job.name, error)
            return str(error)
        return None


def _looks_due(known: list[JobState], job: Job, now: datetime) -> bool:
    state = next((one for one in known if one.name == job.name), None)
    return state is None or state.due_at <= now or state.due_at > job.plan.after(now)
