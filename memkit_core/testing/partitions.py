"""`PartitionTable`: every change that recall could see is told, once, in one consistent state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from memkit_core.models import MESSAGES, MemoryRecord, RecordPatch, Target
from memkit_core.ports import PartitionChanges, PartitionMark, RecordStore, VectorSpace
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    SPACE,
    TALK,
    append,
    embed_all,
    later,
    message,
    record,
    turns,
)
from memkit_core.times import to_ms

_MINE = Target(scope=ALICE)
_GIVEN = VectorSpace(model="given", revision="", dimension=2, given=True)


class PartitionsContract(ContractGuard):
    """What a reader that keeps a copy is told."""

    def test_everything_at_first(self, store: RecordStore) -> None:
        """Without a mark all rows of the owner come, ascending, with what decides whether they are seen."""
        put(store, record(ALICE, "a", "green tea", expires_at=later(days=1)))
        put(store, record(ALICE, "b", pinned=True, expires_at=later(days=1)), record(BOB, "c"))
        told = changes(store)
        assert told.rows is not None
        first, second = told.rows
        assert first.candidate.point == record(ALICE, "a").point_id.bytes
        assert first.candidate.row < second.candidate.row
        assert first[1:] == (ALICE.digest, "active", "fact", to_ms(later(days=1)), to_ms(NOW), None, None)
        assert second.expires_at is None
        assert (told.documents, told.terms, told.present) == (2, 3, None)

    def test_candidates_as_the_keyword_leg_tells_them(self, store: RecordStore) -> None:
        """A row's candidate is the one that other reads give."""
        append(store, TALK, [message("m", "green tea?", speaker="Mia")])
        told = changes(store, target=turns(TALK))
        (hit,) = store.keywords.search(turns(TALK), "tea", where=None, now=NOW, limit=9)
        assert [row.candidate for row in told.rows or ()] == [hit.candidate]

    def test_nothing_new(self, store: RecordStore) -> None:
        """A reader who has seen all is told of no row."""
        put(store, record(ALICE, "a"))
        mark = changes(store).mark
        put(store, record(BOB, "b"))
        store.records.touch({})
        told = changes(store, mark)
        assert (told.mark, told.rows, told.present, told.postings) == (mark, [], None, {})

    @pytest.mark.parametrize(
        "change",
        [
            lambda store: put(store, record(ALICE, "b", "new words")),
            lambda store: put(store, record(ALICE, "b", importance=1.0)),
            lambda store: store.records.change(ALICE, "memories", "b", RecordPatch(pinned=True), now=NOW),
            lambda store: store.records.put(ALICE, [record(ALICE, "z", "b", importance=0.9)], merge=["z"]),
        ],
        ids=["another text", "another importance", "pinned", "merged"],
    )
    def test_a_changed_row(self, store: RecordStore, change: Callable[[RecordStore], object]) -> None:
        """A row that was written anew, patched or merged is told, and only that one."""
        put(store, record(ALICE, "a", "a"), record(ALICE, "b", "b"))
        mark = changes(store).mark
        change(store)
        told = changes(store, mark)
        assert told.mark != mark
        assert [row.candidate.point for row in told.rows or ()] == [record(ALICE, "b").point_id.bytes]

    def test_a_vector_that_comes_later(self, store: RecordStore) -> None:
        """A row is told again when its vector comes, with the vector, empty where there is nothing to embed."""
        put(store, record(ALICE, "a"), record(ALICE, "b"))
        mark = changes(store).mark
        store.vectors.use_space(SPACE)
        entries = store.outbox.due(now=NOW, limit=9)
        store.vectors.save(entries, np.stack([np.ones(8, np.float32), np.zeros(8, np.float32)]))
        told = changes(store, mark)
        assert told.mark.space == SPACE
        assert [row.vector for row in told.rows or ()] == [np.ones(8, "<f4").tobytes(), b""]

    def test_a_text_that_changed_waits_for_its_vector(self, store: RecordStore) -> None:
        """A new text has no vector before its own comes."""
        put(store, record(ALICE, "a", "old"))
        embed_all(store)
        mark = changes(store).mark
        store.records.change(ALICE, "memories", "a", RecordPatch(content="new"), now=NOW)
        assert [row.vector for row in changes(store, mark).rows or ()] == [None]

    def test_a_row_that_is_gone(self, store: RecordStore) -> None:
        """After a delete the numbers of all rows that are left come."""
        put(store, *(record(ALICE, name) for name in "abc"))
        told = changes(store)
        numbers = [row.candidate.row for row in told.rows or ()]
        store.records.delete(ALICE, "memories", ["b"])
        after = changes(store, told.mark)
        assert after.present == [numbers[0], numbers[2]]
        assert changes(store, after.mark).present is None

    def test_an_empty_partition(self, store: RecordStore) -> None:
        """A partition without rows is none; one that is filled again is another one."""
        assert tell(store, None) is None
        put(store, record(ALICE, "a"))
        mark = changes(store).mark
        store.records.delete_scope(ALICE)
        assert tell(store, mark) is None
        put(store, record(ALICE, "b"))
        told = changes(store, mark)
        assert told.mark.partition != mark.partition
        assert len(told.rows or ()) == 1

    def test_a_message_that_is_replaced_or_removed(self, store: RecordStore) -> None:
        """Turns are told like records: appended, replaced, and gone with their message."""
        append(store, TALK, [message("m", "one"), message("n", "two")])
        target = turns(ALICE)
        mark = changes(store, target=target).mark
        append(store, TALK, [message("m", "other")])
        told = changes(store, mark, target=target)
        assert [row.candidate.position for row in told.rows or ()] == [0]
        store.log.delete(TALK, ["n"])
        assert len(changes(store, told.mark, target=target).present or ()) == 1

    def test_a_session_is_told_with_all_of_its_user(self, store: RecordStore) -> None:
        """A partition is the owner's: a session's target tells the turns of every session."""
        other = dataclasses.replace(TALK, id="s2")
        append(store, TALK, [message("m")])
        append(store, other, [message("m")])
        rows = changes(store, target=Target(scope=TALK, space=MESSAGES)).rows or ()
        assert [row.scope for row in rows] == [TALK.digest, other.digest]

    def test_postings_of_terms(self, store: RecordStore) -> None:
        """Each term comes with its rows, ascending, and how often it is in them; an unknown one with none."""
        put(store, record(ALICE, "a", "tea tea milk"), record(ALICE, "b", "milk"))
        told = changes(store, terms=["milk", "tea", "wine"])
        first, second = [row.candidate.row for row in told.rows or ()]
        held = {term: (p.rows.tolist(), p.counts.tolist()) for term, p in told.postings.items()}
        assert held == {"milk": ([first, second], [1, 1]), "tea": ([first], [2]), "wine": ([], [])}
        again = tell(store, told.mark, terms=["milk", "coffee"], held=["milk"])
        assert again is not None
        assert list(again.postings) == ["coffee"]
        put(store, record(ALICE, "c", "milk"))
        renewed = tell(store, told.mark, terms=["milk"], held=["milk"])
        assert renewed is not None
        assert len(renewed.postings["milk"].rows) == 3

    def test_more_rows_than_asked_for(self, store: RecordStore) -> None:
        """More changed rows than `most` are not read."""
        put(store, record(ALICE, "a"), record(ALICE, "b"))
        told = tell(store, None, most=1)
        assert told is not None
        assert (told.rows, told.documents) == (None, 2)

    def test_vectors_of_a_given_space(self, store: RecordStore) -> None:
        """A partition whose vectors came with its texts tells those, and their space."""
        vectors = np.array([[1, 2]], np.float32)
        store.records.put(ALICE, [record(ALICE, "a")], vector_space=_GIVEN, vectors=vectors)
        told = changes(store)
        assert told.mark.space == _GIVEN
        assert [row.vector for row in told.rows or ()] == [vectors.astype("<f4").tobytes()]


def put(store: RecordStore, *records: MemoryRecord) -> None:
    """Write records, each into its own scope."""
    for one in records:
        store.records.put(one.scope, [one])


def tell(
    store: RecordStore,
    after: PartitionMark | None,
    *,
    target: Target = _MINE,
    most: int = 1000,
    terms: tuple[str, ...] | list[str] = (),
    held: tuple[str, ...] | list[str] = (),
) -> PartitionChanges | None:
    """Ask, with what most tests do not vary."""
    return store.partitions.changes(target, after=after, most=most, terms=terms, held=held)


def changes(
    store: RecordStore,
    after: PartitionMark | None = None,
    *,
    target: Target = _MINE,
    terms: tuple[str, ...] | list[str] = (),
) -> PartitionChanges:
    """Ask for a partition that has rows."""
    told = tell(store, after, target=target, terms=terms)
    assert told is not None
    return told
