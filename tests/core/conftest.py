"""Other processes for the tests of the core: run to their end, killed in the middle, or forked."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
import warnings

import pytest

from memkit_core.scope import Scope

ALICE = Scope.user("alice")


@pytest.fixture
def run_script(tmp_path):
    """Runs Python source in a new process, in `tmp_path`; returns what it printed, stripped."""

    def run(source, *arguments, seconds=30):
        ran = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    return run


@pytest.fixture
def start_script(tmp_path):
    """Starts Python source in a new process, in `tmp_path`, with pipes; what still runs is killed."""
    started = []

    def start(source, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def in_child():
    """Forks; returns what `call` returns in the child, as JSON. Fails after `seconds`."""

    def run(call, *, seconds=5.0):
        reader, writer = os.pipe()
        child = _fork()
        if child == 0:
            _answer(writer, call)
        os.close(writer)
        deadline = time.monotonic() + seconds
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.close(reader)
                pytest.fail(f"the forked child did not answer within {seconds:g} s")
            time.sleep(0.005)
        with os.fdopen(reader, encoding="utf-8") as answer:
            value, error = json.load(answer)
        assert error is None, error
        return value

    return run


@pytest.fixture
def idle_child():
    """A forked child that does nothing until the test ends; returns a function that makes one."""
    children = []

    def make():
        child = _fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)

    yield make
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _fork():
    with warnings.catch_warnings():
        # Python 3.12 warns of fork in a process with threads; that it works is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _answer(writer, call):
    """Report the result and leave at once: a child must run nothing of the test runner."""
    try:
        answer = [call(), None]
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is told and fails
        answer = [None, traceback.format_exc()]
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:
        json.dump(answer, pipe)
    os._exit(0)
