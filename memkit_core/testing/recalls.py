"""The recall log: what is kept, who can mark it, and what goes with what is deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from hashlib import sha256

import pytest

from memkit_core.errors import ClosedError
from memkit_core.models import MEMORIES, MESSAGES, RecordType, Signals
from memkit_core.ports import LoggedHit, LoggedRecall, RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    BOB,
    HOSTILE_IDS,
    INJECTIONS,
    NOW,
    TALK,
    append,
    later,
    message,
    record,
)

_TEAM = Scope.workspace("team")
_SIGNALS = Signals(
    similarity=0.75, keyword=2.5, fused=0.5, relevance=0.25, importance=0.5, lifts={"session": 0.1}
)


def _hit(record_id: str, scope: Scope = ALICE, space: str = MEMORIES) -> LoggedHit:
    return LoggedHit(record_id=record_id, scope=scope, space=space, score=0.5, signals=_SIGNALS)


def _recall(recall_id: str, *hits: LoggedHit, scopes: Sequence[Scope] = (ALICE,)) -> LoggedRecall:
    return LoggedRecall(
        id=recall_id,
        at=NOW,
        query=f"what about {recall_id}?",
        scopes=tuple(scopes),
        top_k=10,
        types=(RecordType.FACT,),
        include_messages=True,
        repeatable=False,
        hits=hits,
    )


def _log(store: RecordStore, *recalls: LoggedRecall, keep: int = 100, texts: bool = True) -> None:
    store.recalls.append(recalls, keep=keep, texts=texts)


def _kept(store: RecordStore, *, judged: bool = False) -> list[str]:
    return [one.id for one in store.recalls.list(judged=judged, limit=1000)]


def _fill(store: RecordStore) -> None:
    store.records.put(ALICE, [record(ALICE, "a"), record(ALICE, "b")])
    store.records.put(BOB, [record(BOB, "a")])
    store.records.put(_TEAM, [record(_TEAM, "t")])


class RecallsContract(ContractGuard):
    """`RecordStore.recalls`."""

    def test_a_recall_comes_back(self, store: RecordStore) -> None:
        """All of a recall comes back, newest recalls first, with the digest of its query."""
        _fill(store)
        first = _recall("1", _hit("b"), _hit("a"), _hit("t", _TEAM), scopes=(ALICE, _TEAM))
        _log(store, first, _recall("2", _hit("a")))
        newest, oldest = store.recalls.list(judged=False, limit=10)
        assert newest.id == "2"
        assert oldest == dataclasses.replace(first, digest=sha256(b"what about 1?").hexdigest())
        assert [one.id for one in store.recalls.list(judged=False, limit=1)] == ["2"]

    def test_without_texts_only_digests_are_kept(self, store: RecordStore) -> None:
        """Without `texts` the query is not kept, its SHA-256 is."""
        _fill(store)
        _log(store, _recall("1", _hit("a")), texts=False)
        (found,) = store.recalls.list(judged=False, limit=10)
        assert (found.query, found.digest) == (None, sha256(b"what about 1?").hexdigest())

    def test_the_newest_are_kept(self, store: RecordStore) -> None:
        """No more than `keep` stay, the newest; writing one again changes nothing."""
        _fill(store)
        _log(store, *(_recall(str(n), _hit("a")) for n in range(5)), keep=3)
        assert _kept(store) == ["4", "3", "2"]
        _log(store, _recall("4", _hit("b")), _recall("5", _hit("a")), keep=3)
        assert _kept(store) == ["5", "4", "3"]
        assert store.recalls.list(judged=False, limit=2)[1].hits[0].record_id == "a"

    def test_hits_are_marked(self, store: RecordStore) -> None:
        """A hit is marked useful or not, what was said last counts, and marked recalls can be listed alone."""
        _fill(store)
        _log(store, _recall("1", _hit("a"), _hit("b")), _recall("2", _hit("a")))
        assert store.recalls.mark(ALICE, "1", "b", useful=True)
        assert _kept(store, judged=True) == ["1"]
        assert store.recalls.mark(ALICE, "1", "b", useful=False)
        assert store.recalls.mark(ALICE, "1", "a", useful=True)
        (found,) = store.recalls.list(judged=True, limit=10)
        assert [hit.useful for hit in found.hits] == [True, False]

    def test_what_is_not_there_is_not_marked(self, store: RecordStore) -> None:
        """An unknown recall, a record it did not return, and another's recall are all the same: not there."""
        _fill(store)
        _log(store, _recall("1", _hit("a")), _recall("2", _hit("a", BOB), scopes=(BOB,)))
        for scope, recall_id, record_id in (
            (ALICE, "3", "a"),
            (ALICE, "1", "b"),
            (ALICE, "2", "a"),
            (BOB, "1", "a"),
            (TALK, "1", "a"),
            *((ALICE, name, "a") for name in INJECTIONS),
            *((ALICE, "1", name) for name in INJECTIONS),
        ):
            assert not store.recalls.mark(scope, recall_id, record_id, useful=True)
        assert _kept(store, judged=True) == []

    def test_who_asked_marks_what_was_found_elsewhere(self, store: RecordStore) -> None:
        """A record is marked by its own scope or one that the recall named; of equal ids the scope's own."""
        store.records.put(ALICE, [record(ALICE, "x")])
        store.records.put(_TEAM, [record(_TEAM, "x"), record(_TEAM, "t")])
        hits = (_hit("x", _TEAM), _hit("x"), _hit("t", _TEAM))
        _log(store, _recall("1", *hits, scopes=(ALICE, _TEAM)))
        assert store.recalls.mark(ALICE, "1", "x", useful=True)
        assert store.recalls.mark(ALICE, "1", "t", useful=False)
        (found,) = store.recalls.list(judged=True, limit=10)
        assert [hit.useful for hit in found.hits] == [None, True, False]

    @pytest.mark.parametrize("name", HOSTILE_IDS)
    def test_any_id_is_a_record_that_can_be_marked(self, store: RecordStore, name: str) -> None:
        """Ids and queries are data, whatever they look like."""
        owner = Scope.user(name)
        store.records.put(owner, [record(owner, name)])
        asked = dataclasses.replace(_recall("1", _hit(name, owner), scopes=(owner,)), query=name)
        _log(store, asked)
        assert store.recalls.mark(owner, "1", name, useful=True)
        (found,) = store.recalls.list(judged=True, limit=10)
        assert (found.query, found.scopes, found.hits[0].record_id) == (name, (owner,), name)

    @pytest.mark.parametrize(
        "deleted",
        [
            lambda store: store.records.delete(ALICE, MEMORIES, ["a"]),
            lambda store: store.records.sweep(now=later(days=2), limit=10),
        ],
    )
    def test_a_hit_goes_with_its_record(
        self, store: RecordStore, deleted: Callable[[RecordStore], object]
    ) -> None:
        """A deleted or expired record leaves the log, and with the last hit the query goes too."""
        _fill(store)
        store.records.put(ALICE, [record(ALICE, "a", expires_at=later(days=1))])
        _log(store, _recall("1", _hit("a")), _recall("2", _hit("a"), _hit("b")))
        deleted(store)
        assert _kept(store) == ["2"]
        assert [hit.record_id for hit in store.recalls.list(judged=False, limit=1)[0].hits] == ["b"]

    def test_a_replaced_record_stays_in_the_log(self, store: RecordStore) -> None:
        """Writing a record anew deletes nothing of what was said of it."""
        _fill(store)
        _log(store, _recall("1", _hit("a")))
        assert store.recalls.mark(ALICE, "1", "a", useful=True)
        store.records.put(ALICE, [record(ALICE, "a", "other words")])
        assert _kept(store, judged=True) == ["1"]

    def test_deleting_a_scope_deletes_what_it_asked(self, store: RecordStore) -> None:
        """Recalls that named a deleted scope, or a session of a deleted user, go whole; others' stay."""
        _fill(store)
        append(store, TALK, [message("m")])
        _log(
            store,
            _recall("alone", _hit("a")),
            _recall("both", _hit("t", _TEAM), scopes=(ALICE, _TEAM)),
            _recall("talk", _hit("m", TALK, MESSAGES), _hit("t", _TEAM), scopes=(TALK, _TEAM)),
            _recall("team", _hit("t", _TEAM), scopes=(_TEAM,)),
            _recall("bob", _hit("a", BOB), scopes=(BOB,)),
        )
        store.records.delete_scope(TALK)
        assert _kept(store) == ["bob", "team", "both", "alone"]
        store.records.delete_scope(ALICE)
        assert _kept(store) == ["bob", "team"]
        store.records.delete_everything()
        assert _kept(store) == []

    def test_clearing_a_session_deletes_what_it_asked(self, store: RecordStore) -> None:
        """What was asked in a session goes with it, whatever was found; other sessions' recalls stay."""
        _fill(store)
        other = Scope.session("other", user=ALICE)
        append(store, TALK, [message("m")])
        _log(
            store,
            _recall("talk", _hit("a"), scopes=(TALK, ALICE)),
            _recall("other", _hit("a"), scopes=(other, ALICE)),
            _recall("alone", _hit("a")),
        )
        store.log.clear(TALK)
        assert _kept(store) == ["alone", "other"]
        # Nothing was said in this one.
        store.log.clear(other)
        assert _kept(store) == ["alone"]

    def test_a_scope_without_records_is_deleted_too(self, store: RecordStore) -> None:
        """Who owns nothing but asked of what others own can be deleted all the same."""
        _fill(store)
        guest = Scope.user("guest")
        visit = Scope.session("v", user="guest")
        _log(store, _recall("1", _hit("t", _TEAM), scopes=(guest, _TEAM)))
        _log(store, _recall("2", _hit("t", _TEAM), scopes=(visit, _TEAM)))
        store.records.delete_scope(guest)
        assert _kept(store) == []

    def test_what_comes_after_a_delete_is_not_kept(self, store: RecordStore) -> None:
        """A recall written late, after its records or a scope it named were deleted, is not kept."""
        _fill(store)
        late = [
            _recall("gone", _hit("a")),
            _recall("part", _hit("a"), _hit("b")),
            _recall("deleted", _hit("t", _TEAM), scopes=(BOB, _TEAM)),
            _recall("guest", _hit("t", _TEAM), scopes=(Scope.user("guest"), _TEAM)),
        ]
        seen = store.recalls.last_change()
        store.records.delete(BOB, MEMORIES, ["a"])
        store.records.delete(ALICE, MEMORIES, ["a"])
        _log(store, *(dataclasses.replace(one, seen=seen) for one in late))
        assert _kept(store) == ["guest", "part"]

    @pytest.mark.parametrize("asker", [ALICE, TALK])
    def test_who_comes_back_is_not_told_of(self, store: RecordStore, asker: Scope) -> None:
        """What was asked before a scope was deleted is not kept, though the scope owns something again."""
        _fill(store)
        append(store, TALK, [message("m")])
        before = store.recalls.last_change()
        store.records.delete_scope(ALICE)
        store.records.put(ALICE, [record(ALICE, "a")])
        append(store, TALK, [message("m")])
        old, new = (_recall(name, _hit("t", _TEAM), scopes=(asker, _TEAM)) for name in ("old", "new"))
        after = store.recalls.last_change()
        _log(store, dataclasses.replace(old, seen=before), dataclasses.replace(new, seen=after))
        assert _kept(store) == ["new"]

    def test_a_cleared_session_is_not_told_of(self, store: RecordStore) -> None:
        """What was asked in a session before it was cleared is not kept, though it has memories of its own."""
        _fill(store)
        store.records.put(TALK, [record(TALK, "own")])
        append(store, TALK, [message("m")])
        asked = _recall("old", _hit("own", TALK), scopes=(TALK,))
        seen = store.recalls.last_change()
        store.log.clear(TALK)
        append(store, TALK, [message("m")])
        _log(store, dataclasses.replace(asked, seen=seen))
        assert _kept(store) == []

    def test_a_closed_log_says_so(self, store: RecordStore) -> None:
        """After `close` every method raises `ClosedError`."""
        store.close()
        with pytest.raises(ClosedError):
            _log(store, _recall("1", _hit("a")))
        with pytest.raises(ClosedError):
            store.recalls.mark(ALICE, "1", "a", useful=True)
        with pytest.raises(ClosedError):
            store.recalls.list(judged=False, limit=1)
