"""What a log promises when messages take the place of those that are not kept."""

from __future__ import annotations

import dataclasses

import pytest

from memkit_core.errors import MemkitError
from memkit_core.models import Summary
from memkit_core.ports import RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.samples import (
    ALICE,
    INJECTIONS,
    NOW,
    TALK,
    append,
    due,
    embed_all,
    found_by_words,
    later,
    message,
    turns,
)


class RewritingContract(ContractGuard):
    """`MessageLog.append` with `keep`: one transaction that writes messages and deletes the others."""

    def test_what_is_not_kept_is_gone(self, store: RecordStore) -> None:
        """The kept messages stay where they are, the others go with their turns, the new ones follow."""
        append(store, TALK, [message(name) for name in "abcd"])
        embed_all(store)
        kept = store.log.read(TALK)[1:3]
        new = append(store, TALK, [message("e", "other"), message("a", "tea")], keep=["b", "c", "unknown"])
        assert store.log.read(TALK) == [*kept, *new]
        assert [one.id for one in store.log.read(TALK)] == ["b", "c", "e", "a"]
        assert found_by_words(store, turns(TALK)) == {"b", "c"}
        assert found_by_words(store, turns(TALK), "tea") == {"a"}
        session = store.log.session(TALK)
        assert session is not None
        assert session.messages == 4
        # The index is told of every turn that is there or was.
        assert len({entry.point_id for entry in due(store)}) == 5

    def test_nothing_is_kept(self, store: RecordStore) -> None:
        """With nothing to keep the log is what is given; the session keeps its name, its metadata and its start."""
        store.log.create(TALK, title="Tea", metadata={"n": 1}, now=NOW)
        append(store, TALK, [message("a"), message("b")])
        append(store, TALK, [message("c")], keep=[], now=later(hours=1))
        assert [one.id for one in store.log.read(TALK)] == ["c"]
        session = store.log.session(TALK)
        assert session is not None
        assert (session.title, session.metadata, session.messages) == ("Tea", {"n": 1}, 1)
        assert (session.created_at, session.updated_at) == (NOW, later(hours=1))

    def test_a_rewriting_touches_nothing_else(self, store: RecordStore) -> None:
        """Other sessions of the user, and those of others with the same ids, stay."""
        others = [Scope.session("s2", user="alice"), Scope.session(TALK.id, user="bob")]
        for session in (TALK, *others):
            append(store, session, [message("a"), message("b")])
        append(store, TALK, [message("c")], keep=[])
        for session in others:
            assert [one.id for one in store.log.read(session)] == ["a", "b"]
        assert {one.scope.id: one.messages for one in store.log.sessions(ALICE)} == {TALK.id: 1, "s2": 2}

    def test_the_summary_of_what_goes_goes(self, store: RecordStore) -> None:
        """A summary stays while all it covers is kept, and goes with the first that is not."""
        append(store, TALK, [message(name, indexed=False) for name in "abcd"])
        kept = Summary(session=TALK, text="of two", position=1, updated_at=NOW)
        assert store.log.save_summary(kept, after=-1, messages=2)
        append(store, TALK, [message("e", indexed=False)], keep=["a", "b"])
        assert store.log.summary(TALK) == kept
        append(store, TALK, [message("f", indexed=False)], keep=["b", "e"])
        assert store.log.summary(TALK) is None

    def test_a_rewriting_is_all_or_nothing(self, store: RecordStore) -> None:
        """What cannot be written deletes nothing."""
        append(store, TALK, [message("a"), message("b")])
        bad = message("bad", metadata={"x": float("nan")}, indexed=False)
        with pytest.raises((MemkitError, ValueError, TypeError)):
            append(store, TALK, [message("c"), bad], keep=[])
        assert [one.id for one in store.log.read(TALK)] == ["a", "b"]
        assert found_by_words(store, turns(TALK)) == {"a", "b"}

    def test_with_nothing_to_write_the_others_go(self, store: RecordStore) -> None:
        """Only what is not kept is deleted: the session stays as it is, and one that is not there is not made."""
        append(store, TALK, [message(name) for name in "abc"])
        before = store.log.session(TALK)
        assert append(store, TALK, [], keep=["b"], now=later(hours=1)) == []
        assert [one.id for one in store.log.read(TALK)] == ["b"]
        assert found_by_words(store, turns(TALK)) == {"b"}
        assert append(store, TALK, []) == append(store, TALK, [], keep=[]) == []
        assert store.log.read(TALK) == []
        session = store.log.session(TALK)
        assert session is not None
        assert before == dataclasses.replace(session, messages=3)
        other = Scope.session("none", user="alice")
        assert append(store, other, [], keep=[]) == []
        assert store.log.session(other) is None

    def test_ids_are_data(self, store: RecordStore) -> None:
        """Any number of ids is kept, whatever they look like."""
        append(store, TALK, [message(name, indexed=False) for name in (*INJECTIONS, "a")])
        append(
            store, TALK, [message("z", indexed=False)], keep=[*INJECTIONS, *(f"i{n}" for n in range(40_000))]
        )
        assert [one.id for one in store.log.read(TALK)] == [*INJECTIONS, "z"]
