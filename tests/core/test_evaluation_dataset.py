"""Reading data sets: every documented key, and errors that name the line."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from memkit_core import InvalidInputError, MemkitError
from memkit_core.evaluation import DatasetError, read_dataset

TURN = {"conversation_id": "c", "session_id": "s", "turn_id": "t1", "text": "hello"}
QUESTION = {
    "question_id": "q",
    "conversation_id": "c",
    "question": "what?",
    "answer": None,
    "category": "single-hop",
    "evidence_turn_ids": ["t1"],
}


@pytest.fixture
def folder(tmp_path):
    """A function that writes a data set and returns its folder; lines may be dicts or raw text."""

    def write(turns, questions):
        for name, lines in (("conversations", turns), ("questions", questions)):
            text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
            (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return tmp_path

    return write


def test_every_key_is_read_and_others_are_kept(folder):
    """Turns and questions carry all documented keys as typed values, and the rest in `extra`."""
    turns = [
        TURN
        | {
            "speaker": "小满",
            "role": "assistant",
            "timestamp": "2025-01-02T03:04:05+01:00",
            "caption": "a canoe",
            "kind": "chat",
            "deep": {"n": [1]},
        },
        TURN | {"turn_id": "t2", "session_id": "s2", "speaker": None, "role": None, "timestamp": None},
    ]
    questions = [
        QUESTION
        | {
            "evidence_groups": [["t1", "t2"], []],
            "evidence_session_ids": ["s2"],
            "evidence_level": "session",
            "before_turn_id": "t2",
            "asked_at": "2025-02",
            "stale_turn_ids": ["t2"],
            "forbidden_turn_ids": ["elsewhere"],
            "note": 7,
        }
    ]

    dataset = read_dataset(folder(turns, questions))

    first, second = dataset.conversations["c"]
    assert (first.speaker, first.role, first.caption) == ("小满", "assistant", "a canoe")
    assert first.timestamp == datetime(2025, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert first.extra == {"kind": "chat", "deep": {"n": [1]}}
    assert (second.speaker, second.role, second.timestamp) == (None, None, None)
    (question,) = dataset.questions
    assert question.evidence == (("t1", "t2"),)
    assert question.session_level
    assert question.before_turn_id == "t2"
    assert question.asked_at == datetime(2025, 2, 1, tzinfo=UTC)
    assert question.stale_turn_ids == ("t2",)
    assert question.forbidden_turn_ids == ("elsewhere",)
    assert question.extra == {"note": 7}
    assert dataset.session_evidence(question) == (("s2",),)
    with pytest.raises(dataclasses.FrozenInstanceError):
        question.question = "other"


def test_what_is_said_joins_text_and_caption(folder):
    """A shared picture is part of what may be remembered; a turn without text or caption is blank."""
    turns = [
        TURN | {"caption": "a red canoe"},
        TURN | {"turn_id": "t2", "text": "", "caption": "a red canoe"},
        TURN | {"turn_id": "t3", "text": " ", "caption": None},
    ]

    said = [turn.said for turn in read_dataset(folder(turns, [])).conversations["c"]]

    assert said[:2] == ["hello\na red canoe", "a red canoe"]
    assert not said[2].strip()


def test_sessions_of_the_evidence(folder):
    """Without named sessions the sessions of the evidence count, the same ones once."""
    turns = [TURN | {"turn_id": t, "session_id": s} for t, s in (("t1", "s1"), ("t2", "s1"), ("t3", "s2"))]
    questions = [
        QUESTION | {"evidence_turn_ids": ["t1", "t2", "t3"]},
        QUESTION | {"question_id": "q2", "evidence_groups": [["t1", "t3"]]},
    ]

    dataset = read_dataset(folder(turns, questions))

    assert dataset.session_evidence(dataset.questions[0]) == (("s1",), ("s2",))
    assert dataset.session_evidence(dataset.questions[1]) == (("s1", "s2"),)


@pytest.mark.parametrize(
    ("turns", "questions", "where", "what"),
    [
        ([TURN, "{not json"], [], "conversations.jsonl, line 2", "not JSON"),
        ([TURN, "", "[1]"], [], "conversations.jsonl, line 3", "must be a JSON object"),
        ([TURN | {"turn_id": 1}], [], "conversations.jsonl, line 1", "turn_id must be a string"),
        ([TURN | {"text": None}], [], "conversations.jsonl, line 1", "text must be a string"),
        ([TURN | {"role": "robot"}], [], "conversations.jsonl, line 1", "role must be one of"),
        ([TURN | {"timestamp": "soon"}], [], "conversations.jsonl, line 1", "timestamp must be"),
        ([TURN, TURN], [], "conversations.jsonl, line 2", "was used before"),
        (
            [TURN],
            [QUESTION | {"conversation_id": "d"}],
            "questions.jsonl, line 1",
            "no turn has conversation",
        ),
        ([TURN], [QUESTION | {"evidence_turn_ids": ["t9"]}], "questions.jsonl, line 1", "no turn 't9'"),
        ([TURN], [QUESTION | {"evidence_turn_ids": "t1"}], "questions.jsonl, line 1", "list of strings"),
        ([TURN], [QUESTION | {"evidence_groups": ["t1"]}], "questions.jsonl, line 1", "list of strings"),
        ([TURN], [QUESTION | {"before_turn_id": "t9"}], "questions.jsonl, line 1", "no turn 't9'"),
        ([TURN], [QUESTION | {"evidence_session_ids": ["z"]}], "questions.jsonl, line 1", "no session 'z'"),
        ([TURN], [QUESTION | {"evidence_level": "page"}], "questions.jsonl, line 1", "evidence_level"),
    ],
)
def test_a_broken_line_is_named(folder, turns, questions, where, what):
    """An error says the file, the line and what is wrong with it, and is memkit's own."""
    with pytest.raises(DatasetError) as caught:
        read_dataset(folder(turns, questions))

    assert where in str(caught.value)
    assert what in str(caught.value)
    assert isinstance(caught.value, InvalidInputError)


def test_a_missing_file_and_bytes_that_are_no_text(folder, tmp_path):
    """A folder without the files, and a file that is not UTF-8, are typed errors."""
    with pytest.raises(DatasetError, match=r"conversations.jsonl does not exist"):
        read_dataset(tmp_path / "nowhere")
    home = folder([TURN], [])
    (home / "questions.jsonl").write_bytes(b"\xff\xfe\n")
    with pytest.raises(MemkitError, match="not UTF-8"):
        read_dataset(home)
