"""What a store of documents promises when some of them take the place of others."""

from __future__ import annotations

import numpy as np
import pytest

from memkit_core.errors import ConfigError, ScopeError
from memkit_core.models import MEMORIES, DeleteReceipt, MemoryRecord, Target
from memkit_core.ports import ListQuery, RecordStore, VectorSpace
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import ALICE, BOB, INJECTIONS, NOW, due, embed_all, found_by_words, record

_NOTES = "documents:notes"
_GUIDE = ["guide"]
_GIVEN = VectorSpace(model="their", revision="1", dimension=3, given=True)


def _part(record_id: str, content: str = "some words", **fields: object) -> MemoryRecord:
    return record(ALICE, record_id, content, space=_NOTES, source="guide", **fields)


class ReplacingContract(ContractGuard):
    """`RecordTable.replace`: one transaction that writes records and deletes those they stand for."""

    def test_what_is_not_written_again_is_gone(self, store: RecordStore) -> None:
        """Of what has the source only the given records stay, with words, vectors and outbox entries."""
        store.records.put(ALICE, [_part("1"), _part("2"), _part("3", expires_at=NOW)])
        embed_all(store)
        stored, gone = store.records.replace(ALICE, _NOTES, _GUIDE, [_part("2"), _part("4", "other")])
        assert [(one.id, one.version) for one in stored] == [("2", 2), ("4", 1)]
        assert gone == DeleteReceipt(records=2, vectors=2, keywords=2, outbox=2)
        assert _ids(store) == {"2", "4"}
        target = Target(scope=ALICE, space=_NOTES)
        assert found_by_words(store, target, "words") == {"2"}
        assert found_by_words(store, target, "other") == {"4"}
        # The vector of a text that stayed stays; the index is told of all four.
        assert len(store.vectors.scan(target, where=None, now=NOW)[0]) == 1
        assert len(due(store)) == 4

    def test_it_touches_nothing_else(self, store: RecordStore) -> None:
        """Other documents, spaces and scopes stay, whatever their ids and sources."""
        store.records.put(ALICE, [_part("1"), record(ALICE, "x", space=_NOTES, source="guide 2")])
        store.records.put(
            ALICE, [record(ALICE, "1", source="guide"), record(ALICE, "1", space="documents:b")]
        )
        store.records.put(BOB, [record(BOB, "1", space=_NOTES, source="guide")])
        assert store.records.replace(ALICE, _NOTES, _GUIDE)[1].records == 1
        assert _ids(store) == {"x"}
        for scope, space in ((ALICE, MEMORIES), (ALICE, "documents:b"), (BOB, _NOTES)):
            assert len(store.records.get(scope, space, ["1"], now=NOW)) == 1
        assert store.records.replace(ALICE, "documents:none", _GUIDE) == ([], DeleteReceipt())

    def test_ids_go_with_sources(self, store: RecordStore) -> None:
        """Records that are named by id go in the same call, but for those that are written."""
        plain = [record(ALICE, name, space=_NOTES) for name in ("x", "y", "z", *INJECTIONS)]
        store.records.put(ALICE, [_part("1"), *plain])
        store.records.put(ALICE, [record(ALICE, "x")])
        stored, gone = store.records.replace(
            ALICE, _NOTES, _GUIDE, [record(ALICE, "y", "new", space=_NOTES)], ids=["x", "y", *INJECTIONS]
        )
        assert ([one.id for one in stored], gone.records) == (["y"], 2 + len(INJECTIONS))
        assert _ids(store) == {"y", "z"}
        assert store.records.get(ALICE, MEMORIES, ["x"], now=NOW)

    def test_all_or_nothing(self, store: RecordStore) -> None:
        """What cannot be written changes nothing: neither is the old gone nor the new there."""
        store.records.put(ALICE, [_part("1"), _part("2")])
        with pytest.raises(ScopeError):
            store.records.replace(ALICE, _NOTES, _GUIDE, [_part("3"), record(BOB, "4", space=_NOTES)])
        with pytest.raises(ConfigError):
            store.records.replace(ALICE, _NOTES, _GUIDE, [_part("3")], vector_space=_GIVEN)
        assert _ids(store) == {"1", "2"}

    def test_in_a_given_space(self, store: RecordStore) -> None:
        """What is written into a collection with vectors of its own waits for a vector of that model."""
        old = [_part("1"), _part("2")]
        store.records.put(ALICE, old, vector_space=_GIVEN, vectors=np.eye(2, 3, dtype=np.float32))
        new = [_part("2"), _part("3", "new")]
        store.records.replace(ALICE, _NOTES, _GUIDE, new, vector_space=_GIVEN)
        assert _ids(store) == {"2", "3"}
        waiting = store.given(_GIVEN).outbox.pending(Target(scope=ALICE, space=_NOTES))
        assert sorted(one.embedded for one in waiting if one.point_id != old[0].point_id) == [False, True]

    def test_sources_are_data(self, store: RecordStore) -> None:
        """Any number of sources, whatever they look like; one of them names its own records, None no one."""
        hostile = [record(ALICE, str(n), space=_NOTES, source=text) for n, text in enumerate(INJECTIONS)]
        store.records.put(ALICE, [*hostile, record(ALICE, "none", space=_NOTES)])
        for n, text in enumerate(INJECTIONS):
            receipt = store.records.replace(ALICE, _NOTES, [text, *(f"s{i}" for i in range(5000))])[1]
            assert receipt.records == 1, text
            assert str(n) not in _ids(store)
        assert store.records.replace(ALICE, _NOTES, [])[1].nothing
        assert _ids(store) == {"none"}


def _ids(store: RecordStore) -> set[str]:
    return {one.id for one in store.records.list(ALICE, ListQuery(space=_NOTES), now=NOW)}
