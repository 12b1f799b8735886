"""The ports: what a store, an index and a model must do for memkit. Each docstring is a contract.

All implementations are safe to use from several threads. Every read and delete takes whose rows it
means first, and applies it, and any filter, before it cuts to a limit. Errors are those of
`memkit_core.errors`; a driver's own exception never leaves an implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memkit_core.filters import Filter
from memkit_core.jsonvalues import JsonValue
from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    DeleteReceipt,
    MemoryRecord,
    Message,
    RecordChange,
    RecordPage,
    RecordPatch,
    RecordType,
    Session,
    Signals,
    Status,
    StoredValue,
    Summary,
    Target,
)
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.scope import Scope

Vector = NDArray[np.float32]
"""Shape `(d,) float32`."""
Matrix = NDArray[np.float32]
"""Shape `(n, d) float32`, one row a text."""


# --------------------------------------------------------------------------------- models


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


# --------------------------------------------------------------------------------- the record store


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


class Candidate(NamedTuple):
    """What ranking needs of a row: light enough to read a thousand for a query.

    A named tuple, like the hits of both legs: a recall makes hundreds of each.

    Attributes:
        point: the 16 bytes of the row's id in every index; a `UUID` costs more than all the rest.
        row: the store's own number of the row, for `KeywordIndex.counts`.
        length: how many terms its text has.
        importance: in [0, 1].
        since: milliseconds; `valid_from`, else `occurred_at` of a turn, else `created_at`.
        session: a number that names the turn's session, -1 for what is no turn.
        position: place of the turn in its session, -1 for what is no turn.
        speaker, role: who said it, for a turn.
        ending: the last characters of the text of a turn.
    """

    point: bytes
    row: int
    length: int
    importance: float
    since: int
    session: int = -1
    position: int = -1
    speaker: str | None = None
    role: str | None = None
    ending: str = ""

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return UUID(bytes=self.point)


class KeywordHit(NamedTuple):
    """A row the keyword leg found, with what ranking needs of it; `score` is BM25, above 0."""

    candidate: Candidate
    score: float

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return self.candidate.point_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What `list_records` asks for; every given condition holds for each record returned."""

    space: str = MEMORIES
    statuses: tuple[Status, ...] = (Status.ACTIVE,)
    types: tuple[RecordType, ...] = ()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    where: Filter | None = None
    order: str = "created_at"
    limit: int = 100
    cursor: str | None = None


class RecordCount(NamedTuple):
    """How many records of all scopes have this space, status and type."""

    space: str
    status: str
    type: str
    number: int


class Standing(NamedTuple):
    """A memory as forgetting sees it: light enough to look at every one of a store.

    A named tuple, like `Candidate`. `row` is the store's own number of it; `created`, `updated` and
    `accessed` are milliseconds, the last None when no recall returned it.
    """

    row: int
    scope: Scope
    id: str
    version: int
    importance: float
    created: int
    updated: int
    accessed: int | None
    accesses: int


