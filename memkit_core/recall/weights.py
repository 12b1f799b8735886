"""The knobs of the ranking, apart from the functions they turn: importing memkit loads these alone."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from memkit_core.errors import ConfigError, shown

_SUMMED, _LARGEST, _FARTHEST = 3, 1e9, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The knobs of the ranking. One set of defaults for every kind of memory and every language.

    Chosen on the questions of five LoCoMo conversations and, where those did not tell, on seven other sets
    (assistant chats, meetings, phone logs, passages, single facts; English and Chinese) with WordLlama
    256-d vectors and 100 candidates a leg. What each of them brings on every set stands in
    docs/recall.md. `importance` is a guess: no set has it.

    Weights are relative to the fused score of the record itself, which counts 1; 0 switches a
    signal off.

    Attributes:
        keyword: Weight of the keyword leg, in a record, its `passage` and its `session`.
        dense: Weight of the dense leg, likewise; times the share of the query that the embedder knows,
            see `CheckedEmbedder.knows`.
        related: Weight of a word in a turn that is related to one of the query's: times the square of their cosine it
            counts as a part of that word, in the turn, its `passage` and its `session`; 0 to 1. See `WordEmbedder`.
        fusion: "weighted" adds scaled scores; "rrf" adds reciprocal ranks, worse on most sets.
        rrf_k: Constant of "rrf".
        neighbour: Weight of the better of the two turns beside a turn.
        passage: Weight of a turn and those around it together: BM25 over `passage_radius` turns
            before and after it, and the mean dense score of it and the turns beside it.
        passage_radius: In turns of one session, 0 to 100; time grows with it.
        session: Weight of the session: BM25 over all of it, and the mean of its three best dense scores.
        other_speaker: Share taken from turns not by the one speaker whom the query names.
        question: Share taken from turns that end in a question (see `ends_in_question`).
        echo: Share taken from turns that say no other words than the query, if that is a question: who
            asks again wants what was answered, or told. No development set has such turns.
        date: Boost for records from a date the query names. `recency` and `newer` then count
            nothing: the query says itself which time it is about.
        blend: "boost" is relevance * (1 + bounded boost); "sum" is the published weighted sum.
        recency: Boost of a record of this moment.
        recency_days: Time constant of recency: 0.37 is left after this many days.
        newer: Boost of the newest record outside any session, by rank of age: it tells a fact from
            the one that it overrules.
        importance: Boost of a record with importance 1.
        sum_weights: Relevance, importance and recency of "sum".
        diversity: Share of its score that a turn loses for each better one of its session, so that
            more sessions are heard. 0 by default: on every development set with sessions it finds
            less evidence (recall@10 -0.01 to -0.02 at 0.05), since answers stand close together.
    """

    keyword: float = 1.0
    dense: float = 0.6
    related: float = 1.0
    fusion: Literal["weighted", "rrf"] = "weighted"
    rrf_k: int = 60
    neighbour: float = 0.4
    passage: float = 1.0
    passage_radius: int = 2
    session: float = 1.0
    other_speaker: float = 0.3
    question: float = 0.1
    echo: float = 0.5
    date: float = 1.0
    blend: Literal["boost", "sum"] = "boost"
    recency: float = 0.1
    recency_days: float = 30.0
    newer: float = 0.1
    importance: float = 0.1
    sum_weights: tuple[float, float, float] = (0.6, 0.25, 0.15)
    diversity: float = 0.0

    def __post_init__(self) -> None:
        """Reject what would leave [0, 1], hide a record or rank by nothing."""
        if not isinstance(self.sum_weights, tuple) or len(self.sum_weights) != _SUMMED:
            raise ConfigError(f"sum_weights must be three numbers, got {shown(self.sum_weights)}")
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(f.default, int | float)}
        for name, number in [*numbers.items(), *(("sum_weights", one) for one in self.sum_weights)]:
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= _LARGEST:
                raise ConfigError(f"{name} must be a number from 0 to {_LARGEST:g}, got {shown(number)}")
        if not isinstance(self.passage_radius, int) or self.passage_radius > _FARTHEST:
            raise ConfigError(
                f"passage_radius must be a whole number from 0 to {_FARTHEST}, got {shown(self.passage_radius)}"
            )
        if self.related > 1:
            raise ConfigError(
                f"related must be at most 1, or a related word beats the word itself, got {shown(self.related)}"
            )
        if max(self.other_speaker, self.question, self.echo, self.diversity) >= 1:
            raise ConfigError(
                "other_speaker, question, echo and diversity must be below 1, or they hide records"
            )
        if not (self.recency_days and self.keyword + self.dense and sum(self.sum_weights)):
            raise ConfigError("recency_days, keyword + dense and sum(sum_weights) must be > 0")
        for name, words in (("fusion", ("weighted", "rrf")), ("blend", ("boost", "sum"))):
            if not isinstance(word := getattr(self, name), str) or word not in words:
                raise ConfigError(f"{name} must be one of {', '.join(words)}, got {shown(word)}")
