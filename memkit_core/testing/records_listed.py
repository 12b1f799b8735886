"""`RecordTable`: listings, cursors, expiry, and what ranking reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import Any

import pytest

from memkit_core.errors import InvalidInputError
from memkit_core.filters import parse_filter
from memkit_core.models import MEMORIES, MESSAGES, RecordType, Role, Status, Target
from memkit_core.ports import CANDIDATE_TEXT, ListQuery, RecordStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    embed_all,
    found_by_words,
    later,
    message,
    record,
    turns,
)
from memkit_core.times import to_ms


class ListingContract(ContractGuard):
    """Reading without a query."""

    def test_newest_first(self, store: RecordStore) -> None:
        """A listing is newest first by created_at; of the same moment, the last written first."""
        store.records.put(
            ALICE,
            [
                record(ALICE, "old", created_at=later(days=-1)),
                record(ALICE, "first"),
                record(ALICE, "second"),
                record(ALICE, "new", created_at=later(days=1)),
            ],
        )
        assert self._listed(store) == ["new", "second", "first", "old"]

    @pytest.mark.parametrize("order", ["importance", "access_count", "last_accessed_at"])
    def test_other_orders(self, store: RecordStore, order: str) -> None:
        """A listing by importance, accesses or last access is highest first, and then newest row first."""
        values = {
            "importance": (0.1, 0.9, 0.1),
            "access_count": (9, 10, 9),
            "last_accessed_at": (None, NOW, None),
        }[order]
        rows = [record(ALICE, name) for name in "abc"]
        changes: list[dict[str, Any]] = [{order: value} for value in values]
        store.records.put(
            ALICE, [dataclasses.replace(row, **change) for row, change in zip(rows, changes, strict=True)]
        )
        assert self._listed(store, order=order) == ["b", "c", "a"]

    def test_ids_alone(self, store: RecordStore) -> None:
        """The ids of what is visible and active: last changed first, of one space of one scope, sliced."""
        store.records.put(
            ALICE,
            [
                record(ALICE, "a", importance=0.9),
                record(ALICE, "b"),
                record(ALICE, "first", updated_at=later(days=1)),
                record(ALICE, "expired", expires_at=NOW),
                record(ALICE, "archived", status=Status.ARCHIVED),
                record(ALICE, "elsewhere", space="store:s"),
            ],
        )
        store.records.put(BOB, [record(BOB, "other")])

        def ids(where: dict[str, object] | None = None, **asked: Any) -> list[str]:
            return [
                *store.records.ids(ALICE, MEMORIES, where=parse_filter(where), now=NOW, **asked),
            ]

        assert ids() == ["first", "b", "a"]
        assert ids(limit=2) == ["first", "b"]
        assert ids(limit=2, offset=1) == ["b", "a"]
        assert ids(offset=3) == ids(limit=0) == []
        assert ids({"importance": {"gt": 0.8}}) == ["a"]
        assert ids({"id": {"gte": "b"}}, limit=1, offset=1) == ["b"]
        assert store.records.ids(ALICE, "store:none", where=None, now=NOW) == []

    def test_conditions_all_hold(self, store: RecordStore) -> None:
        """Statuses, types, all tags, since (inclusive) and until (exclusive) hold for each record."""
        store.records.put(
            ALICE,
            [
                record(ALICE, "plain"),
                record(ALICE, "archived", status=Status.ARCHIVED),
                record(ALICE, "event", type=RecordType.EVENT),
                record(ALICE, "one tag", tags=("a",)),
                record(ALICE, "both tags", tags=("b", "a")),
                record(ALICE, "later", created_at=later(hours=1)),
            ],
        )
        assert self._listed(store, statuses=(Status.ARCHIVED,)) == ["archived"]
        assert self._listed(store, types=(RecordType.EVENT, RecordType.SKILL)) == ["event"]
        assert self._listed(store, tags=("a", "b")) == ["both tags"]
        assert self._listed(store, since=later(hours=1)) == ["later"]
        assert "later" not in self._listed(store, until=later(hours=1))
        assert len(self._listed(store, until=later(hours=1))) == 4
        assert self._listed(store, statuses=(Status.PENDING,)) == []
        assert self._listed(store, where=parse_filter({"tags": {"contains": "b"}})) == ["both tags"]

    @pytest.mark.parametrize("order", ["created_at", "last_accessed_at", "access_count", "importance"])
    def test_pages_follow_each_other(self, store: RecordStore, order: str) -> None:
        """Following cursors lists every record once, in the order of one large page, whatever ties there are."""
        batch = [
            record(
                ALICE,
                f"r{i}",
                created_at=later(seconds=i % 3),
                importance=(i % 4) / 4,
                access_count=i % 2,
                last_accessed_at=later(seconds=i % 5) if i % 3 else None,
            )
            for i in range(20)
        ]
        store.records.put(ALICE, batch)
        pages = self._paged(store, order)
        assert [len(page) for page in pages] == [7, 7, 6]
        assert [i for page in pages for i in page] == self._listed(store, order=order)

    def test_a_full_last_page_has_no_cursor(self, store: RecordStore) -> None:
        """The last page has no cursor, also when it is full."""
        store.records.put(ALICE, [record(ALICE, str(i)) for i in range(4)])
        page = store.records.list(ALICE, ListQuery(limit=4), now=NOW)
        assert (len(page), page.cursor) == (4, None)

    def test_pages_stay_right_while_others_write(self, store: RecordStore) -> None:
        """What is added or deleted between two pages neither repeats nor hides another record."""
        store.records.put(ALICE, [record(ALICE, f"r{i}", created_at=later(seconds=i)) for i in range(10)])
        first = store.records.list(ALICE, ListQuery(limit=4), now=NOW)
        assert [one.id for one in first] == ["r9", "r8", "r7", "r6"]
        store.records.put(ALICE, [record(ALICE, f"n{i}", created_at=later(seconds=9)) for i in range(3)])
        store.records.delete(ALICE, MEMORIES, ["r6", "r4"])
        rest = store.records.list(ALICE, ListQuery(limit=100, cursor=first.cursor), now=NOW)
        assert [one.id for one in rest] == ["r5", "r3", "r2", "r1", "r0"]

    @pytest.mark.parametrize("cursor", ["", "x", "'; DROP TABLE records; --", "W10=", "bnVsbA==", "é"])
    def test_a_foreign_cursor_is_refused(self, store: RecordStore, cursor: str) -> None:
        """What is no cursor of this listing is an error, never an empty page."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        with pytest.raises(InvalidInputError):
            store.records.list(ALICE, ListQuery(cursor=cursor), now=NOW)

    def test_a_cursor_belongs_to_its_order(self, store: RecordStore) -> None:
        """The cursor of one order is refused by another, and so is an unknown order."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        cursor = store.records.list(ALICE, ListQuery(limit=1), now=NOW).cursor
        with pytest.raises(InvalidInputError):
            store.records.list(ALICE, ListQuery(cursor=cursor, order="importance"), now=NOW)
        with pytest.raises(InvalidInputError):
            store.records.list(ALICE, ListQuery(order="content; --"), now=NOW)

    def test_turns_are_listed_by_user_and_by_session(self, store: RecordStore) -> None:
        """In the space of messages a session lists its own turns and a user those of all sessions."""
        append(store, TALK, [message("1")])
        store_two = type(TALK).session("s2", user="alice")
        append(store, store_two, [message("2")])
        assert self._listed(store, space=MESSAGES) == ["2", "1"]
        page = store.records.list(store_two, ListQuery(space=MESSAGES), now=NOW)
        assert [one.id for one in page] == ["2"]

    def _listed(self, store: RecordStore, **conditions: object) -> list[str]:
        query = ListQuery(**conditions)  # type: ignore[arg-type]  # any field of the query
        return [one.id for one in store.records.list(ALICE, query, now=NOW)]

    def _paged(self, store: RecordStore, order: str) -> list[list[str]]:
        pages = []
        cursor = None
        while True:
            page = store.records.list(ALICE, ListQuery(order=order, limit=7, cursor=cursor), now=NOW)
            pages.append([one.id for one in page])
            cursor = page.cursor
            if cursor is None:
                return pages


class ExpiryContract(ContractGuard):
    """An expired record is invisible on every read, whether or not anything swept it."""

    def test_expired_at_the_instant(self, store: RecordStore) -> None:
        """From the instant of expires_at on no read returns the record; one millisecond earlier all do."""
        store.records.put(ALICE, [record(ALICE, "x", expires_at=later(hours=1))])
        embed_all(store)
        target, point = Target(scope=ALICE), record(ALICE, "x").point_id
        for now, expected in ((later(hours=1, milliseconds=-1), 1), (later(hours=1), 0)):
            seen: list[Sized] = [
                store.records.get(ALICE, MEMORIES, ["x"], now=now),
                store.records.list(ALICE, ListQuery(), now=now),
                store.keywords.search(target, "words", where=None, now=now, limit=10),
                store.vectors.scan(target, where=None, now=now)[0],
                store.vectors.scan(target, where=None, now=now, points=[point])[0],
                store.records.candidates(target, [point], radius=0, where=None, now=now),
            ]
            assert [len(one) for one in seen] == [expected] * len(seen)

    def test_pinned_never_expires(self, store: RecordStore) -> None:
        """A pinned record never expires."""
        store.records.put(ALICE, [record(ALICE, "x", expires_at=later(hours=-1), pinned=True)])
        assert len(store.records.get(ALICE, MEMORIES, ["x"], now=NOW)) == 1
        assert found_by_words(store, Target(scope=ALICE)) == {"x"}


class CandidatesContract(ContractGuard):
    """What ranking reads of a row."""

    def test_what_a_candidate_tells(self, store: RecordStore) -> None:
        """A candidate tells length in terms, importance, since when, and the place and text of a turn."""
        memory = record(ALICE, "m", "green tea", importance=0.3, occurred_at=NOW, valid_from=later(days=-1))
        store.records.put(ALICE, [memory])
        said = message("t", "Do you like tea?", role=Role.ASSISTANT, speaker="Bo", created_at=later(days=-2))
        append(store, TALK, [message("s", role=Role.SYSTEM), said])
        (plain,) = store.records.candidates(
            Target(scope=ALICE), [memory.point_id], radius=0, where=None, now=NOW
        )
        assert (plain.length, plain.importance, plain.since) == (2, 0.3, to_ms(later(days=-1)))
        assert (plain.session, plain.position, plain.speaker, plain.role) == (-1, -1, None, None)
        point = record(TALK, "t", space=MESSAGES).point_id
        (turn,) = store.records.candidates(turns(ALICE), [point], radius=0, where=None, now=NOW)
        assert turn.session >= 0
        assert (turn.position, turn.speaker, turn.role) == (1, "Bo", "assistant")
        assert (turn.since, turn.text, turn.ending) == (to_ms(later(days=-2)), said.text, "Do you like tea?")

    def test_how_a_turn_begins(self, store: RecordStore) -> None:
        """Of a long turn a candidate tells the first characters, whole ones."""
        text = "a\u20ac" * CANDIDATE_TEXT
        append(store, TALK, [message("t", text)])
        point = record(TALK, "t", space=MESSAGES).point_id
        (turn,) = store.records.candidates(turns(ALICE), [point], radius=0, where=None, now=NOW)
        assert turn.text == text[:CANDIDATE_TEXT]

    def test_neighbours_join(self, store: RecordStore) -> None:
        """With a radius the turns at most so far away in the same session join, each once."""
        append(store, TALK, [message(str(i)) for i in range(10)])
        other = type(TALK).session("s2", user="alice")
        append(store, other, [message(str(i)) for i in range(10)])
        points = [record(TALK, i, space=MESSAGES).point_id for i in ("4", "5")]
        for radius, expected in ((0, {4, 5}), (1, {3, 4, 5, 6}), (2, {2, 3, 4, 5, 6, 7})):
            found = store.records.candidates(turns(ALICE), points, radius=radius, where=None, now=NOW)
            assert sorted(one.position for one in found) == sorted(expected)
            assert len({one.session for one in found}) == 1

    def test_neighbours_obey_the_same_conditions(self, store: RecordStore) -> None:
        """A neighbour that a filter refuses stays away, and what a filter refuses brings no neighbours."""
        said = [message(str(i), metadata={"n": i}) for i in range(5)]
        append(store, TALK, said)
        where = parse_filter({"metadata.n": {"in": [2, 3]}})
        for start, expected in (("2", [2, 3]), ("1", [])):
            point = record(TALK, start, space=MESSAGES).point_id
            found = store.records.candidates(turns(TALK), [point], radius=1, where=where, now=NOW)
            assert sorted(one.position for one in found) == expected

    def test_candidates_satisfy_the_filter(self, store: RecordStore) -> None:
        """Of the given points only those that satisfy the filter come back; unknown points are nothing."""
        batch = [record(ALICE, str(i), importance=i / 10) for i in range(5)]
        store.records.put(ALICE, batch)
        points = [one.point_id for one in batch] + [record(ALICE, "unknown").point_id]
        where = parse_filter({"importance": {"gte": 0.3}})
        found = store.records.candidates(Target(scope=ALICE), points, radius=3, where=where, now=NOW)
        assert {one.point_id for one in found} == {one.point_id for one in batch[3:]}
        assert len({one.row for one in found}) == 2