@dataclass(frozen=True, slots=True)
class Access:
    """How often recall returned a record, and when last."""

    count: int
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A change that the derived indexes have not confirmed yet.

    `number` is the change's own; a later change of the same point has a higher one and replaces
    it. `record` is None when the point was deleted. `vector` is the stored vector of the record's
    present text, None while it is not embedded.
    """

    number: int
    point_id: UUID
    attempts: int
    record: MemoryRecord | None
    vector: Vector | None


class Pending(NamedTuple):
    """A row whose newest change, of this number, the index has not confirmed.

    A named tuple, because a recall reads up to some thousand. `point` is the 16 bytes of its id in
    every index; `embedded` says whether it has its vector; a deleted row needs none.
    """

    number: int
    point: bytes
    embedded: bool

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return UUID(bytes=self.point)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxState:
    """How far the indexes are behind the store."""

    length: int = 0
    oldest: datetime | None = None
    failed: int = 0
    """Entries that used up their tries; kept, shown and tried again on `flush`."""
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSpace:
    """One named space of vectors: which model made them. Retrieval never mixes two spaces.

    `given` tells the space of vectors that come with their texts, or from a model of their own, from
    the space of the memory's embedder: that one changes when the memory is embedded anew.
    """

    model: str
    revision: str
    dimension: int
    given: bool = False

    @property
    def fingerprint(self) -> str:
        """The space's name: model, revision, dimension, and whether it is a given one."""
        return f"{self.model}|{self.revision}|{self.dimension}" + ("|given" if self.given else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a store or index that is not what the records say it must be.

    `kind` is a short name for what is wrong, `count` how often, `detail` a sentence with the remedy
    where memkit has none; `mended` says that it is right again.
    """

    kind: str
    count: int
    detail: str
    mended: bool = False


class MemoryView(Protocol):
    """The memories as a rule of `RecordTable.decide` sees them: one state, nobody writes meanwhile."""

    def get(self, scope: Scope, record_id: str) -> MemoryRecord | None:
        """The memory with this id, whatever its status, expired or not; None when there is none."""

    def current(self, record: MemoryRecord, *, now: datetime) -> MemoryRecord | None:
        """The active, visible memory other than `record` with its scope, type and key; None without a key."""

    def last_change(self, record: MemoryRecord) -> RecordChange:
        """The newest entry of the history of a stored memory."""


@dataclass(frozen=True, slots=True)
class Add:
    """Write a new memory as `RecordTable.put` does; it becomes one with a duplicate if `merge`."""

    record: MemoryRecord
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Put `new` in the place of the stored memory `old`.

    The history tells it as a change of this kind, made together with that of the `others`, for this
    `reason`.
    """

    old: MemoryRecord
    new: MemoryRecord
    kind: ChangeKind
    others: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a memory as `RecordTable.delete` does."""

    record: MemoryRecord


Step = Add | Rewrite | Remove
"""One write that a rule of `RecordTable.decide` asks for."""


class RecordTable(Protocol):
    """The records of every space. Each method is one transaction.

    Reads that are told the time (`now`) never return what has expired by then.

    A method happens whole or not at all, also when the process is killed in it, and what it
    returned survives a kill.
    """

    def put(
        self,
        scope: Scope,
        records: Sequence[MemoryRecord],
        *,
        vector_space: VectorSpace | None = None,
        vectors: Matrix | None = None,
        merge: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """Write records of `scope`, in order, and return them as stored.

        A known (space, id) is replaced: created_at and access statistics stay, version counts up.
        The same id twice in one call: the last one wins, at the place of the first. Each row gets
        its keyword rows and its outbox entry in the same transaction.

        A record whose id is in `merge` becomes one with the oldest record it duplicates, if there is
        one, also one written by the same call: a visible and active memory of its scope, type, key,
        occurred_at, valid_from and valid_until whose text has the same `normal_form`. That one keeps all it says of itself; tags are united,
        metadata keys added and none overwritten, the higher importance, the later expiry (none is the
        latest) and either's pin hold; mentions and version count up, updated_at moves. Visible means
        at the new record's `updated_at`. Returned is the record it became.

        An active memory with a key supersedes the active, visible one of its scope, type and key, if
        there is one and they did not become one: never do two hold at once. See
        `memkit_core.stores.succession` for what becomes of both.

        What a replaced, merged or superseded memory was before is added to its history, and what a
        merge dropped.

        Args:
            scope: whose records all of them are.
            records: what to write.
            vector_space: the given space their vectors are of; None for the memory's own. One that is
                not given is the memory's own too, as the caller knows it: the `vectors` are dropped if
                another is in use by now.
            vectors: shape `(n, d) float32`, the vectors of `records` in that given space, or else in
                the one in use, kept in the same transaction; the vector of a record that became one
                with another is dropped. Without them the rows wait in the outbox for theirs.
            merge: ids among `records` that nobody chose and that no record has; only of memories.

        Raises:
            ConfigError: the rows of this scope and space have vectors of another vector space.
            DimensionMismatchError: `vectors` are of another length than `vector_space` says.
        """

    def replace(
        self,
        scope: Scope,
        space: str,
        sources: Sequence[str],
        records: Sequence[MemoryRecord] = (),
        *,
        vector_space: VectorSpace | None = None,
    ) -> tuple[list[MemoryRecord], DeleteReceipt]:
        """Put `records` in the place of those whose `source` is one of `sources`, in one transaction.

        They are written as `put` does. The other records of this scope and space with such a `source`,
        expired or not, are deleted as `delete` does; what has no `source` stays. Returns what was stored, in order, and
        what was deleted. Only for spaces of documents.

        Raises:
            ConfigError: the rows of this scope and space have vectors of another vector space.
        """

    def get(self, scope: Scope, space: str, ids: Sequence[str], *, now: datetime) -> list[MemoryRecord]:
        """The visible records with these ids that exist, in the order of `ids`, without repeats."""

    def change(
        self,
        scope: Scope,
        space: str,
        record_id: str,
        patch: RecordPatch,
        *,
        expected_version: int | None = None,
        now: datetime,
    ) -> MemoryRecord:
        """Change a visible record as `patch` says, at the moment `now`, and return it as stored.

        Reads and writes in the one transaction, so no change of another writer is lost. Version
        counts up and updated_at moves; of a memory the history tells what was before. A new text
        loses the vector of the old one. The row gets an outbox entry if the vector index knows
        anything that changed. When nothing differs, nothing is written. Turns change with their
        messages and are not found here.

        Raises:
            RecordNotFoundError: no visible record of this scope and space has the id.
            ConflictError: `expected_version` is given and is not the stored version, or it would be
                the second that holds with its type and key.
        """

    def decide(self, rule: Callable[[MemoryView], Sequence[Step]]) -> list[MemoryRecord]:
        """Let `rule` look at the memories and write what it says, in one transaction, in order.

        Returns what its `Add` and `Rewrite` steps became, in their order, as it stands at the end.
        Nothing is written when the rule raises. It is called once, looks at nothing but its view, and
        is quick: other writers wait. The rows get outbox entries as in `put` and `change`.
        """

    def sweep(self, *, now: datetime, limit: int) -> DeleteReceipt:
        """Delete up to `limit` records of all scopes and spaces that have expired by `now`, oldest first.

        Pinned records never expire.
        """

    def counts(self) -> Sequence[RecordCount]:
        """How many records there are of each kind, whoever's, expired ones included; none with 0."""

    def standing(self, status: Status, *, after: int, limit: int, now: datetime) -> list[Standing]:
        """Visible, unpinned memories of all scopes with this status, ascending by row number above `after`."""

    def archive_standing(self, seen: Sequence[Standing], *, now: datetime) -> list[Standing]:
        """Archive, at the moment `now`, the active ones of these memories; returns which, in order.

        What was changed or recalled since it was seen stays as it is. Version counts up, updated_at
        moves, the history tells it as `archived`, and each gets its outbox entry.
        """

    def delete_standing(self, seen: Sequence[Standing]) -> tuple[list[Standing], DeleteReceipt]:
        """Delete the archived ones of these memories that nobody changed or recalled since; returns which."""

    def history(self, scope: Scope, record_id: str, *, now: datetime) -> list[RecordChange]:
        """The changes of a visible memory, oldest first, its making the first; empty when unknown."""

    def touch(self, accesses: Mapping[UUID, Access]) -> None:
        """Add to access_count, and move last_accessed_at on, of the records with these point ids.

        No other column moves: no version, no updated_at, no outbox entry, no history. Unknown points
        are ignored.
        """

    def delete(self, scope: Scope, space: str, ids: Sequence[str]) -> DeleteReceipt:
        """Delete these records with vectors, keyword rows and history. Unknown ids count as nothing."""

    def delete_space(self, scope: Scope, space: str) -> DeleteReceipt:
        """Delete all records of one space of a scope, other than `messages`; see `MessageLog.clear`."""

    def delete_scope(self, scope: Scope) -> DeleteReceipt:
        """Delete all of a scope in every space, stored values too; of a user, the sessions too.

        Other scopes keep all.
        """

    def delete_everything(self) -> DeleteReceipt:
        """Delete all rows of all scopes."""

    def candidates(
        self, target: Target, points: Sequence[UUID], *, radius: int, where: Filter | None, now: datetime
    ) -> list[Candidate]:
        """Those of `points` that belong to `target`, satisfy `where` and are visible; any order.

        With a `radius`, also the turns that stand up to so many positions before or after one of
        them in its session, under the same conditions.
        """

    def fetch(self, target: Target, points: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
        """Those of the target's records with these point ids that exist, expired or not.

        For points of candidates that were just returned: what may be seen was decided then.
        """

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, query: ListQuery, *, now: datetime) -> RecordPage:
        """One page, highest `query.order` first and then newest first; stable while others write."""


class KeywordIndex(Protocol):
    """Finds rows by their words. Written in the record's own transaction, so it never lags."""

    def search(
        self, target: Target, query: str, *, where: Filter | None, now: datetime, limit: int
    ) -> list[KeywordHit]:
        """The visible rows of `target` that share a term with `query` and satisfy `where`, best first.

        BM25 with the statistics (document count, lengths, document frequencies) of the target's
        owner alone, so that one owner's rows never change another's scores. `query` is text, never
        a query language: no character of it can raise.
        """

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Shape `(n, t)`: how often each of the `t` distinct terms of `query` is in each candidate."""


class PartitionMark(NamedTuple):
    """How far a reader has seen one partition: its own number, its last change, its vectors' space."""

    partition: int
    change: int
    space: VectorSpace | None


class PartitionRow(NamedTuple):
    """A row as recall sees it, with what decides whether it may be seen.

    Attributes:
        candidate: what ranking needs.
        scope: digest of the row's own scope.
        status, type: as the record's values.
        expires_at: milliseconds; None for never, pinned records included.
        held_from, held_until: milliseconds; from when on, and until when, it holds; None for no end.
        vector: little-endian float32, of any length above 0; empty when the text held nothing to
            embed; None while it is not embedded.
    """

    candidate: Candidate
    scope: bytes
    status: str
    type: str
    expires_at: int | None
    held_from: int
    held_until: int | None
    vector: bytes | None


class Postings(NamedTuple):
    """The rows of a partition that hold a term, ascending, and how often: `(n,) int64` each."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanges:
    """What a partition is now, as far as the reader has not seen it.

    Attributes:
        mark: what to ask with the next time.
        documents, terms: of the whole partition, as `KeywordIndex` counts them.
        rows: those that changed, ascending by their number; None when there were too many.
        present: the numbers of all rows, ascending, when one was taken away; else None.
        postings: of each term that was asked for.
    """

    mark: PartitionMark
    documents: int
    terms: int
    rows: list[PartitionRow] | None = None
    present: list[int] | None = None
    postings: Mapping[str, Postings] = field(default_factory=dict)


class PartitionTable(Protocol):
    """Partitions as a whole, for readers that keep a copy: the rows of one owner in one space."""

    def changes(
        self,
        target: Target,
        *,
        after: PartitionMark | None,
        most: int,
        terms: Sequence[str],
        held: Collection[str] = (),
    ) -> PartitionChanges | None:
        """What changed in the partition of `target.owner` since `after`; all of it without `after`.

        Every change that recall could see is told: of a row, its place, its text, its vector. One
        consistent state. Where `after` is of another partition or of another space of vectors, all
        rows come. None when the partition has no rows.

        Args:
            target: one of the owner's targets.
            after: the mark of the last call.
            most: more changed rows than these are not read.
            terms: whose postings are wanted.
            held: those of them that are known if nothing changed.
        """


class VectorTable(Protocol):
    """The vectors of one vector space, kept beside the records so that an index needs no embedding."""

    def use_space(self, space: VectorSpace) -> None:
        """Make `space` the one in use, or raise `ConfigError` that names both when there is another."""

    def space(self) -> VectorSpace | None:
        """The space in use, None before the first vector."""

    def save(
        self, entries: Sequence[OutboxEntry], vectors: Matrix, *, space: VectorSpace | None = None
    ) -> list[bool]:
        """Keep a vector beside each entry's record if that very change is still the newest.

        Returns, aligned, whether it was: a vector is never attached to a text it was not made
        from. An all-zero row is kept as "nothing to embed": never indexed, never embedded again.

        Raises:
            ConfigError: the vectors are of `space`, and another is in use by now; nothing is kept.
            DimensionMismatchError: the rows have another length than the space in use.
        """

    def scan(
        self,
        target: Target,
        *,
        where: Filter | None,
        now: datetime,
        points: Sequence[UUID] | None = None,
        space: VectorSpace | None = None,
    ) -> tuple[list[UUID], Matrix]:
        """The vectors of the target's visible rows that satisfy `where`, or of those among `points`.

        None of them when a `space` is given and another is in use by now.
        """

    def page(self, *, after: int, limit: int) -> list[tuple[int, MemoryRecord, Vector]]:
        """Rows with vectors in ascending row number above `after`, to rebuild an index from."""

    def counts(self) -> tuple[int, int]:
        """How many non-zero vectors there are, and how many of these have an outbox entry."""


class Unembedded(NamedTuple):
    """A row without a vector in a vector space, as it was at the change of this number."""

    row: int
    change: int
    record: MemoryRecord


class SpaceTable(Protocol):
    """The memory's own vector space, and how another takes its place. Each method is one transaction.

    One is in use; one may be coming, its vectors made beside those in use; those that were in use, or
    were to come, are retired until their vectors are dropped. Given spaces have no part in this.
    """

    def begin(self, space: VectorSpace) -> VectorSource:
        """Let `space` come, or go on coming, and return what its index can be built from.

        Another one that was coming is retired; a retired one comes with the vectors it still has right.
        """

    def waiting(self, space: VectorSpace, *, after: int, limit: int) -> list[Unembedded]:
        """Rows with the memory's own vectors that have none of `space`, in ascending number above `after`."""

    def count(self, space: VectorSpace) -> tuple[int, int]:
        """How many rows with the memory's own vectors there are, and how many have one of `space`."""

    def keep(self, space: VectorSpace, rows: Sequence[Unembedded], vectors: Matrix) -> int:
        """Keep a vector of the coming `space` for each row that has not changed since; returns how many.

        Recall sees none of them before `switch`.

        Raises:
            ConfigError: `space` is not coming any more.
            DimensionMismatchError: the vectors are not as long as `space` says.
        """

    def switch(self, space: VectorSpace, *, tell: Sequence[int] = ()) -> int:
        """Make the coming `space` the one in use and retire the one that was; returns how many rows have no vector.

        Those get an outbox entry, and wait for theirs like any other. So do the rows with the numbers
        `tell`, which an index that was built before does not have.

        Raises:
            ConfigError: `space` is not coming any more.
        """

    def retired(self) -> list[VectorSpace]:
        """The spaces whose vectors are to be dropped; their indexes too."""

    def drop(self, space: VectorSpace, *, limit: int) -> int:
        """Delete up to `limit` vectors of the retired `space`; returns how many. None of another one."""

    def forget(self, space: VectorSpace) -> None:
        """Forget the retired `space`, once it has no vectors."""


class Outbox(Protocol):
    """The changes that the index of one vector space has not confirmed; at most one a point, the newest."""

    def due(
        self,
        *,
        now: datetime,
        limit: int,
        after: int = 0,
        exclude: Sequence[int] = (),
        points: Sequence[UUID] | None = None,
        unembedded: bool = False,
    ) -> list[OutboxEntry]:
        """The oldest entries above number `after` whose time has come, less the excluded numbers.

        Only of `points` if given, and with `unembedded` only records that wait for their vector.
        """

    def pending(self, target: Target) -> list[Pending]:
        """The target's rows that have an entry, deleted ones too: the index may still find those."""

    def mark_synced(self, numbers: Sequence[int], *, space: VectorSpace | None = None) -> None:
        """Remove these entries; a newer change of the same point has another number and stays.

        Nothing is removed when it was the index of `space` that took them, and another is in use by now.
        """

    def last_number(self) -> int:
        """The highest number ever given to a change of any vector space, 0 before the first."""

    def synced_through(self) -> int:
        """The highest number ever confirmed; tells whether an index and a store belong together."""

    def mark_failed(self, numbers: Sequence[int], error: str, *, retry_at: datetime) -> None:
        """Count one more try, keep the error, and wait until `retry_at`."""

    def retry(self) -> None:
        """Make every waiting entry due at once."""

    def state(self, *, max_attempts: int) -> OutboxState:
        """Length, oldest age, how many used up their tries, and the last error."""


class MessageLog(Protocol):
    """Sessions and their messages, verbatim and in append order whatever the clock does."""

    def append(
        self, session: Scope, messages: Sequence[Message], turns: Sequence[MemoryRecord], *, now: datetime
    ) -> list[Message]:
        """Append messages, and the turns that make them searchable, in one transaction.

        Creates the session. No turn is written while its metadata has `SEARCHABLE` False. A message whose id the session has replaces that one in place; a turn
        names its message by id and takes its position; a replaced message without a turn loses the
        one it had. A summary that covers a message goes when it is replaced by one of another role,
        speaker, text or calls. Messages come with ids. Returns them with position and session set.
        """

    def create(
        self, session: Scope, *, title: str | None, metadata: Mapping[str, JsonValue], now: datetime
    ) -> Session:
        """The session, made with this title and metadata if it is not there; an existing one stays as it is."""

    def update(
        self,
        session: Scope,
        *,
        title: str | Omitted | None = OMITTED,
        metadata: Mapping[str, JsonValue] | Omitted = OMITTED,
    ) -> Session:
        """Set the title and the given metadata keys; None removes the title, or a key. One transaction.

        Raises:
            RecordNotFoundError: there is no such session.
        """

    def read(
        self,
        session: Scope,
        *,
        last: int | None = None,
        before: int | None = None,
        agent_id: str | None = None,
        parent_agent_id: str | None = None,
    ) -> list[Message]:
        """The log in append order: all, or the `last` n, below position `before`. Costs what it returns.

        Only the messages of the agent, or with the parent agent, that is given.
        """

    def system_messages(self, session: Scope) -> list[Message]:
        """The system messages of the log, in append order, without reading the rest."""

    def delete(self, session: Scope, ids: Sequence[str]) -> DeleteReceipt:
        """Delete messages and their turns; unknown ids count as nothing.

        The summary goes too when it covers one of them: it may tell what they said.
        """

    def clear(self, session: Scope) -> DeleteReceipt:
        """Delete the session and its log with turns, vectors, summary and stored values; its memories stay."""

    def counts(self) -> tuple[int, int]:
        """How many sessions and how many messages there are, whoever's."""

    def session(self, session: Scope) -> Session | None:
        """The session, None when it was neither created nor appended to."""

    def sessions(
        self, user: Scope, *, limit: int | None = None, after: Session | None = None
    ) -> list[Session]:
        """The sessions of a user, last active first; at most `limit`, those behind `after`."""

    def idle(self, *, since: datetime, until: datetime) -> list[Session]:
        """The sessions of all users that last grew after `since` and at `until` or before, oldest first."""

    def summary(self, session: Scope) -> Summary | None:
        """The summary kept with the session, None when there is none."""

    def save_summary(self, summary: Summary, *, after: int, messages: int) -> bool:
        """Keep `summary` in place of the session's one that ends at position `after` (-1: of none).

        Returns whether it was kept. Nothing changes when the session's summary ends elsewhere by
        now, when `summary` does not reach further, or when other than `messages` messages stand
        behind `after` up to its position: somebody summarised or deleted meanwhile.
        """

    def clear_summary(self, session: Scope) -> DeleteReceipt:
        """Delete the summary of a session; its messages stay."""


class ValueTable(Protocol):
    """JSON values with versions, one a scope, kind and key: working memories and run states."""

    def get(self, scope: Scope, kind: str, key: str) -> StoredValue | None:
        """The newest version, None when there is none."""

    def put(
        self,
        scope: Scope,
        kind: str,
        key: str,
        value: JsonValue,
        *,
        label: str | None = None,
        expected_version: int | None = None,
        keep: int = 0,
        now: datetime,
    ) -> StoredValue:
        """Write the next version and return it; up to `keep` earlier ones are kept.

        One transaction. `expected_version` is the version that is replaced, 0 for "there is none".

        Raises:
            ConflictError: `expected_version` is given and is not the stored version; nothing is written.
        """

    def history(self, scope: Scope, kind: str, key: str) -> list[StoredValue]:
        """The versions that are kept, oldest first, the newest one included; empty when unknown."""

    def delete(self, scope: Scope, kind: str, key: str) -> DeleteReceipt:
        """Delete a value with its versions; an unknown one counts as nothing."""

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, scope: Scope, kind: str, *, label: str | None = None) -> list[StoredValue]:
        """The values of a kind, with that label if one is given, last written first.

        Of those written in the same moment the last made comes first.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """When a periodic job was done and is to be done again.

    `leased_until` is None while nobody does it; `last_error` is that of the last run, None when it went well.
    """

    name: str
    due_at: datetime
    last_run_at: datetime | None = None
    last_error: str | None = None
    leased_until: datetime | None = None


LONGEST_LEASE = timedelta(days=1)


class JobTable(Protocol):
    """The periodic jobs of a store, so that one process at a time does each, and a restart goes on."""

    def claim(
        self, name: str, *, holder: str, first: datetime, latest: datetime, now: datetime, until: datetime
    ) -> bool:
        """Take a job for `holder` until `until` when it is due and nobody has it; whether it was taken.

        One transaction: of any number of threads and processes one takes it. A lease that has ended by
        `now`, or that is to last for more than `LONGEST_LEASE`, holds nobody off: the second is one of a
        clock that was set back.

        Args:
            name: the job.
            holder: who takes it; another name for each one that might.
            first: when it is due if it was never done.
            latest: when it is due at the latest, as counted from now: what says later is brought
                forward to that, because a clock was set back, or the plan changed.
            now: the moment.
            until: when the lease ends.
        """

    def renew(self, name: str, *, holder: str, until: datetime) -> bool:
        """Have the lease end later; False when `holder` has it no more."""

    def finish(self, name: str, *, holder: str, now: datetime, due: datetime, error: str | None) -> bool:
        """Note that the job was done at `now`, and is due at `due`; False, and nothing, when somebody else took it."""

    def look(self, outbox: int, *, now: datetime, keep: int) -> list[int]:
        """Note how long the outbox is, and return the last `keep` such looks, oldest first."""

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self) -> list[JobState]:
        """The jobs that were ever claimed, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedHit:
    """What a logged recall returned, at its place; `useful` is None while nobody has said."""

    record_id: str
    scope: Scope
    space: str
    score: float
    signals: Signals
    useful: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRecall:
    """A recall as the log keeps it.

    Attributes:
        id: that of `RecallResult.recall_id`.
        at: when it was asked.
        query: its text; None where only the digest is kept.
        digest: SHA-256 of the text in hexadecimal; made by the store.
        scopes: those it named.
        top_k, types, include_messages: as they were asked for.
        repeatable: whether this is all it was asked with: no filter, status, `as_of`, `now`, excluded
            message, reranker or budget, of which the log keeps nothing.
        hits: best first; of a record that was deleted since nothing is left.
    """

    id: str
    at: datetime
    query: str | None
    scopes: tuple[Scope, ...]
    top_k: int
    hits: tuple[LoggedHit, ...]
    types: tuple[RecordType, ...] = ()
    include_messages: bool = False
    repeatable: bool = True
    digest: str = ""


