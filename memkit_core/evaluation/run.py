"""Running an evaluation: the data set becomes a memory, as an application would fill it, and is asked."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memkit_core.config import Config
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.errors import ConfigError, InvalidInputError, ModelError, shown
from memkit_core.evaluation.dataset import Dataset, Question, Turn
from memkit_core.inputs import checked_count
from memkit_core.memory import Memory
from memkit_core.models import Message, RecallResult, Role
from memkit_core.recall.weights import Ranking
from memkit_core.scope import Scope
from memkit_core.times import Clock, utc_now

Progress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""

DEFAULT_KS = (5, 10, 20)
ADVERSARIAL = "adversarial"
"""The category of questions about what was never said: reported apart."""

SESSION_DEPTH = 1000
"""Turns of the ranking from which sessions are ranked."""

_KEYWORD_ONLY = Ranking(
    keyword=1.0,
    dense=0.0,
    neighbour=0.0,
    passage=0.0,
    passage_radius=0,
    session=0.0,
    other_speaker=0.0,
    question=0.0,
    date=0.0,
    recency=0.0,
    newer=0.0,
    importance=0.0,
)
_DENSE_ONLY = dataclasses.replace(_KEYWORD_ONLY, keyword=0.0, dense=1.0)
_LINE = "line"
_PATIENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What one ranking answered: ids, best first.

    Attributes:
        turns: the turns of the ordinary recall, at most the largest k.
        sessions: the sessions of the deep recall, each at the place of its first turn.
    """

    turns: tuple[str, ...]
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with its answers.

    Attributes:
        evidence_sessions: the evidence as sessions, see `Dataset.session_evidence`.
        legs: `hybrid`, `bm25` and `dense`.
        milliseconds: how long the ordinary recall of the default ranking took.
        tokens: by k, what the text of the first k hits of that recall takes of a model's context.
        degraded: whether a recall of this question missed a leg.
    """

    question: Question
    evidence_sessions: tuple[tuple[str, ...], ...]
    legs: Mapping[str, Ranked]
    milliseconds: float
    tokens: Mapping[int, int]
    degraded: bool

    @property
    def adversarial(self) -> bool:
        """Whether it asks what was never said."""
        return self.question.category.casefold() == ADVERSARIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an evaluation saw; `memkit_core.evaluation.summary` turns it into numbers.

    Attributes:
        asked: the questions that were asked, in the order of the data set.
        unasked: questions without evidence and without unwanted turns: nothing could be scored.
        turns, skipped: turns that were remembered, and that had no text and no caption.
        fill_seconds: how long remembering and embedding everything took.
    """

    dataset: str
    ks: tuple[int, ...]
    embedder: str
    date: datetime
    conversations: int
    turns: int
    skipped: int
    unasked: int
    asked: tuple[Asked, ...]
    fill_seconds: float


