"""`memory.upkeep.forget`: importance fades, what nobody uses is archived, and much later deleted."""

import math
import threading
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import Config, ConfigError, Forgetting, InvalidInputError, Memory, NewMemory, Scope
from memkit_core.models import Status
from memkit_core.upkeep import Fate, effective_importance

ALICE, BOB = Scope.user("alice"), Scope.user("bob")


def fill(memory):
    """Memories of every importance, two of them pinned."""
    news = [NewMemory(content=f"fact {n}", id=f"f{n}", importance=n / 10) for n in range(11)]
    pinned = [NewMemory(content=f"pin {n}", id=f"p{n}", importance=n / 10, pinned=True) for n in range(2)]
    memory.add_many([*news, *pinned], scope=ALICE)
    memory.add("note", id="b", scope=BOB, importance=0.2)


def state(memory):
    """Status and importance of everything."""
    return {
        (scope.id, one.id): (one.status, one.importance)
        for scope in (ALICE, BOB)
        for one in memory.list_records(scope=scope, status=list(Status))
    }


def ids(fading):
    return [one.id for one in fading]


def pass_days(clock, days):
    clock.now += timedelta(days=days)


def test_importance_fades_by_the_formula(memory, clock):
    """`importance * exp(-d / 90)`: 0.37 of it after 90 days untouched; a recall starts it anew, a pin stops it."""
    one = memory.add("tea", scope=ALICE, importance=0.8)
    pinned = memory.add("coffee", scope=ALICE, importance=0.8, pinned=True)
    pass_days(clock, 90)
    assert effective_importance(one, now=clock.now) == pytest.approx(0.8 * math.exp(-1))
    assert effective_importance(pinned, now=clock.now) == 0.8
    assert effective_importance(one, now=clock.now, forgetting=Forgetting(decay_days=45)) == pytest.approx(
        0.8 * math.exp(-2)
    )
    memory.recall("tea", scope=ALICE)
    memory.flush()
    one = memory.get(one.id, scope=ALICE)
    assert effective_importance(one, now=clock.now) == one.importance == 0.8


def test_a_dry_run_lists_and_changes_nothing(memory, clock):
    """Without `apply` it returns what would be done, with the numbers, for every scope, and does nothing."""
    fill(memory)
    pass_days(clock, 90)
    before = state(memory)
    result = memory.upkeep.forget()
    assert (result.policy, result.applied, result.looked_at, len(result)) == ("importance", False, 12, 4)
    assert ids(result.archived) == ["f0", "f1", "f2", "b"]
    second = result.archived[2]
    assert (second.scope, second.fate, second.importance, second.access_count) == (
        ALICE,
        Fate.ARCHIVE,
        0.2,
        0,
    )
    assert second.effective_importance == pytest.approx(0.2 * math.exp(-1))
    assert second.idle_days == 90
    assert second.archived_days is None
    assert state(memory) == before
    assert memory.history("f0", scope=ALICE)[-1].version == 1


def test_applied_it_does_what_the_dry_run_said(memory, clock):
    """What was listed is archived: out of recall, restorable, importance as stored; then nothing is left to do."""
    fill(memory)
    pass_days(clock, 90)
    said = memory.upkeep.forget()
    done = memory.upkeep.forget(apply=True)
    assert done.applied
    assert done.archived == said.archived
    assert state(memory)["alice", "f2"] == (Status.ARCHIVED, 0.2)
    assert state(memory)["alice", "p0"] == (Status.ACTIVE, 0.0)
    assert "f2" not in [hit.record.id for hit in memory.recall("fact 2", scope=ALICE, top_k=20)]
    assert len(memory.upkeep.forget(apply=True)) == 0
    memory.flush()
    assert memory.upkeep.verify().whole


def test_ninety_daily_runs_are_one_on_day_ninety(tmp_path, clock):
    """However often it runs, status and importance come out the same."""
    with (
        Memory.open(tmp_path / "daily.db", clock=clock, embedder="none") as daily,
        Memory.open(tmp_path / "once.db", clock=clock, embedder="none") as once,
    ):
        fill(daily)
        fill(once)
        for _ in range(90):
            pass_days(clock, 1)
            daily.upkeep.forget(apply=True)
        once.upkeep.forget(apply=True)
        assert state(daily) == state(once)


