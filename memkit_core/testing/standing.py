"""Looking at everybody's memories, archiving and deleting what nobody wants."""

from __future__ import annotations

import dataclasses

from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    DeleteReceipt,
    RecordPatch,
    RecordType,
    Role,
    Status,
    Target,
)
from memkit_core.ports import Access, ListQuery, RecordStore, Standing
from memkit_core.scope import Scope
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
from memkit_core.times import to_ms


def _seen(store: RecordStore, status: Status = Status.ACTIVE) -> dict[str, Standing]:
    return {one.id: one for one in store.records.standing(status, after=0, limit=99, now=NOW)}


class StandingContract(ContractGuard):
    """What forgetting asks of a store."""

    def test_everybodys_memories_are_looked_at(self, store: RecordStore) -> None:
        """Visible, unpinned memories of all scopes and of one status, in pages; no turns, no documents."""
        store.records.put(ALICE, [
            record(ALICE, "a", importance=0.3),
            record(ALICE, "pinned", pinned=True),
            record(ALICE, "expired", expires_at=NOW),
            record(ALICE, "archived", status=Status.ARCHIVED),
            record(ALICE, "document", space="documents:d"),
        ])  # fmt: skip
        store.records.put(BOB, [record(BOB, "b")])
        append(store, TALK, [message("m")])
        store.records.touch({record(BOB, "b").point_id: Access(2, later(hours=1))})
        first, second = store.records.standing(Status.ACTIVE, after=0, limit=9, now=NOW)
        assert store.records.standing(Status.ACTIVE, after=0, limit=1, now=NOW) == [first]
        assert store.records.standing(Status.ACTIVE, after=first.row, limit=9, now=NOW) == [second]
        assert store.records.standing(Status.ACTIVE, after=second.row, limit=9, now=NOW) == []
        at = to_ms(NOW)
        assert first[1:] == (ALICE, "a", 1, 0.3, at, at, None, 0)
        assert second[1:] == (BOB, "b", 1, 0.5, at, at, to_ms(later(hours=1)), 2)
        assert set(_seen(store, Status.ARCHIVED)) == {"archived"}

    def test_archiving_many_is_archiving_each(self, store: RecordStore) -> None:
        """Status, version, updated_at, history and outbox tell it; nothing else changes, in no other row."""
        (one,) = store.records.put(ALICE, [record(ALICE, "a", "tea", tags=("t",), metadata={"n": 1})])
        (other,) = store.records.put(BOB, [record(BOB, "b", "tea")])
        embed_all(store)
        confirm_all(store)
        seen = _seen(store)["a"]
        assert store.records.archive_standing([seen], now=later(days=1)) == [seen]
        (now,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        assert now == dataclasses.replace(one, status=Status.ARCHIVED, version=2, updated_at=later(days=1))
        made, told = store.records.history(ALICE, "a", now=NOW)
        assert (made.kind, told.kind, told.version) == (ChangeKind.CREATED, ChangeKind.ARCHIVED, 2)
        assert (told.at, told.before, told.dropped, told.others) == (
            later(days=1),
            {"status": "active"},
            {},
            (),
        )
        (entry,) = due(store)
        assert entry.record == now
        assert entry.vector is not None
        assert store.records.get(BOB, MEMORIES, ["b"], now=NOW) == [other]
        assert len(store.records.list(ALICE, ListQuery(), now=NOW)) == 0
        assert store.verify() == []
        assert store.records.archive_standing([seen], now=later(days=2)) == []

    def test_an_archived_row_is_told_to_copies(self, store: RecordStore) -> None:
        """A reader that keeps a copy of the partition hears of it."""
        target = Target(scope=ALICE)
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        first = store.partitions.changes(target, after=None, most=99, terms=())
        assert first is not None
        store.records.archive_standing([_seen(store)["a"]], now=later(days=1))
        then = store.partitions.changes(target, after=first.mark, most=99, terms=())
        assert then is not None
        assert then.rows is not None
        assert [row.status for row in then.rows] == ["archived"]

    def test_what_somebody_touched_stays(self, store: RecordStore) -> None:
        """What was recalled, changed, pinned or deleted since it was seen is not archived; all else is."""
        names = ["recalled", "changed", "pinned", "deleted", "still"]
        store.records.put(ALICE, [record(ALICE, name) for name in names])
        seen = list(_seen(store).values())
        store.records.touch({record(ALICE, "recalled").point_id: Access(1, NOW)})
        store.records.change(ALICE, MEMORIES, "changed", RecordPatch(importance=0.9), now=NOW)
        store.records.change(ALICE, MEMORIES, "pinned", RecordPatch(pinned=True), now=NOW)
        store.records.delete(ALICE, MEMORIES, ["deleted"])
        archived = store.records.archive_standing(seen, now=later(days=1))
        assert [one.id for one in archived] == ["still"]
        listed = store.records.list(ALICE, ListQuery(), now=NOW)
        assert {one.id for one in listed} == {"recalled", "changed", "pinned"}

    def test_only_what_is_archived_is_deleted(self, store: RecordStore) -> None:
        """With all that hangs on it, and with its scope; what was restored since it was seen stays."""
        store.records.put(ALICE, [record(ALICE, name, "tea") for name in ("gone", "restored", "active")])
        store.records.put(BOB, [record(BOB, "b")])
        embed_all(store)
        everyone = [one for one in _seen(store).values() if one.id != "active"]
        store.records.archive_standing(everyone, now=later(days=1))
        seen = list(_seen(store, Status.ARCHIVED).values())
        active = _seen(store)["active"]
        store.records.put(ALICE, [record(ALICE, "restored", "tea")])
        deleted, receipt = store.records.delete_standing([*seen, active])
        assert {one.id for one in deleted} == {"gone", "b"}
        assert stored_kinds(receipt) == DeleteReceipt(records=2, vectors=2, history=2)
        everything = ListQuery(statuses=tuple(Status))
        assert {one.id for one in store.records.list(ALICE, everything, now=NOW)} == {"restored", "active"}
        assert len(store.records.list(BOB, everything, now=NOW)) == 0
        assert found_by_words(store, Target(scope=ALICE), "tea") == {"restored", "active"}
        assert store.records.delete_standing(seen) == ([], DeleteReceipt())
        assert store.verify() == []

    def test_records_are_counted_by_kind(self, store: RecordStore) -> None:
        """Records of all scopes by space, status and type; sessions and messages, turns or not."""
        assert list(store.records.counts()) == []
        assert store.log.counts() == (0, 0)
        store.records.put(ALICE, [
            record(ALICE, "a"),
            record(ALICE, "skill", type=RecordType.SKILL),
            record(ALICE, "document", space="documents:d"),
        ])  # fmt: skip
        store.records.put(BOB, [record(BOB, "b", expires_at=NOW), record(BOB, "c", status=Status.ARCHIVED)])
        append(store, TALK, [message("m"), message("t", role=Role.TOOL)])
        assert sorted(store.records.counts()) == [
            ("documents:d", "active", "fact", 1),
            ("memories", "active", "fact", 2),
            ("memories", "active", "skill", 1),
            ("memories", "archived", "fact", 1),
            ("messages", "active", "event", 1),
        ]
        assert store.log.counts() == (1, 2)

    def test_nothing_to_forget(self, store: RecordStore) -> None:
        """An empty list changes nothing."""
        assert store.records.archive_standing([], now=NOW) == []
        assert store.records.delete_standing([]) == ([], DeleteReceipt())
        nobody = Standing(7, Scope.user("nobody"), "x", 1, 0.5, 0, 0, None, 0)
        assert store.records.archive_standing([nobody], now=NOW) == []
