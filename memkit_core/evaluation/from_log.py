"""Comparing configurations on one's own recall log: what was marked useful is the evidence."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from memkit_core.config import Config
from memkit_core.degraded import lacking
from memkit_core.errors import ConfigError, InvalidInputError, shown
from memkit_core.evaluation.asking import Ranked, timed, tokens_of
from memkit_core.evaluation.comparison import Numbers, comparison_tables, mapping, missed_a_leg
from memkit_core.evaluation.configurations import Configuration, checked_configurations
from memkit_core.evaluation.dataset import Question
from memkit_core.evaluation.filling import Progress
from memkit_core.evaluation.report import summary
from memkit_core.evaluation.run import DEFAULT_KS, Asked, Compared, Outcome, checked_ks, rankings_of
from memkit_core.jsonvalues import JsonValue
from memkit_core.memory import Memory
from memkit_core.models import Status, point_id
from memkit_core.plurals import plural
from memkit_core.ports import LoggedHit, LoggedRecall
from memkit_core.recall.weights import Ranking
from memkit_core.stores.sqlite.copying import copy_unopened
from memkit_core.times import Clock, utc_now

FEW = 30
"""Recalls below which nothing should be chosen: percentile intervals of fewer are too narrow."""

TIME_AND_FUSION = (
    Configuration(name="recency off", ranking=Ranking(recency=0.0)),
    Configuration(name="recency 7 d", ranking=Ranking(recency_days=7.0)),
    Configuration(name="recency 90 d", ranking=Ranking(recency_days=90.0)),
    Configuration(name="recency 365 d", ranking=Ranking(recency_days=365.0)),
    Configuration(name="dense half", ranking=Ranking(dense=Ranking().dense / 2)),
    Configuration(name="dense double", ranking=Ranking(dense=Ranking().dense * 2)),
    Configuration(name="rrf", ranking=Ranking(fusion="rrf")),
)
"""What is compared when nothing else is named: time constants of recency, and weights of the fusion."""

_ALL = 10_000_000
_STILL_FOUND = (Status.ACTIVE, Status.SUPERSEDED)
_NOT_TEXT, _NOT_REPEATABLE = "kept as a hash", "asked with more than the log keeps"
_NOT_USEFUL, _NOT_THERE = "nothing marked useful", "what was useful is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOutcome:
    """What the comparison on a log saw.

    Attributes:
        outcome: the recalls that were asked again, as questions.
        judged: recalls with feedback.
        left_out: those of them that could not be asked again, by reason.
    """

    outcome: Outcome
    judged: int
    left_out: Mapping[str, int]


def evaluate_log(
    store: str | Path,
    *,
    ks: Iterable[int] = DEFAULT_KS,
    embedder: object = None,
    configurations: Sequence[Configuration] = TIME_AND_FUSION,
    clock: Clock = utc_now,
    progress: Progress | None = None,
) -> LogOutcome:
    """Ask every logged recall with feedback again, with each configuration, as of the time it was asked.

    A recall counts recency from its own time and sees what held then, in the wording of today. The
    records that were marked useful are what should be found; those marked otherwise, what should not
    be above them. Works on a copy in a temporary folder: the file itself is only read, and one of an
    earlier version stays as it is.

    Args:
        store: the file of a memory, also while others use it.
        ks: how many hits to look at.
        embedder: the model of the store, as in `Memory.open`.
        configurations: what is compared with the default, beside `bm25` and `dense`.
        clock: judges what has expired, and gives the date of the outcome.
        progress: called from this thread after each recall.

    Raises:
        InvalidInputError: `ks` is empty or holds what is no count, two configurations share a name, or
            one names an embedder: the vectors of the store are of one model.
        ConfigError: there is no such file, or it holds another model's vectors.
        SchemaError: the file is not memkit's, or a newer memkit wrote it.
    """
    counts, given = checked_ks(ks), checked_configurations(configurations)
    for one in given:
        if one.embedder is not None:
            raise InvalidInputError(
                f"{one.name}: embedders cannot be compared on a log, whose store has the vectors of one model"
            )
    if not Path(store).is_file():
        raise ConfigError(f"there is no memory at {shown(str(store))}")
    with tempfile.TemporaryDirectory(prefix="memkit-log-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "memory.db"
        copy_unopened(Path(store), copy)
        config = Config(max_top_k=max(Config().max_top_k, counts[-1]))
        with Memory.open(copy, config=config, embedder=embedder, clock=clock) as memory:
            memory.flush()
            return _asked_again(memory, Path(store).name, counts, given, clock, progress)


def _asked_again(
    memory: Memory,
    name: str,
    ks: tuple[int, ...],
    given: Sequence[Configuration],
    clock: Clock,
    progress: Progress | None,
) -> LogOutcome:
    judged = memory.upkeep.recall_log(judged=True, limit=_ALL)
    rankings, left_out, asked = rankings_of(given), Counter[str](), list[Asked]()
    for done, recall in enumerate(reversed(judged), 1):
        useful = _still_there(memory, recall, useful=True)
        if (reason := _obstacle(recall, useful)) is not None:
            left_out[reason] += 1
        else:
            asked.append(_ask(memory, recall, useful, ks, rankings))
        if progress is not None:
            progress("asking", done, len(judged))
    model = memory.capabilities.embedding_model
    outcome = Outcome(
        dataset=f"the recall log of {name}",
        scored="records",
        sha256={},
        ks=ks,
        embedder=model,
        configurations=tuple(Compared(name, ranking, model) for name, ranking in rankings.items()),
        date=clock(),
        conversations=0,
        turns=0,
        skipped=0,
        unasked=sum(left_out.values()),
        asked=tuple(asked),
        fill_seconds=0.0,
    )
    return LogOutcome(outcome=outcome, judged=len(judged), left_out=dict(left_out))


def _obstacle(recall: LoggedRecall, useful: Sequence[LoggedHit]) -> str | None:
    """Why a recall cannot be asked again, None when it can."""
    if not any(hit.useful for hit in recall.hits):
        return _NOT_USEFUL
    if not useful:
        return _NOT_THERE
    if recall.query is None:
        return _NOT_TEXT
    return None if recall.repeatable else _NOT_REPEATABLE


def _still_there(memory: Memory, recall: LoggedRecall, *, useful: bool) -> list[LoggedHit]:
    """The hits marked so that a recall can still return."""
    marked = [hit for hit in recall.hits if hit.useful is useful]
    found = [(hit, memory.get(hit.record_id, scope=hit.scope, space=hit.space)) for hit in marked]
    return [hit for hit, record in found if record is not None and record.status in _STILL_FOUND]


def _ask(
    memory: Memory,
    recall: LoggedRecall,
    useful: Sequence[LoggedHit],
    ks: Sequence[int],
    rankings: Mapping[str, Ranking],
) -> Asked:
    # Its text is embedded once and then kept: no configuration's time may include that alone.
    _answer(memory, recall, Ranking(), ks)
    useless = _still_there(memory, recall, useful=False)
    question = Question(
        question_id=recall.id,
        conversation_id="log",
        question=recall.query or "",
        category="all",
        evidence=tuple((_key(hit),) for hit in useful),
        forbidden_turn_ids=tuple(map(_key, useless)),
        asked_at=recall.at,
    )
    return Asked(
        question=question,
        evidence_sessions=(),
        legs={name: _answer(memory, recall, ranking, ks) for name, ranking in rankings.items()},
    )


def _answer(memory: Memory, recall: LoggedRecall, ranking: Ranking, ks: Sequence[int]) -> Ranked:
    hits, milliseconds = timed(
        lambda: memory.recall(
            recall.query or "",
            scope=recall.scopes,
            top_k=ks[-1],
            types=recall.types,
            include_messages=recall.include_messages,
            ranking=ranking,
            # Recency counts back from then as well.
            as_of=recall.at,
        )
    )
    return Ranked(
        turns=tuple(hit.record.point_id.hex for hit in hits),
        sessions=(),
        milliseconds=milliseconds,
        tokens=tokens_of(hits, ks),
        degraded=bool(lacking(hits.missing)),
    )


def _key(hit: LoggedHit) -> str:
    # One id may stand in several scopes.
    return point_id(hit.scope, hit.space, hit.record_id).hex


def log_summary(seen: LogOutcome, *, seed: int = 0) -> dict[str, JsonValue]:
    """The numbers as `summary` gives them, with `judged` and `left_out` among the `counts`.

    `advice` says in words what they can and cannot tell.
    """
    numbers = summary(seen.outcome, seed=seed)
    counts: dict[str, JsonValue] = {
        "judged": seen.judged,
        "questions": len(seen.outcome.asked),
        "left_out": dict(seen.left_out),
        "degraded": sum(asked.degraded for asked in seen.outcome.asked),
    }
    return numbers | {"counts": counts, "advice": _advice(seen)}


def _advice(seen: LogOutcome) -> str:
    asked = len(seen.outcome.asked)
    if not seen.judged:
        return (
            "No logged recall has feedback. Open the memory with Config(recall_log=RecallLog()) and call "
            "memory.feedback(recall_id, record_id, scope=...) when a hit helped, or did not."
        )
    if not asked:
        return "No recall with feedback can be asked again, so nothing can be compared yet."
    bias = (
        "Only what was shown could be marked: a configuration gets no credit for what it would have found "
        "besides, so the one that was in use is favoured."
    )
    if asked < FEW:
        return (
            f"Too little feedback to choose by: {asked} {plural(asked, 'recall')}, of at least {FEW} that would be "
            f"needed. With so few the intervals of the differences are too narrow. {bias}"
        )
    return f"Keep what is in use unless the interval of a difference leaves out 0. {bias}"


def log_tables(numbers: Numbers) -> list[Table | Text]:
    """What `log_summary` returned, for people: to be printed in order, at most 80 columns wide."""
    counts, seed = mapping(numbers["counts"]), mapping(numbers["bootstrap"])["seed"]
    lines = [
        str(numbers["dataset"]),
        f"{counts['judged']} {plural(counts['judged'], 'recall')} with feedback, {counts['questions']} asked again",
        *(f"left out, {reason}: {many}" for reason, many in mapping(counts["left_out"]).items()),
    ]
    if counts["degraded"]:
        lines.append(missed_a_leg(counts["degraded"], "recall"))
    shown_parts: list[Table | Text] = [Text("\n".join(lines))]
    if counts["questions"]:
        shown_parts += comparison_tables(numbers)
    return [*shown_parts, Text(str(numbers["advice"])), Text(f"{numbers['date']}, seed {seed}")]
