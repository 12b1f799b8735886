"""Scopes: whole, exact, and never the same by accident."""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memkit_core.errors import ScopeError
from memkit_core.models import MESSAGES, Target, point_id
from memkit_core.scope import Scope, ScopeKind, require_scope
from memkit_core.testing import ids
from memkit_core.testing.isolation import FAMILY
from memkit_core.testing.samples import HOSTILE_IDS


@st.composite
def scopes(draw):
    name, other, third = draw(ids()), draw(ids()), draw(ids())
    user = Scope.user(other, workspace=draw(st.none() | st.just(third)))
    return draw(
        st.sampled_from(
            [
                Scope.user(name),
                Scope.user(name, org=other),
                Scope.user(name, workspace=other, org=third),
                Scope.session(name, user=other),
                Scope.session(name, user=user),
                Scope.workspace(name),
                Scope.workspace(name, org=other),
                Scope.org(name),
                Scope.object(name),
                Scope.object(name, within=user),
            ]
        )
    )


@given(scopes(), scopes())
def test_a_digest_stands_for_one_scope(one, other):
    """Two scopes have the same digest, and the same point ids, exactly when they are equal."""
    assert (one.digest == other.digest) is (one == other)
    assert (point_id(one, "memories", "x") == point_id(other, "memories", "x")) is (one == other)
    assert len(one.digest) == 16


@given(scopes())
def test_a_path_gives_the_scope_back(scope):
    """`from_path` is the inverse of `path`; pickling keeps a scope equal."""
    assert Scope.from_path(scope.path) == scope
    assert pickle.loads(pickle.dumps(scope)) == scope
    assert hash(Scope.from_path(scope.path)) == hash(scope)


def test_look_alikes_are_distinct():
    """Hostile ids, split differently between user and session, and a family of kinds are all distinct."""
    pairs = [Scope.session("c", user="a:b"), Scope.session("b:c", user="a")]
    users = [Scope.user(name) for name in HOSTILE_IDS]
    every = {*FAMILY, *pairs, *users}
    assert len({scope.digest for scope in every}) == len(every)
    assert len({scope.digest for scope in (*pairs, *users)}) == len(pairs) + len(users)


def test_ids_are_taken_as_they_are():
    """Nothing is normalised or stripped: case, spaces and composed accents make another scope."""
    for one, other in itertools.combinations(["é", "e\u0301", "U1", "u1", " u1", "u1 ", "1", "\uff11"], 2):
        assert Scope.user(one) != Scope.user(other)
    assert Scope.user(" u1").id == " u1"


@pytest.mark.parametrize(
    "bad", ["", "\0", "a\0b", "\ud83d", "x" * 4097, 7, None, b"x", 1.5, True, ["x"]], ids=repr
)
def test_what_is_no_id_is_refused(bad):
    """An id is a non-empty text of at most 4,096 characters without NUL and lone surrogates; no ints."""
    for make in (Scope.user, Scope.org, Scope.workspace, Scope.object, lambda i: Scope.session(i, user="u")):
        with pytest.raises(ScopeError):
            make(bad)
    with pytest.raises(ScopeError):
        Scope.session("s", user=bad)


def test_the_longest_id():
    """4,096 characters are an id."""
    assert Scope.user("é" * 4096).id == "é" * 4096


def test_a_session_needs_its_user():
    """A session without a user is refused, and the message shows the way."""
    with pytest.raises(ScopeError, match="user="):
        Scope(ScopeKind.SESSION, "s")
    assert Scope.session("s", user="a") != Scope.session("s", user="b")
    assert Scope.session("s", user=Scope.user("a", org="o")).parent == Scope.user("a", org="o")


@pytest.mark.parametrize(
    ("kind", "parent"),
    [
        ("session", Scope.org("o")),
        ("session", Scope.session("s", user="u")),
        ("user", Scope.user("u")),
        ("workspace", Scope.user("u")),
        ("org", Scope.org("o")),
        ("object", Scope.object("o")),
        ("user", "not a scope"),
        ("team", None),
    ],
)
def test_parents_are_broader(kind, parent):
    """A scope stands only under a broader kind, and only under a `Scope`."""
    with pytest.raises(ScopeError):
        Scope(kind, "x", parent)


def test_an_org_is_given_once():
    """An org beside a workspace scope is refused: it belongs inside."""
    with pytest.raises(ScopeError):
        Scope.user("u", workspace=Scope.workspace("w"), org="o")
    with pytest.raises(ScopeError):
        Scope.from_path(())


def test_a_scope_cannot_be_changed():
    """A scope is immutable, and usable as a key."""
    scope = Scope.user("u")
    with pytest.raises(AttributeError):
        scope.id = "v"
    assert {scope: 1}[Scope.user("u")] == 1


@pytest.mark.parametrize("value", [None, "alice", 7, ("user", "alice"), {"user": "alice"}, Scope])
def test_no_scope_is_an_error_that_names_the_verb(value):
    """What is no scope raises an error that names the verb and shows how one is made."""
    with pytest.raises(ScopeError, match=r"recall: .*Scope\.user"):
        require_scope(value, verb="recall")


def test_readable_forms():
    """The readable form is for people; it stays short and printable whatever the id."""
    assert str(Scope.session("s", user="u")) == "user:u/session:s"
    assert repr(Scope.user("u")) == "Scope(user:u)"
    assert len(repr(Scope.user("x" * 4000))) < 200


def test_kinds_are_ordered_narrow_to_broad():
    """Sessions are the narrowest and orgs the broadest."""
    assert [kind.value for kind in sorted(ScopeKind, key=lambda kind: kind.breadth)] == [
        "session", "object", "user", "workspace", "org",
    ]  # fmt: skip


def test_whose_turns_a_target_covers():
    """In `messages` a user covers its sessions' turns and a session its own; elsewhere only itself."""
    user, session = Scope.user("u"), Scope.session("s", user="u")
    stranger = Scope.session("s", user="v")
    own = Scope.object("o", within=user)
    covered = {
        (target.scope, target.space): [one for one in (user, session, stranger, own) if target.covers(one)]
        for target in (Target(scope=s, space=p) for s in (user, session) for p in ("memories", MESSAGES))
    }
    assert covered == {
        (user, "memories"): [user],
        (user, MESSAGES): [user, session],
        (session, "memories"): [session],
        (session, MESSAGES): [session],
    }
    assert Target(scope=session, space=MESSAGES).owner == user
    assert Target(scope=session, space=MESSAGES).narrowed
    assert not Target(scope=session).narrowed
    assert Target(scope=own, space=MESSAGES).owner == own


@given(ids(), ids(), st.sampled_from(["memories", "messages", "store:a", "store:ab"]))
def test_point_ids_are_unambiguous(one, other, space):
    """Two records have one point id exactly when scope, space and id are equal."""
    scope = Scope.user("u")
    assert (point_id(scope, space, one) == point_id(scope, space, other)) is (one == other)
    assert point_id(scope, space, one) != point_id(scope, space + "b", one)
