"""Given vector spaces: rows whose vectors come with them, or from a model of their own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from memkit_core.errors import ConfigError, DimensionMismatchError, InvalidInputError
from memkit_core.models import Target
from memkit_core.ports import RecordStore, VectorSource, VectorSpace
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import ALICE, BOB, NOW, SPACE, due, embed_all, record

_NOTES = "documents:notes"
_GIVEN = VectorSpace(model="their", revision="1", dimension=3, given=True)
_OTHER = dataclasses.replace(_GIVEN, model="another")
_MINE = Target(scope=ALICE, space=_NOTES)
_TWO = np.array([[1, 0, 0], [0, 1, 0]], np.float32)


def _put(store: RecordStore, *ids: str, vectors: object = _TWO, space: VectorSpace | None = _GIVEN) -> None:
    records = [record(ALICE, one, space=_NOTES) for one in ids]
    store.records.put(ALICE, records, vector_space=space, vectors=vectors)  # type: ignore[arg-type]  # also wrong ones


def _waiting(source: VectorSource) -> list[str]:
    entries = source.outbox.due(now=NOW.replace(year=2099), limit=100)
    return ["-" if entry.record is None else entry.record.id for entry in entries]


class GivenVectorsContract(ContractGuard):
    """Several vector spaces in one store, never mixed."""

    def test_given_vectors_are_kept_with_their_rows(self, store: RecordStore) -> None:
        """Vectors that come with records are there when the records are; of an id given twice the last."""
        _put(store, "a", "b")
        given = store.given(_GIVEN)
        assert given.vectors.space() == _GIVEN
        assert given.store_id == store.store_id
        points, found = given.vectors.scan(_MINE, where=None, now=NOW)
        by_point = dict(zip(points, found.tolist(), strict=True))
        assert by_point == {
            record(ALICE, "a", space=_NOTES).point_id: [1, 0, 0],
            record(ALICE, "b", space=_NOTES).point_id: [0, 1, 0],
        }
        _put(store, "c", "c")
        (_, found) = given.vectors.scan(
            _MINE, where=None, now=NOW, points=[record(ALICE, "c", space=_NOTES).point_id]
        )
        assert found.tolist() == [[0, 1, 0]]

    def test_spaces_are_apart(self, store: RecordStore) -> None:
        """Neither the memory's own vectors and outbox nor another given space see rows of this one."""
        _put(store, "a", "b")
        store.records.put(ALICE, [record(ALICE, "m")])
        assert [one.record.id for one in due(store) if one.record] == ["m"]
        embed_all(store)
        assert store.vectors.counts() == (1, 1)
        assert store.vectors.space() == SPACE
        given, other = store.given(_GIVEN), store.given(_OTHER)
        assert given.vectors.counts() == (2, 2)
        assert [row[1].id for row in given.vectors.page(after=0, limit=9)] == ["a", "b"]
        assert _waiting(given) == ["a", "b"]
        assert _waiting(other) == []
        assert other.vectors.counts() == (0, 0)
        assert store.vectors.scan(_MINE, where=None, now=NOW)[0] == []
        assert other.vectors.scan(_MINE, where=None, now=NOW)[0] == []
        assert store.outbox.pending(_MINE) == []
        assert {one.embedded for one in given.outbox.pending(_MINE)} == {True}

    def test_confirming_is_apart(self, store: RecordStore) -> None:
        """Each space knows for itself how far its index is; numbers are of the whole store."""
        store.records.put(ALICE, [record(ALICE, "m")])
        _put(store, "a", "b")
        given = store.given(_GIVEN)
        numbers = [one.number for one in given.outbox.pending(_MINE)]
        given.outbox.mark_synced(numbers)
        assert given.outbox.synced_through() == max(numbers)
        assert store.outbox.synced_through() == 0
        assert given.outbox.last_number() == store.outbox.last_number() >= max(numbers)
        assert given.outbox.state(max_attempts=5).length == 0
        assert store.outbox.state(max_attempts=5).length == 1

    def test_a_delete_waits_in_its_own_space(self, store: RecordStore) -> None:
        """The outbox entry of a deleted row is in the space its vector was in, however it was deleted."""
        _put(store, "a", "b")
        given = store.given(_GIVEN)
        given.outbox.mark_synced([one.number for one in given.outbox.pending(_MINE)])
        receipt = store.records.delete(ALICE, _NOTES, ["a"])
        assert (receipt.records, receipt.vectors) == (1, 1)
        store.records.delete_scope(ALICE)
        assert _waiting(given) == ["-", "-"]
        assert due(store) == []

    def test_rows_may_wait_for_their_vector(self, store: RecordStore) -> None:
        """Without vectors the rows of a given space wait in its outbox and are embedded there."""
        _put(store, "a", "b", vectors=None)
        given = store.given(_GIVEN)
        entries = given.outbox.due(now=NOW.replace(year=2099), limit=9, unembedded=True)
        assert [one.record.id for one in entries if one.record] == ["a", "b"]
        given.vectors.use_space(_GIVEN)
        assert given.vectors.save(entries, _TWO) == [True, True]
        assert given.vectors.counts() == (2, 2)
        with pytest.raises(DimensionMismatchError):
            given.vectors.save(entries, np.ones((2, 4), np.float32))
        with pytest.raises(ConfigError, match="another"):
            given.vectors.use_space(_OTHER)

    def test_one_space_a_partition(self, store: RecordStore) -> None:
        """Rows of one scope and space have vectors of one vector space; another is refused, nothing is written."""
        _put(store, "a", "b")
        for wrong in (_OTHER, None):
            with pytest.raises(ConfigError, match="'their'"):
                _put(store, "c", "d", space=wrong, vectors=None)
        assert store.records.get(ALICE, _NOTES, ["c"], now=NOW) == []
        # Another scope, and the same one once it is empty, may have another.
        store.records.put(BOB, [record(BOB, "a", space=_NOTES)], vector_space=_OTHER, vectors=_TWO[:1])
        store.records.delete(ALICE, _NOTES, ["a", "b"])
        _put(store, "c", "d", space=_OTHER)
        assert store.given(_OTHER).vectors.counts()[0] == 3
        assert store.given_spaces() == [_GIVEN, _OTHER]
        assert store.space_of(_MINE) == _OTHER

    def test_a_space_is_known_by_its_rows(self, store: RecordStore) -> None:
        """`space_of` tells whose vectors a target's rows have: given ones, the memory's own, or none yet."""
        assert store.space_of(_MINE) is None
        _put(store, "a", "b")
        assert store.space_of(_MINE) == _GIVEN
        store.records.put(ALICE, [record(ALICE, "m")])
        assert store.space_of(Target(scope=ALICE)) is None
        embed_all(store)
        assert store.space_of(Target(scope=ALICE)) == SPACE
        assert store.space_of(Target(scope=BOB, space=_NOTES)) is None

    def test_a_space_is_deleted_alone(self, store: RecordStore) -> None:
        """Deleting one space of a scope leaves its other spaces and other scopes as they are."""
        _put(store, "a", "b")
        store.records.put(ALICE, [record(ALICE, "m"), record(ALICE, "x", space="documents:notes2")])
        store.records.put(BOB, [record(BOB, "a", space=_NOTES)])
        receipt = store.records.delete_space(ALICE, _NOTES)
        assert (receipt.records, receipt.vectors) == (2, 2)
        assert store.records.delete_space(ALICE, _NOTES).nothing
        assert store.records.get(ALICE, _NOTES, ["a", "b"], now=NOW) == []
        assert len(store.records.get(ALICE, "memories", ["m"], now=NOW)) == 1
        assert len(store.records.get(ALICE, "documents:notes2", ["x"], now=NOW)) == 1
        assert len(store.records.get(BOB, _NOTES, ["a"], now=NOW)) == 1
        assert store.space_of(_MINE) is None

    def test_wrong_vectors_are_refused(self, store: RecordStore) -> None:
        """Vectors of another length, too few, or without a space are typed errors, and nothing is written."""
        with pytest.raises(DimensionMismatchError):
            _put(store, "a", "b", vectors=np.ones((2, 4), np.float32))
        with pytest.raises(InvalidInputError, match="2 records came with 1"):
            _put(store, "a", "b", vectors=_TWO[:1])
        with pytest.raises(DimensionMismatchError):
            _put(store, "a", "b", space=None)
        assert store.records.get(ALICE, _NOTES, ["a", "b"], now=NOW) == []
        assert store.given(_GIVEN).outbox.state(max_attempts=1).length == 0
