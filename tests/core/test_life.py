"""How the status of a memory changes, and how changes are taken back."""

import dataclasses
from datetime import timedelta

import pytest

from memkit_core import Memory, NewMemory, Scope
from memkit_core.errors import (
    ConflictError,
    InvalidInputError,
    InvalidTransitionError,
    RecordNotFoundError,
    ScopeError,
)
from memkit_core.models import ChangeKind, RecordType, Status

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
VERBS = ("confirm", "reject", "archive", "restore")
LEGAL = {
    ("pending", "confirm"): "active",
    ("pending", "reject"): "archived",
    ("active", "archive"): "archived",
    ("archived", "restore"): "active",
    ("superseded", "restore"): "active",
    # What it is already changes nothing.
    ("active", "confirm"): None,
    ("active", "restore"): None,
    ("archived", "reject"): None,
    ("archived", "archive"): None,
}


@pytest.fixture(params=["file", "ram"])
def memory(request, tmp_path, clock):
    """A memory on each kind of store."""
    path = tmp_path / "memory.db" if request.param == "file" else ":memory:"
    with Memory.open(path, clock=clock) as opened:
        yield opened


def brought_to(memory, status):
    record = memory.add("The tent is green.", scope=ALICE, pending=status == "pending")
    if status == "archived":
        return memory.archive(record.id, scope=ALICE)
    if status == "superseded":
        memory.supersede(record.id, "The tent is red.", scope=ALICE)
        return memory.get(record.id, scope=ALICE)
    return record


def recalled(memory, query="tent", scope=ALICE, **options):
    return {hit.record.content for hit in memory.recall(query, scope=scope, **options)}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", list(Status))
def test_the_state_machine(memory, clock, status, verb):
    """Each verb takes a memory from one status to one other, or is refused; history and index follow."""
    old = brought_to(memory, status)
    memory.flush()
    clock.now += timedelta(hours=1)
    expected = LEGAL.get((status, verb), "refused")
    if expected == "refused":
        with pytest.raises(InvalidTransitionError, match=f"{verb}.*{old.id}.* is {status}"):
            getattr(memory, verb)(old.id, scope=ALICE)
    else:
        new = getattr(memory, verb)(old.id, scope=ALICE)
        if expected is None:
            assert new == old
        else:
            assert (new.status, new.version, new.updated_at) == (expected, old.version + 1, clock.now)
            assert memory.history(old.id, scope=ALICE)[-1].before["status"] == status
            assert new.valid_until is new.superseded_by is None
            assert memory.get(old.id, scope=ALICE) == new
    now = memory.get(old.id, scope=ALICE)
    for other in Status:
        found = {hit.record.id for hit in memory.recall("green tent", scope=ALICE, status=other)}
        assert (old.id in found) is (other is now.status)
        listed = {one.id for one in memory.list_records(scope=ALICE, status=other)}
        assert (old.id in listed) is (other is now.status)
    assert memory.upkeep.verify().whole


def test_the_change_and_its_index_entry_are_one(memory):
    """What is archived is hidden at once, though the index hears of it later."""
    record = memory.add("The tent is green.", scope=ALICE)
    memory.flush()
    memory._worker.stop(1)
    memory.archive(record.id, scope=ALICE)
    assert recalled(memory) == set()
    assert recalled(memory, status="archived") == {"The tent is green."}
    assert recalled(memory, status=list(Status)) == {"The tent is green."}


def test_a_pending_memory_is_hidden(memory):
    """Neither recall nor a list returns it before it is confirmed; said again, it is a duplicate then."""
    first, second = memory.add_many(
        [NewMemory(content="The tent is green.", pending=True), "tea"], scope=ALICE
    )
    assert [one.id for one in memory.list_records(scope=ALICE)] == [second.id]
    assert recalled(memory) == {"tea"}
    assert memory.get(first.id, scope=ALICE).status is Status.PENDING
    memory.confirm(first.id, scope=ALICE)
    assert memory.add("the tent is green", scope=ALICE, pending=True).id == first.id


