"""The periodic work on a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """When a periodic job was done and is to be done again.

    `leased_until` is None while nobody does it; `last_error` is that of the last run, None when it went well.
    """

    name: str
    due_at: datetime
    last_run_at: datetime | None = None
    last_error: str | None = None
    leased_until: datetime | None = None


LONGEST_LEASE = timedelta(days=1)


class JobTable(Protocol):
    """The periodic jobs of a store, so that one process at a time does each, and a restart goes on."""

    def claim(
        self, name: str, *, holder: str, first: datetime, latest: datetime, now: datetime, until: datetime
    ) -> bool:
        """Take a job for `holder` until `until` when it is due and nobody has it; whether it was taken.

        One transaction: of any number of threads and processes one takes it. A lease that has ended by
        `now`, or that is to last for more than `LONGEST_LEASE`, holds nobody off: the second is one of a
        clock that was set back.

        Args:
            name: the job.
            holder: who takes it; another name for each one that might.
            first: when it is due if it was never done.
            latest: when it is due at the latest, as counted from now: what says later is brought
                forward to that, because a clock was set back, or the plan changed.
            now: the moment.
            until: when the lease ends.
        """

    def renew(self, name: str, *, holder: str, until: datetime) -> bool:
        """Have the lease end later; False when `holder` has it no more."""

    def finish(self, name: str, *, holder: str, now: datetime, due: datetime, error: str | None) -> bool:
        """Note that the job was done at `now`, and is due at `due`; False, and nothing, when somebody else took it."""

    def look(self, outbox: int, *, now: datetime, keep: int) -> list[int]:
        """Note how long the outbox is, and return the last `keep` such looks, oldest first."""

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self) -> list[JobState]:
        """The jobs that were ever claimed, by name."""
