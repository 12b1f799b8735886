"""Running an evaluation: the data set becomes a memory, as an application would fill it, and is asked."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from memkit_core.config import Config
from memkit_core.errors import ConfigError, InvalidInputError, shown
from memkit_core.evaluation.asking import SESSION_DEPTH, Ranked, ask
from memkit_core.evaluation.configurations import (
    DENSE,
    HYBRID,
    KEYWORD,
    Configuration,
    checked_configurations,
)
from memkit_core.evaluation.dataset import Dataset, Question
from memkit_core.evaluation.filling import Progress, embed, remember
from memkit_core.inputs import checked_count
from memkit_core.memory import Memory
from memkit_core.recall.weights import Ranking
from memkit_core.times import Clock, utc_now

DEFAULT_KS = (5, 10, 20)
ADVERSARIAL = "adversarial"
"""The category of questions about what was never said: reported apart."""

_KEYWORD_ONLY = Ranking(
    keyword=1.0,
    dense=0.0,
    related=0.0,
    neighbour=0.0,
    passage=0.0,
    passage_radius=0,
    session=0.0,
    other_speaker=0.0,
    question=0.0,
    echo=0.0,
    date=0.0,
    recency=0.0,
    newer=0.0,
    importance=0.0,
)
_DENSE_ONLY = dataclasses.replace(_KEYWORD_ONLY, keyword=0.0, dense=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question with its answers.

    Attributes:
        evidence_sessions: the evidence as sessions, see `Dataset.session_evidence`.
        legs: by configuration, in the order of `Outcome.configurations`.
    """

    question: Question
    evidence_sessions: tuple[tuple[str, ...], ...]
    legs: Mapping[str, Ranked]

    @property
    def degraded(self) -> bool:
        """Whether a recall of this question missed a leg."""
        return any(ranked.degraded for ranked in self.legs.values())

    @property
    def adversarial(self) -> bool:
        """Whether it asks what was never said."""
        return self.question.category.casefold() == ADVERSARIAL


