"""Scopes: every method sees the rows of the scope it was given, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.models import MEMORIES, MESSAGES, Target
from memkit_core.ports import ListQuery, RecordStore
from memkit_core.scope import Scope
from memkit_core.testing.guard import ContractGuard
from memkit_core.testing.records import PROPERTY
from memkit_core.testing.samples import HOSTILE_IDS, NOW, append, embed_all, message, record, turns
from memkit_core.testing.strategies import ids

_U1 = Scope.user("u1")
FAMILY = (
    _U1,
    Scope.user("u10"),
    Scope.user("U1"),
    Scope.user("u1", workspace="w"),
    Scope.user("u1", org="w"),
    Scope.user("u1", workspace="w", org="o"),
    Scope.workspace("u1"),
    Scope.workspace("w"),
    Scope.workspace("w", org="o"),
    Scope.org("u1"),
    Scope.object("u1"),
    Scope.object("u1", within=_U1),
    Scope.session("u1", user="u1"),
    Scope.session("s", user="u1"),
    Scope.session("s", user="u10"),
    Scope.session("s", user=Scope.user("u1", workspace="w")),
    Scope.session("c", user="a:b"),
    Scope.session("b:c", user="a"),
)
"""Scopes that are siblings, parents, children or look-alikes of each other."""
_SESSIONS = tuple(scope for scope in FAMILY if scope.kind == "session")


class IsolationContract(ContractGuard):
    """One record with the same id and words in each scope of the family."""

    @pytest.fixture
    def family(self, store: RecordStore) -> RecordStore:
        """The store with a memory `x` in every scope, and a message `x` in every session."""
        for scope in FAMILY:
            store.records.put(scope, [record(scope, "x", source=str(scope))])
        for scope in _SESSIONS:
            append(store, scope, [message("x", f"words of {scope}", metadata={"of": str(scope)})])
        embed_all(store)
        return store

    def test_reads_see_one_scope(self, family: RecordStore) -> None:
        """Get, list, search, scan, candidates, fetch and pending each see the scope's own row alone."""
        for scope in FAMILY:
            own = record(scope, "x", source=str(scope))
            points = [record(other, "x").point_id for other in FAMILY]
            assert family.records.get(scope, MEMORIES, ["x"], now=NOW) == [own]
            assert list(family.records.list(scope, ListQuery(), now=NOW)) == [own]
            assert family.records.fetch(Target(scope=scope), points) == {own.point_id: own}
            found = family.records.candidates(Target(scope=scope), points, radius=9, where=None, now=NOW)
            assert [one.point_id for one in found] == [own.point_id]
            hits = family.keywords.search(Target(scope=scope), "words", where=None, now=NOW, limit=99)
            assert [hit.point_id for hit in hits] == [own.point_id]
            assert family.vectors.scan(Target(scope=scope), where=None, now=NOW)[0] == [own.point_id]
            assert family.vectors.scan(Target(scope=scope), where=None, now=NOW, points=points)[0] == [
                own.point_id
            ]
            assert [one.point_id for one in family.outbox.pending(Target(scope=scope))] == [own.point_id]

    def test_a_cursor_does_not_lead_into_another_scope(self, family: RecordStore) -> None:
        """A cursor made in one scope shows nothing of it in another."""
        family.records.put(_U1, [record(_U1, f"more{i}") for i in range(3)])
        cursor = family.records.list(_U1, ListQuery(limit=1), now=NOW).cursor
        for scope in FAMILY[1:]:
            page = family.records.list(scope, ListQuery(limit=99, cursor=cursor), now=NOW)
            assert {one.scope for one in page} <= {scope}

    def test_session_reads_see_one_session(self, family: RecordStore) -> None:
        """Log, session, turns and their vectors belong to the pair (user, session)."""
        points = [record(other, "x", space=MESSAGES).point_id for other in _SESSIONS]
        for scope in _SESSIONS:
            own = record(scope, "x", space=MESSAGES).point_id
            assert [one.text for one in family.log.read(scope)] == [f"words of {scope}"]
            session = family.log.session(scope)
            assert session is not None
            assert session.scope == scope
            hits = family.keywords.search(turns(scope), "words", where=None, now=NOW, limit=99)
            assert [hit.point_id for hit in hits] == [own]
            assert family.vectors.scan(turns(scope), where=None, now=NOW)[0] == [own]
            found = family.records.candidates(turns(scope), points, radius=9, where=None, now=NOW)
            assert [one.point_id for one in found] == [own]
            assert list(family.records.fetch(turns(scope), points)) == [own]
            assert [one.point_id for one in family.outbox.pending(turns(scope))] == [own]

    def test_a_user_sees_only_the_sessions_under_it(self, family: RecordStore) -> None:
        """A user's turns and sessions are those of its own sessions, parents compared whole."""
        for user in FAMILY[:6]:
            under = {scope for scope in _SESSIONS if scope.parent == user}
            assert {one.scope for one in family.log.sessions(user)} == under
            hits = family.keywords.search(turns(user), "words", where=None, now=NOW, limit=99)
            expected = {record(scope, "x", space=MESSAGES).point_id for scope in under}
            assert {hit.point_id for hit in hits} == expected
        for other in FAMILY[6:12]:
            assert family.log.sessions(other) == []
            assert family.keywords.search(turns(other), "words", where=None, now=NOW, limit=9) == []

    @pytest.mark.parametrize("scope", FAMILY, ids=str)
    def test_deletes_reach_one_scope(self, family: RecordStore, scope: Scope) -> None:
        """Deleting by id, and then the whole scope, leaves every scope that is no session under it."""
        assert family.records.delete(scope, MEMORIES, ["x"]).records == 1
        left = {other for other in FAMILY if other != scope}
        assert {one for one in FAMILY if family.records.get(one, MEMORIES, ["x"], now=NOW)} == left
        assert {one for one in _SESSIONS if family.log.read(one)} == set(_SESSIONS)
        family.records.delete_scope(scope)
        under = {one for one in _SESSIONS if scope in (one, one.parent)}
        assert {one for one in FAMILY if family.records.get(one, MEMORIES, ["x"], now=NOW)} == left - under
        assert {one for one in _SESSIONS if family.log.read(one)} == set(_SESSIONS) - under

    @pytest.mark.parametrize("scope", _SESSIONS, ids=str)
    def test_clearing_and_deleting_messages_reaches_one_session(
        self, family: RecordStore, scope: Scope
    ) -> None:
        """Deleting a message, and clearing a session, leaves the same id in every other session."""
        assert family.log.delete(scope, ["x"]).messages == 1
        assert {one for one in _SESSIONS if family.log.read(one)} == set(_SESSIONS) - {scope}
        assert family.log.clear(scope).sessions == 1
        assert {one for one in _SESSIONS if family.log.session(one)} == set(_SESSIONS) - {scope}
        assert len(family.records.get(scope, MEMORIES, ["x"], now=NOW)) == 1

    def test_hostile_ids_are_distinct(self, store: RecordStore) -> None:
        """Every legal id is a scope, a session and a record of its own, listed and deleted by that id."""
        users = [Scope.user(name) for name in HOSTILE_IDS]
        for user in users:
            store.records.put(user, [record(user, user.id)])
            append(store, Scope.session(user.id, user=user), [message(user.id)])
        for user in users:
            assert [one.id for one in store.records.list(user, ListQuery(), now=NOW)] == [user.id]
            assert [one.scope.id for one in store.log.sessions(user)] == [user.id]
            assert [one.id for one in store.log.read(Scope.session(user.id, user=user))] == [user.id]
        for user in users[::2]:
            receipt = store.records.delete_scope(user)
            assert (receipt.records, receipt.turns, receipt.messages, receipt.sessions) == (1, 1, 1, 1)
        left = [user for user in users if len(store.records.list(user, ListQuery(), now=NOW))]
        assert left == [user for user in users if store.log.sessions(user)] == users[1::2]

    @PROPERTY
    @given(names=st.lists(ids(), min_size=2, max_size=4, unique=True))
    def test_any_ids_are_distinct(self, store: RecordStore, names: list[str]) -> None:
        """Any two different ids are two records of one scope, and two scopes of one record id."""
        store.records.delete_everything()
        store.records.put(_U1, [record(_U1, name) for name in names])
        scopes = [Scope.session(name, user=names[0]) for name in names]
        for scope in scopes:
            store.records.put(scope, [record(scope, "x", scope.id[:50] + "!")])
        assert [one.id for one in store.records.get(_U1, MEMORIES, names, now=NOW)] == names
        for scope in scopes:
            assert [one.content for one in store.records.list(scope, ListQuery(), now=NOW)] == [
                scope.id[:50] + "!"
            ]
