"""Moving rows from store to store: what export, import and increments are made of."""

from __future__ import annotations

import dataclasses

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
    RecordType,
    Status,
    Summary,
    Target,
)
from memkit_core.ports import (
    ListQuery,
    MovedMessage,
    MovedRecord,
    MovedSession,
    MovedValue,
    Outcome,
    Selection,
    VectorSpace,
)
from memkit_core.scope import Scope
from memkit_core.stores.memory import InMemoryStore
from memkit_core.testing.increments import IncrementsContract
from memkit_core.testing.moves import (
    BOOKS,
    GIVEN,
    OTHER,
    MovableStore,
    fill,
    ids_of,
    kinds,
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
    due,
    embed_all,
    found_by_words,
    later,
    message,
    record,
    turns,
)


class PortableContract(IncrementsContract):
    """`Portable`: the fixture `store` gives an empty store, which is closed by it."""

    def test_rows_arrive_as_they_are(self, store: MovableStore, other: InMemoryStore) -> None:
        """Taken from one store and received by another, every row is the same in the same order."""
        fill(other)
        store.vectors.use_space(SPACE)
        rows = rows_of(other)
        assert kinds(rows) == {"session", "message", "summary", "value", "record"}
        assert {one.outcome for one in store.receive(rows)} == {Outcome.INSERTED}
        assert shown(rows_of(store)) == shown(rows)
        assert store.verify() == []
        assert {one.outcome for one in store.receive(rows)} == {Outcome.UNCHANGED}

    def test_rows_leave_as_they_are(self, store: MovableStore, other: InMemoryStore) -> None:
        """What a store gives is what another one receives, and gives again."""
        fill(store)
        rows = rows_of(store)
        other.receive(rows)
        assert shown(rows_of(other)) == shown(rows)

    def test_what_was_received_is_used(self, store: MovableStore, other: InMemoryStore) -> None:
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
        given = store.given(GIVEN)
        assert given.vectors.counts()[0] == 1
        assert store.space_of(Target(scope=ALICE, space=BOOKS)) == GIVEN

    def test_the_newer_record_holds(self, store: MovableStore) -> None:
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

    def test_one_record_twice_in_one_call(self, store: MovableStore) -> None:
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

    def test_vectors_are_never_mixed(self, store: MovableStore) -> None:
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
            MovedRecord(record=record(ALICE, name, space=BOOKS), vector_space=space, vector=short)
            for name, space in (("a", GIVEN), ("b", OTHER), ("c", GIVEN))
        ]
        books.append(MovedRecord(record=record(ALICE, "d", space=BOOKS), vector_space=SPACE, vector=vector))
        assert [one.outcome for one in store.receive(books)] == [
            Outcome.INSERTED, Outcome.REFUSED, Outcome.INSERTED, Outcome.REFUSED,
        ]  # fmt: skip
        assert "theirs" in store.receive(books)[1].reason
        assert set(ids_of(rows_of(store, spaces=(BOOKS,)))) == {"a", "c"}
        assert store.verify() == []

    def test_the_vector_of_a_text_that_did_not_change_stays(self, store: MovableStore) -> None:
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

    def test_messages_go_with_their_session(self, store: MovableStore, other: InMemoryStore) -> None:
        """Without its session no message or summary is taken, without its message no turn."""
        fill(other)
        rows = rows_of(other, scopes=(TALK,), spaces=(MESSAGES,))
        for kind in (MovedMessage, Summary, MovedRecord):
            (first, *_) = [row for row in rows if isinstance(row, kind)]
            received = store.receive([first])[0]
            assert received.outcome is Outcome.REFUSED
            assert "not in the store" in received.reason
        assert rows_of(store) == []

    def test_messages_that_meet_others(self, store: MovableStore, other: InMemoryStore) -> None:
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

    def test_messages_that_meet_others_stay_in_order(self, store: MovableStore, other: InMemoryStore) -> None:
        """A new message stands behind the one it came after, also when its own place is free."""
        append(store, TALK, [message("x"), message("y")])
        append(other, TALK, [message(name) for name in ("a", "b", "c", "d", "e")])
        session, *rest = rows_of(other, spaces=(MESSAGES,))
        messages = [row for row in rest if isinstance(row, MovedMessage)]
        last: str | None = None
        for one in messages:
            store.receive([session, dataclasses.replace(one, after=last)])
            last = one.message.id
        assert [one.id for one in store.log.read(TALK)] == ["x", "y", "a", "b", "c", "d", "e"]
        again = [dataclasses.replace(one, after=None) for one in messages]
        assert {one.outcome for one in store.receive(again)} == {Outcome.UNCHANGED}

    def test_messages_of_an_older_log_replace_nothing(
        self, store: MovableStore, other: InMemoryStore
    ) -> None:
        """Where the session is newer in the store, its messages stay and only missing ones come."""
        append(other, TALK, [message("a", "early"), message("b")])
        append(store, TALK, [message("a", "late")], now=later(hours=1))
        session, *rest = rows_of(other, spaces=(MESSAGES,))
        assert store.receive([session])[0].outcome is Outcome.OLDER
        messages = [dataclasses.replace(row, replace=False) for row in rest if isinstance(row, MovedMessage)]
        assert [one.outcome for one in store.receive(messages)] == [Outcome.OLDER, Outcome.INSERTED]
        assert [one.text for one in store.log.read(TALK)] == ["late", "some words"]

    def test_sessions_summaries_and_values_that_are_newer_hold(self, store: MovableStore) -> None:
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

    def test_one_memory_holds_for_a_key(self, store: MovableStore, other: InMemoryStore) -> None:
        """Of the values of a key that came together the newest holds, in every store that knows the same ones."""

        def value(name: str, days: float, **fields: object) -> MovedRecord:
            return MovedRecord(
                record=record(ALICE, name, name, key="k", valid_from=later(days=days), **fields)
            )

        rows = [
            value("old", 1, version=7, updated_at=later(days=9)),
            value("new", 3),
            value("middle", 2),
            value("archived", 5, status=Status.ARCHIVED),
            value("expired", 6, expires_at=later(hours=-1)),
            value("another type", 6, type=RecordType.PREFERENCE),
            MovedRecord(record=record(BOB, "bob", key="k", valid_from=later(days=7))),
        ]
        store.vectors.use_space(SPACE)
        for one, ordered in ((store, rows), (other, [*reversed(rows)])):
            one.receive(ordered)
            assert one.settle_keys(now=NOW, limit=9) == 2
            assert one.settle_keys(now=NOW, limit=9) == 0
            assert one.verify() == []
        shown_rows = sorted(shown(rows_of(store)), key=str)
        assert shown_rows == sorted(shown(rows_of(other)), key=str)
        held = {one.id: one for one in store.records.get(ALICE, MEMORIES, ["old", "new", "middle"], now=NOW)}
        assert held["new"] == rows[1].record
        for name, version in (("old", 8), ("middle", 2)):
            assert (held[name].status, held[name].superseded_by) == (Status.SUPERSEDED, "new")
            assert (held[name].valid_until, held[name].version) == (later(days=3), version)
            (_, change) = store.records.history(ALICE, name, now=NOW)
            assert (change.kind, change.others) == (ChangeKind.SUPERSEDED, ("new",))
        assert held["old"].updated_at == later(days=9)
        assert {one.outcome for one in store.receive(rows)} == {Outcome.UNCHANGED, Outcome.OLDER}

    def test_keys_are_settled_a_few_at_a_time(self, store: MovableStore) -> None:
        """At most `limit` keys in one transaction, until none is left."""
        store.receive(
            [MovedRecord(record=record(ALICE, f"{n}{s}", key=f"k{n}")) for n in range(5) for s in "ab"]
        )
        assert [store.settle_keys(now=NOW, limit=2) for _ in range(4)] == [2, 2, 1, 0]
        # All alike but for the id.
        active = store.records.list(ALICE, ListQuery(), now=NOW)
        assert sorted(one.id for one in active) == [f"{n}b" for n in range(5)]

    def test_a_replaced_message_takes_its_summary_along(
        self, store: MovableStore, other: InMemoryStore
    ) -> None:
        """A summary that covers what is no longer said goes when a newer log replaces the message."""
        for one, text in ((store, "here"), (other, "there")):
            append(one, TALK, [message("a", text), message("b")], now=later(hours=one is other))
        summary = Summary(session=TALK, text="it is here", position=0, updated_at=NOW)
        store.log.save_summary(summary, after=-1, messages=1)
        store.receive(rows_of(other))
        assert store.log.read(TALK)[0].text == "there"
        assert store.log.summary(TALK) is None

    # ------------------------------------------------------------------ selections

    def test_scopes(self, store: MovableStore) -> None:
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

    def test_spaces_types_and_times(self, store: MovableStore) -> None:
        """Each condition leaves out all that does not satisfy it."""
        fill(store)
        store.records.put(ALICE, [record(ALICE, "late", type=RecordType.EVENT, created_at=later(days=9))])
        append(store, TALK, [message("late", created_at=later(days=9))])
        store.values.put(ALICE, NOTES, "late", 1, now=later(days=9))
        assert set(ids_of(rows_of(store, spaces=(BOOKS,)))) == {"a", "b"}
        assert kinds(rows_of(store, spaces=(MEMORIES,))) == {"record"}
        assert kinds(rows_of(store, spaces=(NOTES,))) == {"value"}
        assert kinds(rows_of(store, spaces=(MESSAGES,))) == {"session", "message", "summary", "record"}
        assert ids_of(rows_of(store, types=(RecordType.EVENT,))) == ["late"]
        late = rows_of(store, since=later(days=8))
        assert [line["kind"] for line in shown(late)] == ["session", "message", "value", "record", "record"]
        assert rows_of(store, since=later(days=8), until=later(days=9)) == []
        assert "late" not in ids_of(rows_of(store, until=later(days=9)))

    def test_what_has_expired_is_left_out(self, store: MovableStore) -> None:
        """Expired records are not moved, pinned ones are."""
        gone = later(hours=-1)
        store.records.put(
            ALICE,
            [record(ALICE, "gone", expires_at=gone), record(ALICE, "pinned", pinned=True, expires_at=gone)],
        )
        assert ids_of(rows_of(store)) == ["pinned"]

    def test_vector_spaces_and_counts(self, store: MovableStore) -> None:
        """A snapshot names the spaces of the selected records alone, and counts at least its rows."""
        fill(store)
        for selection, spaces in (
            (Selection(now=NOW), [SPACE, GIVEN]),
            (Selection(now=NOW, scopes=(BOB,)), [SPACE]),
            (Selection(now=NOW, scopes=(Scope.user("nobody"),)), []),
        ):
            with store.snapshot(selection) as snapshot:
                assert snapshot.vector_spaces() == spaces
                assert snapshot.count() >= len(list(snapshot.rows()))

    def test_a_snapshot_shows_one_state(self, store: MovableStore) -> None:
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

    def test_a_closed_store_moves_nothing(self, store: MovableStore) -> None:
        """After `close` neither way is open."""
        store.close()
        with pytest.raises(ClosedError):
            rows_of(store)
        with pytest.raises(ClosedError):
            store.receive([MovedRecord(record=record(ALICE, "a"))])