def test_a_confirmed_value_takes_the_place(memory, clock):
    """A pending value of a key holds from its confirmation on, and the one before does not any more."""
    old = memory.add("dark", scope=ALICE, key="ui.theme")
    new = memory.add("light", scope=ALICE, key="ui.theme", pending=True)
    assert memory.get(old.id, scope=ALICE) == old
    clock.now += timedelta(hours=1)
    confirmed = memory.confirm(new.id, scope=ALICE)
    assert (confirmed.supersedes, confirmed.valid_from) == (old.id, clock.now)
    gone = memory.get(old.id, scope=ALICE)
    assert (gone.status, gone.superseded_by, gone.valid_until) == ("superseded", new.id, clock.now)
    assert memory.undo(new.id, scope=ALICE).status is Status.PENDING
    assert memory.get(old.id, scope=ALICE).status is Status.ACTIVE


def test_what_is_restored_is_no_second_value(memory):
    """While another value of the key holds, the one before is not restored, and nothing changes."""
    old = memory.add("dark", scope=ALICE, key="ui.theme")
    new = memory.add("light", scope=ALICE, key="ui.theme")
    before = memory.get(old.id, scope=ALICE)
    with pytest.raises(ConflictError, match=f"{new.id}.* holds for key 'ui.theme'"):
        memory.restore(old.id, scope=ALICE)
    assert memory.get(old.id, scope=ALICE) == before
    memory.archive(new.id, scope=ALICE)
    assert memory.restore(old.id, scope=ALICE).status is Status.ACTIVE
    with pytest.raises(ConflictError):
        memory.restore(new.id, scope=ALICE)


@pytest.mark.parametrize("verb", [*VERBS, "undo", "supersede", "promote"])
def test_what_is_not_there_is_not_found(memory, clock, verb):
    """Unknown, expired, deleted, another scope: one and the same error."""
    gone = memory.add("gone", scope=ALICE).id
    memory.delete(gone, scope=ALICE)
    expired = memory.add("expired", scope=ALICE, expires_at=clock.now).id
    bobs = memory.add("bob's", scope=BOB).id
    options = {"to": Scope.org("o")} if verb == "promote" else {}
    more = ["new"] if verb == "supersede" else []
    told = set()
    for wanted in ("unknown", gone, expired, bobs):
        with pytest.raises(RecordNotFoundError) as error:
            getattr(memory, verb)(wanted, *more, scope=ALICE, **options)
        told.add(str(error.value).replace(wanted, "?"))
    assert len(told) == 1
    with pytest.raises(ScopeError):
        getattr(memory, verb)(bobs, *more, scope=None, **options)
    for wrong in (None, "", 7):
        with pytest.raises(InvalidInputError):
            getattr(memory, verb)(wrong, *more, scope=ALICE, **options)
    assert memory.get(bobs, scope=BOB).version == 1


# ------------------------------------------------------------------------------- undo


def told(memory, record):
    return [change.kind.value for change in memory.history(record.id, scope=ALICE)]


def same_but_for_version(one, other):
    plain = {"version": 0, "updated_at": one.updated_at}
    return dataclasses.replace(one, **plain) == dataclasses.replace(other, **plain)


def test_an_update_is_undone_and_done_again(memory, clock):
    """Every attribute is as it was, found by its words; undoing again brings the change back."""
    old = memory.add(
        "The tent is green.", scope=ALICE, tags=["a"], metadata={"k": [1]}, expires_at=clock.now + timedelta(days=9)
    )  # fmt: skip
    clock.now += timedelta(hours=1)
    changed = memory.update(
        old.id, scope=ALICE, content="The canoe is blue.", tags=["b"], metadata={"k": None, "l": 1},
        type=RecordType.EVENT, importance=0.1, pinned=True, expires_at=None,
    )  # fmt: skip
    clock.now += timedelta(hours=1)
    undone = memory.undo(old.id, scope=ALICE)
    assert same_but_for_version(undone, old)
    assert (undone.version, undone.updated_at) == (3, clock.now)
    assert memory.get(old.id, scope=ALICE) == undone
    assert (recalled(memory, "tent"), recalled(memory, "canoe")) == ({old.content}, {old.content})
    assert [one.id for one in memory.list_records(scope=ALICE, tags=["a"])] == [old.id]
    assert same_but_for_version(memory.undo(old.id, scope=ALICE), changed)
    assert told(memory, old) == ["created", "updated", "undone", "undone"]


def test_a_merge_is_undone(memory):
    """What saying it again added is gone."""
    old = memory.add("The tent is green.", scope=ALICE)
    memory.add("the tent is green", scope=ALICE, tags=["t"], metadata={"a": 1}, pinned=True)
    assert same_but_for_version(memory.undo(old.id, scope=ALICE), old)


