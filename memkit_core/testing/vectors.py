"""`VectorTable`: vectors beside the records, each made from the text it stands beside."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from memkit_core.errors import ConfigError, DimensionMismatchError
from memkit_core.filters import parse_filter
from memkit_core.models import MEMORIES, Target
from memkit_core.ports import RecordStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    SPACE,
    TALK,
    append,
    confirm_all,
    due,
    embed_all,
    message,
    record,
    turns,
    vectors_for,
)

_MINE = Target(scope=ALICE)


class VectorsContract(ContractGuard):
    """The vectors that an index is rebuilt from."""

    def test_one_space_is_in_use(self, store: RecordStore) -> None:
        """The first space is kept; another model, revision or dimension is an error that names both."""
        assert store.vectors.space() is None
        store.vectors.use_space(SPACE)
        store.vectors.use_space(SPACE)
        assert store.vectors.space() == SPACE
        for change in ({"model": "other"}, {"revision": "2"}, {"dimension": 9}):
            with pytest.raises(ConfigError, match="'contract'") as refused:
                store.vectors.use_space(dataclasses.replace(SPACE, **change))
            assert str(next(iter(change.values()))) in str(refused.value)
        assert store.vectors.space() == SPACE

    def test_a_vector_may_come_with_its_record(self, store: RecordStore) -> None:
        """A vector of the space in use that comes with a record is kept in the same transaction.

        That of a record which became one with another goes nowhere, and the one of that other stays.
        """
        said, again = record(ALICE, "a"), record(ALICE, "b", "Some words.")
        ones = np.ones((1, SPACE.dimension), np.float32)
        with pytest.raises(DimensionMismatchError):
            store.records.put(ALICE, [said], vectors=ones)
        store.vectors.use_space(SPACE)
        with pytest.raises(DimensionMismatchError):
            store.records.put(ALICE, [said], vectors=ones[:, 1:])
        assert due(store) == []
        store.records.put(ALICE, [said], vectors=ones, merge=["a"])
        store.records.put(
            ALICE, [again, record(ALICE, "c")], vectors=np.zeros((2, 8), np.float32), merge=["b"]
        )
        assert [one.embedded for one in store.outbox.pending(_MINE)] == [True, True]
        points, found = store.vectors.scan(_MINE, where=None, now=NOW)
        assert (points, found.tolist()) == ([said.point_id], ones.tolist())

    def test_a_vector_comes_back(self, store: RecordStore) -> None:
        """A saved vector comes back bit for bit from the scan, the page and the outbox."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b", "other")])
        entries = due(store)
        vectors = vectors_for(entries)
        store.vectors.use_space(SPACE)
        assert store.vectors.save(entries, vectors) == [True, True]
        points, found = store.vectors.scan(_MINE, where=None, now=NOW)
        assert found.dtype == np.float32
        scanned = dict(zip(points, found.tolist(), strict=True))
        assert scanned == {e.point_id: v for e, v in zip(entries, vectors.tolist(), strict=True)}
        paged = {one.point_id: vector.tolist() for _, one, vector in store.vectors.page(after=0, limit=9)}
        waiting = {one.point_id: one.vector.tolist() for one in due(store) if one.vector is not None}
        assert paged == waiting == scanned

    def test_a_vector_never_meets_a_text_it_was_not_made_from(self, store: RecordStore) -> None:
        """A vector for a change that is no longer the newest is not kept, not even for a moment."""
        store.vectors.use_space(SPACE)
        store.records.put(ALICE, [record(ALICE, "a", "old"), record(ALICE, "b", "gone"), record(ALICE, "c")])
        stale = due(store)
        store.records.put(ALICE, [record(ALICE, "a", "new")])
        store.records.delete(ALICE, MEMORIES, ["b"])
        assert store.vectors.save(stale, vectors_for(stale)) == [False, False, True]
        assert store.vectors.scan(_MINE, where=None, now=NOW)[0] == [record(ALICE, "c").point_id]

    def test_a_vector_goes_with_its_text(self, store: RecordStore) -> None:
        """Another text loses the vector at once; another tag or status keeps it."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        embed_all(store)
        store.records.put(ALICE, [record(ALICE, "a", "other text"), record(ALICE, "b", tags=("new",))])
        assert store.vectors.scan(_MINE, where=None, now=NOW)[0] == [record(ALICE, "b").point_id]
        assert {one.record.id: one.vector is not None for one in due(store) if one.record} == {
            "a": False,
            "b": True,
        }

    def test_a_deleted_record_that_comes_back_has_no_vector(self, store: RecordStore) -> None:
        """After delete and add of the same id nothing of the old vector is left."""
        store.records.put(ALICE, [record(ALICE, "a")])
        embed_all(store)
        store.records.delete(ALICE, MEMORIES, ["a"])
        store.records.put(ALICE, [record(ALICE, "a")])
        assert store.vectors.counts() == (0, 0)
        assert [one.vector for one in due(store)] == [None]

    def test_a_zero_vector_means_nothing_to_embed(self, store: RecordStore) -> None:
        """An all-zero row is kept as "embedded", is never found, and never asked for again."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.vectors.use_space(SPACE)
        assert store.vectors.save(due(store), np.zeros((1, 8), np.float32)) == [True]
        (entry,) = due(store)
        assert entry.vector is not None
        assert entry.vector.size == 0
        assert [one.embedded for one in store.outbox.pending(_MINE)] == [True]
        assert store.vectors.scan(_MINE, where=None, now=NOW)[0] == []
        assert store.vectors.page(after=0, limit=9) == []
        assert store.vectors.counts() == (0, 0)

    def test_scan_narrows(self, store: RecordStore) -> None:
        """A scan returns the target's rows that satisfy the filter, of the given points if any are given."""
        batch = [record(ALICE, str(i), importance=i / 10) for i in range(4)]
        store.records.put(ALICE, batch)
        store.records.put(BOB, [record(BOB, "b")])
        append(store, TALK, [message("t")])
        embed_all(store)
        everything = [*(one.point_id for one in batch), record(BOB, "b").point_id]
        where = parse_filter({"importance": {"gt": 0.1}})
        assert set(store.vectors.scan(_MINE, where=where, now=NOW)[0]) == set(everything[2:4])
        chosen = store.vectors.scan(_MINE, where=where, now=NOW, points=[everything[0], *everything[3:]])
        assert chosen[0] == [everything[3]]
        assert store.vectors.scan(_MINE, where=None, now=NOW, points=[])[0] == []
        assert len(store.vectors.scan(turns(TALK), where=None, now=NOW)[0]) == 1
        many = store.vectors.scan(_MINE, where=None, now=NOW, points=everything * 300)[0]
        assert set(many) == set(everything[:4])

    def test_pages_hold_every_row_once(self, store: RecordStore) -> None:
        """Pages in ascending row number give every row with a vector once, of all owners and spaces."""
        for scope in (ALICE, BOB):
            store.records.put(scope, [record(scope, str(i)) for i in range(7)])
        append(store, TALK, [message(str(i)) for i in range(3)])
        embed_all(store)
        store.records.put(ALICE, [record(ALICE, "none", "without a vector")])
        seen, after = [], 0
        while rows := store.vectors.page(after=after, limit=4):
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)
            assert rows[0][0] > after
            after = rows[-1][0]
            seen += [one.point_id for _, one, _ in rows]
        assert len(seen) == len(set(seen)) == 17

    def test_counts_follow_the_outbox(self, store: RecordStore) -> None:
        """`counts` gives the vectors there are, and how many of these the index has not confirmed."""
        store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
        assert store.vectors.counts() == (0, 0)
        embed_all(store)
        assert store.vectors.counts() == (2, 2)
        confirm_all(store)
        assert store.vectors.counts() == (2, 0)
        store.records.put(ALICE, [record(ALICE, "a", tags=("t",)), record(ALICE, "b", "new text")])
        assert store.vectors.counts() == (1, 1)
