"""`RecordTable.change`, `history` and `touch`: what happens to a record after it was written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from memkit_core.errors import ConflictError, RecordNotFoundError
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    RecordChange,
    RecordPatch,
    RecordType,
    Target,
)
from memkit_core.ports import Access, ListQuery, RecordStore
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
    every_field,
    found_by_words,
    later,
    message,
    record,
    stored_kinds,
    turns,
)

_PATCHES: tuple[tuple[RecordPatch, dict[str, JsonValue]], ...] = (
    (RecordPatch(content="green tea"), {"content": "a"}),
    (RecordPatch(type=RecordType.EVENT), {"type": "fact"}),
    (RecordPatch(importance=0.0), {"importance": 0.5}),
    (RecordPatch(tags=("b", "c")), {"tags": ["a"]}),
    (RecordPatch(tags=()), {"tags": ["a"]}),
    (RecordPatch(expires_at=later(days=9)), {"expires_at": NOW.isoformat()}),
    (RecordPatch(expires_at=None), {"expires_at": NOW.isoformat()}),
    (RecordPatch(content="b", importance=1.0), {"content": "a", "importance": 0.5}),
)


class ChangesContract(ContractGuard):
    """Changing one record, its history, and counting accesses."""

    @pytest.mark.parametrize(("patch", "before"), _PATCHES, ids=range(len(_PATCHES)))
    def test_only_what_is_given_changes(
        self, store: RecordStore, patch: RecordPatch, before: dict[str, JsonValue]
    ) -> None:
        """What is given changes, version and updated_at move, all else stays; history tells the rest."""
        (old,) = store.records.put(ALICE, [every_field(ALICE, "a")])
        new = store.records.change(ALICE, MEMORIES, "a", patch, now=later(hours=1))
        given = {name: getattr(patch, name) for name in before}
        assert new == dataclasses.replace(old, **given, version=2, updated_at=later(hours=1))
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [new]
        assert store.records.history(ALICE, "a", now=NOW) == [
            RecordChange(version=1, kind=ChangeKind.CREATED, at=NOW),
            RecordChange(version=2, kind=ChangeKind.UPDATED, at=later(hours=1), before=before),
        ]

    def test_metadata_is_changed_by_key(self, store: RecordStore) -> None:
        """Given keys replace, others stay, a key given as None is removed; 1 and True are not the same."""
        store.records.put(ALICE, [record(ALICE, "a", metadata={"a": 1, "b": {"c": 1, "d": 2}, "e": None})])
        patch = RecordPatch(metadata={"a": True, "b": {"c": 3}, "x": None})
        new = store.records.change(ALICE, MEMORIES, "a", patch, now=NOW)
        assert new.metadata == {"a": True, "b": {"c": 3}, "e": None}
        assert new.metadata["a"] is True
        new = store.records.change(ALICE, MEMORIES, "a", RecordPatch(metadata={"b": None}), now=NOW)
        assert new.metadata == {"a": True, "e": None}
        (_, first, second) = store.records.history(ALICE, "a", now=NOW)
        assert first.before == {"metadata": {"a": 1, "b": {"c": 1, "d": 2}, "e": None}}
        assert second.before == {"metadata": {"a": True, "b": {"c": 3}, "e": None}}
        new = store.records.change(ALICE, MEMORIES, "a", RecordPatch(metadata={"a": 1}), now=NOW)
        assert (new.version, new.metadata["a"]) == (4, 1)

    def test_a_new_text_is_found_and_the_old_is_not(self, store: RecordStore) -> None:
        """Words, tags and vector follow the change in the same moment."""
        store.records.put(ALICE, [record(ALICE, "a", "green tea", tags=("old",))])
        embed_all(store)
        confirm_all(store)
        patch = RecordPatch(content="black coffee", tags=("new",))
        new = store.records.change(ALICE, MEMORIES, "a", patch, now=NOW)
        assert found_by_words(store, Target(scope=ALICE), "tea") == set()
        assert found_by_words(store, Target(scope=ALICE), "coffee") == {"a"}
        assert len(store.records.list(ALICE, ListQuery(tags=("old",)), now=NOW)) == 0
        assert len(store.records.list(ALICE, ListQuery(tags=("new",)), now=NOW)) == 1
        assert store.vectors.scan(Target(scope=ALICE), where=None, now=NOW)[0] == []
        (entry,) = due(store)
        assert (entry.record, entry.vector) == (new, None)

    def test_the_index_hears_of_a_change_it_knows(self, store: RecordStore) -> None:
        """Importance and metadata are nothing to an index; type, tags, expiry and pin are."""
        store.records.put(ALICE, [record(ALICE, "a")])
        embed_all(store)
        confirm_all(store)
        quiet = RecordPatch(importance=1.0, metadata={"k": 1})
        store.records.change(ALICE, MEMORIES, "a", quiet, now=NOW)
        assert due(store) == []
        for patch in (
            RecordPatch(type=RecordType.SKILL),
            RecordPatch(tags=("x",)),
            RecordPatch(expires_at=later(days=1)),
            RecordPatch(pinned=True),
        ):
            new = store.records.change(ALICE, MEMORIES, "a", patch, now=NOW)
            (entry,) = due(store)
            assert entry.record == new
            assert entry.vector is not None
            confirm_all(store)

    def test_what_changes_nothing_writes_nothing(self, store: RecordStore) -> None:
        """When nothing differs the record is returned as it is: no version, no history, no outbox."""
        (old,) = store.records.put(ALICE, [every_field(ALICE, "a")])
        confirm_all(store)
        same = RecordPatch(content=old.content, type=old.type, tags=old.tags, metadata={"unknown": None})
        for patch in (RecordPatch(), same):
            assert store.records.change(ALICE, MEMORIES, "a", patch, now=later(days=1)) == old
        assert due(store) == []
        assert len(store.records.history(ALICE, "a", now=NOW)) == 1

    def test_a_patch_shares_nothing_with_the_caller(self, store: RecordStore) -> None:
        """Changing a patch, a returned record or a returned history changes nothing in the store."""
        free: dict[str, JsonValue] = {"list": [1]}
        store.records.put(ALICE, [record(ALICE, "a", metadata={"list": [0]})])
        new = store.records.change(ALICE, MEMORIES, "a", RecordPatch(metadata=free), now=NOW)
        change = store.records.history(ALICE, "a", now=NOW)[1].before["metadata"]
        assert isinstance(change, dict)
        for one in (free, new.metadata, change):
            inner = one["list"]
            assert isinstance(inner, list)
            inner.append("changed")
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW)[0].metadata == {"list": [1]}
        assert store.records.history(ALICE, "a", now=NOW)[1].before == {"metadata": {"list": [0]}}

    def test_an_unexpected_version_is_refused(self, store: RecordStore) -> None:
        """Another version than the expected one is an error that names both, and nothing changes."""
        store.records.put(ALICE, [record(ALICE, "a")])
        patch = RecordPatch(importance=1.0)
        new = store.records.change(ALICE, MEMORIES, "a", patch, expected_version=1, now=NOW)
        for pointless in (patch, RecordPatch(importance=0.0)):
            with pytest.raises(ConflictError, match=r"version 2\b.*version 1\b"):
                store.records.change(ALICE, MEMORIES, "a", pointless, expected_version=1, now=NOW)
        assert store.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [new]

    def test_what_is_not_there_is_not_found(self, store: RecordStore) -> None:
        """Unknown, expired, deleted, another scope or space, a turn: one and the same error."""
        store.records.put(
            ALICE, [record(ALICE, "gone"), record(ALICE, "old", expires_at=NOW), record(ALICE, "a")]
        )
        store.records.put(ALICE, [record(ALICE, "note", space="store:n")])
        store.records.delete(ALICE, MEMORIES, ["gone"])
        store.records.put(BOB, [record(BOB, "bobs")])
        append(store, TALK, [message("turn")])
        missing = [(ALICE, MEMORIES, i) for i in ("unknown", "old", "gone", "bobs", "note", "turn")]
        told = set()
        for scope, space, name in [*missing, (BOB, MEMORIES, "a"), (TALK, MESSAGES, "turn")]:
            with pytest.raises(RecordNotFoundError) as error:
                store.records.change(scope, space, name, RecordPatch(content="x"), now=NOW)
            told.add(str(error.value).replace(repr(name), "?"))
            with pytest.raises(RecordNotFoundError):
                store.records.change(scope, space, name, RecordPatch(), expected_version=9, now=NOW)
            assert space == MESSAGES or store.records.history(scope, name, now=NOW) == []
        assert len(told) == 1
        assert found_by_words(store, turns(TALK)) == {"turn"}

    def test_every_kind_of_change_is_told(self, store: RecordStore) -> None:
        """A replaced memory, too, has its values before in its history, oldest change first."""
        store.records.put(ALICE, [record(ALICE, "a", "one")])
        store.records.change(ALICE, MEMORIES, "a", RecordPatch(content="two"), now=later(hours=1))
        store.records.put(ALICE, [record(ALICE, "a", "three", updated_at=later(hours=2))])
        told = store.records.history(ALICE, "a", now=NOW)
        assert [(one.version, one.kind.value, one.at, dict(one.before)) for one in told] == [
            (1, "created", NOW, {}),
            (2, "updated", later(hours=1), {"content": "one"}),
            (3, "replaced", later(hours=2), {"content": "two"}),
        ]

    def test_the_history_goes_with_the_record(self, store: RecordStore) -> None:
        """A delete of the record, the scope or everything takes the history along and counts it."""

        def fill() -> None:
            store.records.put(ALICE, [record(ALICE, "a")])
            for text in ("secret", "public"):
                store.records.change(ALICE, MEMORIES, "a", RecordPatch(content=text), now=NOW)

        deletes: list[Callable[[], DeleteReceipt]] = [
            lambda: store.records.delete(ALICE, MEMORIES, ["a"]),
            lambda: store.records.delete_scope(ALICE),
            store.records.delete_everything,
        ]
        for delete in deletes:
            fill()
            assert stored_kinds(delete()) == DeleteReceipt(records=1, history=2)
            store.records.put(ALICE, [record(ALICE, "a")])
            assert len(store.records.history(ALICE, "a", now=NOW)) == 1
            store.records.delete(ALICE, MEMORIES, ["a"])

    def test_no_update_is_lost(self, store: RecordStore) -> None:
        """Eight threads that read, add one and write if nobody else did count to the sum."""
        store.records.put(ALICE, [record(ALICE, "a", metadata={"n": 0})])

        def count(number: int) -> None:
            for _ in range(5):
                while not self._counted(store, number):
                    pass

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(count, range(8)))
        (found,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        assert found.metadata == {"n": 40} | {f"by{number}": True for number in range(8)}
        assert found.version == 1 + 40
        assert len(store.records.history(ALICE, "a", now=NOW)) == 41

    def _counted(self, store: RecordStore, number: int) -> bool:
        (found,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
        n = found.metadata["n"]
        assert isinstance(n, int)
        patch = RecordPatch(metadata={"n": n + 1, f"by{number}": True})
        try:
            store.records.change(ALICE, MEMORIES, "a", patch, expected_version=found.version, now=NOW)
        except ConflictError:
            return False
        return True

    def test_touch_counts_accesses_and_nothing_else(self, store: RecordStore) -> None:
        """Counts add up and the latest time stays; version, updated_at, outbox and history do not move."""
        (one,) = store.records.put(ALICE, [record(ALICE, "a")])
        append(store, TALK, [message("m")])
        (turn,) = store.records.get(TALK, MESSAGES, ["m"], now=NOW)
        confirm_all(store)
        unknown = record(BOB, "nobody")
        store.records.touch({
            one.point_id: Access(2, later(hours=2)), turn.point_id: Access(1, NOW), unknown.point_id: Access(1, NOW)
        })  # fmt: skip
        store.records.touch({one.point_id: Access(3, later(hours=1))})
        assert self._read(store, one) == dataclasses.replace(
            one, access_count=5, last_accessed_at=later(hours=2)
        )
        assert self._read(store, turn) == dataclasses.replace(turn, access_count=1, last_accessed_at=NOW)
        assert due(store) == []
        assert len(store.records.history(ALICE, "a", now=NOW)) == 1
        assert store.records.get(BOB, MEMORIES, ["nobody"], now=NOW) == []
        listed = store.records.list(ALICE, ListQuery(order="access_count"), now=NOW)
        assert [found.access_count for found in listed] == [5]

    @pytest.mark.parametrize("moment", [datetime.fromisoformat("1960-01-01T00:00:00+00:00")])
    def test_touch_before_1970(self, store: RecordStore, moment: datetime) -> None:
        """A time before 1970 is a time like any other."""
        (one,) = store.records.put(ALICE, [record(ALICE, "a")])
        store.records.touch({one.point_id: Access(1, moment)})
        assert self._read(store, one).last_accessed_at == moment

    def _read(self, store: RecordStore, one: MemoryRecord) -> MemoryRecord:
        (found,) = store.records.get(one.scope, one.space, [one.id], now=NOW)
        return found
