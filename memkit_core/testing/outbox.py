"""`Outbox`: no change is forgotten, and the newest of a point is the one that counts."""

from __future__ import annotations

from memkit_core.models import MEMORIES, Target
from memkit_core.ports import RecordStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    due,
    embed_all,
    later,
    message,
    record,
    turns,
)

_MINE = Target(scope=ALICE)


class OutboxContract(ContractGuard):
    """The changes that the vector index has not confirmed."""

    def test_every_change_has_an_entry(self, store: RecordStore) -> None:
        """Writing, replacing, appending and deleting each leave one entry for the point, oldest first."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        append(store, TALK, [message("t")])
        store.records.delete(ALICE, MEMORIES, ["a"])
        entries = due(store)
        assert [entry.record.id if entry.record else None for entry in entries] == ["b", "t", None]
        assert entries[-1].point_id == record(ALICE, "a").point_id
        assert [entry.number for entry in entries] == sorted(entry.number for entry in entries)

    def test_a_newer_change_replaces_the_older(self, store: RecordStore) -> None:
        """A point has one entry, with a new and higher number and no failures, after each change."""
        store.records.put(ALICE, [record(ALICE, "a", "one")])
        (old,) = due(store)
        store.outbox.mark_failed([old.number], "down", retry_at=later(days=1))
        store.records.put(ALICE, [record(ALICE, "a", "two")])
        (new,) = store.outbox.due(now=NOW, limit=10)
        assert new.number > old.number
        assert new.attempts == 0
        assert new.record is not None
        assert new.record.content == "two"

    def test_confirming_an_old_number_keeps_the_newer_one(self, store: RecordStore) -> None:
        """Confirming a change that was overtaken removes nothing."""
        store.records.put(ALICE, [record(ALICE, "a", "one")])
        (old,) = due(store)
        store.records.put(ALICE, [record(ALICE, "a", "two")])
        (new,) = due(store)
        store.outbox.mark_synced([old.number])
        assert due(store) == [new]
        store.outbox.mark_synced([new.number])
        assert due(store) == []
        assert store.outbox.synced_through() == new.number

    def test_a_deleted_point_that_comes_back_is_a_newer_change(self, store: RecordStore) -> None:
        """Confirming a delete does not hide the record that was added again after it."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.records.delete(ALICE, MEMORIES, ["a"])
        (gone,) = due(store)
        store.records.put(ALICE, [record(ALICE, "a")])
        store.outbox.mark_synced([gone.number])
        (entry,) = due(store)
        assert entry.record is not None

    def test_numbers_are_never_used_again(self, store: RecordStore) -> None:
        """After everything was confirmed, the next change has a higher number still."""
        store.records.put(ALICE, [record(ALICE, "a")])
        (first,) = due(store)
        store.outbox.mark_synced([first.number])
        store.records.put(ALICE, [record(ALICE, "a")])
        (second,) = due(store)
        assert second.number > first.number
        store.outbox.mark_synced([])
        store.outbox.mark_synced([first.number])
        assert due(store) == [second]
        assert store.outbox.synced_through() == first.number

    def test_due_narrows(self, store: RecordStore) -> None:
        """`due` leaves out the excluded numbers, takes only the given points, and cuts to the limit."""
        store.records.put(ALICE, [record(ALICE, i) for i in "abcd"])
        a, b, c, d = due(store)
        points = [a.point_id, c.point_id, record(BOB, "x").point_id]
        assert store.outbox.due(now=NOW, limit=2) == [a, b]
        assert store.outbox.due(now=NOW, limit=2, exclude=[a.number, c.number]) == [b, d]
        assert store.outbox.due(now=NOW, limit=9, points=points) == [a, c]
        assert store.outbox.due(now=NOW, limit=9, points=points, exclude=[a.number]) == [c]
        assert store.outbox.due(now=NOW, limit=9, points=[]) == []
        assert store.outbox.due(now=NOW, limit=9, exclude=range(10_000)) == []

    def test_a_failed_entry_waits_and_blocks_no_other(self, store: RecordStore) -> None:
        """A failure counts a try, keeps its error, and waits until its time; the others stay due."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        a, b = due(store)
        store.outbox.mark_failed([a.number], "first", retry_at=later(minutes=1))
        assert store.outbox.due(now=NOW, limit=9) == [b]
        assert store.outbox.due(now=later(seconds=59), limit=9) == [b]
        again = store.outbox.due(now=later(minutes=1), limit=9)
        assert [(one.point_id, one.attempts) for one in again] == [(a.point_id, 1), (b.point_id, 0)]
        store.outbox.mark_failed([a.number], "second", retry_at=later(minutes=2))
        state = store.outbox.state(max_attempts=2)
        assert (state.length, state.failed, state.last_error) == (2, 1, "second")
        assert store.outbox.state(max_attempts=3).failed == 0

    def test_retry_makes_all_due_at_once(self, store: RecordStore) -> None:
        """`retry` makes waiting entries due at once, with all their tries before them again."""
        store.records.put(ALICE, [record(ALICE, "a")])
        (a,) = due(store)
        store.outbox.mark_failed([a.number], "down", retry_at=later(days=9000))
        store.outbox.retry()
        assert store.outbox.due(now=NOW, limit=9) == [a]
        assert store.outbox.state(max_attempts=1).failed == 0

    def test_an_empty_outbox(self, store: RecordStore) -> None:
        """An outbox that never held anything is empty in every respect."""
        state = store.outbox.state(max_attempts=5)
        assert (state.length, state.oldest, state.failed, state.last_error) == (0, None, 0, None)
        assert store.outbox.synced_through() == 0
        assert due(store) == []

    def test_oldest_is_told(self, store: RecordStore) -> None:
        """The state tells since when the oldest entry waits."""
        store.records.put(ALICE, [record(ALICE, "a")])
        oldest = store.outbox.state(max_attempts=5).oldest
        assert oldest is not None
        store.records.put(ALICE, [record(ALICE, "b")])
        assert store.outbox.state(max_attempts=5).oldest == oldest

    def test_pending_belongs_to_the_target(self, store: RecordStore) -> None:
        """`pending` lists the target's rows that have an entry, and whether each has its vector."""
        store.records.put(ALICE, [record(ALICE, "a")])
        embed_all(store)
        store.records.put(ALICE, [record(ALICE, "b"), record(ALICE, "n", space="store:n")])
        store.records.put(BOB, [record(BOB, "a")])
        append(store, TALK, [message("1")])
        append(store, type(TALK).session("s2", user="alice"), [message("2")])
        found = {one.point_id: one.embedded for one in store.outbox.pending(_MINE)}
        assert found == {record(ALICE, "a").point_id: True, record(ALICE, "b").point_id: False}
        assert len(store.outbox.pending(turns(ALICE))) == 2
        assert len(store.outbox.pending(turns(TALK))) == 1
        numbers = {one.number for one in store.outbox.pending(turns(TALK))}
        store.outbox.mark_synced(list(numbers))
        assert store.outbox.pending(turns(TALK)) == []
