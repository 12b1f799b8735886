"""`memkit chat`: what is said is stored before it is answered, and every answer comes from the turn's context."""

import importlib.util
import io
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys

import pytest

from memkit_core import Memory, Message, Role, Scope, ToolCall

ANN = Scope.user("ann")
S1 = Scope.session("s1", user=ANN)
HERE = ("--db", "memory.db", "--user", "ann", "--session", "s1")
MODEL = ("--model", "openai:small")
OPENAI = pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="openai is not installed")
RAW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def chat(memkit_here, monkeypatch):
    """Runs a chat with these lines on stdin; returns exit code, stdout and stderr."""

    def run(*lines, arguments=HERE):
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return memkit_here("chat", *arguments)

    return run


@pytest.fixture
def model(qdrant_server, monkeypatch):
    """A server on loopback that speaks as OpenAI does and says "Noted." until told otherwise."""
    monkeypatch.setenv("OPENAI_BASE_URL", f"{qdrant_server.url}/v1")
    says(qdrant_server, "Noted.")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    return qdrant_server


def says(server, text):
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    server.always(
        200,
        {"id": "1", "object": "chat.completion", "created": 1, "model": "small", "choices": [choice]},
    )


def stored(tmp_path, session=S1):
    with Memory.open(tmp_path / "memory.db") as memory:
        return [(message.role.value, message.text) for message in memory.sessions.read(scope=session)]


def test_without_a_model_a_chat_stores_and_shows_what_it_recalls(chat, tmp_path):
    """Offline, in a file that it makes, it says that there is no model, and what the prompt would hold."""
    code, out, err = chat("My cat is called Tom.", arguments=(*HERE[:-1], "monday"))
    assert (code, out) == (0, "")
    assert "No model is named" in err
    assert "0 memories recalled, beside the newest 1 message of the session" in err
    assert err.endswith("1 message kept; go on with --session monday\n")

    code, out, err = chat("What is my cat called?")
    assert code == 0
    assert "My cat is called Tom." in out
    assert "1 memory recalled" in err
    assert stored(tmp_path) == [("user", "What is my cat called?")]


@OPENAI
def test_a_model_answers_from_the_context_of_the_turn_and_nothing_else(chat, model, tmp_path):
    """What is sent is `turn_context`: system text with recalled memories as data, then the session."""
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add("Her sister <b>Nora</b> lives in Oslo.", scope=ANN)
        memory.add("Nora of bob lives in Rome.", scope=Scope.user("bob"))
    code, out, err = chat("Hello!", "Where does Nora live?", arguments=(*HERE, *MODEL))
    assert (code, out) == (0, "Noted.\nNoted.\n")
    assert "1 memory recalled" in err
    assert "Oslo" not in err
    first, second = (body for _, _, body in model.requests)
    assert (first["model"], second["model"]) == ("small", "small")
    system, *said = second["messages"]
    assert system["role"] == "system"
    assert "Her sister &lt;b&gt;Nora&lt;/b&gt; lives in Oslo." in system["content"]
    assert system["content"].endswith("</recalled_memory>")
    assert "Rome" not in system["content"]
    assert said == [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Where does Nora live?"},
    ]
    assert stored(tmp_path) == [*((one["role"], one["content"]) for one in said), ("assistant", "Noted.")]


@OPENAI
def test_a_workspace_that_is_named_is_recalled_too(chat, model, tmp_path):
    """The scopes of the command line are those that are recalled; `--show-recalled` shows what the model gets."""
    inside = Scope.user("ann", workspace="acme")
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add("The release is on Friday.", scope=Scope.workspace("acme"))
    named = (*HERE, "--workspace", "acme", *MODEL, "--show-recalled")
    code, out, err = chat("When is the release?", arguments=named)
    assert (code, out, "The release is on Friday." in err) == (0, "Noted.\n", True)
    chat("When is the release?", arguments=(*HERE, *MODEL))
    named, alone = (body["messages"][0]["content"] for _, _, body in model.requests)
    assert "The release is on Friday." in named
    assert "Friday" not in alone
    assert len(stored(tmp_path, Scope.session("s1", user=inside))) == 2