class Compared(NamedTuple):
    """A configuration that was asked: its name, weights, and the model that its vectors are of."""

    name: str
    ranking: Ranking
    embedder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an evaluation saw; `memkit_core.evaluation.summary` turns it into numbers.

    Attributes:
        scored: what is found or not, in the plural.
        sha256: of the files of the data set.
        configurations: `hybrid`, those that were given, `bm25` and `dense`.
        asked: the questions that were asked, in the order of the data set.
        unasked: questions without evidence and without unwanted turns: nothing could be scored.
        turns, skipped: turns that were remembered, and that had no text and no caption.
        fill_seconds: how long remembering and embedding everything took.
    """

    dataset: str
    sha256: Mapping[str, str]
    ks: tuple[int, ...]
    embedder: str
    configurations: tuple[Compared, ...]
    date: datetime
    conversations: int
    turns: int
    skipped: int
    unasked: int
    asked: tuple[Asked, ...]
    fill_seconds: float
    scored: str = "turns"


def evaluate(
    dataset: Dataset,
    *,
    ks: Iterable[int] = DEFAULT_KS,
    embedder: object = None,
    ranking: Ranking | None = None,
    configurations: Sequence[Configuration] = (),
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

    All configurations are asked the same questions; what they are asked of is remembered and embedded
    once for each embedder.

    Args:
        dataset: what to remember and ask.
        ks: how many hits to look at.
        embedder: as in `Memory.open`.
        ranking: the weights that are called `hybrid` in the result, `Ranking()` when None.
        configurations: what is compared with it, beside `bm25` and `dense`.
        path: a file to fill and keep, which must not exist; a temporary one when None, as always for
            the embedder of a configuration.
        clock: gives the date of the outcome.
        progress: called from this thread after each step.

    Raises:
        InvalidInputError: `ks` is empty or holds what is no count, or two configurations share a name.
        ConfigError: `path` exists, or an embedder cannot be used.
        ModelError: an embedder failed.
    """
    counts = checked_ks(ks)
    given, own = checked_configurations(configurations), ranking or Ranking()
    report = progress or _silent
    filled = [
        _filled_and_asked(
            dataset,
            model,
            rankings,
            ks=counts,
            warm=bool(given),
            path=None if number else path,
            clock=clock,
            report=report,
        )
        for number, (model, rankings) in enumerate(_by_embedder(own, given, embedder))
    ]
    return _outcome(dataset, counts, given, filled, clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """What one memory answered: with which model, and by question in the order of the data set."""

    model: str
    rankings: Mapping[str, Ranking]
    turns: int
    skipped: int
    seconds: float
    answers: Sequence[Mapping[str, Ranked]]


def _by_embedder(
    own: Ranking, given: Sequence[Configuration], embedder: object
) -> list[tuple[object, dict[str, Ranking]]]:
    """The rankings that are asked of one memory, by the embedder it is filled with; that of the run first."""
    groups: dict[object, tuple[object, dict[str, Ranking]]] = {
        _key(embedder): (embedder, {HYBRID: own, KEYWORD: _KEYWORD_ONLY, DENSE: _DENSE_ONLY})
    }
    for one in given:
        model = embedder if one.embedder is None else one.embedder
        groups.setdefault(_key(model), (model, {}))[1][one.name] = one.ranking
    return list(groups.values())


def _key(embedder: object) -> object:
    # Objects may compare in any way, or not at all.
    return embedder if isinstance(embedder, str) else id(embedder)


def _filled_and_asked(
    dataset: Dataset,
    embedder: object,
    rankings: Mapping[str, Ranking],
    *,
    ks: Sequence[int],
    warm: bool,
    path: str | Path | None,
    clock: Clock,
    report: Progress,
) -> _Filled:
    with tempfile.TemporaryDirectory(prefix="memkit-eval-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "memory.db" if path is None else Path(path)
        if file.exists():
            raise ConfigError(f"evaluate: {shown(str(file))} exists; give a path that is free")
        config = Config(max_top_k=max(SESSION_DEPTH, ks[-1]))
        with Memory.open(file, config=config, embedder=embedder, clock=clock) as memory:
            began = time.perf_counter()
            turns, skipped = remember(memory, dataset, report)
            embed(memory, report)
            seconds = time.perf_counter() - began
            scored, answers = _scored(dataset), []
            for done, question in enumerate(scored, 1):
                answers.append(ask(memory, dataset, question, ks, rankings, warm=warm))
                report("asking", done, len(scored))
            model = memory.capabilities.embedding_model
    return _Filled(
        model=model, rankings=rankings, turns=turns, skipped=skipped, seconds=seconds, answers=answers
    )


def _outcome(
    dataset: Dataset,
    ks: tuple[int, ...],
    given: Sequence[Configuration],
    filled: Sequence[_Filled],
    date: datetime,
) -> Outcome:
    order = tuple(rankings_of(given))
    compared = {
        name: Compared(name, one.rankings[name], one.model) for one in filled for name in one.rankings
    }
    scored = _scored(dataset)
    asked = []
    for question, answers in zip(scored, zip(*(one.answers for one in filled), strict=True), strict=True):
        legs = {name: ranked for answer in answers for name, ranked in answer.items()}
        asked.append(
            Asked(
                question=question,
                evidence_sessions=dataset.session_evidence(question),
                legs={name: legs[name] for name in order},
            )
        )
    return Outcome(
        dataset=dataset.name,
        sha256=dataset.sha256,
        ks=ks,
        embedder=filled[0].model,
        configurations=tuple(compared[name] for name in order),
        date=date,
        conversations=len(dataset.conversations),
        turns=filled[0].turns,
        skipped=filled[0].skipped,
        unasked=len(dataset.questions) - len(scored),
        asked=tuple(asked),
        fill_seconds=sum(one.seconds for one in filled),
    )


def checked_ks(ks: Iterable[int]) -> tuple[int, ...]:
    """The counts, ascending and each once.

    Raises:
        InvalidInputError: there is none, or one is no count.
    """
    counts = tuple(sorted({checked_count(k, "k", most=100_000) for k in ks}))
    if not counts:
        raise InvalidInputError("evaluate: give at least one k")
    return counts


def rankings_of(given: Sequence[Configuration], own: Ranking | None = None) -> dict[str, Ranking]:
    """All rankings of a comparison by name, in the order they are shown in."""
    named = {one.name: one.ranking for one in given}
    return {HYBRID: own or Ranking(), **named, KEYWORD: _KEYWORD_ONLY, DENSE: _DENSE_ONLY}


def _silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""


def _scored(dataset: Dataset) -> list[Question]:
    """The questions about which something can be scored."""
    return [
        one
        for one in dataset.questions
        if one.evidence or one.evidence_session_ids or one.stale_turn_ids or one.forbidden_turn_ids
    ]
