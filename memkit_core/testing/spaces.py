"""`SpaceTable`: another model's vectors beside those in use, and the switch to them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from memkit_core.errors import ConfigError, DimensionMismatchError
from memkit_core.models import MEMORIES, Target
from memkit_core.ports import Matrix, PartitionMark, RecordStore, Unembedded, VectorSpace
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
)

_MINE = Target(scope=ALICE)
_NEW = VectorSpace(model="new", revision="", dimension=5)
_OTHER = dataclasses.replace(_NEW, model="other")
_GIVEN = VectorSpace(model="theirs", revision="", dimension=3, given=True)


class SpacesContract(ContractGuard):
    """A change of the memory's own vector space."""

    def test_the_switch(self, store: RecordStore) -> None:
        """A coming space is seen by no read; from the switch on its vectors, and only these, are."""
        _fill(store)
        before = store.vectors.scan(_MINE, where=None, now=NOW)
        mark = _mark(store)
        source = store.spaces.begin(_NEW)
        assert source.store_id == store.store_id
        assert source.vectors.space() == _NEW
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        assert [row.row for row in rows] == sorted(row.row for row in rows)
        assert store.spaces.count(_NEW) == (5, 0)
        assert store.spaces.keep(_NEW, rows, _vectors(rows)) == 5
        assert store.spaces.count(_NEW) == (5, 5)
        assert store.spaces.waiting(_NEW, after=0, limit=100) == []
        assert [row[0] for row in source.vectors.page(after=0, limit=100)] == [row.row for row in rows]
        assert source.vectors.counts()[0] == 5
        assert store.vectors.space() == SPACE
        assert store.vectors.counts() == (5, 0)
        now = store.vectors.scan(_MINE, where=None, now=NOW)
        assert (now[0], now[1].tolist()) == (before[0], before[1].tolist())
        assert _mark(store).space == mark.space
        assert store.spaces.retired() == []
        assert store.verify() == []

        assert store.spaces.switch(_NEW) == 0
        assert store.vectors.space() == store.space_of(_MINE) == _NEW
        assert due(store) == []
        points, vectors = store.vectors.scan(_MINE, where=None, now=NOW)
        made = {row.record.point_id: vector for row, vector in zip(rows, _vectors(rows), strict=True)}
        assert set(points) == set(before[0])
        assert [made[point].tolist() for point in points] == vectors.tolist()
        assert store.vectors.counts() == (5, 0)
        assert len(store.vectors.scan(turns(TALK), where=None, now=NOW)[0]) == 1
        assert _mark(store).space == _NEW
        changes = store.partitions.changes(_MINE, after=mark, most=100, terms=())
        assert changes is not None
        assert changes.rows is not None
        assert [len(row.vector or b"") for row in changes.rows] == [20, 20, 20]
        assert store.spaces.retired() == [SPACE]
        assert store.verify() == []
        with pytest.raises(ConfigError, match=r"'new'.*'contract'"):
            store.vectors.use_space(SPACE)

    def test_what_changed_since_is_not_kept(self, store: RecordStore) -> None:
        """A vector is kept only beside the text it was made from; another text loses it, another tag does not."""
        _fill(store)
        store.spaces.begin(_NEW)
        rows = {row.record.id: row for row in store.spaces.waiting(_NEW, after=0, limit=100)}
        store.records.put(ALICE, [record(ALICE, "a", "another text")])
        store.records.delete(ALICE, MEMORIES, ["b"])
        told = list(rows.values())
        assert store.spaces.keep(_NEW, told, _vectors(told)) == 3
        assert [row.record.content for row in store.spaces.waiting(_NEW, after=0, limit=9)] == [
            "another text"
        ]
        store.records.put(ALICE, [record(ALICE, "c", "text c", tags=("new",))])
        store.records.put(BOB, [record(BOB, "a", "another one")])
        left = store.spaces.waiting(_NEW, after=0, limit=9)
        assert {row.record.content for row in left} == {"another text", "another one"}
        assert store.spaces.waiting(_NEW, after=left[0].row, limit=9) == left[1:]
        assert store.spaces.waiting(_NEW, after=0, limit=1) == left[:1]
        confirm_all(store)
        assert store.spaces.switch(_NEW) == 2
        waiting = {one.record.content: one.vector for one in due(store) if one.record is not None}
        assert waiting == {"another text": None, "another one": None}
        assert store.verify() == []

    def test_rows_that_an_index_has_not(self, store: RecordStore) -> None:
        """Rows that are named at the switch get an outbox entry with their new vector; unknown ones do not."""
        _fill(store)
        store.spaces.begin(_NEW)
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        store.spaces.keep(_NEW, rows, _vectors(rows))
        assert store.spaces.switch(_NEW, tell=[rows[1].row, 10_000]) == 0
        (entry,) = due(store)
        assert entry.point_id == rows[1].record.point_id
        assert entry.vector is not None
        assert entry.vector.tolist() == _vectors(rows)[1].tolist()

    def test_a_delete_takes_all_vectors(self, store: RecordStore) -> None:
        """What is deleted is gone in every space, and counts as one vector."""
        _fill(store)
        store.spaces.begin(_NEW)
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        store.spaces.keep(_NEW, rows, _vectors(rows))
        receipt = store.records.delete_scope(ALICE)
        assert receipt.vectors == 4
        assert store.spaces.count(_NEW) == (1, 1)
        store.records.put(ALICE, [record(ALICE, "a", "text a")])
        assert store.spaces.count(_NEW) == (2, 1)

    def test_given_vectors_have_no_part(self, store: RecordStore) -> None:
        """Rows with given vectors are neither counted nor embedded, and keep theirs through the switch."""
        _fill(store)
        given = [dataclasses.replace(record(ALICE, "d"), space="documents:x")]
        ones = np.ones((1, 3), np.float32)
        store.records.put(ALICE, given, vector_space=_GIVEN, vectors=ones)
        store.spaces.begin(_NEW)
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        assert len(rows) == store.spaces.count(_NEW)[0] == 5
        store.spaces.keep(_NEW, rows, _vectors(rows))
        store.spaces.switch(_NEW)
        target = Target(scope=ALICE, space="documents:x")
        assert store.space_of(target) == _GIVEN
        assert store.given_spaces() == [_GIVEN]
        assert store.given(_GIVEN).vectors.scan(target, where=None, now=NOW)[1].tolist() == ones.tolist()
        assert store.verify() == []

    def test_one_space_comes_at_a_time(self, store: RecordStore) -> None:
        """Another model retires the one that was coming, which can neither be written nor used any more."""
        _fill(store)
        store.spaces.begin(_NEW)
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        store.spaces.keep(_NEW, rows[:2], _vectors(rows[:2]))
        store.spaces.begin(_OTHER)
        assert store.spaces.retired() == [_NEW]
        with pytest.raises(ConfigError):
            store.spaces.keep(_NEW, rows, _vectors(rows))
        for space in (_NEW, SPACE):
            with pytest.raises(ConfigError):
                store.spaces.switch(space)
        assert store.vectors.space() == SPACE
        store.spaces.begin(_NEW)
        assert store.spaces.retired() == [_OTHER]
        assert store.spaces.count(_NEW) == (5, 2)
        with pytest.raises(DimensionMismatchError):
            store.spaces.keep(_NEW, rows, np.ones((5, 4), np.float32))
        store.spaces.begin(SPACE)
        assert set(store.spaces.retired()) == {_NEW, _OTHER}
        assert store.vectors.space() == SPACE

    def test_what_is_retired_is_dropped(self, store: RecordStore) -> None:
        """A retired space is dropped piece by piece and then forgotten; those in use or coming never are."""
        _fill(store)
        store.spaces.begin(_NEW)
        rows = store.spaces.waiting(_NEW, after=0, limit=100)
        store.spaces.keep(_NEW, rows, _vectors(rows))
        assert store.spaces.drop(SPACE, limit=9) == store.spaces.drop(_NEW, limit=9) == 0
        store.spaces.switch(_NEW)
        assert store.spaces.drop(SPACE, limit=3) == 3
        store.spaces.forget(SPACE)
        assert store.spaces.retired() == [SPACE]
        assert store.spaces.drop(SPACE, limit=3) == 2
        assert store.spaces.drop(SPACE, limit=3) == 0
        store.spaces.forget(SPACE)
        store.spaces.forget(_NEW)
        assert store.spaces.retired() == []
        assert store.vectors.space() == _NEW
        assert store.vectors.counts() == (5, 0)
        assert store.verify() == []

    def test_writers_that_know_another_space(self, store: RecordStore) -> None:
        """Vectors of a model that is out of use are never kept, found or confirmed; the records are."""
        _fill(store)
        store.records.put(ALICE, [record(ALICE, "n", "a text")])
        entries = due(store)
        rows = store.spaces.waiting(store.spaces.begin(_NEW).vectors.space() or _NEW, after=0, limit=100)
        store.spaces.keep(_NEW, rows[:5], _vectors(rows[:5]))
        store.spaces.switch(_NEW)
        ones = np.ones((1, SPACE.dimension), np.float32)
        with pytest.raises(ConfigError):
            store.vectors.save(entries, ones, space=SPACE)
        assert [one.record.id for one in due(store) if one.record] == ["n"]
        store.outbox.mark_synced([one.number for one in due(store)], space=SPACE)
        assert [one.record.id for one in due(store) if one.record] == ["n"]
        assert store.vectors.scan(_MINE, where=None, now=NOW, space=SPACE)[0] == []
        assert len(store.vectors.scan(_MINE, where=None, now=NOW, space=_NEW)[0]) == 3
        store.records.put(ALICE, [record(ALICE, "m", "more")], vector_space=SPACE, vectors=ones)
        fives = np.ones((1, 5), np.float32)
        store.records.put(ALICE, [record(ALICE, "o", "other")], vector_space=_NEW, vectors=fives)
        embedded = {one.record.id: one.vector is not None for one in due(store) if one.record}
        assert embedded == {"n": False, "m": False, "o": True}
        store.outbox.mark_synced([one.number for one in due(store)], space=_NEW)
        assert due(store) == []

    def test_before_the_first_vector(self, store: RecordStore) -> None:
        """A store that has no vectors yet takes the coming space as its first."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.spaces.begin(_NEW)
        assert store.spaces.switch(_NEW) == 1
        assert store.vectors.space() == _NEW
        assert store.spaces.retired() == []


def _fill(store: RecordStore) -> None:
    """Three memories, a turn, and a memory of another user, embedded and confirmed."""
    store.records.put(ALICE, [record(ALICE, name, f"text {name}") for name in "abc"])
    append(store, TALK, [message("t")])
    store.records.put(BOB, [record(BOB, "z", "text z")])
    embed_all(store)
    confirm_all(store)


def _vectors(rows: list[Unembedded]) -> Matrix:
    return np.array([[row.row, 1, 2, 3, len(row.record.content)] for row in rows], np.float32)


def _mark(store: RecordStore) -> PartitionMark:
    changes = store.partitions.changes(_MINE, after=None, most=100, terms=())
    assert changes is not None
    return changes.mark
