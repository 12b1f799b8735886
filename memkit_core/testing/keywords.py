"""`KeywordIndex`: plain text in, the owner's own rows out, the same scores on every store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from memkit_core.filters import Filter, parse_filter
from memkit_core.models import MEMORIES, MemoryRecord, Status, Target
from memkit_core.ports import Candidate, KeywordHit, KeywordIndex, RecordStore
from memkit_core.scope import Scope
from memkit_core.stores.memory import InMemoryStore
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    NOW,
    TALK,
    append,
    due,
    found_by_words,
    later,
    message,
    record,
    turns,
)

LITERALS = (
    "POL-358", "don't", "GB/s", "a:b", "C++", "foo AND bar", '"quoted"', "(", "*", "NEAR(", "丹佛", "绿茶", "東京",
    "서울", "naïve", "user@example.org", "snake_case_name", "v1.2.3", "🦉",
)  # fmt: skip
_MINE = Target(scope=ALICE)
_CORPUS = (
    "green tea", "tea tea tea", "black tea with milk and sugar", "milk", "coffee", "green coffee beans",
    "the tea house in Denver serves green tea", "丹佛的绿茶很好", "nothing of the kind", "C++ and POL-358",
)  # fmt: skip


class StoreWithKeywords(InMemoryStore):
    """An `InMemoryStore` whose keyword leg is an index of your own."""

    def __init__(
        self,
        index: KeywordIndex,
        *,
        write: Callable[[Sequence[MemoryRecord]], None],
        remove: Callable[[Sequence[UUID]], None],
    ) -> None:
        """Tell `index` of every change before it is asked.

        Args:
            index: what is tested.
            write: adds records to it, replacing those with the same `point_id`.
            remove: takes points out of it; it may not know them.
        """
        super().__init__()
        self.keywords = _ToldFirst(self, index, write, remove)


class _ToldFirst:
    """A `KeywordIndex` that catches up with the store's outbox before each call."""

    def __init__(
        self,
        store: RecordStore,
        index: KeywordIndex,
        write: Callable[[Sequence[MemoryRecord]], None],
        remove: Callable[[Sequence[UUID]], None],
    ) -> None:
        self._store, self._index, self._write, self._remove = store, index, write, remove

    def search(
        self, target: Target, query: str, *, where: Filter | None, now: datetime, limit: int
    ) -> list[KeywordHit]:
        self._catch_up()
        return self._index.search(target, query, where=where, now=now, limit=limit)

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        self._catch_up()
        return self._index.counts(target, query, candidates)

    def _catch_up(self) -> None:
        entries = due(self._store)
        self._remove([entry.point_id for entry in entries if entry.record is None])
        self._write([entry.record for entry in entries if entry.record is not None])
        self._store.outbox.mark_synced([entry.number for entry in entries])


