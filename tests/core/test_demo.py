"""`memkit demo` from end to end: one process remembers, another one answers, offline."""

import http.server
import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.cells import cell_len

import memkit_core
from memkit_core import Memory, Scope
from memkit_core.cli.demo import DATA, FILE_NAME, USER, remember
from memkit_core.cli.demo_screen import STAND_IN, fenced_memory, stand_in_answer
from memkit_core.evaluation import read_dataset
from memkit_core.times import to_utc

FRAMEWORKS = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("langchain_core", "llama_index")),
    reason="LangChain or LlamaIndex is not installed",
)
SAID_IN_MARCH = to_utc("2025-03-04")


@pytest.fixture
def demo(tmp_path):
    """A function that runs `memkit demo` in `tmp_path` and returns the finished process."""

    def run(*arguments, hidden=None, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        # Child processes find the package that is being tested, and before it what is to hide others.
        paths = [hidden, Path(memkit_core.__file__).parents[1], kept.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths if path)
        return subprocess.run(
            [sys.executable, "-m", "memkit_core.cli", "demo", *arguments],
            cwd=tmp_path,
            env=kept | environment,
            capture_output=True,
            encoding="utf-8",
            timeout=110,
            check=False,
        )

    return run


@FRAMEWORKS
def test_the_demo_answers_in_a_new_process(demo, tmp_path):
    """Both frameworks answer from the file, with scores and times, by a stand-in that says what it is."""
    process = demo()

    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    shown = process.stdout
    assert "Step 1: this process remembers" in shown
    assert "98 turns of 7 sessions" in shown
    assert "LangChain: RunnableWithMessageHistory" in shown
    assert "LlamaIndex: SimpleChatEngine" in shown
    assert shown.count("Q: ") == shown.count("A: ") == shown.count(f"({STAND_IN})") == 6
    assert shown.count("memories recalled in") == 6
    assert "level 5, bay 52" in shown.replace("\n", " ")
    assert "\x1b" not in shown
    *lines, command = shown.splitlines()
    assert max(map(cell_len, lines)) <= 80
    # The last line is there to be pasted, so it is never wrapped.
    assert command.split(" ", 1)[1].startswith("recall ")
    assert command.endswith(str(Path("demo-data") / FILE_NAME))
    with Memory.open(tmp_path / "demo-data" / FILE_NAME) as memory:
        sessions = {
            session.scope.id: session.messages for session in memory.sessions.list(scope=Scope.user(USER))
        }
    assert len(sessions) == 9
    assert sessions["today, in LangChain"] == sessions["today, in LlamaIndex"] == 6


@FRAMEWORKS
def test_the_demo_starts_afresh_and_touches_nothing_else(demo, tmp_path):
    """A second run finds what the first found, and other files in the folder stay as they are."""
    mine = tmp_path / "记忆"
    mine.mkdir()
    with Memory.open(mine / "memory.db") as memory:
        memory.add("keep me", scope=Scope.user(USER), id="kept")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    first, second = demo("--dir", str(mine)), demo("--dir", str(mine), **plain)

    assert first.returncode == second.returncode == 0, second.stderr
    answers = [
        [line for line in run.stdout.splitlines() if line.startswith("A: ")] for run in (first, second)
    ]
    assert answers[0] == answers[1] != []
    with Memory.open(mine / "memory.db") as memory:
        assert memory.get("kept", scope=Scope.user(USER)) is not None


def test_without_a_framework_the_demo_says_how_to_get_it_and_still_recalls(demo, tmp_path):
    """Where LangChain and LlamaIndex are missing or too old, the pip command and core recall are shown."""
    hidden = tmp_path / "hidden"
    old = hidden / "llama_index_core-0.13.0.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-index-core\nVersion: 0.13.0\n")
    (hidden / "langchain_core.py").write_text("raise ModuleNotFoundError('no langchain_core')\n")

    process = demo(hidden=hidden)

    assert process.returncode == 0, process.stderr
    said = " ".join(process.stdout.split())
    assert "pip install 'memkit-llm[langchain]'" in said
    assert "pip install 'memkit-llm[llamaindex]'" in said
    assert said.count("memories recalled in") == 6
    assert "A: " not in process.stdout
    assert "Traceback" not in process.stderr


@FRAMEWORKS
def test_a_closed_pipe_ends_the_answers_quietly(tmp_path):
    """When nobody reads on, the second process leaves no traceback either."""
    remember(tmp_path / FILE_NAME, read_dataset(DATA))
    process = subprocess.Popen(
        [sys.executable, "-m", "memkit_core.cli.demo_answers", str(tmp_path / FILE_NAME)],
        env={name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        | {"PYTHONPATH": str(Path(memkit_core.__file__).parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    stderr = process.stderr.read().decode()
    process.stderr.close()

    assert process.wait(timeout=60) == 1
    assert stderr == ""


class _OpenAI(http.server.BaseHTTPRequestHandler):
    """As much of OpenAI's chat API as the demo uses."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        message = {"role": "assistant", "content": "An answer from the loopback model."}
        body = json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": request["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def openai():
    """A server on loopback that speaks as OpenAI does; `.requests` is what it was asked."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OpenAI) as server:
        server.requests = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


OPENAI = pytest.mark.skipif(
    importlib.util.find_spec("langchain_openai") is None, reason="langchain-openai is not installed"
)


@FRAMEWORKS
@OPENAI
def test_with_a_key_the_real_model_is_asked(demo, openai):
    """With OPENAI_API_KEY set, both frameworks send the recalled memories to the OpenAI API."""
    process = demo(
        OPENAI_API_KEY="k",
        OPENAI_BASE_URL=f"http://127.0.0.1:{openai.server_port}/v1",
        OPENAI_MODEL="loopback",
    )

    assert process.returncode == 0, process.stderr
    assert process.stdout.count("A: An answer from the loopback model.\n   (loopback)") == 6
    assert STAND_IN not in process.stdout
    assert len(openai.requests) == 6
    for request in openai.requests:
        assert request["model"] == "loopback"
        assert "<recalled_memory>" in json.dumps(request["messages"])


@FRAMEWORKS
@OPENAI
def test_a_model_that_cannot_be_reached_is_one_line(demo):
    """A failing model ends the demo with exit code 1 and a line, not a traceback."""
    process = demo(OPENAI_API_KEY="k", OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_MODEL="nobody")

    assert process.returncode == 1
    assert process.stderr.startswith("memkit: model 'nobody': ")
    assert process.stderr.count("\n") == 1


def test_the_stand_in_quotes_the_first_memory_whole():
    """The stand-in repeats the best memory of the prompt exactly, and admits when there is none."""
    best = fenced_memory("a < b & </turn>", said_at=SAID_IN_MARCH, speaker='Ann "A" <x>')
    other = fenced_memory("other", said_at=SAID_IN_MARCH, speaker=None)

    assert stand_in_answer(f"rules\n{best}\n{other}") == 'Ann "A" <x> said on 2025-03-04: “a < b & </turn>”'
    assert stand_in_answer("rules\n" + other) == "Someone said on 2025-03-04: “other”"
    assert stand_in_answer("no memory") == "I remember nothing about that."
