"""Asking a filled memory one question, with each configuration."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.evaluation.dataset import Dataset, Question, Turn
from memkit_core.evaluation.filling import LINE
from memkit_core.memory import Memory
from memkit_core.models import RecallResult
from memkit_core.recall.weights import Ranking
from memkit_core.scope import Scope

SESSION_DEPTH = 1000
"""Turns of the ranking from which sessions are ranked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What one configuration answered: ids, best first.

    Attributes:
        turns: the turns of the ordinary recall, at most the largest k.
        sessions: the sessions of the deep recall, each at the place of its first turn.
        milliseconds: how long the ordinary recall took.
        tokens: by k, what the text of the first k hits takes of a model's context.
        degraded: whether a recall missed a leg.
    """

    turns: tuple[str, ...]
    sessions: tuple[str, ...]
    milliseconds: float
    tokens: Mapping[int, int]
    degraded: bool


def ask(
    memory: Memory,
    dataset: Dataset,
    question: Question,
    ks: Sequence[int],
    rankings: Mapping[str, Ranking],
    *,
    warm: bool,
) -> dict[str, Ranked]:
    """What each of `rankings` answers, by name, in their order.

    `warm` embeds the question before the first is timed, so that their times can be compared.
    """
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
    if warm:
        # It is embedded once and then kept.
        recall(Ranking(), ks[-1])
    # The deep recalls come last: what follows one is slower.
    answers = {name: timed(partial(recall, ranking, ks[-1])) for name, ranking in rankings.items()}
    return {name: _ranked(*answers[name], recall(rankings[name], depth), ks) for name in rankings}


def timed(recall: Callable[[], RecallResult]) -> tuple[RecallResult, float]:
    """What a recall answers, and after how many milliseconds."""
    began = time.perf_counter()
    answer = recall()
    return answer, (time.perf_counter() - began) * 1000


def tokens_of(answer: RecallResult, ks: Sequence[int]) -> dict[int, int]:
    """By k, an estimate of what the first k hits take of a model's context."""
    lengths = [approximate_tokens(hit.record.index_text) for hit in answer]
    return {k: sum(lengths[:k]) for k in ks}


def _ranked(answer: RecallResult, milliseconds: float, deep: RecallResult, ks: Sequence[int]) -> Ranked:
    return Ranked(
        turns=_turns(answer),
        sessions=_sessions(deep),
        milliseconds=milliseconds,
        tokens=tokens_of(answer, ks),
        degraded=bool(answer.missing or deep.missing),
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
        earlier = None if self.before is None else {f"metadata.{LINE}": {"lt": self.before}}
        return self.memory.recall(
            self.text,
            scope=self.scope,
            include_messages=True,
            top_k=top_k,
            filters=earlier,
            ranking=dataclasses.replace(ranking, recency=0.0) if self.timeless else ranking,
            now=self.now,
        )
