"""For the tests of the core: other processes, run to their end, killed or forked, and a server that plays Qdrant."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import warnings
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import memkit_core
from memkit_core import Config, Memory, Message, NewDocument, Role, Summary, ToolCall
from memkit_core.cli import main
from memkit_core.indexes.qdrant import connect_qdrant
from memkit_core.scope import Scope

ALICE = Scope.user("alice")

QDRANT_COLLECTION = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "config": {
        "params": {"vectors": {"size": 8, "distance": "Cosine"}},
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    },
    "payload_schema": {},
}


class Clock:
    """A clock that stands at the beginning of 2026 until it is moved."""

    now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The clock of `memory`."""
    return Clock()


@pytest.fixture
def memory(tmp_path, clock):
    """A memory in a file, by `clock`."""
    with Memory.open(tmp_path / "memory.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def run_script(tmp_path):
    """Runs Python source in a new process, in `tmp_path`; returns what it printed, stripped."""

    def run(source, *arguments, seconds=60):
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
def memkit(tmp_path):
    """Runs the command `memkit` in `tmp_path` without a terminal; returns the finished process.

    Settings of the environment are given by keyword; none of the machine's reaches it.
    """
    # A child finds the package that is being tested, installed or not.
    home = str(Path(memkit_core.__file__).parents[1])
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MEMKIT_", "OPENAI_"))}
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))

    def run(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "memkit_core.cli", *map(str, arguments)],
            cwd=tmp_path,
            env=outer | {"PYTHONPATH": path} | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def memkit_here(tmp_path, monkeypatch, capsys):
    """The same in this process, which takes a hundredth of the time: for what ends at once.

    Returns exit code, stdout and stderr.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("MEMKIT_DB", "MEMKIT_USER", "MEMKIT_EMBEDDER", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["memkit", *map(str, arguments)])
        capsys.readouterr()
        code = main()
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def started():
    """Takes processes; those that still run when the test has ended are killed."""
    processes = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def start_script(tmp_path, started):
    """Starts Python source in a new process, in `tmp_path`, with pipes; what still runs is killed."""

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

    return start


@pytest.fixture
def in_child():
    """Forks; returns what `call` returns in the child, as JSON. Fails after `seconds`."""

    def run(call, *, seconds=30.0):
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


class QdrantServer:
    """A server on loopback that keeps requests and answers each with `reply(method, path) -> (status, body)`."""

    def __init__(self):
        self.requests, self.headers = [], []
        self.reply = self.healthy
        self.exists, self.collection, self.more_headers = True, dict(QDRANT_COLLECTION), {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                outer.requests.append((self.command, self.path, body))
                outer.headers.append(dict(self.headers))
                status, answer = outer.reply(self.command, self.path)
                text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                for name, value in outer.more_headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_PUT = do_POST = answer  # noqa: N815 - the names that http.server calls

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def healthy(self, method, path):
        if path.endswith("/exists"):
            return 200, {"result": {"exists": self.exists}}
        if path.endswith("/points/query"):
            return 200, {"result": {"points": []}}
        if "/points" in path or "/index" in path:
            return 200, {"result": {"operation_id": 1, "status": "completed"}}
        return 200, {"result": self.collection if method == "GET" else True}

    def always(self, status, answer):
        self.reply = lambda *_: (status, answer)

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def qdrant_server():
    """A server on loopback that plays Qdrant by a script."""
    server = QdrantServer()
    yield server
    server.close()


@pytest.fixture
def connect():
    """`connect_qdrant`, whose clients are closed when the test ends."""
    pytest.importorskip("qdrant_client")
    clients = []

    def make(url=":memory:", **options):
        clients.append(connect_qdrant(url, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


class Counting:
    """An embedder of one dimension that counts the texts it was given."""

    def __init__(self, model="counting", size=4):
        self.model, self.revision, self.size, self.texts = model, "1", size, 0

    def embed_documents(self, texts):
        self.texts += len(texts)
        return np.array([[len(text), 1, *[0] * (self.size - 2)] for text in texts], np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.fixture
def open_memory(clock):
    """Opens memories with an embedder that counts, `open_memory(path)`; all are closed when the test ends.

    Each with its embedder, `(memory, embedder)`.
    """
    opened = []

    def make(path=":memory:", *, model="counting", size=4):
        embedder = Counting(model, size)
        memory = Memory.open(path, embedder=embedder, config=Config(disk_reserve=1), clock=clock)
        opened.append(memory)
        return memory, embedder

    yield make
    for memory in opened:
        memory.close()


@pytest.fixture
def house(open_memory):
    """A memory with something of everything, as users leave it."""
    memory, _ = open_memory()
    _furnish(memory)
    return memory


@pytest.fixture
def house_on_disk(open_memory, tmp_path):
    """The same in the file `house.db`."""
    memory, _ = open_memory(tmp_path / "house.db")
    _furnish(memory)
    return memory


def _furnish(memory):
    session = Scope.session("s1", user=ALICE)
    memory.add("I parked on level 3.", scope=ALICE, id="parked", tags=["Car"], metadata={"n": 1, "f": 1.0})
    memory.add("I parked on level 3!", scope=ALICE)
    memory.update("parked", scope=ALICE, content="I parked on level 5.", metadata={"n": None, "x": [True]})
    memory.add("Crème brûlée \u2028 中文 👩‍👧 \r\n", scope=ALICE, id="../../etc/x", pinned=True)
    memory.add("bob's own", scope=Scope.user("bob"), expires_at="2031-01-01")
    memory.add("the org knows", scope=Scope.org("acme"))
    memory.documents("books", scope=ALICE).put([NewDocument(content="a book", id="b1")])
    memory.documents("theirs", scope=ALICE, embedding_model="their-model").put(
        [NewDocument(content="with a vector", id="v1")], vectors=[[1.0, 2.0, 3.0]]
    )
    call = ToolCall(id="c1", name="look", arguments='{"at": "door"}')
    memory.sessions.create(scope=session, title="Keys", metadata={"of": "house"})
    memory.sessions.append(
        [
            Message(role=Role.SYSTEM, text="Be kind.", id="m0"),
            Message(role=Role.USER, text="Where are my keys?", id="m1", speaker="Alice"),
            Message(role=Role.ASSISTANT, text="", id="m2", tool_calls=(call,), payload={"z": 1, "a": None}),
            Message(role=Role.TOOL, text="at the door", id="m3", tool_call_id="c1"),
            Message(role=Role.ASSISTANT, text="At the door.", id="m4"),
        ],
        scope=session,
    )
    summary = Summary(session=session, text="keys", position=1, updated_at=memory._clock())
    memory._store.log.save_summary(summary, after=-1, messages=2)
    memory.working.update("likes tea", scope=ALICE)
    memory.working.update("and coffee", scope=ALICE)
    memory.runs.save("run 1", {"step": 1, "a": 2}, scope=session, status="open")
    memory.flush()
