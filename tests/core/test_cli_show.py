"""`memkit show`: one memory with all that is known of it, or one conversation, and nothing of another scope."""

import json
import subprocess
import sys
from functools import partial

import pytest

from memkit_core import Memory, Message, NewDocument, Role, Scope, ToolCall
from memkit_core.times import utc_now

ANN = Scope.user("ann")
S1 = Scope.session("s1", user=ANN)
OF_ANN = ("--db", "memory.db", "--user", "ann")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of a memory whose value of a key changed, and of a conversation."""
    file = tmp_path_factory.mktemp("written") / "memory.db"
    with Memory.open(file) as memory:
        memory.add("Level 3.", scope=ANN, id="m1", key="car", tags=["Car", "park"], metadata={"of": {"n": 1}})
        memory.update("m1", scope=ANN, content="Level 3, bay 52.", metadata={"of": None})
        memory.add("Level 5.", scope=ANN, id="m2", key="car", source="chat", confidence=0.8)
        memory.add("Bob's.", scope=Scope.user("bob"), id="b1")
        memory.add("Gone.", scope=ANN, id="gone")
        memory.delete("gone", scope=ANN)
        memory.add("Over.", scope=ANN, id="over", expires_at=utc_now())
        memory.add("Of the session \x1b[31mred.", scope=S1, id="s")
        memory.documents("books", scope=ANN).put([NewDocument(content="a book", id="d1")])
        memory.documents("theirs", scope=ANN, embedding_model="their-model").put(
            [NewDocument(content="with a vector", id="v1")], vectors=[[1.0, 2.0, 3.0]]
        )
        call = ToolCall(id="c1", name="look", arguments='{"at": "door"}')
        memory.sessions.create(scope=S1, title="The car", metadata={"of": "house"})
        memory.sessions.append(
            [
                Message(
                    role=Role.USER, speaker="Ann", text="Where is it?", id="t1", created_at="2025-03-01T10:00"
                ),
                Message(role=Role.ASSISTANT, text="", tool_calls=(call,), id="t2"),
                Message(role=Role.TOOL, text="not here", tool_call_id="c1", id="t3"),
                Message(role=Role.ASSISTANT, text="On level 5.\nBay 52.", id="t4"),
            ],
            scope=S1,
        )
        memory.flush()
        asked = memory.recall("level", scope=ANN, explain=True)
    return file.read_bytes(), asked[0].embedding


@pytest.fixture
def memkit_there(written, memkit_here, tmp_path):
    """Runs `memkit` beside a copy of it."""
    (tmp_path / "memory.db").write_bytes(written[0])
    return memkit_here


@pytest.fixture
def show(memkit_there):
    """Runs `memkit show`."""
    return partial(memkit_there, "show")


def test_a_memory_is_shown_whole(show, written):
    """What it says and is, what it took the place of, its tags, metadata, vector and changes, whatever its status."""
    code, out, err = show("m1", *OF_ANN)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert (code, err) == (0, "")
    for line in (
        "content Level 3, bay 52.",
        "status superseded",
        "tags car, park",
        "key car",
        "superseded by m2: Level 5.",
        f"embedding {written[1]}",
        "index has it",
        "content was “Level 3.”",
        'metadata was {"of": {"n": 1}}',
        "status was “active”",
        "superseded by was not set",
    ):
        assert line in lines
    assert [line[20:] for line in lines if " version " in line] == [
        "version 1 created",
        "version 2 updated",
        "version 3 superseded, with m2",
    ]
    newer = [" ".join(line.split()) for line in show("m2", *OF_ANN)[1].splitlines()]
    assert {"supersedes m1: Level 3, bay 52.", "source chat", "confidence 0.8"} <= set(newer)


def test_a_memory_as_json(show, memkit_there, written):
    """`--json` has every field under the names that `recall --json` gives them, and the history."""
    document = json.loads(show("m1", *OF_ANN, "--json")[1])
    assert document.keys() == {"scope", "record", "history", "embedding", "synced"}
    assert document["record"]["superseded_by"] == "m2"
    assert [change["kind"] for change in document["history"]] == ["created", "updated", "superseded"]
    assert document["history"][1]["before"]["content"] == "Level 3."
    assert (document["embedding"], document["synced"]) == (written[1], True)
    document = json.loads(show("m2", *OF_ANN, "--json")[1])
    asked = json.loads(memkit_there("recall", "Level 5.", *OF_ANN, "--no-messages", "--json")[1])
    assert document["record"] == asked["hits"][0]["record"]


def test_other_spaces(show):
    """A turn, a document and a memory of a session are shown too, where their scope is named."""
    assert "a book" in show("d1", *OF_ANN, "--space", "documents:books")[1]
    given = json.loads(show("v1", *OF_ANN, "--space", "documents:theirs", "--json")[1])
    assert (given["embedding"].split("|")[0], given["synced"]) == ("their-model", True)
    assert "Where is it?" in show("t1", *OF_ANN, "--session", "s1", "--space", "messages")[1]
    assert "Of the session \ufffd[31mred." in show("s", *OF_ANN, "--session", "s1")[1]


@pytest.mark.parametrize("name", ["nope", "b1", "gone", "over", "s"])
def test_what_is_not_there(show, name):
    """An unknown, foreign, deleted or expired id ends with 1 and one line that says where it was looked for."""
    assert show(name, *OF_ANN) == (
        1,
        "",
        f"memkit: there is no '{name}' among the memories of user:ann; memkit list shows what there is\n",
    )


def test_a_conversation(show):
    """With `--session` alone it is what was said, in order, with who said it and which tools were called."""
    code, out, err = show(*OF_ANN, "--session", "s1")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["title", "The", "car"]
    assert lines[1].split(maxsplit=1)[1].rstrip() == '{"of": "house"}'
    assert lines[3].split() == ["2025-03-01", "10:00", "Ann", "Where", "is", "it?"]
    assert 'assistant  calls look with {"at": "door"}' in lines[4]
    assert [line.split()[-1] for line in lines[5:]] == ["here", "5.", "52."]
    assert err == "4 messages of user:ann/session:s1\n"
    code, out, err = show(*OF_ANN, "--session", "s1", "--last", "1")
    assert "Where is it?" not in out
    assert "On level 5." in out
    assert err == "1 of 4 messages of user:ann/session:s1\n"
    document = json.loads(show(*OF_ANN, "--session", "s1", "--json")[1])
    assert document.keys() == {"scope", "session", "summary", "messages"}
    assert [message["id"] for message in document["messages"]] == ["t1", "t2", "t3", "t4"]
    assert document["session"]["title"] == "The car"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--session", "s2"), 1, "there is no session user:ann/session:s2"),
        (("--session", "s1", "--last", "0"), 1, "read: --last must be a whole number"),
        ((), 2, "give the id of a memory, or --session"),
        (("m1", "--last", "3"), 2, "--last is for a conversation"),
        (("m1", "--space", "rumours"), 1, "space must be"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_shown(show, arguments, code, told):
    """An unknown session, and options that say nothing together, are one line."""
    ended, out, err = show(*OF_ANN, *arguments)
    assert (ended, out, err.count("\n")) == (code, "", 1)
    assert told in err


def test_what_waits_for_the_index(show, tmp_path):
    """Of a memory without a vector it says that words alone find it, and that it waits."""
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        memory.add("Level 7.", scope=ANN, id="m3")
        indexed = memory.upkeep.indexed("m3", scope=ANN)
        assert (indexed.embedding, indexed.synced) == (None, False)
        assert memory.upkeep.indexed("b1", scope=ANN) is None


def test_closed_streams(written, tmp_path):
    """With stdin, stdout or stderr closed a command does what it does, and quietly."""
    (tmp_path / "memory.db").write_bytes(written[0])
    command = f"{sys.executable} -m memkit_core.cli list --db memory.db --user ann"
    for closed in (">&-", "<&- >&- 2>&-"):
        process = subprocess.run(
            ["sh", "-c", f"{command} {closed}"], cwd=tmp_path, capture_output=True, timeout=60, check=False
        )
        told = b"1 record of user:ann\n" if closed == ">&-" else b""
        assert (process.returncode, process.stdout, process.stderr) == (0, b"", told)
