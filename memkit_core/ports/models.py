"""What a caller may bring: embedders, chat models, rerankers, and what splits, sums up, extracts or judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import MemoryRecord, Message, RecordType
from memkit_core.ports.vectors import Matrix, Vector


class Embedder(Protocol):
    """Turns texts into vectors. Queries and documents are embedded by different methods."""

    @property
    def model(self) -> str:
        """The model's name; part of the fingerprint of every vector it makes."""

    @property
    def revision(self) -> str:
        """What else changes the vectors: weights version, prefix rule; "" when nothing does."""

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text, in order. An all-zero row means the text holds nothing to embed."""

    def embed_query(self, text: str) -> Vector:
        """The vector to compare with documents; all zero when there is nothing to embed."""


class WordEmbedder(Protocol):
    """What an embedder may do besides: compare single words, in microseconds a word and without a network.

    By it recall tells which words are related to those of a query, see `Ranking.related`; by the built-in embedder
    where the memory's own has no such method.
    """

    def embed_words(self, words: Sequence[str]) -> Matrix:
        """One row a word, in order; all zero for a word that the model does not know."""


class TokenCounter(Protocol):
    """Counts what a model will be charged for a text."""

    def __call__(self, text: str) -> int:
        """How many tokens `text` costs, 0 for the empty text."""


class ChatModel(Protocol):
    """Answers a prompt; see `memkit_core.chat_models` for the models of other libraries."""

    def __call__(self, prompt: str) -> str:
        """What the model says to `prompt`."""


class Reranker(Protocol):
    """Says how well each of some texts answers a query; see `memkit_core.rerankers` for those of other libraries."""

    def __call__(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One finite number a text, in their order; higher is better, on any scale.

        Raises:
            ModelError: it cannot; the texts then keep the order they had.
        """


class Summarizer(Protocol):
    """Folds messages into the summary of what came before them."""

    def __call__(self, previous: str, messages: Sequence[Message], max_tokens: int) -> str:
        """One summary of `previous` ("" at first) and `messages`, of about `max_tokens` at most.

        Called with user, assistant and tool messages in order, never with system messages or an
        earlier summary. May raise anything: the caller then keeps the summary it has.
        """


class Verdict(StrEnum):
    """What a newer memory is to an older one."""

    SAME = "same"
    """It says the same and nothing more."""
    REPLACES = "replaces"
    """What the older one says is no longer so."""
    UNRELATED = "unrelated"
    """Both may be so."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision on two memories, and why."""

    verdict: Verdict
    reason: str


class Judge(Protocol):
    """Decides on memories that may repeat or contradict each other; similarity only proposes them.

    A `name`, if it has one, tells it from other judges: what one decided another one may decide again.
    """

    def __call__(self, new: MemoryRecord, olds: Sequence[MemoryRecord]) -> Sequence[Judgement | None]:
        """What `new` is to each of `olds`, in order; None where there is no decision.

        All are active memories of one scope, and `new` holds since later than each of `olds`, of which
        there are a few. May raise anything: nothing is changed then.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What an extractor found worth remembering.

    Attributes:
        content, type, key, confidence, tags, metadata: as of `MemoryRecord`.
        sources: the numbers, from 1, of the messages it was made from; of all of them when empty.
    """

    content: str
    type: RecordType = RecordType.FACT
    key: str | None = None
    confidence: float | None = None
    sources: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


class Extractor(Protocol):
    """Finds in a conversation what is worth remembering.

    An extractor that pays for tokens may have a method `prompt` from messages to the text it sends, by
    which budgets are counted; without one it costs nothing.
    """

    def __call__(self, messages: Sequence[Message]) -> Sequence[Extracted]:
        """What `messages`, in order, say that is worth remembering; nothing that memkit put into them.

        May raise anything: it is tried again, and then the messages are set aside.
        """


class Level(StrEnum):
    """How large a chunk is beside the others of its text, which may be split in up to three sizes."""

    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a text.

    Attributes:
        content: the piece as it stands there, `text[start:end]`.
        start, end: its place in the text, in characters.
        context: what is embedded ahead of it, such as the headings it stands under; "" for nothing.
        level: its size among those the text was split in; `MEDIUM` where there is one.
        parent: where the larger chunk it is part of stands in the same sequence; None without one.
    """

    content: str
    start: int
    end: int
    context: str = ""
    level: Level = Level.MEDIUM
    parent: int | None = None


class Chunker(Protocol):
    """Splits a text into chunks."""

    def __call__(self, text: str) -> Sequence[Chunk]:
        """The chunks of `text`, those of each level in the order of the text; none of a blank one."""