def test_what_is_used_stays(memory, clock):
    """A memory recalled within 30 days is not archived, though the recall is not written down yet."""
    memory.add("I like tea", id="used", scope=ALICE, importance=0.05)
    memory.add("I like jam", id="unused", scope=ALICE, importance=0.05)
    pass_days(clock, 40)
    assert [hit.record.id for hit in memory.recall("tea", scope=ALICE, top_k=1)] == ["used"]
    pass_days(clock, 29)
    assert ids(memory.upkeep.forget().archived) == ["unused"]
    pass_days(clock, 1)
    assert ids(memory.upkeep.forget().archived) == ["used", "unused"]


def test_what_was_restored_stays(memory, clock):
    """Who restores a memory keeps it for 30 days more, by either policy, though nobody recalled it yet."""
    memory.add("tea", id="m", scope=ALICE, importance=0.1)
    pass_days(clock, 50)
    assert len(memory.upkeep.forget(apply=True)) == 1
    memory.restore("m", scope=ALICE)
    pass_days(clock, 29)
    assert len(memory.upkeep.forget()) == len(memory.upkeep.forget(policy="utility")) == 0
    pass_days(clock, 1)
    assert len(memory.upkeep.forget()) == len(memory.upkeep.forget(policy="utility")) == 1


def test_the_policy_utility(memory, clock):
    """`0.4·0.5^(hours/72) + 0.3·min(accesses/10, 1) + 0.3·importance` below 0.2, and that rule alone."""
    memory.add("tea", id="m", scope=ALICE, importance=0.5)
    memory.add("jam", id="used", scope=ALICE, importance=0.5)
    for _ in range(5):
        memory.recall("jam", scope=ALICE, top_k=1)
    pass_days(clock, 9)
    assert ids(memory.upkeep.forget(policy="utility").archived) == []
    clock.now += timedelta(hours=1)
    (one,) = memory.upkeep.forget(policy="utility").archived
    assert one.id == "m"
    assert one.utility == pytest.approx(0.4 * 0.5 ** (217 / 72) + 0.3 * 0.5)
    assert ids(memory.upkeep.forget().archived) == []
    pass_days(clock, 400)
    (used, _) = sorted(
        memory.upkeep.forget(policy="importance").archived, key=lambda one: one.id, reverse=True
    )
    assert used.utility == pytest.approx(0.3 * 5 / 10 + 0.3 * 0.5)
    assert ids(memory.upkeep.forget(policy="utility").archived) == ["m"]


def test_the_policy_is_a_setting(tmp_path, clock):
    """`Config.forgetting` names the policy and every constant of it; a call can name another policy."""
    config = Config(forgetting=Forgetting(policy="utility", utility_below=0.5, half_life_hours=24))
    with Memory.open(tmp_path / "m.db", config=config, clock=clock, embedder="none") as memory:
        memory.add("tea", scope=ALICE, importance=0.9)
        pass_days(clock, 2)
        assert memory.upkeep.forget().policy == "utility"
        assert len(memory.upkeep.forget()) == 1
        assert len(memory.upkeep.forget(policy="importance")) == 0


def test_deleting_is_off_until_it_is_asked_for(memory, clock):
    """What was archived stays for ever, and is deleted when it has been archived for longer than M days."""
    fill(memory)
    memory.archive("f9", scope=ALICE)
    pass_days(clock, 365)
    assert len(memory.upkeep.forget(apply=True).deleted) == 0
    assert len(memory.upkeep.forget(delete_after_days=365).deleted) == 0
    pass_days(clock, 1)
    said = memory.upkeep.forget(delete_after_days=365)
    assert ids(said.deleted) == ["f9"]
    assert (said.deleted[0].fate, said.deleted[0].archived_days) == (Fate.DELETE, 366)
    assert memory.get("f9", scope=ALICE) is not None
    done = memory.upkeep.forget(apply=True, delete_after_days=365)
    assert done.deleted == said.deleted
    assert (done.receipt.records, done.receipt.history) == (1, 1)
    assert memory.get("f9", scope=ALICE) is None
    memory.flush()
    assert memory.upkeep.verify().whole


