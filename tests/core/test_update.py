"""`update` changes what is given, loses nothing, and tells what was before."""

import dataclasses
import threading
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memkit_core import (
    ChangeKind,
    ConflictError,
    InvalidInputError,
    Memory,
    Message,
    RecordNotFoundError,
    RecordType,
    Role,
    Scope,
    ScopeError,
)
from memkit_core.testing import metadata

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_better_wording(memory, clock):
    """A new text is embedded and found; id, created_at, scope and provenance stay; version moves."""
    old = memory.add("I live in Bostn.", scope=ALICE, source="chat", agent_id="a1", tags=["home"])
    clock.now += timedelta(hours=1)
    new = memory.update(old.id, scope=ALICE, content="I live in Boston.")
    assert new == dataclasses.replace(old, content="I live in Boston.", version=2, updated_at=clock.now)
    assert memory.get(old.id, scope=ALICE) == new
    (hit,) = memory.recall("Boston", scope=ALICE)
    assert hit.record == new
    assert hit.signals.keyword is not None
    assert hit.signals.similarity > 0.5
    (hit,) = memory.recall("Bostn", scope=ALICE)
    assert hit.signals.keyword is None
    assert memory.flush()


def test_metadata_is_changed_by_key(memory, clock):
    """A new text keeps all metadata; given keys replace, others stay, None removes (report B62)."""
    free = {"bucket": "b", "tags": ["x"], "nested": {"a": 1}}
    old = memory.add("I like tea.", scope=ALICE, metadata=free)
    clock.now += timedelta(seconds=1)
    assert memory.update(old.id, scope=ALICE, content="I like green tea.").metadata == free
    assert memory.update(old.id, scope=ALICE, metadata={"tags": ["y"]}).metadata == {**free, "tags": ["y"]}
    new = memory.update(old.id, scope=ALICE, metadata={"bucket": None})
    assert new.metadata == {"tags": ["y"], "nested": {"a": 1}}
    assert (new.created_at, new.updated_at, new.version) == (START, clock.now, 4)
    assert memory.flush()
    for where, found in (({"metadata.bucket": "b"}, 0), ({"metadata.tags": {"contains": "y"}}, 1)):
        assert len(memory.recall("green tea", scope=ALICE, filters=where)) == found
        assert len(memory.list_records(scope=ALICE, filters=where)) == found


def test_none_means_something_for_the_expiry_alone(memory, clock):
    """None removes the expiry; for every other field it is a mistake that changes nothing."""
    old = memory.add("I like tea.", scope=ALICE, expires_at=START + timedelta(days=1))
    assert memory.update(old.id, scope=ALICE, expires_at=None).expires_at is None
    clock.now += timedelta(days=2)
    before = memory.get(old.id, scope=ALICE)
    for name in ("content", "type", "importance", "tags", "metadata", "pinned"):
        with pytest.raises(InvalidInputError, match=name):
            memory.update(old.id, scope=ALICE, **{name: None})
    assert memory.get(old.id, scope=ALICE) == before


@pytest.mark.parametrize(
    "given",
    [
        {"content": " "}, {"content": "x" * (4 * 1024 * 1024 + 1)}, {"content": 7}, {"type": "opinion"},
        {"importance": 1.5}, {"importance": True}, {"tags": "tag"}, {"tags": [""]}, {"metadata": {"a": object()}},
        {"metadata": [1]}, {"metadata": {"a": float("nan")}}, {"expires_at": "soon"}, {"pinned": 1},
        {"expected_version": 0}, {"expected_version": True}, {"expected_version": "1"},
    ],
)  # fmt: skip
def test_the_same_checks_as_adding(memory, given):
    """What cannot be added cannot be put in by an update, and nothing is changed."""
    old = memory.add("I like tea.", scope=ALICE)
    with pytest.raises(InvalidInputError):
        memory.update(old.id, scope=ALICE, **{"importance": 0.1, **given})
    assert memory.get(old.id, scope=ALICE) == old


def test_what_is_not_there_is_not_found(memory, clock):
    """Unknown, deleted, expired and another owner's: one error that does not tell them apart."""
    expired = memory.add("a", scope=ALICE, id="expired", expires_at=START + timedelta(days=1))
    memory.add("b", scope=ALICE, id="deleted")
    memory.add("c", scope=BOB, id="bobs")
    memory.add("d", scope=Scope.session("s", user="alice"), id="session")
    memory.delete("deleted", scope=ALICE)
    memory.sessions.append(
        [Message(id="turn", role=Role.USER, text="e")], scope=Scope.session("s", user="alice")
    )
    memory.update(expired.id, scope=ALICE, tags=["x"])
    clock.now += timedelta(days=1)
    told = set()
    for name in ("unknown", "deleted", "expired", "bobs", "session", "turn"):
        with pytest.raises(RecordNotFoundError) as error:
            memory.update(name, scope=ALICE, content="new", expected_version=1)
        told.add(str(error.value).replace(name, "?"))
        assert memory.history(name, scope=ALICE) == []
    assert len(told) == 1
    assert memory.get("bobs", scope=BOB).content == "c"


def test_a_scope_is_required(memory):
    """Without a scope nothing is read or changed."""
    old = memory.add("I like tea.", scope=ALICE)
    for scope in (None, "alice"):
        with pytest.raises(ScopeError):
            memory.update(old.id, scope=scope, content="x")
        with pytest.raises(ScopeError):
            memory.history(old.id, scope=scope)


def test_an_unexpected_version_is_a_conflict(memory):
    """An update that expects another version says both and changes nothing; the right one goes through."""
    old = memory.add("I like tea.", scope=ALICE)
    new = memory.update(old.id, scope=ALICE, content="I like coffee.", expected_version=1)
    with pytest.raises(ConflictError, match="version 2, expected was version 1"):
        memory.update(old.id, scope=ALICE, content="I like milk.", expected_version=1)
    assert memory.get(old.id, scope=ALICE) == new
    assert memory.update(old.id, scope=ALICE, pinned=True, expected_version=2).version == 3


