"""Moving rows from store to store: what export, import and increments are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memkit_core.errors import ClosedError
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    NOTES,
    RUNS,
    ChangeKind,
    MemoryRecord,
    RecordPatch,
    RecordType,
    Role,
    Status,
    Summary,
    Target,
)
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    Outcome,
    Portable,
    RecordStore,
    RowKind,
    Selection,
    Tombstone,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.tombstones import Grave
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    HOSTILE_IDS,
    NOW,
    SPACE,
    TALK,
    append,
    due,
    embed_all,
    every_field,
    found_by_words,
    later,
    message,
    record,
    turns,
)
from memkit_core.transfer.lines import written

_GIVEN = VectorSpace(model="theirs", revision="", dimension=3, given=True)
_OTHER = VectorSpace(model="others", revision="", dimension=3, given=True)
_BOOKS = "documents:books"


class _Store(RecordStore, Portable):
    """A record store whose rows can be moved."""


def fill(store: RecordStore) -> None:
    """Something of everything, of two users."""
    store.vectors.use_space(SPACE)
    for scope in (ALICE, BOB, Scope.org("org"), Scope.object("ticket", within=ALICE)):
        names = HOSTILE_IDS[:6] if scope == ALICE else ("one",)
        store.records.put(scope, [record(scope, name, f"words {name}") for name in names])
        store.records.change(
            scope, MEMORIES, names[0], RecordPatch(content="newer words"), now=later(hours=1)
        )
    store.records.put(ALICE, [every_field(ALICE, "every"), record(ALICE, "empty", "\u2028")])
    store.records.put(ALICE, [record(ALICE, "old", status=Status.SUPERSEDED, metadata={"z": 1, "a": [1.0]})])
    store.records.put(
        ALICE,
        [record(ALICE, name, space=_BOOKS) for name in ("a", "b")],
        vector_space=_GIVEN,
        vectors=np.array([[1, 2, 3], [0, 0, 0]], np.float32),
    )
    for session in (TALK, Scope.session("s2", user=ALICE), Scope.session("s1", user=BOB)):
        store.log.create(session, title="a\r\ntitle", metadata={"n": 1}, now=NOW)
        append(
            store, session, [message("m1"), message("m2", role=Role.ASSISTANT, payload={"z": 1, "a": None})]
        )
        append(store, session, [message("m3", role=Role.SYSTEM), message("gone")], now=later(hours=1))
        store.log.delete(session, ["gone"])
        store.log.save_summary(
            Summary(session=session, text="so far", position=1, updated_at=NOW), after=-1, messages=2
        )
    for n in range(3):
        store.values.put(ALICE, NOTES, "note", {"z": n, "a": 1}, keep=2, now=later(hours=n))
        store.values.put(TALK, RUNS, f"run{n}", n, label="open", now=NOW)
    embed_all(store)


def rows_of(store: Portable, **selection: Any) -> list[MovedRow]:
    """The rows that a selection means, all by default; expiry is that of `NOW`."""
    with store.snapshot(Selection(now=NOW, **selection)) as snapshot:
        return list(snapshot.rows())


def shown(rows: list[MovedRow]) -> list[dict[str, object]]:
    """Rows as they can be compared."""
    return [written(row) for row in rows]


def kinds(rows: list[MovedRow]) -> set[str]:
    """Which kinds of rows there are."""
    return {str(line["kind"]) for line in shown(rows)}


def change_of(store: Portable) -> int:
    """The number of the last change."""
    with store.snapshot(Selection(now=NOW, scopes=())) as snapshot:
        return snapshot.change


def ids_of(rows: list[MovedRow]) -> list[str]:
    """The ids of records, in order."""
    return [row.record.id for row in rows if isinstance(row, MovedRecord)]


class PortableContract(ContractGuard):
    """`Portable`: the fixture `store` gives an empty store, which is closed by it."""

    @pytest.fixture
    def other(self) -> Iterator[InMemoryStore]:
        """Another store, on the other side of the move."""
        other = InMemoryStore()
        other.vectors.use_space(SPACE)
        yield other
        other.close()

    def test_rows_arrive_as_they_are(self, store: _Store, other: InMemoryStore) -> None:
        """Taken from one store and received by another, every row is the same in the same order."""
        fill(other)
        store.vectors.use_space(SPACE)
        rows = rows_of(other)
        assert kinds(rows) == {"session", "message", "summary", "value", "record"}
        assert {one.outcome for one in store.receive(rows)} == {Outcome.INSERTED}
        assert shown(rows_of(store)) == shown(rows)
        assert store.verify() == []
        assert {one.outcome for one in store.receive(rows)} == {Outcome.UNCHANGED}

    def test_rows_leave_as_they_are(self, store: _Store, other: InMemoryStore) -> None:
        """What a store gives is what another one receives, and gives again."""
        fill(store)
        rows = rows_of(store)
        other.receive(rows)
        assert shown(rows_of(other)) == shown(rows)

    def test_what_was_received_is_used(self, store: _Store, other: InMemoryStore) -> None:
        """It is found by its words, listed, waits in the outbox, and conversations go on behind it."""
        fill(other)
        store.vectors.use_space(SPACE)
        store.receive(rows_of(other))
        assert found_by_words(store, Target(scope=ALICE)) == found_by_words(other, Target(scope=ALICE))
        assert found_by_words(store, turns(ALICE)) == {"m1", "m2"}
        # The turn of the deleted message is known to the store that deleted it alone.
        assert len(due(store)) == len(due(other)) - 3
        assert store.log.read(TALK) == other.log.read(TALK)
        (new,) = append(store, TALK, [message("new")])
        assert new.position == 4
        assert store.records.history(ALICE, HOSTILE_IDS[0], now=NOW) == other.records.history(
            ALICE, HOSTILE_IDS[0], now=NOW
        )
        assert store.values.history(ALICE, NOTES, "note") == other.values.history(ALICE, NOTES, "note")
        assert store.values.put(ALICE, NOTES, "note", 9, now=NOW).version == 4
        given = store.given(_GIVEN)
        assert given.vectors.counts()[0] == 1
        assert store.space_of(Target(scope=ALICE, space=_BOOKS)) == _GIVEN

    def test_the_newer_record_holds(self, store: _Store) -> None:
        """Of two with one id that of the higher version, then of the later time; with its history."""

        def version(number: int, text: str, **fields: object) -> MemoryRecord:
            return record(ALICE, "a", text, version=number, **fields)

        store.receive([MovedRecord(record=version(3, "third kiwi"))])
        for tried, outcome in (
            (version(2, "second"), Outcome.OLDER),
            (version(3, "the same"), Outcome.UNCHANGED),
            (version(3, "later lemon", updated_at=later(hours=1), tags=("t",)), Outcome.UPDATED),
            (version(5, "fifth mango"), Outcome.UPDATED),
        ):
            assert store.receive([MovedRecord(record=tried)])[0].outcome is outcome
            (held,) = store.records.get(ALICE, MEMORIES, ["a"], now=NOW)
            assert (held == tried) is (outcome is Outcome.UPDATED)
        assert [found_by_words(store, Target(scope=ALICE), word) for word in ("kiwi", "lemon", "mango")] == [
            set(), set(), {"a"},
        ]  # fmt: skip
        assert [change.kind for change in store.records.history(ALICE, "a", now=NOW)] == [ChangeKind.CREATED]
        assert store.verify() == []

    def test_one_record_twice_in_one_call(self, store: _Store) -> None:
        """Rows are taken one after the other, so the newer of two holds wherever it stands."""
        versions = [
            MovedRecord(record=record(ALICE, "a", f"word{n} here", version=n, tags=(f"t{n}",)))
            for n in (1, 3, 2)
        ]
        assert [one.outcome for one in store.receive(versions)] == [
            Outcome.INSERTED, Outcome.UPDATED, Outcome.OLDER,
        ]  # fmt: skip
        assert found_by_words(store, Target(scope=ALICE), "word3") == {"a"}
        assert found_by_words(store, Target(scope=ALICE), "word1") == set()
        assert store.verify() == []

    def test_vectors_are_never_mixed(self, store: _Store) -> None:
        """A vector of another model is left and its record waits; one for another given space is refused."""
        store.vectors.use_space(SPACE)
        foreign = VectorSpace(model="foreign", revision="", dimension=8)
        vector = np.ones(8, np.float32)
        moved = MovedRecord(record=record(ALICE, "a"), vector_space=foreign, vector=vector)
        own = MovedRecord(record=record(ALICE, "b"), vector_space=SPACE, vector=vector)
        assert [one.outcome for one in store.receive([moved, own])] == [Outcome.INSERTED] * 2
        assert [entry.vector is None for entry in due(store)] == [True, False]
        assert store.vectors.space() == SPACE
        short = np.ones(3, np.float32)
        books = [
            MovedRecord(record=record(ALICE, name, space=_BOOKS), vector_space=space, vector=short)
            for name, space in (("a", _GIVEN), ("b", _OTHER), ("c", _GIVEN))
        ]
        books.append(MovedRecord(record=record(ALICE, "d", space=_BOOKS), vector_space=SPACE, vector=vector))
        assert [one.outcome for one in store.receive(books)] == [
            Outcome.INSERTED, Outcome.REFUSED, Outcome.INSERTED, Outcome.REFUSED,
        ]  # fmt: skip
        assert "theirs" in store.receive(books)[1].reason
        assert set(ids_of(rows_of(store, spaces=(_BOOKS,)))) == {"a", "c"}
        assert store.verify() == []

    def test_the_vector_of_a_text_that_did_not_change_stays(self, store: _Store) -> None:
        """A newer version without a vector keeps the one of the same text, and loses that of another."""
        store.vectors.use_space(SPACE)
        store.records.put(ALICE, [record(ALICE, "same"), record(ALICE, "other")])
        embed_all(store)
        newer = [
            MovedRecord(record=record(ALICE, "same", version=2)),
            MovedRecord(record=record(ALICE, "other", "new words", version=2)),
        ]
        store.receive(newer)
        assert {one.record.id: one.vector is None for one in due(store) if one.record} == {
            "same": False,
            "other": True,
        }

    def test_messages_go_with_their_session(self, store: _Store, other: InMemoryStore) -> None:
        """Without its session no message or summary is taken, without its message no turn."""
        fill(other)
        rows = rows_of(other, scopes=(TALK,), spaces=(MESSAGES,))
        for kind in (MovedMessage, Summary, MovedRecord):
            (first, *_) = [row for row in rows if isinstance(row, kind)]
            received = store.receive([first])[0]
            assert received.outcome is Outcome.REFUSED
            assert "not in the store" in received.reason
        assert rows_of(store) == []

    def test_messages_that_meet_others(self, store: _Store, other: InMemoryStore) -> None:
        """A new message whose place is taken comes next, with its turn; one that is there is replaced in place."""
        append(store, TALK, [message("x"), message("both", "here")])
        append(other, TALK, [message("both", "there kiwi"), message("y")])
        rows = rows_of(other)
        assert [one.outcome for one in store.receive(rows)] == [
            Outcome.UNCHANGED, Outcome.UPDATED, Outcome.INSERTED, Outcome.INSERTED, Outcome.INSERTED,
        ]  # fmt: skip
        log = store.log.read(TALK)
        assert [(one.id, one.position, one.text) for one in log] == [
            ("x", 0, "some words"), ("both", 1, "there kiwi"), ("y", 2, "some words"),
        ]  # fmt: skip
        placed = {
            row.record.id: row.record.metadata["position"]
            for row in rows_of(store)
            if isinstance(row, MovedRecord)
        }
        assert placed == {"x": 0, "both": 1, "y": 2}
        assert found_by_words(store, turns(TALK), "kiwi") == {"both"}
        assert found_by_words(store, turns(TALK), "here") == set()
        session = store.log.session(TALK)
        assert session is not None
        assert session.messages == 3
        assert {one.outcome for one in store.receive(rows)} == {Outcome.UNCHANGED}
        assert store.verify() == []

    def test_messages_of_an_older_log_replace_nothing(self, store: _Store, other: InMemoryStore) -> None:
        """Where the session is newer in the store, its messages stay and only missing ones come."""
        append(other, TALK, [message("a", "early"), message("b")])
        append(store, TALK, [message("a", "late")], now=later(hours=1))
        session, *rest = rows_of(other, spaces=(MESSAGES,))
        assert store.receive([session])[0].outcome is Outcome.OLDER
        messages = [dataclasses.replace(row, replace=False) for row in rest if isinstance(row, MovedMessage)]
        assert [one.outcome for one in store.receive(messages)] == [Outcome.OLDER, Outcome.INSERTED]
        assert [one.text for one in store.log.read(TALK)] == ["late", "some words"]

    def test_sessions_summaries_and_values_that_are_newer_hold(self, store: _Store) -> None:
        """Sessions by updated_at, summaries by (position, updated_at), values by (version, updated_at)."""
        append(store, TALK, [message("a"), message("b")])
        (session,) = [row for row in rows_of(store) if isinstance(row, MovedSession)]
        older, newer = (
            dataclasses.replace(
                session,
                session=dataclasses.replace(session.session, updated_at=later(hours=h), title=str(h)),
            )
            for h in (-1, 1)
        )
        summaries = [Summary(session=TALK, text=str(n), position=n, updated_at=NOW) for n in (1, 0)]
        value = store.values.put(ALICE, RUNS, "k", 1, now=NOW)
        values = [
            MovedValue(scope=ALICE, kind=RUNS, versions=(dataclasses.replace(value, version=n, value=n),))
            for n in (3, 2)
        ]
        received = store.receive([newer, older, *summaries, *values])
        assert [one.outcome for one in received] == [
            Outcome.UPDATED, Outcome.OLDER, Outcome.INSERTED, Outcome.OLDER, Outcome.UPDATED, Outcome.OLDER,
        ]  # fmt: skip
        found = store.log.session(TALK)
        summary, kept = store.log.summary(TALK), store.values.get(ALICE, RUNS, "k")
        assert found is not None
        assert summary is not None
        assert kept is not None
        assert (found.title, found.messages, summary.text, kept.value) == ("1", 2, "1", 3)

    # ------------------------------------------------------------------ selections

    def test_scopes(self, store: _Store) -> None:
        """A scope's own rows and, of a user, those of the user's sessions; never anybody else's."""
        fill(store)
        of_alice = rows_of(store, scopes=(ALICE,))
        assert {str(line["scope"]) for line in shown(of_alice)} == {
            str(scope.path) for scope in (ALICE, TALK, Scope.session("s2", user=ALICE))
        }
        assert {str(line["scope"]) for line in shown(rows_of(store, scopes=(TALK,)))} == {str(TALK.path)}
        both = rows_of(store, scopes=(ALICE, BOB))
        assert len(both) == len(of_alice) + len(rows_of(store, scopes=(BOB,)))
        assert rows_of(store, scopes=(Scope.user("alic"),)) == []

    def test_spaces_types_and_times(self, store: _Store) -> None:
        """Each condition leaves out all that does not satisfy it."""
        fill(store)
        store.records.put(ALICE, [record(ALICE, "late", type=RecordType.EVENT, created_at=later(days=9))])
        append(store, TALK, [message("late", created_at=later(days=9))])
        store.values.put(ALICE, NOTES, "late", 1, now=later(days=9))
        assert set(ids_of(rows_of(store, spaces=(_BOOKS,)))) == {"a", "b"}
        assert kinds(rows_of(store, spaces=(MEMORIES,))) == {"record"}
        assert kinds(rows_of(store, spaces=(NOTES,))) == {"value"}
        assert kinds(rows_of(store, spaces=(MESSAGES,))) == {"session", "message", "summary", "record"}
        assert ids_of(rows_of(store, types=(RecordType.EVENT,))) == ["late"]
        late = rows_of(store, since=later(days=8))
        assert [line["kind"] for line in shown(late)] == ["session", "message", "value", "record", "record"]
        assert rows_of(store, since=later(days=8), until=later(days=9)) == []
        assert "late" not in ids_of(rows_of(store, until=later(days=9)))

    def test_what_has_expired_is_left_out(self, store: _Store) -> None:
        """Expired records are not moved, pinned ones are."""
        gone = later(hours=-1)
        store.records.put(
            ALICE,
            [record(ALICE, "gone", expires_at=gone), record(ALICE, "pinned", pinned=True, expires_at=gone)],
        )
        assert ids_of(rows_of(store)) == ["pinned"]

    def test_vector_spaces_and_counts(self, store: _Store) -> None:
        """A snapshot names the spaces of the selected records alone, and counts at least its rows."""
        fill(store)
        for selection, spaces in (
            (Selection(now=NOW), [SPACE, _GIVEN]),
            (Selection(now=NOW, scopes=(BOB,)), [SPACE]),
            (Selection(now=NOW, scopes=(Scope.user("nobody"),)), []),
        ):
            with store.snapshot(selection) as snapshot:
                assert snapshot.vector_spaces() == spaces
                assert snapshot.count() >= len(list(snapshot.rows()))

    def test_a_snapshot_shows_one_state(self, store: _Store) -> None:
        """What is written while rows are read is in the next snapshot."""
        fill(store)
        before = shown(rows_of(store))
        with store.snapshot(Selection(now=NOW)) as snapshot:
            rows = snapshot.rows()
            first = next(rows)
            store.records.put(ALICE, [record(ALICE, "new")])
            store.log.clear(TALK)
            store.values.put(ALICE, NOTES, "new", 1, now=NOW)
            assert shown([first, *rows]) == before
        assert shown(rows_of(store)) != before

    # ------------------------------------------------------------------ increments

    def test_nothing_changed(self, store: _Store) -> None:
        """After the last change there is nothing; reads, accesses and vectors are no change."""
        fill(store)
        change = change_of(store)
        assert rows_of(store, changed_after=change) == []
        store.vectors.use_space(SPACE)
        embed_all(store)
        assert change_of(store) == change

    def test_what_changed_since(self, store: _Store) -> None:
        """Exactly the rows that were written after the change of that number, each as it is now."""
        fill(store)
        before = change_of(store)
        store.records.put(ALICE, [record(ALICE, "new")])
        store.records.change(ALICE, MEMORIES, "every", RecordPatch(importance=0.1), now=NOW)
        append(store, TALK, [message("m1", "changed"), message("new")])
        store.log.update(Scope.session("s2", user=ALICE), title="new")
        store.values.put(TALK, RUNS, "run1", 7, now=NOW)
        rows = rows_of(store, changed_after=before)
        assert ids_of(rows) == ["every", "m1", "new", "new"]
        assert [line.get("id", line["kind"]) for line in shown(rows)][:5] == [
            "session", "m1", "new", "session", "value",
        ]  # fmt: skip

    def test_a_summary_alone_comes_with_its_session(self, store: _Store) -> None:
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
        self, store: _Store, other: InMemoryStore, *, outward: bool
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
            (lambda: source.records.delete_space(ALICE, _BOOKS),),
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

    def test_every_kind_of_tombstone_deletes(self, store: _Store) -> None:
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

    def test_a_tombstone_for_another_owner(self, store: _Store) -> None:
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

    def test_tombstones_of_a_scope(self, store: _Store) -> None:
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

    def test_a_closed_store_moves_nothing(self, store: _Store) -> None:
        """After `close` neither way is open."""
        store.close()
        with pytest.raises(ClosedError):
            rows_of(store)
        with pytest.raises(ClosedError):
            store.receive([MovedRecord(record=record(ALICE, "a"))])


def _in_place(rows: list[MovedRow], held: list[MovedRow]) -> list[MovedRow]:
    """`rows` in the order of `held`: a row that was deleted and made again is new in one store only."""
    order = {_place(row): number for number, row in enumerate(held)}
    assert order.keys() == {_place(row) for row in rows}
    return sorted(rows, key=lambda row: order[_place(row)])


def _place(row: MovedRow) -> str:
    line = written(row)
    return str([line.get(name) for name in ("kind", "scope", "space", "id", "of", "key")])
