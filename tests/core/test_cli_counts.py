"""What the command line counts: one record, two records."""

import contextlib
import json
import re
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import Memory, Message, NewDocument, Role, Scope
from memkit_core.plurals import plural

ANN = Scope.user("ann")
THERE = ("--db", "memory.db")
ONE_OF_MANY = re.compile(r"(?<![.\d@])\b1 (?!is\b|was\b|has\b|waits\b|.*ms\b)\w*s\b")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The bytes of a memory with one of everything; the record was used a year ago, for one time."""
    file = tmp_path_factory.mktemp("written") / "memory.db"
    then = datetime.now(UTC) - timedelta(days=365)
    with Memory.open(file, clock=lambda: then) as memory:
        memory.add("I moved to Denver in May.", scope=ANN, id="m1", tags=["home"])
        memory.recall("Denver", scope=ANN)
        memory.documents("books", scope=ANN).put([NewDocument(content="a book", id="b1")])
        memory.sessions.append(
            [Message(role=Role.USER, text="Hello there.", id="t1")], scope=Scope.session("s", user="ann")
        )
        memory.working.update("likes tea", scope=ANN)
    return file.read_bytes()


@pytest.fixture
def db(written, tmp_path):
    """The path of such a memory in `tmp_path`."""
    (tmp_path / "memory.db").write_bytes(written)
    return tmp_path / "memory.db"


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("one", "many"), [("record", "records"), ("memory", "memories"), ("day", "days")])
def test_one_and_many(number, one, many):
    """Only one is one; none is many."""
    assert plural(number, one) == (one if number == 1 else many)
    assert plural(number, "waits", "wait") == ("waits" if number == 1 else "wait")


def test_the_search_for_wrong_counts_finds_them():
    """The pattern of these tests sees what they look for, and no number that only ends in 1."""
    assert ONE_OF_MANY.search("1 records of user:ann")
    assert ONE_OF_MANY.search("found 1 memories")
    assert not ONE_OF_MANY.search("1 record, 21 records, 0.1 points, recall@1 hits")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export", "out.jsonl"), "1 session, 1 message, 1 value"),
        (("list", "--user", "ann"), "1 record of user:ann"),
        (("stats",), "1 fact"),
        (("stats",), "1 session, 1 message"),
        (("forget",), "1 memory looked at, 1 to archive"),
        (("forget",), "recalled 1 time"),
        (("doctor",), ""),
        (("reembed", "--embedder", "wordllama"), "dimensions"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
@pytest.mark.usefixtures("db")
def test_one_of_everything(memkit_here, arguments, told):
    """Of one thing every command speaks in the singular."""
    _, out, err = memkit_here(*arguments, *THERE)
    assert told in out + err
    assert not ONE_OF_MANY.search(out + err), out + err


def test_one_of_what_is_wrong(memkit_here, db):
    """What `repair` and `doctor` find is told before its number, so that it fits any."""
    with contextlib.closing(sqlite3.connect(db)) as file:
        file.execute("DELETE FROM record_tags")
        file.commit()
    told = "records whose tags are indexed wrongly: 1 (tags)"
    assert f"out-of-step: {told}" in memkit_here("doctor", *THERE)[1]
    assert memkit_here("repair", *THERE)[1] == f"mended: {told}\n"


def test_one_question(memkit_here, tmp_path):
    """An evaluation of one conversation with one turn and one question says so."""
    turn = {"conversation_id": "c", "session_id": "s", "turn_id": "t", "text": "The boat is green."}
    asked = {"question_id": "q", "conversation_id": "c", "question": "What is green?"}
    (tmp_path / "conversations.jsonl").write_text(json.dumps(turn) + "\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked | {"evidence_turn_ids": ["t"]}) + "\n")
    code, out, _ = memkit_here("eval", ".")
    assert code == 0
    assert "1 conversation, 1 turn (0 empty skipped),\n1 question asked" in out
    assert "turns: 1 question, sessions: 1 question" in out
    assert not ONE_OF_MANY.search(out), out