def test_what_changes_nothing_writes_nothing(memory, clock):
    """An update that changes nothing returns the record with the same version and no history."""
    old = memory.add("I like tea.", scope=ALICE, tags=["x"], metadata={"a": 1})
    clock.now += timedelta(hours=1)
    assert memory.update(old.id, scope=ALICE) == old
    assert memory.update(old.id, scope=ALICE, content="I like tea.", tags=["X"], metadata={"b": None}) == old
    assert len(memory.history(old.id, scope=ALICE)) == 1


def test_an_update_is_never_merged(memory):
    """A new text that another record has already leaves two records."""
    memory.add("I like tea.", scope=ALICE)
    other = memory.add("I like coffee.", scope=ALICE)
    memory.update(other.id, scope=ALICE, content="I like tea.")
    assert [one.content for one in memory.list_records(scope=ALICE)] == ["I like tea."] * 2
    assert memory.add("I like coffee.", scope=ALICE).mentions == 1


def test_the_history_tells_every_change(memory, clock):
    """Made, changed, said again and replaced, oldest first, each with what was before."""
    old = memory.add("I like tea.", scope=ALICE, id="a", expires_at="2027-01-01")
    moments = [START + timedelta(hours=hour) for hour in range(4)]
    clock.now = moments[1]
    memory.update("a", scope=ALICE, content="I like green tea.", expires_at=None, importance=1)
    clock.now = moments[2]
    memory.add("I like GREEN tea", scope=ALICE, tags=["x"])
    clock.now = moments[3]
    memory.add("I like coffee.", scope=ALICE, id="a", importance=1.0)
    told = memory.history("a", scope=ALICE)
    assert [(one.version, one.kind.value) for one in told] == [
        (1, "created"), (2, "updated"), (3, "merged"), (4, "replaced")
    ]  # fmt: skip
    assert [one.at for one in told] == moments
    assert dict(told[1].before) == {
        "content": "I like tea.", "expires_at": "2027-01-01T00:00:00+00:00", "importance": old.importance
    }  # fmt: skip
    assert dict(told[2].before) == {"tags": [], "mentions": 1}
    assert dict(told[3].before) == {"content": "I like green tea.", "tags": ["x"], "mentions": 2}
    assert memory.delete("a", scope=ALICE).history == 3
    assert memory.history("a", scope=ALICE) == []


def test_what_was_deleted_leaves_no_trace_of_its_past(tmp_path):
    """After a delete, no former text of the record is in the file (report B52)."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        record = memory.add("My old pin is MARKER7731.", scope=ALICE)
        memory.update(record.id, scope=ALICE, content="My pin is a secret.")
        memory.delete(scope=ALICE)
    for file in [path, *tmp_path.glob("m.db-*")]:
        assert b"MARKER7731" not in file.read_bytes()


def test_eight_threads_lose_no_update(memory):
    """Eight threads that read, change if nobody else did, and try again on conflict, count to the sum."""
    record = memory.add("A counter.", scope=ALICE, metadata={"n": 0})
    conflicts = []

    def count():
        for _ in range(6):
            while True:
                found = memory.get(record.id, scope=ALICE)
                try:
                    memory.update(
                        record.id,
                        scope=ALICE,
                        metadata={"n": found.metadata["n"] + 1},
                        expected_version=found.version,
                    )
                    break
                except ConflictError as error:
                    conflicts.append(error)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = memory.get(record.id, scope=ALICE)
    assert (found.metadata["n"], found.version) == (48, 49)


def test_threads_that_change_different_things_keep_both(memory):
    """Without an expected version, updates of different fields and keys all hold."""
    record = memory.add("A record.", scope=ALICE)
    together = threading.Barrier(8)

    def change(number):
        together.wait()
        for i in range(5):
            memory.update(record.id, scope=ALICE, metadata={f"{number}.{i}": i})

    threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = memory.get(record.id, scope=ALICE)
    assert found.metadata == {f"{number}.{i}": i for number in range(8) for i in range(5)}
    assert len(memory.history(record.id, scope=ALICE)) == 41


_VALUES = {
    "content": st.sampled_from(["I like tea.", "Green tea, please.", "丹佛"]),
    "type": st.sampled_from(RecordType),
    "importance": st.sampled_from([0.0, 0.25, 1.0]),
    "tags": st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    "metadata": metadata(),
    "expires_at": st.sampled_from([None, START + timedelta(days=1), START + timedelta(days=2)]),
    "pinned": st.booleans(),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.fixed_dictionaries(_VALUES), patch=st.fixed_dictionaries({}, optional=_VALUES))
def test_only_what_is_given_changes(memory, made, patch):
    """Whatever is given changes to what was given, and nothing else does."""
    old = memory.add(made.pop("content"), scope=ALICE, id="a", **made)
    new = memory.update("a", scope=ALICE, **patch)
    expected = dict(patch)
    if "metadata" in patch:
        united = {**old.metadata, **patch["metadata"]}
        gone = {key for key, value in patch["metadata"].items() if value is None}
        expected["metadata"] = {key: value for key, value in united.items() if key not in gone}
    assert new == dataclasses.replace(old, **expected, version=new.version)
    assert memory.get("a", scope=ALICE) == new
    changed = memory.history("a", scope=ALICE)[-1]
    if new.version == old.version:
        assert changed.kind is not ChangeKind.UPDATED
    else:
        assert (new.version, changed.kind) == (old.version + 1, ChangeKind.UPDATED)
        assert set(changed.before) <= set(patch)