@OPENAI
def test_a_model_that_fails_is_told_and_the_chat_goes_on(chat, model, tmp_path):
    """The error says what to do and hides the key; what was said is kept, and the next line is answered."""
    refused = 401, {"error": {"message": "Wrong key: secret-key"}}
    replies = iter([refused, (200, {"choices": []}), (200, b"<html>not the API</html>"), None])
    well = model.reply
    model.reply = lambda *request: next(replies) or well(*request)
    code, out, err = chat("one", "two", "three", "four", arguments=(*HERE, *MODEL))
    assert (code, out) == (0, "Noted.\n")
    lines = [line for line in err.splitlines() if line.startswith("memkit: ")]
    for line, told in zip(
        lines, ("AuthenticationError", "no chat completion", "JSONDecodeError"), strict=True
    ):
        assert line.startswith("memkit: model 'small': ")
        assert told in line
        assert line.endswith("check --model, OPENAI_API_KEY and OPENAI_BASE_URL, and say it again")
    assert "secret-key" not in out + err
    said = [("user", text) for text in ("one", "two", "three", "four")]
    assert stored(tmp_path) == [*said, ("assistant", "Noted.")]


@OPENAI
def test_a_page_that_is_pasted_does_not_end_the_session(chat, model, tmp_path):
    """What is too large for a prompt is stored whole and sent cut."""
    page = "page " * 40_000
    assert chat(page, "And now?", arguments=(*HERE, *MODEL))[:2] == (0, "Noted.\nNoted.\n")
    assert max(len(json.dumps(body)) for _, _, body in model.requests) < 160_000
    assert stored(tmp_path)[0] == ("user", page.strip())


@OPENAI
def test_a_session_of_another_program_goes_on(chat, model, tmp_path):
    """Tool calls of the session reach the model as its API takes them; what it thinks is left out."""
    call = ToolCall(id="c1", name="look", arguments='{"at": "door"}')
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.sessions.append(
            [
                Message(role=Role.USER, text="Where are my keys?"),
                Message(role=Role.ASSISTANT, text="", tool_calls=(call,)),
                Message(role=Role.TOOL, text="at the door", tool_call_id="c1"),
            ],
            scope=S1,
        )
    says(model, "<think>The door.</think>At the \x1b[31mdoor.")
    code, out, _ = chat("So where?", arguments=(*HERE, *MODEL))
    assert (code, out) == (0, "At the \ufffd[31mdoor.\n")
    assert [one["role"] for one in model.requests[0][2]["messages"][1:]] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]
    asked, found = model.requests[0][2]["messages"][2:4]
    assert asked["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": "door"}'}
    assert (found["tool_call_id"], found["content"]) == ("c1", "at the door")


def test_commands(chat, tmp_path):
    """Commands remember, recall and forget; a line with a space before the / is said."""
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add("Nora drinks tea.", scope=ANN, id="m1")
        memory.add("Bob drinks tea.", scope=Scope.user("bob"), id="b1")
    code, out, err = chat(
        "/recall who drinks tea?",
        "/forget m1",
        "/forget b1",
        "/remember  I drink coffee. ",
        "/remember",
        "/teleport",
        "",
        " /etc/hosts is a file",
        "/quit",
        "never said",
    )
    assert code == 0
    assert "Nora drinks tea." in out
    assert "id m1" in out
    assert "Bob" not in out
    assert "forgotten: m1" in err
    assert "user:ann has no memory with the id b1" in err
    assert "/remember TEXT" in err
    assert "there is no command /teleport; /help lists them" in err
    with Memory.open(tmp_path / "memory.db") as memory:
        assert [one.content for one in memory.list_records(scope=ANN)] == ["I drink coffee."]
        assert memory.get("b1", scope=Scope.user("bob")) is not None
    assert stored(tmp_path) == [("user", "/etc/hosts is a file")]


