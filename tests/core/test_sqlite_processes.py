"""`SQLiteStore` between processes: two writers, SIGKILL in the middle, fork."""

import os
import signal
import sqlite3
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from memkit_core.models import MEMORIES, Target
from memkit_core.ports import ListQuery
from memkit_core.stores.sqlite import SQLiteStore, database
from memkit_core.testing.samples import ALICE, NOW, TALK, append, due, found_by_words, message, record

WRITER = """
    import sys
    from memkit_core.stores.sqlite import SQLiteStore
    from memkit_core.testing.samples import ALICE, TALK, append, message, record
    name, rounds = sys.argv[1], int(sys.argv[2])
    store = SQLiteStore("memory.db")
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(rounds):
        store.records.put(ALICE, [record(ALICE, f"{name}.{i}", f"words of {name} {i}")])
        append(store, TALK, [message(f"{name}.{i}")])
        print(i, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    store = SQLiteStore(tmp_path / "memory.db")
    yield store
    store.close()


def ids(store):
    page = store.records.list(ALICE, ListQuery(limit=9999), now=datetime(2099, 1, 1, tzinfo=UTC))
    return [one.id for one in page]


def test_processes_write_at_once(store, start_script):
    """Two processes and this one write at once: nothing fails, nothing is lost, the log has no gap."""
    rounds = 80
    others = [start_script(WRITER + "    store.close()\n", name, rounds) for name in ("p", "q")]
    for other in others:
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        other.stdin.flush()
    for i in range(rounds):
        store.records.put(ALICE, [record(ALICE, f"own.{i}")])
        append(store, TALK, [message(f"own.{i}")])
    for other in others:
        other.stdout.read()
        assert other.wait(60) == 0
    names = ("own", "p", "q")
    assert sorted(ids(store)) == sorted(f"{name}.{i}" for name in names for i in range(rounds))
    log = store.log.read(TALK)
    assert [one.position for one in log] == list(range(3 * rounds))
    for name in names:
        assert [one.id for one in log if one.id.startswith(name)] == [f"{name}.{i}" for i in range(rounds)]
    assert len(found_by_words(store, Target(scope=ALICE))) == 3 * rounds
    assert len({entry.number for entry in due(store)}) == 6 * rounds


@pytest.mark.parametrize("acknowledged", [1, 7, 40])
def test_what_was_acknowledged_survives_a_kill(tmp_path, start_script, acknowledged):
    """After SIGKILL in the middle of writing, all that was acknowledged is there, whole, and writable."""
    writer = start_script(WRITER, "w", 100_000)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    assert writer.stdout.readline() == "ready\n"
    for i in range(acknowledged):
        assert writer.stdout.readline() == f"{i}\n"
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += len(writer.stdout.read().split())
    writer.wait()

    store = SQLiteStore(tmp_path / "memory.db")
    stored = store.records.get(ALICE, MEMORIES, [f"w.{i}" for i in range(acknowledged + 2)], now=NOW)
    assert acknowledged - 1 <= len(stored) <= acknowledged + 1
    log = [one.id for one in store.log.read(TALK)]
    assert log == [f"w.{i}" for i in range(len(log))]
    assert len(log) <= len(stored) <= len(log) + 1
    assert found_by_words(store, Target(scope=ALICE)) == {one.id for one in stored}
    assert len(due(store)) == len(stored) + len(log)
    store.records.put(ALICE, [record(ALICE, "after")])
    store.close()
    with sqlite3.connect(tmp_path / "memory.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_an_exit_without_close_loses_nothing(store, run_script):
    """A process that ends without closing its store leaves everything it wrote."""
    run_script(
        """
        import os
        from memkit_core.stores.sqlite import SQLiteStore
        from memkit_core.testing.samples import ALICE, record
        SQLiteStore("memory.db").records.put(ALICE, [record(ALICE, "a")])
        os._exit(0)
        """
    )
    assert ids(store) == ["a"]


def test_a_forked_child_adds_and_reads(store, in_child):
    """After a fork the child writes and reads on connections of its own, and the parent is unaffected."""
    store.records.put(ALICE, [record(ALICE, "parent")])

    def child():
        store.records.put(ALICE, [record(ALICE, "child")])
        append(store, TALK, [message("child")])
        return ids(store)

    assert in_child(child) == ["child", "parent"]
    assert ids(store) == ["child", "parent"]
    store.records.put(ALICE, [record(ALICE, "again")])
    assert append(store, TALK, [message("parent")])[0].position == 1
    assert ids(store) == ["again", "child", "parent"]
    assert store.checkpoint()


def test_a_forked_child_may_close(store, in_child):
    """A child that writes and closes the store takes nothing from its parent."""
    store.records.put(ALICE, [record(ALICE, "parent")])

    def child():
        store.records.put(ALICE, [record(ALICE, "child")])
        store.close()

    in_child(child)
    assert ids(store) == ["child", "parent"]
    store.records.put(ALICE, [record(ALICE, "again")])
    assert ids(store) == ["again", "child", "parent"]


SHARED_LOCKS = (
    "a forked child shares SQLite's table of locks with the connections it inherited, so its own take none"
)


def test_a_fork_in_the_middle_of_a_transaction(tmp_path, in_child):
    """A child forked while another thread is in a write transaction can write once that has ended."""
    store = SQLiteStore(tmp_path / "memory.db", busy_timeout=1.0)
    begun = threading.Event()

    def write():
        with store._database.write("slow") as connection:
            connection.execute("UPDATE meta SET value = value")
            begun.set()
            time.sleep(0.3)

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    try:
        assert in_child(lambda: len(store.records.put(ALICE, [record(ALICE, "child")]))) == 1
    finally:
        thread.join()
        store.close()


def test_a_forked_child_outlives_its_parents_store(store, tmp_path, in_child):
    """What a child writes after its parent has closed the store is as durable as everything else."""
    store.records.put(ALICE, [record(ALICE, "parent")])
    ready, go = os.pipe(), os.pipe()

    def child():
        store.records.put(ALICE, [record(ALICE, "before")])
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        store.records.put(ALICE, [record(ALICE, "after")])
        return ids(store)

    def close():
        os.read(ready[0], 1)
        store.close()
        os.write(go[1], b"x")

    closer = threading.Thread(target=close)
    closer.start()
    assert in_child(child) == ["after", "before", "parent"]
    closer.join()
    for descriptor in (*ready, *go):
        os.close(descriptor)
    again = SQLiteStore(tmp_path / "memory.db")
    found = ids(again)
    again.close()
    assert found == ["after", "before", "parent"]


def test_a_write_lock_dies_with_its_holder(store, start_script):
    """A process that is killed while it holds the write lock holds up nobody."""
    holder = start_script(
        """
        import sys
        from memkit_core.stores.sqlite import SQLiteStore
        store = SQLiteStore("memory.db")
        with store._database.write("hold") as connection:
            connection.execute("DELETE FROM records")
            print("held", flush=True)
            sys.stdin.readline()
        """
    )
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    store.records.put(ALICE, [record(ALICE, "a")])
    assert ids(store) == ["a"]


def test_a_file_is_opened_while_others_are_opened_and_closed(tmp_path):
    """Looking through the open files of the process bears that other threads open and close theirs."""
    held = [SQLiteStore(tmp_path / f"held{n}.db") for n in range(20)]
    ended = threading.Event()

    def churn(n):
        while not ended.is_set():
            SQLiteStore(tmp_path / f"{n}.db").close()

    threads = [threading.Thread(target=churn, args=(n,)) for n in range(2)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(10_000):
            database._check_apart(tmp_path / "another.db")
    finally:
        sys.setswitchinterval(usual)
        ended.set()
        for thread in threads:
            thread.join()
        for one in held:
            one.close()
