"""Periodic work: due when the plan says, done by one of any number of processes, and resumed after a restart."""

import contextlib
import gc
import logging
import os
import signal
import sqlite3
import threading
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import (
    ChatExtractor,
    Config,
    ConfigError,
    Extracted,
    Forgetting,
    Judgement,
    Memory,
    Message,
    Role,
    RuleExtractor,
    Schedule,
    Scope,
    Verdict,
)
from memkit_core.conversation.queue import PersistQueue
from memkit_core.errors import BackendUnavailableError, ClosedError, LeaseLostError, MemkitError
from memkit_core.models import Status
from memkit_core.upkeep.jobs import Every, Job

ALICE = Scope.user("alice")
QUIET = Schedule(thread=False)
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the same file as often as asked, each time as another memory with its own plan."""
    with contextlib.ExitStack() as stack:

        def open_(plan=QUIET, **settings):
            config = Config(upkeep=plan, **settings)
            path = tmp_path / "m.db"
            return stack.enter_context(Memory.open(path, config=config, clock=clock, embedder="none"))

        yield open_


def names(runs):
    return [run.name for run in runs]


def states(memory):
    return {job.name: job for job in memory.upkeep.jobs()}


def test_each_job_has_its_period(opened, clock):
    """Outbox after 30 s, checkpoint after 300 s, sweep after an hour; each is due at once when it was never done."""
    memory = opened()
    assert memory.upkeep.jobs() == []
    assert names(memory.upkeep.run_due()) == ["outbox", "checkpoint", "sweep"]
    assert memory.upkeep.run_due() == []
    done = {}
    for second in range(5, 3605, 5):
        clock.now = START + timedelta(seconds=second)
        for run in memory.upkeep.run_due():
            assert run.at == clock.now
            done.setdefault(run.name, []).append(second)
    assert done == {
        "outbox": list(range(30, 3601, 30)),
        "checkpoint": list(range(300, 3601, 300)),
        "sweep": [3600],
    }


def test_times_are_stored(opened, clock):
    """What was done last, and is due next, outlives the process: a restart does not begin anew."""
    first = opened()
    first.upkeep.run_due()
    first.close()
    again = opened()
    state = states(again)["checkpoint"]
    assert (state.last_run_at, state.due_at) == (START, START + timedelta(seconds=300))
    assert (state.last_error, state.leased_until) == (None, None)
    clock.now += timedelta(seconds=299)
    assert names(again.upkeep.run_due()) == ["outbox"]
    again.close()
    clock.now += timedelta(days=3)
    assert names(opened().upkeep.run_due()) == ["outbox", "checkpoint", "sweep"]


def test_the_jobs_do_their_work(tmp_path, clock):
    """What waits gets its vector, the log is emptied, what has expired is gone from the file."""
    path = tmp_path / "m.db"
    with Memory.open(path, config=Config(upkeep=QUIET), clock=clock) as memory:
        memory.add("stays", scope=ALICE, background=True)
        memory.add("expires", scope=ALICE, expires_at=clock.now + timedelta(hours=1))
        clock.now += timedelta(hours=2)
        assert (path.parent / "m.db-wal").stat().st_size > 0
        assert all(run.error is None for run in memory.upkeep.run_due())
        assert memory.capabilities.outbox.length <= 1  # the deletion of the swept one
        clock.now += timedelta(hours=2)
        memory.upkeep.run_due()
        assert memory.capabilities.outbox.length == 0
        with contextlib.closing(sqlite3.connect(path)) as file:
            assert file.execute("SELECT content FROM records").fetchall() == [("stays",)]
        assert memory._store.logged().log_bytes() < 100_000


def test_the_checkpoint_empties_the_log(opened, clock, tmp_path):
    """The write-ahead log is truncated, not only copied; a reader that prevents it is no failure."""
    memory = opened()
    memory.upkeep.run_due()
    memory.add("tea", scope=ALICE)
    log = tmp_path / "m.db-wal"
    with contextlib.closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM records").fetchone()
        memory.add("jam", scope=ALICE)
        memory.upkeep._checkpoint()
        assert log.stat().st_size > 0
        reader.execute("COMMIT")
    before = log.stat().st_size
    memory.upkeep._checkpoint()
    assert log.stat().st_size == 0 < before


def test_forgetting_is_daily_at_its_hour(opened, clock):
    """Off unless an hour is set; then once a day at that hour, UTC, with the rule of the settings."""
    opened().add("tea", id="m", scope=ALICE, importance=0.1)
    clock.now += timedelta(days=60, hours=1)
    assert "forget" not in names(opened().upkeep.run_due())
    memory = opened(Schedule(thread=False, forget_hour=3), forgetting=Forgetting(archive_below=0.06))
    assert "forget" not in names(memory.upkeep.run_due())
    assert states(memory)["forget"].due_at == START + timedelta(days=60, hours=3)
    clock.now += timedelta(hours=2)
    assert "forget" in names(memory.upkeep.run_due())
    assert memory.get("m", scope=ALICE).status is Status.ARCHIVED
    clock.now += timedelta(hours=23, minutes=59)
    assert "forget" not in names(memory.upkeep.run_due())
    clock.now += timedelta(minutes=1)
    assert "forget" in names(memory.upkeep.run_due())


def test_another_hour_is_the_one_that_holds(opened, clock):
    """Whoever moves the hour forward does not have to wait for the old one, and nothing is done too early."""
    opened(Schedule(thread=False, forget_hour=23)).upkeep.run_due()
    memory = opened(Schedule(thread=False, forget_hour=5))
    memory.upkeep.run_due()
    assert states(memory)["forget"].due_at == START + timedelta(hours=5)
    assert states(memory)["forget"].last_run_at is None


def test_a_clock_that_was_set_back(opened, clock):
    """A job is done again within its period, though it was done in the future."""
    memory = opened()
    clock.now += timedelta(days=900)
    memory.upkeep.run_due()
    clock.now = START
    assert memory.upkeep.run_due() == []
    clock.now += timedelta(seconds=30)
    assert names(memory.upkeep.run_due()) == ["outbox"]


def test_a_job_that_fails(opened, clock, caplog):
    """It is told and logged, the others are done, and it is done again when it is due again."""
    memory = opened()

    def fail(_renew):
        raise BackendUnavailableError("the disk is on fire", backend="sqlite", operation="test")

    memory.upkeep._scheduler._jobs.insert(0, Job("failing", Every(60), fail))
    with caplog.at_level(logging.WARNING, "memkit.upkeep"):
        failed, *others = memory.upkeep.run_due()
    assert "on fire" in failed.error
    assert "on fire" in caplog.text
    assert names(others) == ["outbox", "checkpoint", "sweep"]
    assert "on fire" in states(memory)["failing"].last_error
    assert "failing" not in names(memory.upkeep.run_due())
    clock.now += timedelta(seconds=60)
    assert "failing" in names(memory.upkeep.run_due())


def test_one_more_job(opened, clock):
    """Other parts hand in work of their own, which is leased and planned like all."""
    memory, done = opened(), []
    memory.upkeep._scheduler.add(Job("formation", Every(60), lambda _: done.append(clock.now)))
    memory.upkeep.run_due()
    assert done == [START]
    assert states(memory)["formation"].due_at == START + timedelta(seconds=60)


def test_two_memories_do_a_job_once(opened):
    """While one does a job, nobody else does, in this process or another."""
    one, other = opened(), opened(Schedule(thread=False, lease_seconds=60))
    inside, go_on = threading.Event(), threading.Event()

    def slow(_renew):
        inside.set()
        assert go_on.wait(60)

    runs = []
    one.upkeep._scheduler.add(Job("slow", Every(60), slow))
    other.upkeep._scheduler.add(Job("slow", Every(60), slow))
    thread = threading.Thread(target=lambda: runs.extend(one.upkeep.run_due()))
    thread.start()
    assert inside.wait(60)
    assert "slow" not in names(other.upkeep.run_due())
    assert states(other)["slow"].leased_until is not None
    go_on.set()
    thread.join()
    assert "slow" in names(runs)
    assert "slow" not in names(other.upkeep.run_due())


CONTEND = """
    import sys
    from datetime import UTC, datetime
    from memkit_core import Config, Memory, Schedule
    from memkit_core.upkeep.jobs import Every, Job
    config = Config(upkeep=Schedule(thread=False))
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)
    with Memory.open("m.db", config=config, clock=clock, embedder="none") as memory:
        def note(_):
            with open("done.txt", "a") as file:
                file.write("once\\n")
        for number in range(20):
            memory.upkeep._scheduler.add(Job(f"job {number}", Every(60), note))
        print("ready", flush=True)
        sys.stdin.readline()
        memory.upkeep.run_due()