def test_a_replacement_is_undone(memory):
    """The record that the same id replaced is back."""
    old = memory.add("The tent is green.", scope=ALICE, id="x", key="tent")
    memory.add("The tent is red.", scope=ALICE, id="x")
    assert same_but_for_version(memory.undo("x", scope=ALICE), old)


@pytest.mark.parametrize("status", ["pending", "active", "archived", "superseded"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_change_of_status_is_undone(memory, status, verb):
    """After any legal change the memory is what it was before it."""
    if LEGAL.get((status, verb)) is None:
        return
    old = brought_to(memory, status)
    successors = memory.list_records(scope=ALICE).records
    getattr(memory, verb)(old.id, scope=ALICE)
    assert same_but_for_version(memory.undo(old.id, scope=ALICE), old)
    if status == "superseded":
        assert memory.list_records(scope=ALICE).records == successors


@pytest.mark.parametrize("named", [0, 1])
@pytest.mark.parametrize("key", [None, "tent"])
def test_a_supersession_is_undone(memory, named, key):
    """Named by either: the old one holds again, the new one is taken out; undone again, it is back."""
    old = memory.add("The tent is green.", scope=ALICE, key=key)
    new = memory.supersede(old.id, "The tent is red.", scope=ALICE)
    gone = memory.get(old.id, scope=ALICE)
    pair = (old, new)
    undone = memory.undo(pair[named].id, scope=ALICE)
    assert undone == memory.get(pair[named].id, scope=ALICE)
    assert same_but_for_version(memory.get(old.id, scope=ALICE), old)
    out = memory.get(new.id, scope=ALICE)
    assert same_but_for_version(out, dataclasses.replace(new, status=Status.ARCHIVED))
    assert recalled(memory) == {old.content}
    assert [one.id for one in memory.list_records(scope=ALICE)] == [old.id]
    for again in (0, 1):
        memory.undo(pair[again].id, scope=ALICE)
        assert recalled(memory) == ({new.content} if again == 0 else {old.content})
        if again == 0:
            assert same_but_for_version(memory.get(old.id, scope=ALICE), gone)
            assert same_but_for_version(memory.get(new.id, scope=ALICE), new)
    assert memory.upkeep.verify().whole


def test_only_the_end_of_a_chain_is_undone(memory):
    """Of a, b, c, each in the place of the one before, a cannot hold again before b does."""
    a = memory.add("one", scope=ALICE, key="k")
    b = memory.add("two", scope=ALICE, key="k")
    c = memory.add("three", scope=ALICE, key="k")
    with pytest.raises(ConflictError, match="superseded itself"):
        memory.undo(a.id, scope=ALICE)
    memory.undo(b.id, scope=ALICE)
    assert [one.id for one in memory.list_records(scope=ALICE)] == [b.id]
    memory.undo(a.id, scope=ALICE)
    assert [one.id for one in memory.list_records(scope=ALICE)] == [a.id]
    assert {one.id for one in memory.list_records(scope=ALICE, status="archived")} == {b.id, c.id}


def test_undo_makes_no_second_value(memory):
    """When another value holds by now, the old one does not come back beside it."""
    old = memory.add("one", scope=ALICE, key="k")
    new = memory.add("two", scope=ALICE, key="k")
    memory.archive(new.id, scope=ALICE)
    third = memory.add("three", scope=ALICE, key="k")
    for wanted in (old, new):
        with pytest.raises(ConflictError, match=third.id):
            memory.undo(wanted.id, scope=ALICE)
    assert [one.id for one in memory.list_records(scope=ALICE)] == [third.id]


def test_a_deleted_successor_is_not_needed(memory):
    """The old value holds again also when what came after it was deleted; then it cannot be done again."""
    old = memory.add("one", scope=ALICE, key="k")
    new = memory.add("two", scope=ALICE, key="k")
    memory.delete(new.id, scope=ALICE)
    assert memory.undo(old.id, scope=ALICE).status is Status.ACTIVE
    with pytest.raises(ConflictError, match="changed or deleted since"):
        memory.undo(old.id, scope=ALICE)


def test_a_making_is_undone_once(memory):
    """What was only made is archived, and active again when that is undone."""
    record = memory.add("The tent is green.", scope=ALICE)
    assert memory.undo(record.id, scope=ALICE).status is Status.ARCHIVED
    assert recalled(memory) == set()
    assert memory.undo(record.id, scope=ALICE).status is Status.ACTIVE
    assert memory.history(record.id, scope=ALICE)[-1].kind is ChangeKind.UNDONE
