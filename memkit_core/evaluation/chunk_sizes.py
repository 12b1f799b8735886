"""Which size of chunk finds the most: the sessions of a data set, cut in each size and asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from memkit_core.chunking import ContentChunker, ContentType
from memkit_core.config import Config
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.documents import Documents, chunk_place
from memkit_core.errors import InvalidInputError, ModelError
from memkit_core.evaluation.comparison import missed_a_leg
from memkit_core.evaluation.dataset import Dataset, Question, Turn
from memkit_core.evaluation.filling import Progress
from memkit_core.evaluation.metrics import mean_metrics, rank_metrics
from memkit_core.evaluation.run import DEFAULT_KS
from memkit_core.filters import And, Condition, Filter, Op, Or
from memkit_core.inputs import checked_count
from memkit_core.jsonvalues import JsonValue
from memkit_core.memory import Memory
from memkit_core.models import CHUNK, RecallResult
from memkit_core.plurals import plural
from memkit_core.scope import Scope
from memkit_core.times import Clock, utc_now

DECISIVE_K = 5
"""The winner is the size with the highest recall at this k."""

_LAST = "last"
_COVERED = 0.5
_FLUSH_SECONDS = 600.0
_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """What one size of chunk found.

    Attributes:
        size: the longest chunk, in characters.
        chunks: how many chunks the sessions became.
        metrics: `recall@k`, `all@k`, `any@k`, `mrr` and `r@1`, means over the questions, in [0, 1]; a k
            counts chunks. {} without questions.
        tokens: by k, the mean of what the first k chunks take of a model's context.
        degraded: questions that missed a leg: when not 0, the numbers are not those of the ranking.
    """

    size: int
    chunks: int
    metrics: Mapping[str, float]
    tokens: Mapping[int, float]
    degraded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkComparison:
    """The sizes that were compared, in ascending order, on `questions` questions."""

    dataset: str
    date: datetime
    embedder: str
    ks: tuple[int, ...]
    overlap: float
    questions: int
    rows: tuple[ChunkRow, ...]

    @property
    def winner(self) -> ChunkRow | None:
        """The row with the highest recall@5, of equal ones the smallest; None without questions."""
        if not self.questions:
            return None
        return max(self.rows, key=lambda row: (row.metrics[f"recall@{DECISIVE_K}"], -row.size))

    def summary(self) -> dict[str, JsonValue]:
        """The numbers as plain JSON, rounded to 4 decimals."""
        return {
            "dataset": self.dataset,
            "date": self.date.isoformat(),
            "embedder": self.embedder,
            "k": list(self.ks),
            "overlap": self.overlap,
            "questions": self.questions,
            "winner": None if self.winner is None else self.winner.size,
            "sizes": [
                {
                    "size": row.size,
                    "chunks": row.chunks,
                    **{name: round(value, _DIGITS) for name, value in row.metrics.items()},
                    "tokens": {f"top@{k}": round(tokens, 1) for k, tokens in row.tokens.items()},
                    "degraded": row.degraded,
                }
                for row in self.rows
            ],
        }

    def tables(self) -> list[Table | Text]:
        """The numbers for people: one line a size, and the winner; at most 80 columns wide with three ks."""
        heading = (
            f"{self.dataset}: {self.questions} {plural(self.questions, 'question')},\n"
            f"embedder {self.embedder}, overlap {self.overlap:.0%}"
        )
        table = Table(box=box.SIMPLE_HEAD)
        names = [*(f"recall@{k}" for k in self.ks), "mrr"]
        for name in ("size", "chunks", *names, f"tokens@{DECISIVE_K}"):
            table.add_column(name, justify="right")
        for row in self.rows:
            numbers = [f"{row.metrics[name]:.3f}" if row.metrics else "-" for name in names]
            tokens = f"{row.tokens[DECISIVE_K]:.0f}" if row.tokens else "-"
            table.add_row(str(row.size), str(row.chunks), *numbers, tokens)
        degraded = sum(row.degraded for row in self.rows)
        lines = [self._verdict(), self.date.isoformat()]
        if degraded:
            lines.insert(0, missed_a_leg(degraded, "question"))
        return [Text(heading), table, Text("\n".join(lines))]

    def _verdict(self) -> str:
        winner = self.winner
        if winner is None:
            return "no winner: no question has turns as evidence"
        found = winner.metrics[f"recall@{DECISIVE_K}"]
        return f"winner by recall@{DECISIVE_K}: {winner.size} characters ({found:.3f})"


def compare_chunk_sizes(
    dataset: Dataset,
    sizes: Iterable[int],
    *,
    ks: Iterable[int] = DEFAULT_KS,
    overlap: float = 0.15,
    embedder: object = None,
    clock: Clock = utc_now,
    progress: Progress | None = None,
) -> ChunkComparison:
    """Cut each session of `dataset` into chunks of each size, and look what its questions find.

    A session is one document with a turn a line, `speaker: text`; a question is asked to the chunks of
    its conversation with both legs, hybrid. It finds a turn with the first k chunks that together hold
    at least half of its text. Where only turns before another may be retrieved, only chunks that end
    before it are. Adversarial and session-level questions and those without evidence are not asked.

    Args:
        dataset: what to cut and ask.
        sizes: the sizes to compare, in characters.
        ks: how many chunks to look at; 5 is always among them.
        overlap: as in `ContentChunker`.
        embedder: as in `Memory.open`.
        clock: gives the date.
        progress: called from this thread after each step.

    Raises:
        InvalidInputError: sizes, ks or an overlap that cannot be.
        MissingDependencyError: the extra `chunking` is not installed.
        ConfigError: the embedder cannot be used.
        ModelError: the embedder failed.
    """
    counts = tuple(sorted({checked_count(k, "k", most=100_000) for k in ks} | {DECISIVE_K}))
    chunkers = [
        ContentChunker(ContentType.CONVERSATION, sizes=size, overlap=overlap)
        for size in sorted({checked_count(size, "a chunk size", most=1_000_000) for size in sizes})
    ]
    if not chunkers:
        raise InvalidInputError("compare_chunk_sizes: give at least one size")
    asked = [question for question in dataset.questions if _can_score(question)]
    config = Config(max_top_k=max(Config().max_top_k, counts[-1]))
    # Without a file: nothing is kept, and thousands of small documents wait for no disk.
    with Memory.open(":memory:", config=config, embedder=embedder, clock=clock) as memory:
        report = progress or _silent
        rows = [_Run(memory, chunker, dataset, asked, counts, report).row() for chunker in chunkers]
        return ChunkComparison(
            dataset=dataset.name,
            date=clock(),
            embedder=memory.capabilities.embedding_model,
            ks=counts,
            overlap=overlap,
            questions=len(asked),
            rows=tuple(rows),
        )


def _can_score(question: Question) -> bool:
    return (
        bool(question.evidence)
        and not question.session_level
        and question.category.casefold() != "adversarial"
    )


class _Line(NamedTuple):
    """A turn in the text of its session: its line begins at `line`, what it says is from `start` to `end`."""

    turn_id: str
    place: int
    line: int
    start: int
    end: int


class _Talk(NamedTuple):
    """A session as a document."""

    name: str
    text: str
    lines: list[_Line]


def _talks(turns: Sequence[Turn]) -> dict[str, _Talk]:
    """The sessions of a conversation by name; turns that say nothing are left out."""
    talks: dict[str, _Talk] = {}
    for place, turn in enumerate(turns):
        if not turn.said.strip():
            continue
        before = talks.get(turn.session_id, _Talk(turn.session_id, "", []))
        line = len(before.text)
        start = line + (len(turn.speaker) + 2 if turn.speaker else 0)
        end = start + len(turn.said)
        said = f"{turn.speaker}: {turn.said}\n" if turn.speaker else f"{turn.said}\n"
        lines = [*before.lines, _Line(turn.turn_id, place, line, start, end)]
        talks[turn.session_id] = _Talk(turn.session_id, before.text + said, lines)
    return talks


class _Run:
    """One size: its chunks, and what the questions find in them."""

    def __init__(
        self,
        memory: Memory,
        chunker: ContentChunker,
        dataset: Dataset,
        asked: Sequence[Question],
        ks: Sequence[int],
        progress: Progress,
    ) -> None:
        self._memory, self._chunker, self._dataset = memory, chunker, dataset
        self._asked, self._ks, self._progress = asked, ks, progress
        self._size = chunker.sizes[0]
        self._talks = {name: _talks(turns) for name, turns in dataset.conversations.items()}

    def row(self) -> ChunkRow:
        """Cut, embed and ask."""
        chunks = self._fill()
        rows: list[dict[str, float]] = []
        lengths: list[list[int]] = []
        degraded = 0
        for done, question in enumerate(self._asked, 1):
            result = self._documents(question.conversation_id).search(
                question.question, mode="hybrid", top_k=self._ks[-1], filters=self._earlier(question)
            )
            degraded += bool(result.missing)
            rows.append(rank_metrics(self._ranks(question, result), self._ks))
            lengths.append([approximate_tokens(hit.record.content) for hit in result])
            self._progress(f"asking {self._size}", done, len(self._asked))
        return ChunkRow(
            size=self._size,
            chunks=chunks,
            metrics=mean_metrics(rows),
            tokens={k: sum(sum(one[:k]) for one in lengths) / len(lengths) for k in self._ks if lengths},
            degraded=degraded,
        )

    def _fill(self) -> int:
        chunks = done = 0
        total = sum(map(len, self._talks.values()))
        for conversation, talks in self._talks.items():
            documents = self._documents(conversation)
            for talk in talks.values():
                last = {_LAST: talk.lines[-1].place}
                chunks += len(
                    documents.add_document(talk.text, id=talk.name, chunker=self._chunker, metadata=last)
                )
                done += 1
                self._progress(f"cutting {self._size}", done, total)
        if not self._memory.flush(timeout=_FLUSH_SECONDS):
            left = self._memory.capabilities.outbox.length
            raise ModelError(
                f"{left} {plural(left, 'chunk')} could not be embedded",
                model=self._memory.capabilities.embedding_model,
            )
        return chunks

    def _documents(self, conversation: str) -> Documents:
        return self._memory.documents(f"chunks of {self._size}", scope=Scope.user(conversation))

    def _earlier(self, question: Question) -> Filter | None:
        """Only chunks that end before the turn that the question names; None when it names none."""
        turns = self._dataset.conversations[question.conversation_id]
        before = next((n for n, turn in enumerate(turns) if turn.turn_id == question.before_turn_id), None)
        if before is None:
            return None
        parts: list[Filter] = [Condition(("metadata", _LAST), Op.LT, before)]
        for talk in self._talks[question.conversation_id].values():
            cut = next((line.line for line in talk.lines if line.place >= before), 0)
            if cut:
                ends = Condition(("metadata", CHUNK, "end"), Op.LTE, cut)
                parts.append(And((Condition(("source",), Op.EQ, talk.name), ends)))
        return Or(tuple(parts))

    def _ranks(self, question: Question, result: RecallResult) -> list[int | None]:
        """The rank of the chunk with which each piece of evidence was found."""
        talks = self._talks[question.conversation_id]
        wanted = {turn for piece in question.evidence for turn in piece}
        lines = [
            (talk.name, line) for talk in talks.values() for line in talk.lines if line.turn_id in wanted
        ]
        spans: dict[str, list[tuple[int, int]]] = {}
        found: dict[str, int] = {}
        for rank, hit in enumerate(result, 1):
            place = chunk_place(hit.record)
            assert place is not None
            seen = spans.setdefault(place.document, [])
            seen.append((place.start, place.end))
            for name, line in lines:
                if name == place.document and line.turn_id not in found and _holds(seen, line):
                    found[line.turn_id] = rank
        return [
            min((found[turn] for turn in piece if turn in found), default=None) for piece in question.evidence
        ]


def _holds(spans: Sequence[tuple[int, int]], line: _Line) -> bool:
    """Whether the spans together hold at least half of what a turn says."""
    held, reached = 0, line.start
    for first, last in sorted(spans):
        begin, stop = max(first, reached), min(last, line.end)
        if stop > begin:
            held += stop - begin
            reached = stop
    return held >= _COVERED * (line.end - line.start)


def _silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody."""
