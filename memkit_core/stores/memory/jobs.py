"""`JobTable` in plain Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime

from memkit_core.ports import LONGEST_LEASE, JobState
from memkit_core.stores.memory.state import State


class InMemoryJobs:
    """The periodic jobs of a `State`."""

    def __init__(self, state: State) -> None:
        """Read and write in `state`."""
        self._state = state

    def claim(
        self, name: str, *, holder: str, first: datetime, latest: datetime, now: datetime, until: datetime
    ) -> bool:
        """See `JobTable.claim`."""
        with self._state.open():
            job, held_by = self._state.jobs.get(name, (JobState(name=name, due_at=first), None))
            if name in self._state.jobs:
                job = dataclasses.replace(job, due_at=min(job.due_at, latest))
            leased = job.leased_until
            free = held_by is None or leased is None or leased <= now or leased > now + LONGEST_LEASE
            taken = free and job.due_at <= now
            if taken:
                job, held_by = dataclasses.replace(job, leased_until=until), holder
            self._state.jobs[name] = job, held_by
            return taken

    def renew(self, name: str, *, holder: str, until: datetime) -> bool:
        """See `JobTable.renew`."""
        return self._change(name, holder, lambda job: dataclasses.replace(job, leased_until=until), holder)

    def finish(self, name: str, *, holder: str, now: datetime, due: datetime, error: str | None) -> bool:
        """See `JobTable.finish`."""
        done = JobState(name=name, due_at=due, last_run_at=now, last_error=error)
        return self._change(name, holder, lambda _: done, None)

    def _change(
        self, name: str, holder: str, changed: Callable[[JobState], JobState], then: str | None
    ) -> bool:
        with self._state.open():
            job, held_by = self._state.jobs.get(name, (None, None))
            if job is None or held_by != holder:
                return False
            self._state.jobs[name] = changed(job), then
            return True

    def look(self, outbox: int, *, now: datetime, keep: int) -> list[int]:  # noqa: ARG002 - a file keeps when
        """See `JobTable.look`."""
        with self._state.open():
            self._state.looks = [*self._state.looks, outbox][-keep:]
            return list(self._state.looks)

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self) -> list[JobState]:
        """See `JobTable.list`."""
        with self._state.open():
            return [job for _, (job, _) in sorted(self._state.jobs.items())]