class RecallTable(Protocol):
    """The recall log of a store. What is deleted takes along what the log has of it, in the same transaction.

    A hit goes with its record, however that is deleted, and a recall with its last hit, or with a scope
    that it named or a session of which it named, as `RecordTable.delete_scope` deletes them.
    """

    def append(self, recalls: Sequence[LoggedRecall], *, keep: int, texts: bool) -> None:
        """Add these, oldest first, and forget all but the newest `keep`; one transaction.

        They may come late: hits whose records are gone by now are left out, and a recall without hits, or
        that named a scope which was deleted, is not kept. Without `texts` only digests of queries are.
        """

    def mark(self, scope: Scope, recall_id: str, record_id: str, *, useful: bool) -> bool:
        """Note whether a hit was useful; what was said last counts. False when there is no such hit.

        `scope` is that of the record, or one that the recall named: for any other there is no such hit.
        """

    # Last, because its name hides the built-in type from what follows in the class.
    def list(self, *, judged: bool, limit: int) -> list[LoggedRecall]:
        """The newest recalls, newest first; with `judged` only those of which a hit was marked."""


class VectorSource(Protocol):
    """One vector space of a store: what its index is built from and kept in step with."""

    @property
    def store_id(self) -> str:
        """Random name of the store, made with it; an index of another store is not ours."""

    @property
    def vectors(self) -> VectorTable:
        """The vectors beside the records."""

    @property
    def outbox(self) -> Outbox:
        """The changes the vector index waits for."""


