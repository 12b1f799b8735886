"""Increments: what changed, and what was deleted, since a change of a store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    NOTES,
    RUNS,
    RecordPatch,
    Summary,
)
from memkit_core.ports import (
    MovedRow,
    Outcome,
    RowKind,
    Tombstone,
)
from memkit_core.scope import Scope
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.tombstones import Grave
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.moves import (
    BOOKS,
    MovableStore,
    change_of,
    fill,
    ids_of,
    rows_of,
    shown,
)
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    HOSTILE_IDS,
    NOW,
    SPACE,
    TALK,
    append,
    embed_all,
    later,
    message,
    record,
)
from memkit_core.transfer.writing import written


class IncrementsContract(ContractGuard):
    """Selections by `changed_after`, and the tombstones in them."""

    @pytest.fixture
    def other(self) -> Iterator[InMemoryStore]:
        """Another store, on the other side of the move."""
        other = InMemoryStore()
        other.vectors.use_space(SPACE)
        yield other
        other.close()

    def test_nothing_changed(self, store: MovableStore) -> None:
        """After the last change there is nothing; reads, accesses and vectors are no change."""
        fill(store)
        change = change_of(store)
        assert rows_of(store, changed_after=change) == []
        store.vectors.use_space(SPACE)
        embed_all(store)
        assert change_of(store) == change

    def test_what_changed_since(self, store: MovableStore) -> None:
        """Exactly the rows that were written after the change of that number, each as it is now.

        The summary went with the words that it covered.
        """
        fill(store)
        before = change_of(store)
        store.records.put(ALICE, [record(ALICE, "new")])
        store.records.change(ALICE, MEMORIES, "every", RecordPatch(importance=0.1), now=NOW)
        append(store, TALK, [message("m1", "changed"), message("new")])
        store.log.update(Scope.session("s2", user=ALICE), title="new")
        store.values.put(TALK, RUNS, "run1", 7, now=NOW)
        rows = rows_of(store, changed_after=before)
        assert ids_of(rows) == ["every", "m1", "new", "new"]
        assert [line.get("id", line["kind"]) for line in shown(rows)][:6] == [
            "deleted", "session", "m1", "new", "session", "value",
        ]  # fmt: skip

    def test_a_summary_alone_comes_with_its_session(self, store: MovableStore) -> None:
        """A summary that changed brings the line of its session, which did not."""
        append(store, TALK, [message("a")])
        before = change_of(store)
        store.log.save_summary(
            Summary(session=TALK, text="s", position=0, updated_at=NOW), after=-1, messages=1
        )
        assert [line["kind"] for line in shown(rows_of(store, changed_after=before))] == [
            "session",
            "summary",
        ]

    @pytest.mark.parametrize("outward", [True, False])
    def test_increments_bring_another_store_up_to_date(
        self, store: MovableStore, other: InMemoryStore, *, outward: bool
    ) -> None:
        """Whatever changes, is deleted or made anew, the rows since then make the other store the same again."""
        store.vectors.use_space(SPACE)
        source, target = (store, other) if outward else (other, store)
        fill(source)
        target.receive(rows_of(source))
        change = change_of(source)
        s2, again = Scope.session("s2", user=ALICE), later(days=1)
        anew = record(ALICE, HOSTILE_IDS[0], "again", created_at=again, updated_at=again)
        summary = Summary(session=TALK, text="s", position=0, updated_at=again)
        for acts in (
            (lambda: source.records.delete(ALICE, MEMORIES, ["every", HOSTILE_IDS[1]]),),
            (
                lambda: source.records.delete(ALICE, MEMORIES, [anew.id]),
                lambda: source.records.put(ALICE, [anew]),
            ),
            (lambda: source.log.delete(TALK, ["m1"]),),
            (
                lambda: source.log.delete(TALK, ["m2"]),
                lambda: append(source, TALK, [message("m2", "again")], now=again),
            ),
            (
                lambda: source.log.clear_summary(TALK),
                lambda: source.log.save_summary(summary, after=-1, messages=0),
            ),
            (lambda: source.log.clear(s2), lambda: append(source, s2, [message("m2", "anew")], now=again)),
            (
                lambda: source.values.delete(ALICE, NOTES, "note"),
                lambda: source.values.put(ALICE, NOTES, "note", 1, now=again),
            ),
            (lambda: source.values.delete(TALK, RUNS, "run0"),),
            (lambda: source.log.clear_summary(Scope.session("s1", user=BOB)),),
            (lambda: source.records.delete_space(ALICE, BOOKS),),
            (lambda: source.records.delete_scope(BOB),),
            (source.records.delete_everything,),
        ):
            for act in acts:
                act()
            rows = rows_of(source, changed_after=change)
            target.receive(rows)
            assert shown(rows_of(target)) == shown(_in_place(rows_of(source), rows_of(target)))
            assert {one.outcome for one in target.receive(rows)} == {Outcome.UNCHANGED}
            change = change_of(source)
        assert rows_of(target) == []

    def test_what_has_expired_since(self, store: MovableStore, other: InMemoryStore) -> None:
        """A record that was given an end and has passed it is deleted where it was taken without one."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b"), record(ALICE, "c")])
        store.records.put(BOB, [record(BOB, "a")])
        other.receive(rows_of(store))
        before = change_of(store)
        for name in ("a", "b"):
            patch = RecordPatch(expires_at=later(hours=-1), pinned=name == "b")
            store.records.change(ALICE, MEMORIES, name, patch, now=NOW)
        store.records.change(BOB, MEMORIES, "a", RecordPatch(expires_at=later(hours=-1)), now=NOW)
        rows = rows_of(store, changed_after=before, scopes=(ALICE,), spaces=(MEMORIES,))
        assert [one.outcome for one in other.receive(rows)] == [Outcome.DELETED, Outcome.UPDATED]
        assert (
            ids_of(rows_of(other, scopes=(ALICE,))) == ids_of(rows_of(store, scopes=(ALICE,))) == ["b", "c"]
        )
        assert ids_of(rows_of(other, scopes=(BOB,))) == ["a"]
        assert rows_of(store, changed_after=before, spaces=("documents:none",)) == []

    def test_every_kind_of_tombstone_deletes(self, store: MovableStore) -> None:
        """The named row goes with all that hangs on it, once, and is a delete in this store as well."""
        fill(store)
        before = change_of(store)
        graves = (
            Grave(RowKind.MESSAGE, id="m3"),
            Grave(RowKind.SUMMARY),
            Grave(RowKind.VALUE, RUNS, "run0"),
            Grave(RowKind.RECORD, MESSAGES, "m1"),
            Grave(RowKind.SESSION),
        )
        for grave in graves:
            stone = Tombstone(kind=grave.kind, owner=TALK.digest, name=grave.name(TALK))
            received = store.receive([stone, stone])
            assert [one.outcome for one in received] == [Outcome.DELETED, Outcome.UNCHANGED], grave
            told = {
                (row.kind, row.name)
                for row in rows_of(store, changed_after=before)
                if isinstance(row, Tombstone)
            }
            assert (grave.kind, grave.name(TALK)) in told
        assert rows_of(store, scopes=(TALK,)) == []
        assert store.verify() == []

    def test_a_tombstone_for_another_owner(self, store: MovableStore) -> None:
        """With `into` it deletes the row of that id from there, and only from there."""
        for scope in (ALICE, BOB):
            store.records.put(scope, [record(scope, "a"), record(scope, "b")])
        stone = Tombstone(
            kind=RowKind.RECORD, owner=ALICE.digest, name=Grave(RowKind.RECORD, MEMORIES, "a").name(ALICE)
        )
        moved = dataclasses.replace(stone, into=BOB)
        assert [one.outcome for one in store.receive([moved, moved])] == [
            Outcome.DELETED,
            Outcome.UNCHANGED,
        ]
        assert len(store.records.get(ALICE, MEMORIES, ["a", "b"], now=NOW)) == 2
        assert [one.id for one in store.records.get(BOB, MEMORIES, ["a", "b"], now=NOW)] == ["b"]

    def test_tombstones_of_a_scope(self, store: MovableStore) -> None:
        """A selection of scopes brings their tombstones alone, of a user those of deleted sessions too."""
        fill(store)
        before = change_of(store)
        store.records.delete_scope(ALICE)
        store.records.delete_scope(BOB)
        everybodys = rows_of(store, changed_after=before)
        of_bob = rows_of(store, changed_after=before, scopes=(BOB,))
        owners = {row.owner for row in of_bob if isinstance(row, Tombstone)}
        assert owners == {BOB.digest, Scope.session("s1", user=BOB).digest}
        assert len(of_bob) < len(everybodys)
        assert all(isinstance(row, Tombstone) and row.scope is None for row in of_bob)


def _in_place(rows: list[MovedRow], held: list[MovedRow]) -> list[MovedRow]:
    """`rows` in the order of `held`: a row that was deleted and made again is new in one store only."""
    order = {_place(row): number for number, row in enumerate(held)}
    assert order.keys() == {_place(row) for row in rows}
    return sorted(rows, key=lambda row: order[_place(row)])


def _place(row: MovedRow) -> str:
    line = written(row)
    return str([line.get(name) for name in ("kind", "scope", "space", "id", "of", "key")])