"""


def test_three_processes_do_each_job_once(opened, start_script, tmp_path):
    """Twenty jobs that three processes find due at the same moment are done twenty times in all."""
    opened()
    processes = [start_script(CONTEND) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.wait(60) == 0
    assert (tmp_path / "done.txt").read_text() == "once\n" * 20


HANG = """
    import sys
    from datetime import UTC, datetime
    from memkit_core import Config, Memory, Schedule
    from memkit_core.upkeep.jobs import Every, Job
    config = Config(upkeep=Schedule(thread=False, lease_seconds=120))
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC)
    memory = Memory.open("m.db", config=config, clock=clock, embedder="none")
    def hang(_):
        print("in it", flush=True)
        sys.stdin.readline()
    memory.upkeep._scheduler.add(Job("hang", Every(60), hang))
    memory.upkeep.run_due()
"""


def test_the_lease_of_a_killed_process_ends(opened, start_script, clock):
    """Until then nobody does its job, from then on anybody."""
    memory, done = opened(), []
    memory.upkeep._scheduler.add(Job("hang", Every(60), lambda _: done.append(1)))
    process = start_script(HANG)
    assert process.stdout.readline() == "in it\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    clock.now += timedelta(seconds=119)
    memory.upkeep.run_due()
    assert done == []
    assert states(memory)["hang"].leased_until == START + timedelta(seconds=120)
    clock.now += timedelta(seconds=1)
    assert "hang" in names(memory.upkeep.run_due())
    assert done == [1]


def test_a_long_job_keeps_its_lease(opened, clock):
    """Forgetting renews its lease with every batch, so that no second process begins it."""
    plan = Schedule(thread=False, forget_hour=0, lease_seconds=60)
    memory = opened(plan, forgetting=Forgetting(batch=1))
    memory.upkeep.run_due()
    for number in range(3):
        memory.add(f"tea {number}", scope=ALICE, importance=0.0)
    clock.now += timedelta(days=40)
    leases, standing = [], memory._parts.store.records.standing

    def watched(*arguments, **named):
        clock.now += timedelta(seconds=50)
        leases.append(states(memory)["forget"].leased_until - clock.now)
        return standing(*arguments, **named)

    memory._parts.store.records.standing = watched
    runs = memory.upkeep.run_due()
    assert "forget" in names(runs)
    assert leases == [timedelta(seconds=10)] * 4


TALK = Scope.session("monday", user=ALICE)


def say(memory, text, scope=TALK):
    memory.sessions.append([Message(role=Role.USER, text=text)], scope=scope)


def contents(memory, scope=ALICE):
    return sorted(record.content for record in memory.list_records(scope=scope))


def test_idle_sessions_are_formed(opened, clock):
    """With an extractor the work forms memories of each session five minutes after its last message, and once."""
    opened().upkeep.run_due()
    memory = opened(extractor=RuleExtractor())
    assert "formation" in names(memory.upkeep.run_due())
    say(memory, "I like tea")
    clock.now += timedelta(seconds=299)
    say(memory, "I like jam", scope=Scope.session("s", user="bob"))
    memory.upkeep.run_due()
    assert contents(memory) == []
    clock.now += timedelta(seconds=60)
    assert "formation" in names(memory.upkeep.run_due())
    assert (contents(memory), contents(memory, Scope.user("bob"))) == (["I like tea"], [])
    clock.now += timedelta(seconds=300)
    memory.upkeep.run_due()
    assert contents(memory, Scope.user("bob")) == ["I like jam"]
    assert memory.list_records(scope=ALICE).records[0].mentions == 1
    clock.now += timedelta(seconds=59)
    assert "formation" not in names(memory.upkeep.run_due())


def test_without_an_extractor_nothing_is_formed(opened, clock):
    """No model is asked, and no session read, unless the settings name an extractor."""
    memory = opened()
    say(memory, "I like tea")
    clock.now += timedelta(days=1)
    assert "formation" not in names(memory.upkeep.run_due())
    assert contents(memory) == []


def test_idle_sessions_are_formed_after_a_restart(opened, clock):
    """What was said before a process ended is formed by the next one that looks after the store, in its turn."""
    first = opened(extractor=RuleExtractor())
    first.upkeep.run_due()
    say(first, "I like tea")
    first.close()
    clock.now += timedelta(minutes=10)
    again = opened(extractor=RuleExtractor())
    assert states(again)["formation"].due_at == START + timedelta(seconds=60)
    again.upkeep.run_due()
    assert contents(again) == ["I like tea"]
    assert states(again)["formation"].last_run_at == clock.now


def test_the_judge_of_the_settings_is_asked(tmp_path, clock):
    """What is formed is compared by `Config.judge`, which is also that of `consolidate` and of `formation.run`."""
    asked = []

    def judge(new, olds):
        asked.append(new.content)
        return [Judgement(verdict=Verdict.REPLACES, reason="moved") for _ in olds]

    def extract(messages):
        return [Extracted(content=message.text) for message in messages]

    config = Config(upkeep=QUIET, extractor=extract, judge=judge)
    with Memory.open(tmp_path / "m.db", config=config, clock=clock) as memory:
        memory.add("Alice parks on level 3", scope=ALICE)
        clock.now += timedelta(days=1)
        say(memory, "Alice parks on level 5 now")
        clock.now += timedelta(minutes=6)
        memory.upkeep.run_due()
        assert contents(memory) == ["Alice parks on level 5 now"]
        clock.now += timedelta(minutes=1)
        say(memory, "Alice parks on level 7 now")
        memory.formation.run(scope=TALK)
        assert contents(memory) == ["Alice parks on level 7 now"]
        clock.now += timedelta(minutes=1)
        memory.add("Alice parks on level 9 now", scope=ALICE)
        memory.upkeep.consolidate(scope=ALICE, dry_run=False)
        assert contents(memory) == ["Alice parks on level 9 now"]
        assert asked == [f"Alice parks on level {n} now" for n in (5, 7, 9)]


def test_an_extractor_that_fails_fails_the_job(opened, clock, caplog):
    """It is told without what was said; the messages are kept, and the other sessions formed all the same."""

    def extract(messages):
        if "secret" in messages[0].text:
            raise RuntimeError(f"cannot read {messages[0].text}")
        return [Extracted(content=messages[0].text)]

    memory = opened(extractor=extract)
    say(memory, "my secret")
    say(memory, "I like tea", scope=Scope.session("s", user="bob"))
    clock.now += timedelta(minutes=6)
    run = next(run for run in memory.upkeep.run_due() if run.name == "formation")
    assert "could not be read: 1;" in run.error
    assert "secret" not in run.error + caplog.text
    assert contents(memory, Scope.user("bob")) == ["I like tea"]
    assert [one.first for one in memory.formation.set_aside(scope=TALK)] == [0]
    clock.now += timedelta(minutes=6)
    assert next(run for run in memory.upkeep.run_due() if run.name == "formation").error is None


def test_formation_keeps_its_lease(opened, clock):
    """It renews its lease before each part of a session, so that no second process begins it."""
    leases = []

    def extract(messages):
        leases.append(states(memory)["formation"].leased_until - clock.now)
        clock.now += timedelta(seconds=50)
        return []

    memory = opened(Schedule(thread=False, lease_seconds=60, idle_seconds=1), extractor=extract)
    for name in ("a", "b"):
        for _ in range(2):
            say(memory, "word " * 4000, scope=Scope.session(name, user=ALICE))
    clock.now += timedelta(minutes=1)
    memory.upkeep.run_due()
    assert leases == [timedelta(seconds=60)] * 4


FORM = """
    import sys, time
    from datetime import UTC, datetime
    from memkit_core import Config, Extracted, Memory, Schedule
    clock = lambda: datetime(2026, 1, 2, tzinfo=UTC)
    def extract(messages):
        with open("read.txt", "a") as file:
            file.write("once\\n")
        time.sleep(0.5)
        return [Extracted(content=messages[0].text)]
    config = Config(upkeep=Schedule(thread=False), extractor=extract)
    with Memory.open("m.db", config=config, clock=clock, embedder="none") as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        memory.upkeep.run_due()