class RecordStore(VectorSource, Protocol):
    """The truth. One object that owns the connection; its parts share it and its transactions.

    As a `VectorSource` it is that of the vectors the memory's own embedder makes.
    """

    @property
    def durable(self) -> bool:
        """Whether what is written outlives the process."""

    def given(self, space: VectorSpace) -> VectorSource:
        """The vectors of a given space, and the changes of the rows that have theirs there."""

    def space_of(self, target: Target) -> VectorSpace | None:
        """The vector space of the target's rows: a given one or the memory's own; None without rows."""

    def given_spaces(self) -> list[VectorSpace]:
        """The given spaces that were ever written to."""

    @property
    def records(self) -> RecordTable:
        """The records of every space."""

    @property
    def keywords(self) -> KeywordIndex:
        """The keyword leg."""

    @property
    def partitions(self) -> PartitionTable:
        """Partitions as a whole."""

    @property
    def spaces(self) -> SpaceTable:
        """The memory's own vector space, and how another takes its place."""

    @property
    def log(self) -> MessageLog:
        """Sessions and messages."""

    @property
    def values(self) -> ValueTable:
        """Working memories and run states."""

    @property
    def recalls(self) -> RecallTable:
        """The recall log."""

    @property
    def jobs(self) -> JobTable:
        """The periodic work on it."""

    def verify(self) -> list[Problem]:
        """What inside the store does not agree with its records; changes nothing. Reads every row."""

    def repair(self) -> list[Problem]:
        """Make what is derived agree with the records again; what `verify` found, marked as mended."""

    def purge(self) -> None:
        """Leave nothing of what was deleted in any file; every row is written anew.

        Raises:
            BackendError: a reader or another process kept that from being done; nothing is lost.
        """

    def close(self) -> None:
        """Let go of everything; safe to call twice. Later calls raise `ClosedError`."""


