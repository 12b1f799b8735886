"""`memkit forget` and `memkit upkeep`, run as processes of their own on a file that another one wrote."""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import Memory, Message, NewMemory, Role, Scope
from memkit_core.models import Status

ALICE = Scope.user("alice")


@pytest.fixture
def db(tmp_path):
    """A file with a memory that nobody has used for a year, one that was archived then, and a fresh one."""
    then = datetime.now(UTC) - timedelta(days=365)
    with Memory.open(tmp_path / "m.db", clock=lambda: then) as memory:
        memory.add_many(
            [NewMemory(content="I like tea", id="old"), NewMemory(content="I like jam", id="gone")],
            scope=ALICE,
        )
        memory.archive("gone", scope=ALICE)
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("I like figs", id="new", scope=ALICE)
    return tmp_path / "m.db"


def memkit(*arguments, code=0):
    ran = subprocess.run(
        [sys.executable, "-m", "memkit_core.cli", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran


def statuses(db):
    with Memory.open(db) as memory:
        return {one.id: one.status for one in memory.list_records(scope=ALICE, status=list(Status))}


def test_forget_is_a_dry_run(db):
    """It lists what it would do, with the numbers, and changes nothing."""
    before = statuses(db)
    ran = memkit("forget", "--db", db)
    (line,) = ran.stdout.splitlines()
    assert line.startswith("archive")
    assert "old" in line
    assert "idle 365 days" in line
    assert "give --apply" in ran.stderr
    assert statuses(db) == before


def test_forget_applied(db):
    """With `--apply` it archives, and deletes what was archived for longer than was asked for."""
    ran = memkit("forget", "--db", db, "--apply", "--delete-after-days", 300, "--json")
    done = json.loads(ran.stdout)
    assert (done["applied"], done["policy"], done["looked_at"]) == (True, "importance", 3)
    assert [one["id"] for one in done["archived"]] == ["old"]
    assert [(one["id"], one["scope"]) for one in done["deleted"]] == [("gone", {"user": "alice"})]
    assert done["receipt"]["records"] == 1
    assert statuses(db) == {"old": "archived", "new": "active"}


def test_forget_by_utility(db):
    """`--policy` names the other rule; one that does not exist changes nothing."""
    assert (
        json.loads(memkit("forget", "--db", db, "--policy", "utility", "--json").stdout)["policy"]
        == "utility"
    )
    assert "both" in memkit("forget", "--db", db, "--policy", "both", "--apply", code=2).stderr
    assert "above 0" in memkit("forget", "--db", db, "--delete-after-days", 0, "--apply", code=1).stderr


def test_upkeep_does_what_is_due(db):
    """Once; then nothing is due, for whichever process."""
    ran = memkit("upkeep", "--db", db)
    assert [line.split()[2:] for line in ran.stdout.splitlines()] == [
        ["outbox", "done"],
        ["checkpoint", "done"],
        ["sweep", "done"],
    ]
    again = memkit("upkeep", "--db", db)
    assert (again.stdout, again.stderr) == ("", "nothing is due\n")
    told = json.loads(memkit("upkeep", "--db", db, "--forget-hour", 3, "--json").stdout)
    assert told["done"] == []
    assert [job["name"] for job in told["jobs"]] == ["checkpoint", "forget", "outbox", "sweep"]


def test_upkeep_forms_memories(db):
    """`--form` has idle sessions read by rules; without it none is."""
    then = datetime.now(UTC) - timedelta(minutes=6)
    with Memory.open(db, clock=lambda: then) as memory:
        talk = Scope.session("s", user=ALICE)
        memory.sessions.append([Message(role=Role.USER, text="I like plums")], scope=talk)
    assert "formation" not in memkit("upkeep", "--db", db).stdout
    assert "formation  done" in memkit("upkeep", "--db", db, "--form").stdout
    with Memory.open(db) as memory:
        assert "I like plums" in {record.content for record in memory.list_records(scope=ALICE)}


def test_upkeep_goes_on(db):
    """With `--watch` it runs until it is interrupted, and leaves the file whole."""
    # A shell starts what it runs in the background with interrupts ignored, and the tests may be that.
    interruptible = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = f"import sys; {interruptible}; from memkit_core.cli import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "upkeep", "--db", db, "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    # The pipe of stdout is buffered: what is done is seen in the file.
    with Memory.open(db) as memory:
        while {job.name for job in memory.upkeep.jobs() if job.last_run_at} != {
            "outbox",
            "checkpoint",
            "sweep",
        }:
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    with Memory.open(db) as memory:
        assert memory.upkeep.verify().whole


def test_upkeep_refuses_what_it_cannot_do(db):
    """One JSON document has no end to wait for, and a day has no hour 24."""
    assert "--watch" in memkit("upkeep", "--db", db, "--watch", "--json", code=2).stderr
    assert "--forget-hour must be" in memkit("upkeep", "--db", db, "--forget-hour", 24, code=1).stderr