def test_one_run_never_archives_and_deletes(memory, clock):
    """Between archiving and deleting lie M days in which it can be restored, however old it is."""
    memory.add("tea", id="m", scope=ALICE, importance=0.1)
    pass_days(clock, 1000)
    done = memory.upkeep.forget(apply=True, delete_after_days=1)
    assert (ids(done.archived), ids(done.deleted)) == (["m"], [])
    assert memory.restore("m", scope=ALICE).status is Status.ACTIVE


def test_in_batches(tmp_path, clock):
    """A store larger than a batch is gone over whole, and the progress is told of each."""
    told = []
    config = Config(forgetting=Forgetting(batch=3))
    with Memory.open(tmp_path / "m.db", config=config, clock=clock, embedder="none") as memory:
        memory.add_many([NewMemory(content=f"f {n}", importance=0.0) for n in range(10)], scope=ALICE)
        pass_days(clock, 31)
        done = memory.upkeep.forget(apply=True, progress=told.append)
        assert len(done.archived) == 10
        assert told == [3, 6, 9, 10]
        assert len(memory.list_records(scope=ALICE)) == 0


def test_writers_go_on_meanwhile(tmp_path, clock):
    """What another thread adds, and keeps, while memories are forgotten is not lost and not forgotten."""
    config = Config(forgetting=Forgetting(batch=5))
    with Memory.open(tmp_path / "m.db", config=config, clock=clock, embedder="none") as memory:
        memory.add_many([NewMemory(content=f"f {n}", importance=0.0) for n in range(300)], scope=ALICE)
        pass_days(clock, 31)
        begun = threading.Event()

        def write():
            begun.wait()
            for number in range(30):
                memory.add(f"new {number}", scope=BOB)

        writer = threading.Thread(target=write)
        writer.start()
        done = memory.upkeep.forget(apply=True, progress=lambda _: begun.set())
        writer.join()
        assert len(done.archived) == 300
        assert len(memory.list_records(scope=BOB)) == 30


KILLED = """
    import os, signal, sys
    from datetime import UTC, datetime
    from memkit_core import Config, Forgetting, Memory
    config = Config(forgetting=Forgetting(batch=10))
    memory = Memory.open("memory.db", config=config, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    def die(looked_at):
        if looked_at == 30:
            print("dying", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    memory.upkeep.forget(apply=True, progress=die)
"""


def test_killed_in_the_middle(memory, clock, start_script):
    """What was archived before stays archived, nothing is lost or done twice, and a second run does the rest."""
    news = [NewMemory(content=f"f {n}", importance=0.0) for n in range(100)]
    memory.add_many(news, scope=ALICE)
    memory.flush()
    process = start_script(KILLED)
    assert process.stdout.readline() == "dying\n"
    process.wait()
    assert len(memory.list_records(scope=ALICE, status=Status.ARCHIVED)) == 30
    clock.now = datetime(2026, 3, 1, tzinfo=UTC)
    assert len(memory.upkeep.forget(apply=True).archived) == 70
    archived = memory.list_records(scope=ALICE, status=Status.ARCHIVED)
    assert {one.version for one in archived} == {2}
    assert len(archived) == 100
    memory.flush()
    assert memory.upkeep.verify().whole


@pytest.mark.parametrize(
    "arguments",
    [
        {"policy": "both"},
        {"policy": ["importance", "utility"]},
        {"apply": "yes"},
        {"delete_after_days": 0},
        {"delete_after_days": float("nan")},
        {"delete_after_days": True},
        {"progress": 1},
    ],
)
def test_what_cannot_be_done_changes_nothing(memory, clock, arguments):
    """Two policies at once, or days that are none, are a typed error before anything is changed."""
    fill(memory)
    pass_days(clock, 90)
    before = state(memory)
    with pytest.raises(InvalidInputError, match="forget"):
        memory.upkeep.forget(**{"apply": True} | arguments)
    assert state(memory) == before


@pytest.mark.parametrize(
    "setting",
    [{"policy": "both"}, {"decay_days": 0}, {"batch": 0}, {"batch": 1.5}, {"delete_after_days": -1},
     {"archive_below": float("nan")}, {"recency_weight": "much"}],
)  # fmt: skip
def test_settings_that_cannot_be_used(setting):
    """They are refused when they are made."""
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Forgetting(**setting)
