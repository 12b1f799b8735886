"""Locks that survive what processes do: kills and forks."""

import os
import signal
import threading
import time

import pytest

from memkit_core.locks import ProcessLock, ThreadLock

HOLD = """
    import sys, time
    from pathlib import Path
    from memkit_core.locks import ProcessLock
    lock = ProcessLock(Path("x.lock"))
    print(lock.acquire(0), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def lock(tmp_path):
    lock = ProcessLock(tmp_path / "x.lock")
    yield lock
    lock.close()


def test_two_objects_exclude_each_other(lock):
    """Two locks on one path in one process exclude each other like two processes do."""
    other = ProcessLock(lock.path)
    assert lock.acquire(0)
    assert lock.held
    assert not other.acquire(0)
    assert not other.held
    lock.release()
    assert other.acquire(0)
    other.close()
    assert lock.acquire(0)


def test_a_thread_waits_for_its_turn(lock):
    """A second thread waits, gives up after its timeout, and gets the lock when it is free."""
    assert lock.acquire(0)
    answers = []
    started = time.monotonic()
    thread = threading.Thread(target=lambda: answers.append(lock.acquire(0.1)))
    thread.start()
    thread.join()
    assert answers == [False]
    assert time.monotonic() - started >= 0.1
    thread = threading.Thread(target=lambda: answers.append(lock.acquire(5)))
    thread.start()
    lock.release()
    thread.join()
    assert answers == [False, True]


def test_hold_says_whether_it_was_taken(lock):
    """`hold` yields False when the lock was not free in time, and releases nothing then."""
    other = ProcessLock(lock.path)
    with lock.hold(0) as taken, other.hold(0.01) as also:
        assert (taken, also) == (True, False)
    assert not lock.held
    with other.hold(0) as taken:
        assert taken
    other.close()


def test_closing_is_idempotent_and_frees(lock):
    """Closing frees the lock; a closed lock can be closed again and even taken again."""
    assert lock.acquire(0)
    lock.close()
    lock.close()
    other = ProcessLock(lock.path)
    assert other.acquire(0)
    other.close()
    assert lock.acquire(0)


def test_another_process_excludes_until_it_is_killed(lock, start_script):
    """A lock of another process holds until that process dies by SIGKILL: there is no stale lock."""
    holder = start_script(HOLD)
    assert holder.stdout.readline() == "True\n"
    assert not lock.acquire(0.05)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert lock.acquire(1)


def test_a_forked_child_starts_unlocked(lock, in_child):
    """A child does not hold its parent's lock, cannot take it, and frees nothing by trying or closing."""
    assert lock.acquire(0)

    def child():
        held, taken = lock.held, lock.acquire(0.05)
        lock.release()
        lock.close()
        return [held, taken]

    assert in_child(child) == [False, False]
    assert lock.held
    assert not ProcessLock(lock.path).acquire(0)


def test_a_child_can_take_the_lock_when_its_parent_lets_go(lock, in_child):
    """A lock that was free at the fork is taken by the child and free again when it ends."""
    assert lock.acquire(0)
    lock.release()
    assert in_child(lambda: lock.acquire(1)) is True
    assert lock.acquire(1)


def test_a_living_child_does_not_keep_the_lock(lock, idle_child):
    """The parent's release and close free the lock although a child inherited its descriptor."""
    assert lock.acquire(0)
    idle_child()
    lock.close()
    other = ProcessLock(lock.path)
    assert other.acquire(0)
    other.close()


def test_a_forked_child_finds_a_thread_lock_open(in_child):
    """A mutex that some thread of the parent held at the fork is open in the child."""
    mutex = ThreadLock()

    def child():
        with mutex:
            return "entered"

    with mutex:
        assert in_child(child) == "entered"
    with mutex:
        pass


def test_a_system_without_file_locks(run_script):
    """Where there is no fcntl, which is on Windows, importing memkit works and opening a memory says why it cannot."""
    said = run_script("""
        import sys
        sys.modules["fcntl"] = None
        import memkit_core
        try:
            memkit_core.Memory.open(":memory:")
        except memkit_core.ConfigError as error:
            print(error)
    """)
    assert "Windows" in said
