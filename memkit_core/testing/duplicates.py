"""`RecordTable.put(..., merge=)`: what is said again is one record."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    MemoryRecord,
    Origin,
    RecordChange,
    RecordType,
    Status,
    Target,
)
from memkit_core.ports import ListQuery, RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    confirm_all,
    due,
    embed_all,
    found_by_words,
    later,
    record,
)


def said(store: RecordStore, *records: MemoryRecord) -> list[MemoryRecord]:
    """Write records of one scope that each may become one with what is there."""
    return store.records.put(records[0].scope, records, merge={one.id for one in records})


def listed(store: RecordStore, scope: Scope = ALICE, space: str = MEMORIES) -> Sequence[MemoryRecord]:
    """All records of a scope, expired ones of the past included, oldest first."""
    query = ListQuery(space=space, statuses=tuple(Status), limit=9999)
    return store.records.list(scope, query, now=later(days=-9999)).records[::-1]


class DuplicatesContract(ContractGuard):
    """Exact duplicates of a memory become one with it."""

    @pytest.mark.parametrize("again", ["I like tea", "  i LIKE\n tea ", "“I like tea.”", "\uff29 like tea!"])
    def test_the_same_text_is_one_record(self, store: RecordStore, again: str) -> None:
        """The first record stays; mentions and version count up and updated_at moves."""
        (first,) = said(store, record(ALICE, "a", "I like tea", metadata={"n": 1}, source="crm"))
        (second,) = said(store, record(ALICE, "b", again, created_at=later(days=1), updated_at=later(days=1)))
        assert second == dataclasses.replace(first, updated_at=later(days=1), version=2, mentions=2)
        assert listed(store) == (second,)
        assert found_by_words(store, Target(scope=ALICE), "tea") == {"a"}

    @pytest.mark.parametrize(
        ("one", "other"),
        [("C++", "C"), ("-5", "5"), ("3.14", "314"), ("not tea", "tea"), (".5 mg", "5 mg"), ("10⁶", "106")],
    )
    def test_another_text_is_another_record(self, store: RecordStore, one: str, other: str) -> None:
        """What differs in more than case, width, space and marks at the ends stays apart."""
        said(store, record(ALICE, "a", one))
        said(store, record(ALICE, "b", other))
        assert [(found.content, found.mentions) for found in listed(store)] == [(one, 1), (other, 1)]

    def test_what_joins_the_first(self, store: RecordStore) -> None:
        """Tags are united, metadata keys added and none overwritten; all else is the first's own."""
        (first,) = said(store, record(ALICE, "a", tags=("x", "y"), metadata={"who": "ann", "n": [1]}))
        new = record(ALICE, "b", tags=("z", "y"), metadata={"who": "bob", "k": 2}, source="s", confidence=0.1)
        (both,) = said(store, new)
        assert both == dataclasses.replace(
            first,
            tags=("x", "y", "z"),
            metadata={"who": "ann", "n": [1], "k": 2},
            version=2,
            mentions=2,
        )
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [both]
        for tag in ("x", "y", "z"):
            assert [one.id for one in store.records.list(ALICE, ListQuery(tags=(tag,)), now=NOW)] == ["a"]

    def test_the_stronger_of_two_holds(self, store: RecordStore) -> None:
        """The higher importance, the later expiry, none being the latest, and either's pin hold."""
        said(store, record(ALICE, "a", importance=0.5, expires_at=later(days=1)))
        (both,) = said(store, record(ALICE, "b", importance=0.25, expires_at=later(days=2), pinned=True))
        assert (both.importance, both.expires_at, both.pinned) == (0.5, later(days=2), True)
        (both,) = said(store, record(ALICE, "c", importance=0.75, expires_at=later(days=1)))
        assert (both.importance, both.expires_at, both.pinned) == (0.75, later(days=2), True)
        (both,) = said(store, record(ALICE, "d"))
        assert (both.expires_at, both.mentions) == (None, 4)
        assert said(store, record(ALICE, "e", expires_at=later(days=3)))[0].expires_at is None

    def test_what_is_no_duplicate(self, store: RecordStore) -> None:
        """Another scope, type, key or space, and an archived or expired record, is not merged with."""
        store.records.put(
            ALICE,
            [
                record(ALICE, "preference", type=RecordType.PREFERENCE),
                record(ALICE, "archived", status=Status.ARCHIVED),
                record(ALICE, "expired", expires_at=NOW),
                record(ALICE, "keyed", key="theme"),
                record(ALICE, "document", space="documents:d"),
            ],
        )
        store.records.put(BOB, [record(BOB, "other")])
        (stored,) = said(store, record(ALICE, "new"))
        assert (stored.id, stored.version, stored.mentions) == ("new", 1, 1)
        assert {one.mentions for one in listed(store)} == {1}

    @pytest.mark.parametrize("name", ["occurred_at", "valid_from", "valid_until"])
    def test_another_time_is_another_record(self, store: RecordStore, name: str) -> None:
        """The same text at two times, or at a known and an unknown one, is two records; at one time, one."""
        for record_id, moment in (("a", None), ("b", NOW), ("c", later(days=1))):
            fields: dict[str, Any] = {name: moment}
            said(store, record(ALICE, record_id, **fields))
        assert [(one.id, getattr(one, name)) for one in listed(store)] == [
            ("a", None),
            ("b", NOW),
            ("c", later(days=1)),
        ]
        assert said(store, record(ALICE, "d"))[0].id == "a"
        fields = {name: later(days=1)}
        assert said(store, record(ALICE, "e", **fields))[0].id == "c"

    @pytest.mark.parametrize("space", ["documents:d", "store:s"])
    def test_other_spaces_are_never_merged(self, store: RecordStore, space: str) -> None:
        """Documents and store items that say the same stay apart, whatever the call allows."""
        said(store, record(ALICE, "a", space=space), record(ALICE, "b", space=space))
        assert [one.id for one in listed(store, space=space)] == ["a", "b"]

    def test_a_chosen_id_is_never_merged(self, store: RecordStore) -> None:
        """Without leave to merge, a record of the same text is a record of its own."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        assert [one.id for one in listed(store)] == ["a", "b"]
        assert said(store, record(ALICE, "c"))[0].id == "a"

    def test_duplicates_inside_one_call(self, store: RecordStore) -> None:
        """Within one call too: each place of the answer holds the record as it ended."""
        stored = store.records.put(
            ALICE,
            [
                record(ALICE, "1", "tea", tags=("x",)),
                record(ALICE, "2", "coffee"),
                record(ALICE, "3", "Tea.", tags=("y",)),
                record(ALICE, "4", "tea", tags=("x", "z")),
            ],
            merge={"1", "2", "3", "4"},
        )
        assert [one.id for one in stored] == ["1", "2", "1", "1"]
        assert stored[0] == stored[2] == stored[3] == listed(store)[0]
        assert (stored[0].mentions, stored[0].version, stored[0].tags) == (3, 3, ("x", "y", "z"))
        assert len(listed(store)) == 2
        assert [entry.point_id for entry in due(store)].count(stored[0].point_id) == 1
        for tag in ("x", "y", "z"):
            assert [one.id for one in store.records.list(ALICE, ListQuery(tags=(tag,)), now=NOW)] == ["1"]

    def test_merged_and_then_replaced_in_one_call(self, store: RecordStore) -> None:
        """A record that one part of a call merges and the next replaces ends as the replacement."""
        said(store, record(ALICE, "a", "tea", tags=("old",)))
        batch = [record(ALICE, "b", "tea", tags=("new",)), record(ALICE, "a", "coffee", tags=("last",))]
        stored = store.records.put(ALICE, batch, merge={"b"})
        assert [(one.id, one.content, one.version) for one in stored] == [("a", "coffee", 3)] * 2
        for tag, found in (("old", 0), ("new", 0), ("last", 1)):
            assert len(store.records.list(ALICE, ListQuery(tags=(tag,)), now=NOW)) == found
        assert found_by_words(store, Target(scope=ALICE), "tea") == set()
        assert said(store, record(ALICE, "c", "tea"))[0].id == "c"

    def test_the_index_hears_of_a_merge_it_knows(self, store: RecordStore) -> None:
        """A merge that changes nothing an index knows leaves vector and outbox alone; new tags do not."""
        said(store, record(ALICE, "a", tags=("x",)))
        embed_all(store)
        confirm_all(store)
        said(store, record(ALICE, "b", metadata={"k": 1}, importance=1.0))
        assert due(store) == []
        (both,) = said(store, record(ALICE, "c", tags=("y",)))
        (entry,) = due(store)
        assert entry.record == both
        assert entry.vector is not None

    def test_a_merge_is_in_the_history(self, store: RecordStore) -> None:
        """The history tells each merge with what was before it."""
        said(store, record(ALICE, "a", tags=("x",)))
        said(store, record(ALICE, "b", tags=("y",), updated_at=later(hours=1)))
        made, change = store.records.history(ALICE, "a", now=NOW)
        assert made == RecordChange(version=1, kind=ChangeKind.CREATED, at=NOW)
        assert change == RecordChange(
            version=2,
            kind=ChangeKind.MERGED,
            at=later(hours=1),
            before={"tags": ["x"], "mentions": 1},
        )

    def test_what_a_merge_drops_is_in_the_history(self, store: RecordStore) -> None:
        """What the second gave and the record did not take stands beside the merge, and nothing else."""
        first = record(
            ALICE, "a", "I like tea", metadata={"who": "ann", "n": 1}, source="chat", importance=0.75
        )
        again = record(
            ALICE, "b", "I like TEA", metadata={"who": "bob", "n": 1, "k": 2}, source="form", confidence=0.5,
            importance=0.25, expires_at=later(days=1), source_message_ids=("m1",), origin=Origin.ASSISTANT,
        )  # fmt: skip
        said(store, first)
        said(store, again)
        said(store, record(ALICE, "c", "I like tea", importance=0.75))
        _, merge, plain = store.records.history(ALICE, "a", now=NOW)
        assert merge.dropped == {
            "content": "I like TEA",
            "metadata": {"who": "bob"},
            "source": "form",
            "confidence": 0.5,
            "importance": 0.25,
            "expires_at": later(days=1).isoformat(),
            "source_message_ids": ["m1"],
            "origin": "assistant",
        }
        assert (plain.kind, plain.dropped) == (ChangeKind.MERGED, {})

    def test_a_deleted_record_is_not_merged_with(self, store: RecordStore) -> None:
        """After a delete, and after a change of text or type, the old text is new again."""
        said(store, record(ALICE, "a"))
        store.records.delete(ALICE, MEMORIES, ["a"])
        assert said(store, record(ALICE, "b"))[0].id == "b"
        store.records.put(ALICE, [record(ALICE, "b", "another text")])
        assert said(store, record(ALICE, "c"))[0].id == "c"
        store.records.put(ALICE, [record(ALICE, "c", type=RecordType.EVENT)])
        assert said(store, record(ALICE, "d"))[0].id == "d"
        assert said(store, record(ALICE, "e", "Another text"))[0].id == "b"

    def test_eight_threads_say_the_same(self, store: RecordStore) -> None:
        """Eight threads that say the same for one user make one record; other users have their own."""

        def say(number: int) -> None:
            own = Scope.user(f"t{number}")
            for i in range(5):
                said(store, record(ALICE, f"{number}.{i}", tags=(f"t{number}",)))
                said(store, record(own, f"own{i}"))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(say, range(8)))
        (one,) = listed(store)
        assert (one.mentions, one.version, len(one.tags)) == (40, 40, 8)
        assert [change.version for change in store.records.history(ALICE, one.id, now=NOW)] == [*range(1, 41)]
        for number in range(8):
            assert [kept.mentions for kept in listed(store, Scope.user(f"t{number}"))] == [5]