def test_each_chat_is_a_session_of_its_own_unless_one_is_named(chat, tmp_path):
    """Without `--session` a new one begins, and its name is told; `--user` must be given."""
    _, _, err = chat("hello", arguments=HERE[:4])
    with Memory.open(tmp_path / "memory.db") as memory:
        (session,) = memory.sessions.list(scope=ANN)
    assert session.scope.id.startswith("chat-")
    assert f"user:ann/session:{session.scope.id} begins" in err
    assert err.endswith(f"--session {session.scope.id}\n")
    assert "has 1 message;" in chat(arguments=(*HERE[:4], "--session", session.scope.id))[2]
    code, _, err = chat("hello", arguments=HERE[:2])
    assert (code, err) == (2, "memkit: say who chats: --user (see memkit chat --help)\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "typo"), "unknown chat model 'typo'"),
        (("--model", "openai"), "unknown chat model 'openai'"),
        pytest.param(MODEL, "the openai chat model needs a key: set OPENAI_API_KEY", marks=OPENAI),
        (("--db", ":memory:"), "--db :memory: would forget everything at once"),
        (("--embedder", "typo"), "unknown embedder 'typo'"),
        (("--session", ""), "session id must not be empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_chat_that_cannot_begin_makes_no_file(chat, tmp_path, arguments, told):
    """What is wrong with the options is one line, and nothing is left behind."""
    code, out, err = chat("hello", arguments=(*HERE, *arguments))
    assert (code in (1, 2), out, err.count("\n")) == (True, "", 1)
    assert err.startswith(f"memkit: {told}")
    assert list(tmp_path.iterdir()) == []


def test_a_line_in_any_language_in_the_c_locale(tmp_path, start_chat):
    """What is piped in as UTF-8 is stored as it is, where the locale knows only ASCII; a broken byte is marked."""
    process = start_chat(stdin=subprocess.PIPE, **RAW)
    _, err = process.communicate("小满喜欢恐龙。\n".encode() + b"caf\xe9\n", timeout=60)
    assert process.returncode == 0, err
    assert stored(tmp_path) == [("user", "小满喜欢恐龙。"), ("user", "caf\ufffd")]


@pytest.mark.parametrize("end", ["Ctrl-D", "Ctrl-C"])
def test_a_terminal(tmp_path, start_chat, end):
    """In a terminal there is a prompt; however the chat ends, what was said is kept."""
    master, slave = pty.openpty()
    process = start_chat(stdin=slave, stdout=slave, COLUMNS="20", NO_COLOR="1")
    os.close(slave)
    seen = until(master, b"> ")
    os.write(master, "Grüße aus Oslo\n".encode())
    seen += until(master, b"> ")
    if end == "Ctrl-D":
        os.write(master, b"\x04")
    else:
        os.write(master, b"x")
        # What a terminal makes of Ctrl-C.
        process.send_signal(signal.SIGINT)
    code = ended(process, master)
    told = process.stderr.read().decode()
    os.close(master)
    assert "Grüße aus Oslo".encode() in seen
    assert stored(tmp_path) == [("user", "Grüße aus Oslo")]
    assert (code, told.endswith("1 message kept; go on with --session s1\n")) == (0, True), told
    assert not any(word in told for word in ("Traceback", "interrupted"))


@OPENAI
def test_an_answer_that_is_not_waited_for(tmp_path, start_chat):
    """Ctrl-C while the model is asked ends the chat, and what was said is kept."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        process = start_chat(*MODEL, stdin=subprocess.PIPE, OPENAI_API_KEY="k", OPENAI_BASE_URL=url)
        process.stdin.write(b"Hello?\n")
        process.stdin.flush()
        silent.settimeout(60)
        asked, _ = silent.accept()
        with asked:
            assert asked.recv(10)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b""), err
    assert err.decode().endswith("interrupted\n1 message kept; go on with --session s1\n")
    assert stored(tmp_path) == [("user", "Hello?")]


def ended(process, master):
    """The exit code, once it has ended."""
    for _ in range(60):
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            # A signal just before Python waits for a key is seen by it with the next line alone.
            os.write(master, b"\n")
    raise AssertionError("it goes on")


def until(master, mark):
    """What the terminal shows up to `mark`."""
    seen = b""
    while mark not in seen:
        ready, _, _ = select.select([master], [], [], 60)
        assert ready, seen
        seen += os.read(master, 1000)
    return seen


INTERRUPTIBLE = """
import signal
# Where the tests run in the background it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from memkit_core.cli import main
main()
"""


@pytest.fixture
def start_chat(tmp_path, started):
    """Starts a chat as a process of its own in `tmp_path`; settings of the environment by keyword."""

    def start(*arguments, stdin, stdout=subprocess.PIPE, **environment):
        outer = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, "chat", *HERE, *arguments],
            cwd=tmp_path,
            env=outer | environment,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    return start
