"""`memory.runs`: the saved states of workflow runs."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit_core import Config, ConflictError, InvalidInputError, Memory, Scope, ScopeError

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)
STATE = {"step": 3, "inbox": [{"to": "bo", "n": 1.5}, None, True], "z": "é👩‍👧", "a": {}}


@pytest.fixture(params=["in memory", "in a file"])
def memory(request, tmp_path):
    path = ":memory:" if request.param == "in memory" else tmp_path / "m.db"
    with Memory.open(path) as memory:
        yield memory


@pytest.mark.parametrize("state", [STATE, [], "text", 5, None])
def test_a_state_comes_back(memory, state):
    """What was saved is loaded, equal and of the same types, with its status and version."""
    saved = memory.runs.save("r1", state, scope=TALK)
    assert (saved.run_id, saved.status, saved.version, saved.scope) == ("r1", "paused", 1, TALK)
    assert memory.runs.load("r1", scope=TALK) == saved
    assert repr(saved.state) == repr(state)


def test_runs_are_listed_by_status(memory):
    """Saving again replaces state and status; a list holds the runs of one scope, last saved first."""
    for n, status in enumerate(("paused", "failed", "paused")):
        memory.runs.save(f"r{n}", n, scope=TALK, status=status)
    memory.runs.save("other", 1, scope=ALICE)
    assert {run.run_id for run in memory.runs.list(scope=TALK)} == {"r0", "r1", "r2"}
    assert {run.run_id for run in memory.runs.list(scope=TALK, status="paused")} == {"r0", "r2"}
    assert memory.runs.save("r0", "anew", scope=TALK, status="done").version == 2
    assert [run.state for run in memory.runs.list(scope=TALK, status="done")] == ["anew"]
    assert [run.run_id for run in memory.runs.list(scope=ALICE)] == ["other"]
    assert memory.runs.list(scope=Scope.user("bob")) == []


def test_a_run_is_deleted(memory):
    """Deleting a run counts it, once; the same id of another scope stays."""
    memory.runs.save("r", 1, scope=TALK)
    memory.runs.save("r", 2, scope=ALICE)
    assert memory.runs.delete("r", scope=TALK).runs == 1
    assert memory.runs.delete("r", scope=TALK).nothing
    assert memory.runs.load("r", scope=TALK) is None
    assert memory.runs.load("r", scope=ALICE).state == 2


def test_scopes_take_their_runs_along(memory):
    """Clearing a session deletes its runs, deleting a user those of all sessions too."""
    for scope in (TALK, ALICE, Scope.user("bob")):
        memory.runs.save("r", 1, scope=scope)
    assert memory.sessions.clear(scope=TALK).runs == 1
    memory.runs.save("r", 1, scope=TALK)
    assert memory.delete(scope=ALICE).runs == 2
    assert memory.runs.load("r", scope=Scope.user("bob")) is not None
    assert memory.delete(everything=True).runs == 1


@pytest.mark.parametrize("state", [{1, 2}, b"x", float("inf"), {"a": ...}, {1: 2}, 2**70, "\0"], ids=repr)
def test_what_is_not_json_is_refused(memory, state):
    """A state that would not come back as it is is refused, and the old one stays."""
    memory.runs.save("r", "old", scope=TALK)
    with pytest.raises(InvalidInputError, match=r"run\.state"):
        memory.runs.save("r", state, scope=TALK)
    assert memory.runs.load("r", scope=TALK).state == "old"


@pytest.mark.parametrize(
    "bad", [{"run_id": None}, {"run_id": ""}, {"status": None}, {"status": 5}, {"expected_version": -1}]
)
def test_a_bad_argument_is_refused(memory, bad):
    """Ids, statuses and versions that cannot be are refused."""
    with pytest.raises(InvalidInputError):
        memory.runs.save(**{"run_id": "r", "state": 1, "scope": TALK} | bad)


def test_every_verb_needs_a_scope(memory):
    """No run is read or changed without a scope."""
    runs = memory.runs
    for call in (
        lambda scope: runs.save("r", 1, scope=scope),
        lambda scope: runs.load("r", scope=scope),
        lambda scope: runs.list(scope=scope),
        lambda scope: runs.delete("r", scope=scope),
    ):
        with pytest.raises(ScopeError):
            call(scope=None)


def test_a_state_has_a_limit():
    """A state longer than a content may be is refused."""
    with Memory.open(":memory:", config=Config(max_content_chars=10)) as memory:
        memory.runs.save("r", "12345678", scope=TALK)
        with pytest.raises(InvalidInputError, match="max_content_chars"):
            memory.runs.save("r", "123456789", scope=TALK)


def test_one_of_many_savers_wins(memory):
    """Of eight threads that expect the same version one saves, the others are told."""
    memory.runs.save("r", "first", scope=TALK, expected_version=0)

    def save(number):
        try:
            memory.runs.save("r", number, scope=TALK, expected_version=1)
        except ConflictError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(save, range(8))) == 1
    assert memory.runs.load("r", scope=TALK).version == 2


def test_a_run_goes_on_in_another_process(tmp_path, run_script):
    """A state that one process saved is loaded and saved by another, and by this one after that."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.runs.save("r", STATE, scope=TALK, status="waiting")
    run_script(
        """
        from memkit_core import Memory, Scope
        with Memory.open("m.db") as memory:
            talk = Scope.session("s1", user="alice")
            (run,) = memory.runs.list(scope=talk, status="waiting")
            memory.runs.save(run.run_id, run.state | {"step": 4}, scope=talk, status="done",
                             expected_version=run.version)
        """
    )
    with Memory.open(tmp_path / "m.db") as memory:
        run = memory.runs.load("r", scope=TALK)
        assert (run.state, run.status, run.version) == (STATE | {"step": 4}, "done", 2)
        assert memory.upkeep.verify().problems == ()