@runtime_checkable
class Logged(Protocol):
    """A store in a file with a write-ahead log beside it."""

    @property
    def path(self) -> Path:
        """The file it lives in."""

    def log_bytes(self) -> int:
        """How long the write-ahead log is."""

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and empty it; False when a reader prevents it."""


# --------------------------------------------------------------------------------- moving a store


class RowKind(StrEnum):
    """What is moved one by one."""

    SESSION = "session"
    MESSAGE = "message"
    SUMMARY = "summary"
    VALUE = "value"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows of a store are moved; every given condition holds for each of them.

    Attributes:
        scopes: whose rows; of a user those of the user's sessions too. None for everybody's.
        spaces: records of these spaces; `messages` stands for sessions with messages, turns and
            summaries, `notes` and `runs` for the values of these kinds. All when empty.
        types: only records of these types, and nothing that has no type: no conversations, no values.
        since, until: only records, messages and values created in this time, and sessions that
            were begun, or hold such a message.
        changed_after: only what changed after the change of this number, and tombstones of what was
            deleted after it, these whatever `types`, `since` and `until` say.
        now: the moment; what has expired by then is left out.
    """

    scopes: tuple[Scope, ...] | None = None
    spaces: tuple[str, ...] = ()
    types: tuple[RecordType, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    changed_after: int | None = None
    now: datetime

    def conversations(self) -> bool:
        """Whether sessions, messages and summaries are meant."""
        return not self.types and (not self.spaces or "messages" in self.spaces)

    def values(self, kind: str) -> bool:
        """Whether the values of `kind` are meant."""
        return not self.types and (not self.spaces or kind in self.spaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedSession:
    """A session; its messages go one by one. `next_position` is the place of the next one appended."""

    session: Session
    next_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedMessage:
    """A message; with `replace` it takes the place of one with its id that says something else."""

    message: Message
    replace: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedValue:
    """A stored value with the versions that are kept, oldest first."""

    scope: Scope
    kind: str
    versions: tuple[StoredValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedRecord:
    """A record of any space with what a store keeps beside it.

    Attributes:
        vector_space: the space its vector is of, or waits for: a given one, or the memory's own; None
            where the memory has none yet.
        vector: None while it waits for it, all zero or empty when there was nothing to embed.
        history: its changes after its making, oldest first.
    """

    record: MemoryRecord
    vector_space: VectorSpace | None = None
    vector: Vector | None = None
    history: tuple[RecordChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A row that was deleted; digests, because the names of what is deleted are gone.

    Attributes:
        kind: what it was.
        owner: digest of the scope it was of.
        name: 16 bytes that stand for it among the rows of its kind, see `memkit_core.stores.tombstones`.
        scope: that scope, None when the store holds nothing of it any more.
        made_at: when the row was made that has this place again, of a summary when it was written; such
            a one is not deleted. None when there is none.
        into: the scope to delete it from; None for `owner`.
    """

    kind: RowKind
    owner: bytes
    name: bytes
    scope: Scope | None = None
    made_at: datetime | None = None
    into: Scope | None = None


MovedRow = MovedSession | MovedMessage | Summary | MovedValue | MovedRecord | Tombstone


class Outcome(StrEnum):
    """What became of a row that was received."""

    INSERTED = "inserted"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    OLDER = "older"
    """The store has a newer one and keeps it."""
    DELETED = "deleted"
    REFUSED = "refused"


class Received(NamedTuple):
    """The outcome of one row, with the reason when it was refused."""

    outcome: Outcome
    reason: str = ""


class StoreSnapshot(Protocol):
    """The selected rows of a store as they were at one moment."""

    @property
    def change(self) -> int:
        """The number of the last change in it; what comes later has higher ones."""

    def count(self) -> int:
        """How many rows `rows` will give, at most."""

    def vector_spaces(self) -> list[VectorSpace]:
        """The vector spaces of the selected records, by fingerprint."""

    def rows(self) -> Iterator[MovedRow]:
        """Tombstones, then each session with its messages and its summary, then values, then records.

        Sessions by user, users and all else in the order they were first stored. Costs memory for a few
        rows, not for all.
        """


@runtime_checkable
class Portable(Protocol):
    """A store whose rows can be taken elsewhere, as they are."""

    def snapshot(self, selection: Selection) -> AbstractContextManager[StoreSnapshot]:
        """One consistent state for as long as the block lasts; others read and write meanwhile."""

    def receive(self, rows: Sequence[MovedRow]) -> list[Received]:
        """Take rows as they are, in order, in one transaction; returns what became of each.

        Ids, versions, times, statuses and histories are kept. Of two rows with one identity the
        newer one holds: of records and values by (version, updated_at), of summaries by (position,
        updated_at), of sessions by updated_at. Of two that are equally new the stored record, value or
        summary stays, and the given session holds. A message keeps the place it has; a new one takes
        its own if that is free, else the next. A turn goes with its message. The summary that covers a
        message goes when that is replaced, as in `MessageLog.append`.

        A vector is kept if its space is the one in use, or a given one; a record without one waits
        in the outbox for it. Each record that changes gets its outbox entry.

        Refused, and nothing changed for it: a record whose scope and space have vectors of another
        given space, a turn without its message, and a message or summary without its session.

        Which memory holds for a key is not looked at, since a later row may decide it: see `settle_keys`.
        """

    def settle_keys(self, *, now: datetime, limit: int) -> int:
        """Let one memory hold for each key of a scope and type, after `receive`; returns how many gave way.

        The newest holds, see `stores.succession.settled`; the others become superseded by it, in one
        transaction for at most `limit` keys. What has expired by `now` holds nothing.
        """


@runtime_checkable
class Copyable(Protocol):
    """A store that can be copied as a whole while it is in use."""

    @property
    def path(self) -> Path:
        """The file it lives in."""

    def copy_to(self, path: Path, *, progress: Callable[[int, int], object] | None = None) -> None:
        """Write one consistent state into a new file at `path`, a store of its own.

        Others read and write meanwhile. `progress` is told how many of how many parts are done.
        """


# --------------------------------------------------------------------------------- the vector index

INDEXED_FIELDS = frozenset({"type", "status", "created_at", "occurred_at", "expires_at", "tags"})
"""The record fields that a vector index holds beside a vector and must be able to filter on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPoint:
    """A vector and what the index may know of its record. Never text, never free metadata."""

    point_id: UUID
    vector: Vector
    owner: bytes
    """Digest of the scope whose rows share a partition (`Target.owner`)."""
    scope: bytes
    """Digest of the record's own scope."""
    space: str
    type: str
    status: str
    created_at: int
    occurred_at: int | None = None
    expires_at: int | None = None
    tags: tuple[str, ...] = field(default=())


class IndexHit(NamedTuple):
    """A point the index found; `cosine` in [-1, 1], higher is better."""

    point_id: UUID
    cosine: float


class VectorIndex(Protocol):
    """Derived: may lag behind the store, can be dropped and rebuilt from it at any time."""

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Add points, replacing those with the same id. Searchable when it returns."""

    def delete(self, points: Sequence[UUID]) -> None:
        """Remove points; unknown ids are ignored."""

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """The target's points that satisfy `where`, by cosine, best first.

        `where` names only `INDEXED_FIELDS`. A zero vector finds nothing.
        """

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """The stored vectors (scaled to length 1) of those points that exist."""

    def count(self) -> int:
        """How many points it holds."""

    def clear(self) -> None:
        """Remove every point."""

    def flush(self) -> None:
        """Make all that was written survive a power cut as well as a kill."""

    def close(self) -> None:
        """Let go of files, locks and threads; safe to call twice."""
