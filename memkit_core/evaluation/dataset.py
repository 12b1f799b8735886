"""Data sets of conversations and questions: two JSONL files in a folder, read into frozen values.

`conversations.jsonl`, one line a turn, in the order it was said:

    {"conversation_id": "c1", "session_id": "s1", "turn_id": "t1", "speaker": "Ann", "role": null,
     "text": "I moved to Denver.", "timestamp": "2025-05-08T13:56:00"}

`role` is user, assistant, system, tool or null; `caption` says what a shared picture shows.

`questions.jsonl`, one line a question:

    {"question_id": "q1", "conversation_id": "c1", "question": "Where does Ann live?",
     "answer": "Denver", "category": "single-hop", "evidence_turn_ids": ["t1"]}

and where they apply `evidence_session_ids`, `evidence_level: "session"`, `evidence_groups`,
`before_turn_id`, `asked_at`, `stale_turn_ids`, `forbidden_turn_ids`: see `Question`. Every other key
of a line is kept in `extra`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from memkit_core.errors import InvalidInputError, shown
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Role
from memkit_core.scope import id_problem
from memkit_core.times import to_utc

CONVERSATIONS, QUESTIONS = "conversations.jsonl", "questions.jsonl"

_TURN_KEYS = frozenset(
    {"conversation_id", "session_id", "turn_id", "speaker", "role", "text", "timestamp", "caption"}
)
_QUESTION_KEYS = frozenset(
    {
        "question_id", "conversation_id", "question", "answer", "category", "evidence_turn_ids",
        "evidence_session_ids", "evidence_level", "evidence_groups", "before_turn_id", "asked_at",
        "stale_turn_ids", "forbidden_turn_ids",
    }
)  # fmt: skip
_MONTH = re.compile(r"\d{4}-\d{2}")


class DatasetError(InvalidInputError):
    """A data set that cannot be read; the message names the file and the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One line of `conversations.jsonl`.

    Attributes:
        turn_id: unique in its conversation.
        role: None where two people talk and nobody is an assistant.
        caption: what a shared picture shows, None without a picture.
        extra: every other key of the line.
    """

    conversation_id: str
    session_id: str
    turn_id: str
    text: str
    speaker: str | None = None
    role: Role | None = None
    caption: str | None = None
    timestamp: datetime | None = None
    extra: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """What is remembered of it: the text and the caption; blank when there is neither."""
        caption = (self.caption or "").strip()
        # Nothing of our own between them: words such as "picture" would be found instead of what it shows.
        return f"{self.text}\n{caption}".strip() if caption else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One line of `questions.jsonl`.

    Attributes:
        evidence: pieces of evidence, each the ids of the turns of which any one will do:
            `evidence_groups`, else one piece for each of `evidence_turn_ids`.
        evidence_session_ids: the sessions that hold the evidence; see `Dataset.session_evidence`.
        session_level: the evidence lists whole sessions, so only sessions can be scored.
        before_turn_id: only turns before this one may be retrieved.
        asked_at: when it is asked.
        stale_turn_ids: turns that hold what is no longer so.
        forbidden_turn_ids: turns that must not be in the answer.
        extra: every other key of the line.
    """

    question_id: str
    conversation_id: str
    question: str
    category: str
    evidence: tuple[tuple[str, ...], ...]
    answer: JsonValue = None
    evidence_session_ids: tuple[str, ...] = ()
    session_level: bool = False
    before_turn_id: str | None = None
    asked_at: datetime | None = None
    stale_turn_ids: tuple[str, ...] = ()
    forbidden_turn_ids: tuple[str, ...] = ()
    extra: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A data set: the turns of each conversation in the order of the file, and the questions.

    `sha256` holds the digest of each file, as `sha256sum` prints it.
    """

    name: str
    conversations: Mapping[str, tuple[Turn, ...]]
    questions: tuple[Question, ...]
    sha256: Mapping[str, str] = field(default_factory=dict)

    def session_evidence(self, question: Question) -> tuple[tuple[str, ...], ...]:
        """The pieces of evidence as sessions: those the question names, else those of its turns.

        Pieces that lie in the same sessions are one piece.
        """
        if question.evidence_session_ids:
            return tuple((session,) for session in question.evidence_session_ids)
        of = {turn.turn_id: turn.session_id for turn in self.conversations[question.conversation_id]}
        pieces = (tuple(dict.fromkeys(of[turn] for turn in piece)) for piece in question.evidence)
        return tuple({frozenset(piece): piece for piece in pieces}.values())


def read_dataset(folder: str | Path) -> Dataset:
    """The data set in `folder`, checked whole: nothing of a broken one is returned.

    Raises:
        DatasetError: a file is missing or not UTF-8, a line is not JSON, a key is missing or of the
            wrong type, a turn id is used twice in a conversation, or a question names a
            conversation, a session, an evidence or a `before_turn_id` that does not exist. Stale
            and forbidden turns may be another conversation's: finding them would be a leak.
    """
    home = Path(folder)
    conversations = _conversations(home / CONVERSATIONS)
    ids = {name: {turn.turn_id for turn in turns} for name, turns in conversations.items()}
    sessions = {name: {turn.session_id for turn in turns} for name, turns in conversations.items()}
    questions = []
    for line in _lines(home / QUESTIONS):
        question = _question(line)
        if question.conversation_id not in conversations:
            raise line.error(f"no turn has conversation_id {shown(question.conversation_id)}")
        named = [turn for piece in question.evidence for turn in piece]
        named += [question.before_turn_id] if question.before_turn_id is not None else []
        line.check_known(named, ids[question.conversation_id], "turn")
        line.check_known(question.evidence_session_ids, sessions[question.conversation_id], "session")
        questions.append(question)
    return Dataset(
        name=home.resolve().name,
        conversations=conversations,
        questions=tuple(questions),
        sha256={name: sha256((home / name).read_bytes()).hexdigest() for name in (CONVERSATIONS, QUESTIONS)},
    )


def _conversations(path: Path) -> dict[str, tuple[Turn, ...]]:
    found: dict[str, dict[str, Turn]] = {}
    for line in _lines(path):
        turn = _turn(line)
        turns = found.setdefault(turn.conversation_id, {})
        if turn.turn_id in turns:
            raise line.error(f"turn_id {shown(turn.turn_id)} was used before in this conversation")
        turns[turn.turn_id] = turn
    return {name: tuple(turns.values()) for name, turns in found.items()}


def _turn(line: _Line) -> Turn:
    return Turn(
        conversation_id=line.id("conversation_id"),
        session_id=line.id("session_id"),
        turn_id=line.id("turn_id"),
        text=line.text("text"),
        speaker=line.optional_text("speaker"),
        role=line.role("role"),
        caption=line.optional_text("caption"),
        timestamp=line.time("timestamp"),
        extra=line.others(_TURN_KEYS),
    )


def _question(line: _Line) -> Question:
    single = tuple((turn,) for turn in line.ids("evidence_turn_ids"))
    level = line.optional_text("evidence_level")
    if level not in (None, "turn", "session"):
        raise line.error(f'evidence_level must be "turn" or "session", got {shown(level)}')
    return Question(
        question_id=line.id("question_id"),
        conversation_id=line.id("conversation_id"),
        question=line.text("question"),
        category=line.optional_text("category") or "all",
        answer=line.values.get("answer"),
        evidence=line.groups("evidence_groups") or single,
        evidence_session_ids=line.ids("evidence_session_ids"),
        session_level=level == "session",
        before_turn_id=line.optional_text("before_turn_id"),
        asked_at=line.time("asked_at"),
        stale_turn_ids=line.ids("stale_turn_ids"),
        forbidden_turn_ids=line.ids("forbidden_turn_ids"),
        extra=line.others(_QUESTION_KEYS),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file, with checked access to its keys; a null is a key that is not there."""

    path: Path
    number: int
    values: Mapping[str, JsonValue]

    def error(self, problem: str) -> DatasetError:
        return DatasetError(f"{self.path}, line {self.number}: {problem}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.error(f"{key} must be a string, got {shown(value)}")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self.values.get(key) is None else self.text(key)

    def id(self, key: str) -> str:
        value = self.values.get(key)
        if problem := id_problem(value):
            raise self.error(f"{key} {problem}")
        return str(value)

    def ids(self, key: str) -> tuple[str, ...]:
        """A list of strings without repeats, () when there is none."""
        return self._listed(self.values.get(key), key)

    def groups(self, key: str) -> tuple[tuple[str, ...], ...]:
        """A list of lists of strings; empty lists are left out."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, list):
            raise self.error(f"{key} must be a list of lists of strings, got {shown(value)}")
        return tuple(ids for group in value or () if (ids := self._listed(group, key)))

    def _listed(self, value: JsonValue, key: str) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(f"{key} must be a list of strings, got {shown(value)}")
        return tuple(dict.fromkeys(str(item) for item in value))

    def role(self, key: str) -> Role | None:
        value = self.optional_text(key)
        if value is None:
            return None
        try:
            return Role(value)
        except ValueError:
            raise self.error(f"{key} must be one of {', '.join(Role)} or null, got {shown(value)}") from None

    def time(self, key: str) -> datetime | None:
        """A moment; a month such as `2025-01` is its first moment, naive means UTC."""
        value = self.optional_text(key)
        if value is None:
            return None
        try:
            return to_utc(f"{value}-01" if _MONTH.fullmatch(value) else value, name=key)
        except InvalidInputError as error:
            raise self.error(str(error)) from None

    def others(self, known: frozenset[str]) -> dict[str, JsonValue]:
        return {key: value for key, value in self.values.items() if key not in known}

    def check_known(self, named: list[str] | tuple[str, ...], known: set[str], kind: str) -> None:
        for one in named:
            if one not in known:
                raise self.error(f"the conversation has no {kind} {shown(one)}")


def _lines(path: Path) -> Iterator[_Line]:
    """The lines of a JSONL file that are not blank; numbers count from 1."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield _Line(path, number, _object(path, number, text))
    except FileNotFoundError:
        raise DatasetError(
            f"{path} does not exist; a data set is a folder with {CONVERSATIONS} and {QUESTIONS}"
        ) from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error


def _object(path: Path, number: int, text: str) -> dict[str, JsonValue]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DatasetError(f"{path}, line {number}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DatasetError(f"{path}, line {number}: must be a JSON object, got {shown(value)}")
    return value
