"""What holds in place of what, rules in one transaction, sweeping and purging."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit_core.errors import ConflictError
from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    RecordPatch,
    RecordType,
    Status,
    Target,
)
from memkit_core.ports import Add, ListQuery, MemoryView, RecordStore, Remove, Rewrite, Step
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    confirm_all,
    due,
    embed_all,
    found_by_words,
    later,
    message,
    record,
    stored_kinds,
)


def valued(record_id: str, content: str = "dark", *, hours: float = 0, **fields: object) -> MemoryRecord:
    """A value of the key `theme`, written so many hours after `NOW`."""
    at = later(hours=hours)
    made: dict[str, object] = {"key": "theme", "created_at": at, "updated_at": at}
    return record(ALICE, record_id, content, **(made | fields))


class SuccessionContract(ContractGuard):
    """At most one memory holds for a key of a scope and type."""

    @pytest.mark.parametrize("merge", [True, False])
    def test_a_key_has_one_value(self, store: RecordStore, merge: bool) -> None:  # noqa: FBT001 - a parameter
        """A new value supersedes the one before, which keeps when it held and what came after."""
        (old,) = store.records.put(ALICE, [valued("a")])
        confirm_all(store)
        given = valued("b", "light", hours=1)
        (new,) = store.records.put(ALICE, [given], merge={"b"} if merge else ())
        assert new == dataclasses.replace(given, supersedes="a")
        gone = dataclasses.replace(
            old,
            status=Status.SUPERSEDED,
            superseded_by="b",
            valid_until=later(hours=1),
            updated_at=later(hours=1),
            version=2,
        )
        assert store.records.get(ALICE, MEMORIES, ["a", "b"], now=NOW) == [gone, new]
        assert list(store.records.list(ALICE, ListQuery(), now=NOW)) == [new]
        change = store.records.history(ALICE, "a", now=NOW)[-1]
        assert (change.version, change.kind, change.at) == (2, ChangeKind.SUPERSEDED, later(hours=1))
        assert change.before == {"status": "active", "superseded_by": None, "valid_until": None}
        assert [entry.record for entry in due(store)] == [gone, new]

    def test_what_it_says_again_is_merged(self, store: RecordStore) -> None:
        """The value that a key has already is a duplicate, not a successor."""
        store.records.put(ALICE, [valued("a", "Dark.")])
        (again,) = store.records.put(ALICE, [valued("b", "dark", hours=1)], merge={"b"})
        assert (again.id, again.mentions, again.status) == ("a", 2, Status.ACTIVE)

    def test_valid_from_moves_the_seam(self, store: RecordStore) -> None:
        """The old value held until the new one does; never a time that ends before it begins."""
        store.records.put(ALICE, [valued("a")])
        store.records.put(ALICE, [valued("b", hours=2, valid_from=later(hours=1))])
        store.records.put(ALICE, [valued("c", hours=3, valid_from=later(hours=-9))])
        found = store.records.get(ALICE, MEMORIES, ["a", "b", "c"], now=NOW)
        assert [one.valid_until for one in found] == [later(hours=1), later(hours=1), None]

    def test_values_of_one_batch_follow_each_other(self, store: RecordStore) -> None:
        """Several values in one call are as if written one after the other."""
        batch = [valued(name, name) for name in "abc"]
        written = store.records.put(ALICE, batch, merge={"a", "b", "c"})
        assert [(one.id, one.status, one.supersedes, one.superseded_by) for one in written] == [
            ("a", Status.SUPERSEDED, None, "b"),
            ("b", Status.SUPERSEDED, "a", "c"),
            ("c", Status.ACTIVE, "b", None),
        ]
        assert store.records.get(ALICE, MEMORIES, ["a", "b", "c"], now=NOW) == written

    def test_other_slots_are_other_slots(self, store: RecordStore) -> None:
        """Another key, type, scope or space, or no key: nothing is superseded."""
        apart = [
            valued("a"),
            valued("b", key="font"),
            valued("c", type=RecordType.PREFERENCE),
            valued("d", key=None),
            valued("e", space="store:x"),
            valued("f", space="store:x"),
        ]
        assert store.records.put(ALICE, apart) == apart
        elsewhere = record(BOB, "a", key="theme")
        assert store.records.put(BOB, [elsewhere]) == [elsewhere]
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == apart[:1]

    @pytest.mark.parametrize(
        "fields",
        [{"status": Status.PENDING}, {"status": Status.ARCHIVED}, {"expires_at": later(hours=1)}],
        ids=str,
    )
    def test_only_what_holds_is_superseded(self, store: RecordStore, fields: dict[str, object]) -> None:
        """A pending, archived or expired value does not hold, and takes nothing's place."""
        other = dataclasses.replace(valued("a"), **fields)  # type: ignore[arg-type]  # any field of the record
        store.records.put(ALICE, [other])
        (new,) = store.records.put(ALICE, [valued("b", hours=1)])
        assert new.supersedes is None
        (again,) = store.records.put(ALICE, [dataclasses.replace(other, id="c", updated_at=later(hours=2))])
        (held,) = store.records.get(ALICE, MEMORIES, ["b"], now=NOW)
        assert held.status is (Status.SUPERSEDED if again.status is Status.ACTIVE else Status.ACTIVE)
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [other]

    def test_a_replaced_record_takes_the_place_too(self, store: RecordStore) -> None:
        """A known id that gets the key supersedes its value, from when it is written again."""
        store.records.put(ALICE, [valued("x", key=None), valued("a", hours=1)])
        (new,) = store.records.put(ALICE, [valued("x", "light", hours=2)])
        assert (new.version, new.supersedes, new.valid_from) == (2, "a", later(hours=2))
        (old,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        assert (old.status, old.valid_until) == (Status.SUPERSEDED, later(hours=2))

    def test_a_change_makes_no_second_value(self, store: RecordStore) -> None:
        """A type that another value of the key has is refused, and nothing changes."""
        one, two = valued("a"), valued("b", type=RecordType.PREFERENCE)
        store.records.put(ALICE, [one, two])
        patch = RecordPatch(type=RecordType.PREFERENCE, content="x")
        with pytest.raises(ConflictError, match="'b' holds for key 'theme'"):
            store.records.change(ALICE, MEMORIES, "a", patch, now=NOW)
        assert store.records.get(ALICE, MEMORIES, ["a", "b"], now=NOW) == [one, two]
        moved = store.records.change(ALICE, MEMORIES, "a", RecordPatch(type=RecordType.EVENT), now=NOW)
        assert moved.type is RecordType.EVENT

    def test_eight_threads_leave_one_value(self, store: RecordStore) -> None:
        """However many write at once: one value holds, and all the others follow each other in a chain."""
        numbers = itertools.count()

        def write(_: int) -> None:
            for _ in range(5):
                name = str(next(numbers))
                store.records.put(ALICE, [valued(name, f"colour {name}")], merge={name})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        everything = store.records.list(ALICE, ListQuery(statuses=tuple(Status)), now=NOW)
        by_id = {one.id: one for one in everything}
        (current,) = [one for one in everything if one.status is Status.ACTIVE]
        chain = [current]
        while chain[-1].supersedes is not None:
            before = by_id[chain[-1].supersedes]
            assert before.superseded_by == chain[-1].id
            chain.append(before)
        assert len(chain) == len(everything) == 40


class DecidingContract(ContractGuard):
    """A rule looks and writes in one transaction."""

    def test_steps_are_written_in_order(self, store: RecordStore) -> None:
        """What a rule saw, added, rewrote and removed; the result is what stands at the end."""
        one, two = store.records.put(ALICE, [record(ALICE, "a", "tea"), record(ALICE, "b", "coffee")])
        embed_all(store)
        confirm_all(store)
        seen: list[MemoryRecord | None] = []

        def rule(view: MemoryView) -> Sequence[Step]:
            seen.extend(view.get(ALICE, name) for name in ("a", "b", "c"))
            archived = dataclasses.replace(one, status=Status.ARCHIVED, version=2)
            return [
                Rewrite(one, archived, ChangeKind.ARCHIVED),
                Add(record(BOB, "c", "cocoa", tags=("t",))),
                Remove(two),
                Add(valued("d")),
                Add(valued("e", hours=1)),
                Add(record(BOB, "f", "Cocoa!", tags=("u",)), merge=True),
            ]

        archived, merged, d, e, same = store.records.decide(rule)
        assert seen == [one, two, None]
        assert (archived.status, d.superseded_by, e.supersedes) == (Status.ARCHIVED, "e", "d")
        assert merged == same
        assert (same.id, same.mentions, same.tags) == ("c", 2, ("t", "u"))
        assert store.records.get(ALICE, MEMORIES, ["a", "b", "d", "e"], now=NOW) == [archived, d, e]
        assert store.records.get(BOB, MEMORIES, ["c"], now=NOW) == [same]
        assert store.records.history(ALICE, "a", now=NOW)[-1].before == {"status": "active"}
        assert found_by_words(store, Target(scope=ALICE), "coffee") == set()
        assert found_by_words(store, Target(scope=BOB), "cocoa") == {"c"}
        told = {entry.point_id: entry.record for entry in due(store)}
        assert told == {one.point_id: one for one in (archived, same, d, e)} | {two.point_id: None}
        # A change of status keeps the vector.
        assert store.vectors.scan(Target(scope=ALICE), where=None, now=NOW)[0] == [one.point_id]

    def test_a_rule_that_raises_changes_nothing(self, store: RecordStore) -> None:
        """Its error comes out as it is."""
        (one,) = store.records.put(ALICE, [record(ALICE, "a")])

        def rule(view: MemoryView) -> Sequence[Step]:
            assert view.get(ALICE, "a") == one
            raise LookupError(one.id)

        with pytest.raises(LookupError, match="a"):
            store.records.decide(rule)
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [one]

    def test_a_view_tells_what_holds_and_what_changed(self, store: RecordStore) -> None:
        """The current value of a key, expired memories too by id, and the newest change."""
        store.records.put(ALICE, [valued("a"), valued("old", key=None, expires_at=NOW)])
        store.records.change(ALICE, MEMORIES, "a", RecordPatch(content="black"), now=later(hours=1))
        append(store, TALK, [message("m")])

        def rule(view: MemoryView) -> Sequence[Step]:
            held = view.current(valued("x"), now=NOW)
            assert held is not None
            assert held == view.get(ALICE, "a")
            assert held.content == "black"
            assert view.current(held, now=NOW) is None
            for other in (valued("x", key=None), valued("x", key="font"), record(BOB, "x", key="theme")):
                assert view.current(other, now=NOW) is None
            assert view.last_change(held).before == {"content": "dark"}
            expired = view.get(ALICE, "old")
            assert expired is not None
            assert view.last_change(expired).kind is ChangeKind.CREATED
            assert view.get(TALK, "m") is None
            assert view.get(BOB, "a") is None
            return ()

        assert store.records.decide(rule) == []

    def test_no_decision_is_lost(self, store: RecordStore) -> None:
        """Eight threads that each count one up, by what the rule sees, count to the sum."""
        store.records.put(ALICE, [record(ALICE, "a", metadata={"n": 0})])

        def rule(view: MemoryView) -> Sequence[Step]:
            old = view.get(ALICE, "a")
            assert old is not None
            n = old.metadata["n"]
            assert isinstance(n, int)
            new = dataclasses.replace(old, metadata={"n": n + 1}, version=old.version + 1)
            return [Rewrite(old, new, ChangeKind.UPDATED)]

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: store.records.decide(rule), range(80)))
        (found,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        assert (found.metadata, found.version) == ({"n": 80}, 81)


class SweepingContract(ContractGuard):
    """Freeing what has expired, and what was deleted."""

    def test_what_has_expired_is_deleted(self, store: RecordStore) -> None:
        """From the very instant on, of every scope and space, oldest first; pinned and others stay."""
        store.records.put(ALICE, [
            record(ALICE, "now", "tea", expires_at=NOW, tags=("t",)),
            record(ALICE, "soon", expires_at=later(milliseconds=1)),
            record(ALICE, "pinned", expires_at=NOW, pinned=True),
            record(ALICE, "never"),
            record(ALICE, "document", space="documents:d", expires_at=later(days=-1)),
            record(ALICE, "archived", status=Status.ARCHIVED, expires_at=later(days=-3)),
        ])  # fmt: skip
        store.records.put(BOB, [record(BOB, "before", expires_at=later(days=-2))])
        embed_all(store)
        assert store.records.sweep(now=later(days=-4), limit=9) == DeleteReceipt()
        assert stored_kinds(store.records.sweep(now=NOW, limit=1)) == DeleteReceipt(records=1, vectors=1)
        assert stored_kinds(store.records.sweep(now=NOW, limit=1)) == DeleteReceipt(records=1, vectors=1)
        assert store.records.get(BOB, MEMORIES, ["before"], now=later(days=-5)) == []
        assert stored_kinds(store.records.sweep(now=NOW, limit=9)) == DeleteReceipt(records=2, vectors=2)
        assert store.records.sweep(now=NOW, limit=9) == DeleteReceipt()
        # Asked as of a time at which they would all be visible.
        listed = store.records.list(ALICE, ListQuery(statuses=tuple(Status)), now=later(days=-9))
        assert {one.id for one in listed} == {"soon", "pinned", "never"}
        assert found_by_words(store, Target(scope=ALICE), "tea") == set()
        assert sum(entry.record is None for entry in due(store)) == 4

    def test_purging_keeps_all_that_is_there(self, store: RecordStore) -> None:
        """What was not deleted is as it was: records, words, vectors, outbox, log."""
        store.records.put(ALICE, [record(ALICE, "a", "tea"), record(ALICE, "gone", "coffee")])
        append(store, TALK, [message("m")])
        embed_all(store)
        store.records.delete(ALICE, MEMORIES, ["gone"])
        before = store.records.get(ALICE, MEMORIES, ["a"], now=NOW), due(store)[0].number
        store.purge()
        assert (store.records.get(ALICE, MEMORIES, ["a"], now=NOW), due(store)[0].number) == before
        assert found_by_words(store, Target(scope=ALICE), "tea") == {"a"}
        assert len(store.vectors.scan(Target(scope=ALICE), where=None, now=NOW)[0]) == 1
        assert [one.id for one in store.log.read(TALK)] == ["m"]
        assert store.verify() == []
        (new,) = store.records.put(ALICE, [record(ALICE, "b")])
        assert store.records.get(ALICE, MEMORIES, ["b"], now=NOW) == [new]