"""


def test_two_processes_form_a_session_once(opened, start_script, tmp_path):
    """The lease lets one of them ask the model; the other finds nothing to do."""
    memory = opened()
    say(memory, "I like tea")
    processes = [start_script(FORM) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert process.wait(60) == 0
    assert (tmp_path / "read.txt").read_text() == "once\n"
    assert contents(memory) == ["I like tea"]


def test_consolidation_is_daily_at_its_hour(opened, clock):
    """Off unless an hour is set; then near duplicates of all scopes are settled once a day."""
    for scope in (ALICE, TALK):
        opened().add("Alice really likes tea", scope=scope)
        opened().add("Alice does like the tea", scope=scope)
    calls = []

    def judge(new, olds):
        calls.append(new.scope)
        return [Judgement(verdict=Verdict.SAME, reason="so it is") for _ in olds]

    memory = opened(Schedule(thread=False, consolidate_hour=3), judge=judge)
    assert "consolidate" not in names(memory.upkeep.run_due())
    clock.now += timedelta(hours=3)
    assert "consolidate" in names(memory.upkeep.run_due())
    assert calls == [ALICE, TALK]
    assert [len(contents(memory, scope)) for scope in (ALICE, TALK)] == [1, 1]
    clock.now += timedelta(hours=23)
    assert "consolidate" not in names(memory.upkeep.run_due())


@pytest.mark.parametrize("job", ["consolidate", "formation"])
def test_a_slow_judge_keeps_the_lease(opened, clock, job):
    """It is renewed before each question to the judge, so that no second process asks the same."""
    leases = []

    def judge(_new, olds):
        leases.append(states(memory)[job].leased_until - clock.now)
        clock.now += timedelta(seconds=50)
        return [None for _ in olds]

    def extract(_messages):
        return [Extracted(content=f"Alice does like the {what}") for what in drinks]

    drinks = ("tea", "milk", "soup")
    for drink in drinks:
        opened().add(f"Alice really likes {drink}", scope=ALICE)
        opened().add(f"Alice does like {drink}", scope=ALICE)
    say(opened(), "what I like")
    hour = {"consolidate_hour": 3} if job == "consolidate" else {}
    plan = Schedule(thread=False, lease_seconds=60, idle_seconds=1, **hour)
    memory = opened(plan, judge=judge, extractor=extract if job == "formation" else None)
    clock.now += timedelta(seconds=2)
    if hour:
        memory.upkeep.run_due()
        clock.now += timedelta(hours=3)
    memory.upkeep.run_due()
    assert len(leases) > 1
    assert set(leases) == {timedelta(seconds=60)}


def test_a_model_is_no_extractor(opened):
    """What cannot extract or judge is refused, and neither is kept where it could be read, since it may hold a key."""

    class ChatModel:
        def invoke(self, prompt): ...

        def __call__(self, messages): ...

    for bad in (ChatModel(), RuleExtractor, "gpt"):
        with pytest.raises(ConfigError, match=r"extractor must be a function.*ChatExtractor"):
            Config(extractor=bad)
        with pytest.raises(ConfigError, match=r"judge must be a function.*ChatJudge"):
            Config(judge=bad)
    config = Config(extractor=ChatExtractor(lambda prompt: ""), judge=lambda new, olds: [])
    kept = config.without_secrets()
    assert (kept.extractor, kept.judge) == (None, None)
    assert opened(extractor=config.extractor).__reduce__()[1][1].extractor is None


class Told:
    """A clock that tells when the thread of upkeep asked it."""

    def __init__(self):
        self.asked = threading.Event()

    def __call__(self):
        if threading.current_thread().name == "memkit-upkeep":
            self.asked.set()
        return START


def test_the_thread_is_opt_in(tmp_path):
    """Without a plan none is started; with one it does what is due, and closing the memory ends it."""
    running = lambda: [one for one in threading.enumerate() if one.name == "memkit-upkeep"]  # noqa: E731
    with Memory.open(tmp_path / "none.db", embedder="none"):
        assert running() == []
    clock = Told()
    with Memory.open(
        tmp_path / "m.db", config=Config(upkeep=Schedule()), clock=clock, embedder="none"
    ) as memory:
        assert clock.asked.wait(60)
        (thread,) = running()
        memory.upkeep.start()
        assert running() == [thread]
    assert not thread.is_alive()
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        assert "sweep" in states(memory)


def test_the_thread_can_be_started_and_stopped(opened):
    """`start` begins it, `stop` ends it, again and again; a closed memory starts none."""
    memory = opened()
    assert memory.upkeep.stop()
    for _ in range(2):
        done = threading.Event()
        memory.upkeep._scheduler._jobs[:] = [
            Job(f"set {id(done)}", Every(60), lambda _, done=done: done.set())
        ]
        memory.upkeep.start()
        assert done.wait(60)
        assert memory.upkeep.stop(10)
    memory.close()
    for call in (memory.upkeep.start, memory.upkeep.run_due, memory.upkeep.jobs):
        with pytest.raises(ClosedError):
            call()


def test_a_dropped_memory_ends_its_thread(tmp_path, clock):
    """The thread keeps no memory alive that its owner forgot to close."""
    config = Config(upkeep=Schedule(), extractor=RuleExtractor())
    Memory.open(tmp_path / "m.db", config=config, clock=clock, embedder="none")
    gc.collect()
    assert [one for one in threading.enumerate() if one.name == "memkit-upkeep"] == []


@pytest.mark.parametrize(
    "setting",
    [{"thread": 1}, {"outbox_seconds": 0}, {"sweep_seconds": "daily"}, {"forget_hour": 24},
     {"forget_hour": True}, {"consolidate_hour": 24}, {"idle_seconds": -1}, {"formation_seconds": 0}, {"lease_seconds": float("inf")}, {"lease_seconds": 90_000}],
)  # fmt: skip
def test_plans_that_cannot_be_kept(setting):
    """They are refused when they are made."""
    with pytest.raises(ConfigError, match=next(iter(setting))):
        Schedule(**setting)


def test_a_store_that_fails_one_session_fails_the_job(opened, clock, monkeypatch):
    """The job tells it, and the sessions behind that one are formed all the same."""
    settle, down = PersistQueue.settle, set()

    def broken(queue, scope, *, strict=False):
        if scope in down:
            raise BackendUnavailableError("the disk is full", backend="sqlite", operation="settle")
        return settle(queue, scope, strict=strict)

    monkeypatch.setattr(PersistQueue, "settle", broken)
    memory = opened(extractor=lambda messages: [Extracted(content=messages[0].text)])
    say(memory, "I like tea")
    clock.now += timedelta(minutes=1)
    say(memory, "I like coffee", scope=Scope.session("s", user="bob"))
    clock.now += timedelta(minutes=6)
    down.add(TALK)
    run = next(run for run in memory.upkeep.run_due() if run.name == "formation")
    assert "1 session" in run.error
    assert "the disk is full" in run.error
    assert contents(memory, Scope.user("bob")) == ["I like coffee"]


def test_who_lost_a_lease_stops(opened, clock, caplog):
    """A job that another took over meanwhile ends at its next renewal, is told, and leaves the other's note."""
    plan = Schedule(thread=False, lease_seconds=60)
    slow, other = opened(plan), opened(plan)
    done = []

    def work(renew):
        renew()
        clock.now += timedelta(minutes=2)
        done.extend(name for name in names(other.upkeep.run_due()) if name == "work")
        renew()
        done.append("too much")

    slow.upkeep._scheduler.add(Job("work", Every(600), work))
    other.upkeep._scheduler.add(Job("work", Every(600), lambda _: None))
    run = next(run for run in slow.upkeep.run_due() if run.name == "work")
    assert done == ["work"]
    assert "lease" in run.error
    assert "lease" in caplog.text
    assert states(other)["work"].last_error is None
    assert issubclass(LeaseLostError, MemkitError)


def test_formation_that_lost_its_lease_leaves_the_rest_to_the_other(opened, clock):
    """What was not read yet is read by who has the lease now, and nothing twice."""
    said = []

    def extract(messages):
        clock.now += timedelta(minutes=2)
        other.upkeep._scheduler._store.jobs.claim(
            "formation",
            holder="another",
            first=clock.now,
            latest=clock.now,
            now=clock.now,
            until=clock.now + timedelta(seconds=30),
        )
        said.extend(message.text for message in messages)
        return []

    plan = Schedule(thread=False, lease_seconds=60, idle_seconds=1)
    memory, other = opened(plan, extractor=extract), opened(plan, extractor=extract)
    for name in ("a", "b"):
        say(memory, name, scope=Scope.session(name, user=ALICE))
    clock.now += timedelta(minutes=1)
    memory.upkeep.run_due()
    assert len(said) == 1
    clock.now += timedelta(minutes=20)
    other.upkeep.run_due()
    assert sorted(said) == ["a", "b"]
