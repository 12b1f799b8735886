"""Opening, closing, threads: what holds for a store as a whole."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit_core.errors import ClosedError
from memkit_core.models import MEMORIES, RecordPatch, Target
from memkit_core.ports import Access, ListQuery, RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    NOW,
    SPACE,
    TALK,
    append,
    due,
    embed_all,
    found_by_words,
    message,
    record,
    turns,
)

_THREADS, _ROUNDS = 8, 12


class LifecycleContract(ContractGuard):
    """A store from its opening to its closing."""

    durable = True
    """Whether what is written is there after `reopen`."""

    def reopen(self, store: RecordStore) -> RecordStore:
        """A new store on what the closed `store` has left; given by the subclass of a durable store."""
        raise NotImplementedError(f"{type(self).__name__} says it is durable: give it a reopen method")

    def test_durable_is_told(self, store: RecordStore) -> None:
        """A store says whether it outlives the process, and has a name of its own."""
        assert store.durable is self.durable
        assert isinstance(store.store_id, str)
        assert store.store_id

    def test_close_twice(self, store: RecordStore) -> None:
        """Closing twice is one close."""
        store.records.put(ALICE, [record(ALICE, "a")])
        store.close()
        store.close()

    @pytest.mark.parametrize("call", range(11))
    def test_a_closed_store_says_so(self, store: RecordStore, call: int) -> None:
        """Every call on a closed store raises `ClosedError`."""
        calls: list[Callable[[], object]] = [
            lambda: store.records.put(ALICE, [record(ALICE, "a")]),
            lambda: store.records.get(ALICE, MEMORIES, ["a"], now=NOW),
            lambda: store.keywords.search(Target(scope=ALICE), "words", where=None, now=NOW, limit=1),
            lambda: store.vectors.use_space(SPACE),
            lambda: store.vectors.scan(Target(scope=ALICE), where=None, now=NOW),
            lambda: store.outbox.due(now=NOW, limit=1),
            lambda: append(store, TALK, [message("m")]),
            lambda: store.log.read(TALK),
            lambda: store.records.change(ALICE, MEMORIES, "a", RecordPatch(pinned=True), now=NOW),
            lambda: store.records.history(ALICE, "a", now=NOW),
            lambda: store.records.touch({record(ALICE, "a").point_id: Access(1, NOW)}),
        ]
        store.close()
        with pytest.raises(ClosedError):
            calls[call]()

    def test_everything_is_there_after_reopening(self, store: RecordStore) -> None:
        """Records, words, vectors, outbox, messages and the store's name outlive it when it is durable."""
        if not self.durable:
            pytest.skip("this store is not durable")
        (kept,) = store.records.put(ALICE, [record(ALICE, "a", metadata={"n": 1}, tags=("t",))])
        said = append(store, TALK, [message("m", "tea")])
        embed_all(store)
        numbers = [entry.number for entry in due(store)]
        store.outbox.mark_synced(numbers[:1])
        name = store.store_id
        store.close()
        again = self.reopen(store)
        try:
            assert again.store_id == name
            assert again.records.get(ALICE, MEMORIES, ["a"], now=NOW) == [kept]
            assert again.log.read(TALK) == said
            assert found_by_words(again, turns(ALICE), "tea") == {"m"}
            assert again.vectors.space() == SPACE
            assert again.vectors.counts() == (2, 1)
            assert [entry.number for entry in due(again)] == numbers[1:]
            assert again.outbox.synced_through() == numbers[0]
        finally:
            again.close()

    def test_what_was_reset_stays_away_after_reopening(self, store: RecordStore) -> None:
        """After a reset nothing old comes back: nothing right after it, one after one add, one reopened."""
        if not self.durable:
            pytest.skip("this store is not durable")
        store.records.put(ALICE, [record(ALICE, str(i)) for i in range(10)])
        embed_all(store)
        store.records.delete_everything()
        assert len(store.records.list(ALICE, ListQuery(), now=NOW)) == 0
        store.records.put(ALICE, [record(ALICE, "new", "fresh words")])
        store.close()
        again = self.reopen(store)
        try:
            assert [one.id for one in again.records.list(ALICE, ListQuery(), now=NOW)] == ["new"]
            assert found_by_words(again, Target(scope=ALICE)) == {"new"}
            assert again.vectors.counts() == (0, 0)
        finally:
            again.close()

    def test_eight_threads(self, store: RecordStore) -> None:
        """Eight threads that write, read, search and delete lose nothing, mix nothing and never fail."""
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda number: self._hammer(store, number), range(_THREADS)))
        assert len(store.records.list(ALICE, ListQuery(limit=9999), now=NOW)) == _THREADS * _ROUNDS
        assert len(store.log.read(TALK)) == _THREADS * _ROUNDS
        for number in range(_THREADS):
            order = [one.id for one in store.log.read(TALK) if one.agent_id == f"t{number}"]
            assert order == [f"{number}.{i}" for i in range(_ROUNDS)]
            assert found_by_words(store, Target(scope=Scope.user(f"t{number}"))) == {"kept"}
        positions = [one.position for one in store.log.read(TALK)]
        assert positions == list(range(_THREADS * _ROUNDS))
        numbers = [entry.number for entry in due(store)]
        assert len(set(numbers)) == len(numbers) == len({entry.point_id for entry in due(store)})

    def _hammer(self, store: RecordStore, number: int) -> None:
        own = Scope.user(f"t{number}")
        for i in range(_ROUNDS):
            store.records.put(ALICE, [record(ALICE, f"{number}.{i}")])
            store.records.put(own, [record(own, "kept"), record(own, f"gone{i}")])
            append(store, TALK, [message(f"{number}.{i}", agent_id=f"t{number}")])
            assert found_by_words(store, Target(scope=own)) == {"kept", f"gone{i}"}
            embed_all(store)
            assert store.records.delete(own, MEMORIES, [f"gone{i}"]).records == 1
            assert len(store.records.list(own, ListQuery(), now=NOW)) == 1