class KeywordIndexContract(ContractGuard):
    """What every `KeywordIndex` does, as tests. Subclass it and give it a fixture `store`.

    The fixture gives an empty `RecordStore` whose `keywords` is under test, and closes it. An index
    that is no part of a store of yours is tested as the keyword leg of `StoreWithKeywords`.
    """

    @pytest.fixture
    def store(self) -> RecordStore:
        """The store whose keyword leg is under test; every subclass gives its own."""
        raise NotImplementedError("give the contract a fixture named store")

    @pytest.mark.parametrize("literal", LITERALS)
    def test_ordinary_text_is_found(self, store: RecordStore, literal: str) -> None:
        """A query is text, never a query language: what stands in a record is found by writing it."""
        plain = record(ALICE, "plain", "An ordinary sentence about something else.")
        store.records.put(ALICE, [record(ALICE, "own", f"We saw {literal} yesterday."), plain])
        assert "own" in found_by_words(store, _MINE, literal)
        assert found_by_words(store, _MINE, "ordinary") == {"plain"}

    @pytest.mark.parametrize(
        "query",
        [
            *("", "   ", "\n", "the of and", "?", "zebra", "\0", "\ud83d", "' OR 1=1 --", "zebra " * 5000),
            " ".join(f"zebra{i}" for i in range(5000)),
        ],
        ids=range(11),
    )
    def test_no_query_raises(self, store: RecordStore, query: str) -> None:
        """No query raises; one without a term of any record finds nothing."""
        store.records.put(ALICE, [record(ALICE, "x", "Alice likes tea.")])
        assert store.keywords.search(_MINE, query, where=None, now=NOW, limit=10) == []

    def test_best_first(self, store: RecordStore) -> None:
        """More of the rarer terms is better; scores are above 0 and descend; the limit cuts the end."""
        self._write(store, ALICE)
        hits = store.keywords.search(_MINE, "green tea", where=None, now=NOW, limit=100)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) > 0
        assert hits[0].point_id == record(ALICE, "0").point_id
        assert store.keywords.search(_MINE, "green tea", where=None, now=NOW, limit=3) == hits[:3]

    def test_scores_are_those_of_the_model(self, store: RecordStore) -> None:
        """Scores agree with `InMemoryStore` to 1e-9, after replacing and deleting too."""
        model = InMemoryStore()
        for one in (store, model):
            self._write(one, ALICE)
            one.records.put(ALICE, [record(ALICE, "1", "tea once")])
            one.records.delete(ALICE, MEMORIES, ["4"])
        for query in ("green tea", "tea", "milk coffee 绿茶", "C++ POL-358", "tea " * 50):
            got, expected = (
                {
                    hit.point_id: hit.score
                    for hit in one.keywords.search(_MINE, query, where=None, now=NOW, limit=100)
                }
                for one in (store, model)
            )
            assert got == pytest.approx(expected, abs=1e-9)
            assert got

    def test_another_owners_rows_never_change_scores(self, store: RecordStore) -> None:
        """What other users, sessions and spaces hold changes no score of one's own."""
        self._write(store, ALICE)
        before = store.keywords.search(_MINE, "green tea", where=None, now=NOW, limit=100)
        self._write(store, BOB)
        self._write(store, TALK)
        store.records.put(ALICE, [record(ALICE, f"n{i}", "green tea", space="store:n") for i in range(20)])
        append(store, TALK, [message(str(i), "green tea") for i in range(20)])
        assert store.keywords.search(_MINE, "green tea", where=None, now=NOW, limit=100) == before
        store.records.delete_scope(BOB)
        assert store.keywords.search(_MINE, "green tea", where=None, now=NOW, limit=100) == before

    def test_a_session_sees_its_own_turns(self, store: RecordStore) -> None:
        """A session finds its own turns, its user those of all sessions, with the user's statistics."""
        other = Scope.session("s2", user="alice")
        append(store, TALK, [message("1", "green tea")])
        append(store, other, [message("2", "green tea and milk")])
        append(store, Scope.session("s1", user="bob"), [message("3", "green tea")])
        assert found_by_words(store, turns(TALK), "tea") == {"1"}
        assert found_by_words(store, turns(ALICE), "tea") == {"1", "2"}
        (own,) = store.keywords.search(turns(TALK), "tea", where=None, now=NOW, limit=10)
        both = store.keywords.search(turns(ALICE), "tea", where=None, now=NOW, limit=10)
        assert own in both

    def test_a_speaker_is_found_by_name(self, store: RecordStore) -> None:
        """The name of who said it belongs to the text of a turn."""
        append(store, TALK, [message("1", "I like tea", speaker="Caroline"), message("2", "Me too")])
        assert found_by_words(store, turns(TALK), "Caroline") == {"1"}

    def test_hits_bring_their_candidates(self, store: RecordStore) -> None:
        """A hit says of its row what `candidates` says of it, for memories and for turns."""
        self._write(store, ALICE)
        append(store, TALK, [message("1", "Is green tea good?", speaker="Bo"), message("2", "green")])
        for target in (_MINE, turns(TALK), turns(ALICE)):
            hits = store.keywords.search(target, "green tea", where=None, now=NOW, limit=10)
            points = [hit.point_id for hit in hits]
            known = store.records.candidates(target, points, radius=0, where=None, now=NOW)
            assert len(hits) > 1
            assert {hit.candidate for hit in hits} == set(known)

    def test_what_may_not_be_seen_takes_no_place(self, store: RecordStore) -> None:
        """However many better rows are expired, refused by the filter or of another session: the limit is filled."""
        hidden = [
            record(ALICE, f"h{i}", "tea tea", status=Status.ARCHIVED)
            if i % 2
            else record(ALICE, f"h{i}", "tea tea", expires_at=later(hours=-1))
            for i in range(40)
        ]
        seen = [record(ALICE, str(i), f"tea{' and much more to read' * (i + 1)}") for i in range(5)]
        store.records.put(ALICE, [*hidden, *seen])
        where = parse_filter({"status": "active"})
        hits = store.keywords.search(_MINE, "tea", where=where, now=NOW, limit=3)
        assert [hit.point_id for hit in hits] == [one.point_id for one in seen[:3]]
        append(store, Scope.session("s2", user="alice"), [message(str(i), "tea") for i in range(20)])
        append(store, TALK, [message("own", "tea with something else in it")])
        assert len(store.keywords.search(turns(TALK), "tea", where=None, now=NOW, limit=1)) == 1

    def test_counts(self, store: RecordStore) -> None:
        """`counts` says how often each distinct term of the query is in each candidate, in their order."""
        self._write(store, ALICE)
        points = [record(ALICE, i).point_id for i in ("1", "0", "4")]
        found = store.records.candidates(_MINE, points, radius=0, where=None, now=NOW)
        by_point = {one.point_id: one for one in found}
        ordered = [by_point[point] for point in points]
        counts = store.keywords.counts(_MINE, "tea green tea zebra", ordered)
        assert counts.tolist() == [[3, 0, 0], [1, 1, 0], [0, 0, 0]]
        assert store.keywords.counts(_MINE, "tea", []).shape == (0, 1)
        assert store.keywords.counts(_MINE, "", ordered).shape == (3, 0)

    def test_counts_stay_with_their_owner(self, store: RecordStore) -> None:
        """The candidates of one owner count nothing for another."""
        self._write(store, ALICE)
        self._write(store, BOB)
        points = [record(ALICE, "0").point_id]
        found = store.records.candidates(_MINE, points, radius=0, where=None, now=NOW)
        assert store.keywords.counts(Target(scope=BOB), "tea", found).sum() == 0

    def _write(self, store: RecordStore, scope: Scope) -> None:
        store.records.put(scope, [record(scope, str(i), text) for i, text in enumerate(_CORPUS)])