def evaluate(
    dataset: Dataset,
    *,
    ks: Iterable[int] = DEFAULT_KS,
    embedder: object = None,
    ranking: Ranking | None = None,
    path: str | Path | None = None,
    clock: Clock = utc_now,
    progress: Progress | None = None,
) -> Outcome:
    """Remember the conversations of `dataset` in one memory and ask its questions.

    Each conversation is a user and each of its sessions a session of that user, so a question only
    ever sees its own conversation. Turns are appended in the order of the file with their own times;
    one without a time gets that of the turn before it. A question is asked at its `asked_at`, else
    at the last moment of its conversation; where a conversation has no times, recency counts
    nothing. `before_turn_id` is a filter, so later turns neither appear nor lift others.

    Args:
        dataset: what to remember and ask.
        ks: how many hits to look at.
        embedder: as in `Memory.open`.
        ranking: the weights that are called `hybrid` in the result, `Ranking()` when None.
        path: a file to fill and keep, which must not exist; a temporary one when None.
        clock: gives the date of the outcome.
        progress: called from this thread after each step.

    Raises:
        InvalidInputError: `ks` is empty or holds what is no count.
        ConfigError: `path` exists, or the embedder cannot be used.
        ModelError: the embedder failed.
    """
    counts = tuple(sorted({checked_count(k, "k", most=100_000) for k in ks}))
    if not counts:
        raise InvalidInputError("evaluate: give at least one k")
    report = progress or _silent
    with tempfile.TemporaryDirectory(prefix="memkit-eval-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "memory.db" if path is None else Path(path)
        if file.exists():
            raise ConfigError(f"evaluate: {shown(str(file))} exists; give a path that is free")
        config = Config(max_top_k=max(SESSION_DEPTH, counts[-1]), ranking=ranking or Ranking())
        with Memory.open(file, config=config, embedder=embedder, clock=clock) as memory:
            began = time.perf_counter()
            turns, skipped = _remember(memory, dataset, report)
            _embed(memory, report)
            filled = time.perf_counter() - began
            scored = [question for question in dataset.questions if _can_score(question)]
            asked = []
            for done, question in enumerate(scored, 1):
                asked.append(_ask(memory, dataset, question, counts))
                report("asking", done, len(scored))
            return Outcome(
                dataset=dataset.name,
                ks=counts,
                embedder=memory.capabilities.embedding_model,
                date=clock(),
                conversations=len(dataset.conversations),
                turns=turns,
                skipped=skipped,
                unasked=len(dataset.questions) - len(scored),
                asked=tuple(asked),
                fill_seconds=filled,
            )


def _silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def _can_score(question: Question) -> bool:
    gold = question.evidence or question.evidence_session_ids
    return bool(gold or question.stale_turn_ids or question.forbidden_turn_ids)


# ---------------------------------------------------------------------- remembering


def _remember(memory: Memory, dataset: Dataset, report: Progress) -> tuple[int, int]:
    """Append every turn; returns how many were remembered and how many were empty."""
    total = sum(map(len, dataset.conversations.values()))
    remembered = skipped = 0
    for name, turns in dataset.conversations.items():
        places = zip(itertools.count(), turns, _times(turns), strict=False)
        for session, run in itertools.groupby(places, key=lambda place: place[1].session_id):
            run_of_turns = list(run)
            messages = [
                _message(turn, place, said) for place, turn, said in run_of_turns if turn.said.strip()
            ]
            memory.sessions.append(messages, scope=Scope.session(session, user=name))
            remembered += len(messages)
            skipped += len(run_of_turns) - len(messages)
            report("remembering", remembered + skipped, total)
    return remembered, skipped


def _message(turn: Turn, place: int, said: datetime | None) -> Message:
    return Message(
        id=turn.turn_id,
        role=turn.role or Role.USER,
        speaker=turn.speaker,
        text=turn.said,
        created_at=said,
        metadata={_LINE: place},
        # A system or tool turn can be evidence, so it is made searchable as well.
        indexed=True,
    )


def _times(turns: Sequence[Turn]) -> list[datetime | None]:
    """The time of each turn, that of the turn before where there is none; all None without times."""
    known = next((turn.timestamp for turn in turns if turn.timestamp), None)
    times = []
    for turn in turns:
        known = turn.timestamp or known
        times.append(known)
    return times


def _embed(memory: Memory, report: Progress) -> None:
    """Wait until every turn has its vector.

    Raises:
        ModelError: what waits no longer becomes less: after a failure at once, else after a minute.
    """
    total = left = memory.capabilities.outbox.length
    idle = 0
    while not memory.flush(timeout=1.0):
        outbox = memory.capabilities.outbox
        idle = 0 if outbox.length < left else idle + 1
        left = outbox.length
        report("embedding", max(total - left, 0), total)
        # A model that only loads slowly is waited for.
        if idle and (outbox.last_error is not None or idle >= _PATIENCE):
            raise ModelError(f"{left} turns could not be embedded", model=memory.capabilities.embedding_model)
    report("embedding", total, total)


# ---------------------------------------------------------------------- asking


def _ask(memory: Memory, dataset: Dataset, question: Question, ks: Sequence[int]) -> Asked:
    turns = dataset.conversations[question.conversation_id]
    times = [turn.timestamp for turn in turns if turn.timestamp]
    recall = _Recall(
        memory=memory,
        text=question.question,
        scope=Scope.user(question.conversation_id),
        before=_place_of(turns, question.before_turn_id),
        now=question.asked_at or max(times, default=None),
        timeless=not times,
    )
    depth = max(min(SESSION_DEPTH, len(turns)), ks[-1])
    # The default ranking comes first: its time includes embedding the question.
    began = time.perf_counter()
    hybrid = recall(memory.config.ranking, ks[-1])
    milliseconds = (time.perf_counter() - began) * 1000
    answers = [hybrid, recall(memory.config.ranking, depth)]
    legs = {"hybrid": Ranked(turns=_turns(hybrid), sessions=_sessions(answers[-1]))}
    for name, ranking in (("bm25", _KEYWORD_ONLY), ("dense", _DENSE_ONLY)):
        # One leg alone orders by its own scores, so a deeper answer begins with the shorter one.
        answers.append(recall(ranking, depth))
        legs[name] = Ranked(turns=_turns(answers[-1])[: ks[-1]], sessions=_sessions(answers[-1]))
    lengths = [approximate_tokens(hit.record.index_text) for hit in hybrid]
    return Asked(
        question=question,
        evidence_sessions=dataset.session_evidence(question),
        legs=legs,
        milliseconds=milliseconds,
        tokens={k: sum(lengths[:k]) for k in ks},
        degraded=any(answer.missing for answer in answers),
    )


def _turns(answer: RecallResult) -> tuple[str, ...]:
    return tuple(hit.record.id for hit in answer)


def _sessions(answer: RecallResult) -> tuple[str, ...]:
    return tuple(dict.fromkeys(hit.record.scope.id for hit in answer))


def _place_of(turns: Sequence[Turn], turn_id: str | None) -> int | None:
    return next((place for place, turn in enumerate(turns) if turn.turn_id == turn_id), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recall:
    """One question, ready to be asked with different weights."""

    memory: Memory
    text: str
    scope: Scope
    before: int | None
    now: datetime | None
    timeless: bool

    def __call__(self, ranking: Ranking, top_k: int) -> RecallResult:
        """The hits among the turns that may be retrieved."""
        earlier = None if self.before is None else {f"metadata.{_LINE}": {"lt": self.before}}
        return self.memory.recall(
            self.text,
            scope=self.scope,
            include_messages=True,
            top_k=top_k,
            filters=earlier,
            ranking=dataclasses.replace(ranking, recency=0.0) if self.timeless else ranking,
            now=self.now,
        )
