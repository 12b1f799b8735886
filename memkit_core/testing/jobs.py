"""Periodic work: due times and leases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from memkit_core.errors import ClosedError
from memkit_core.ports import JobState, RecordStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import NOW, later


def _claim(
    store: RecordStore,
    holder: str,
    *,
    now: datetime = NOW,
    first: datetime = NOW,
    latest: datetime | None = None,
    until: datetime | None = None,
) -> bool:
    return store.jobs.claim(
        "job",
        holder=holder,
        first=first,
        latest=latest or later(days=9),
        now=now,
        until=until or later(minutes=5),
    )


class JobsContract(ContractGuard):
    """What a store keeps of periodic work."""

    def test_one_of_many_takes_a_job(self, store: RecordStore) -> None:
        """A job that is due is taken once, whoever asks at the same time, and is free again when it is done."""
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(lambda number: _claim(store, f"h{number}"), range(8)))
        assert sum(taken) == 1
        holder = f"h{taken.index(True)}"
        (job,) = store.jobs.list()
        assert job == JobState(name="job", due_at=NOW, leased_until=later(minutes=5))
        assert store.jobs.finish("job", holder=holder, now=later(seconds=1), due=later(hours=1), error=None)
        (job,) = store.jobs.list()
        assert job == JobState(name="job", due_at=later(hours=1), last_run_at=later(seconds=1))
        assert not _claim(store, "early", now=later(minutes=59))
        assert _claim(store, "next", now=later(hours=1), until=later(hours=2))

    def test_a_new_job_is_due_when_it_says(self, store: RecordStore) -> None:
        """It is noted, not taken, before that."""
        assert not _claim(store, "a", first=later(hours=3))
        assert [job.due_at for job in store.jobs.list()] == [later(hours=3)]
        assert not _claim(store, "a", first=NOW, now=later(hours=2))
        assert _claim(store, "a", now=later(hours=3), until=later(hours=4))

    def test_a_lease_ends(self, store: RecordStore) -> None:
        """Who died keeps the others away until then; who comes back too late has lost the job."""
        assert _claim(store, "dead")
        assert not _claim(store, "next", now=later(minutes=4), until=later(minutes=9))
        assert _claim(store, "next", now=later(minutes=5), until=later(minutes=10))
        assert not store.jobs.renew("job", holder="dead", until=later(hours=9))
        assert not store.jobs.finish("job", holder="dead", now=NOW, due=later(hours=9), error=None)
        assert [job.leased_until for job in store.jobs.list()] == [later(minutes=10)]

    def test_a_lease_is_renewed(self, store: RecordStore) -> None:
        """Who takes long says so."""
        assert _claim(store, "slow")
        assert store.jobs.renew("job", holder="slow", until=later(minutes=9))
        assert not _claim(store, "next", now=later(minutes=6), until=later(minutes=11))
        assert not store.jobs.renew("unknown", holder="slow", until=later(minutes=9))

    def test_a_clock_that_is_set_back(self, store: RecordStore) -> None:
        """Neither a due time nor a lease of a later clock keeps a job from ever being done again."""
        assert _claim(store, "a", now=later(days=99), until=later(days=99, minutes=5))
        assert _claim(store, "b")
        store.jobs.finish("job", holder="b", now=NOW, due=later(days=99), error=None)
        assert not _claim(store, "b", latest=later(hours=1))
        assert [job.due_at for job in store.jobs.list()] == [later(hours=1)]

    def test_leases_of_other_lengths(self, store: RecordStore) -> None:
        """A process that plans shorter leases takes no longer one away."""
        assert _claim(store, "long", until=later(hours=23))
        assert not _claim(store, "short", until=later(minutes=1))

    def test_an_error_is_kept_until_the_next_run(self, store: RecordStore) -> None:
        """The state tells how the last run ended; jobs are listed by name."""
        for name in ("z", "job"):
            store.jobs.claim(name, holder="h", first=NOW, latest=NOW, now=NOW, until=later(minutes=5))
            store.jobs.finish(name, holder="h", now=NOW, due=NOW, error=f"{name} failed")
        assert [(job.name, job.last_error) for job in store.jobs.list()] == [
            ("job", "job failed"),
            ("z", "z failed"),
        ]
        assert _claim(store, "h")
        store.jobs.finish("job", holder="h", now=NOW, due=NOW, error=None)
        assert store.jobs.list()[0].last_error is None

    def test_the_last_looks_at_the_outbox(self, store: RecordStore) -> None:
        """As many as are asked for, oldest first."""
        assert store.jobs.look(5, now=NOW, keep=3) == [5]
        looks = [store.jobs.look(length, now=later(hours=length), keep=3) for length in (7, 6, 9)]
        assert looks == [[5, 7], [5, 7, 6], [7, 6, 9]]

    def test_closed(self, store: RecordStore) -> None:
        """A closed store does no work."""
        store.close()
        with pytest.raises(ClosedError):
            _claim(store, "a")
