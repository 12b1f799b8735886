"""The values memkit stores and returns. All of them are frozen; times are aware UTC."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import overload

from memkit_core.jsonvalues import JsonValue
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.scope import Scope

_POINTS = uuid.UUID("6d656d6b-6974-5f70-8f69-6e740a000001")

MEMORIES = "memories"
"""The space of memory records."""
MESSAGES = "messages"
SEARCHABLE = "memkit_searchable"
"""The key in a session's metadata that, with False, keeps what is appended from then on out of recall."""
"""The space of conversation turns."""

DOCUMENTS = "documents:"
"""What the space of every collection of documents begins with."""
CHUNK = "memkit_chunk"
"""The key in the metadata of a chunk of a document that tells where it stands."""

NOTES = "notes"
"""The kind of the stored values that are working memories."""
RUNS = "runs"
"""The kind of the stored values that are run states."""


class RecordType(enum.StrEnum):
    """What kind of memory a record is; `family` gives its CoALA class."""

    FACT = "fact"
    PREFERENCE = "preference"
    PROFILE = "profile"
    EVENT = "event"
    SKILL = "skill"
    SUMMARY = "summary"

    @property
    def family(self) -> str:
        """`semantic`, `episodic` or `procedural` (Sumers et al., CoALA, arXiv:2309.02427)."""
        return {"event": "episodic", "skill": "procedural"}.get(self.value, "semantic")


class Status(enum.StrEnum):
    """Where a record stands in its life. Reads return `active` only unless told otherwise."""

    PENDING = "pending"
    ACTIVE = "active"
    ARCHIVED = "archived"
    SUPERSEDED = "superseded"


class Origin(enum.StrEnum):
    """Who said it."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    IMPORT = "import"


def point_id(scope: Scope | bytes, space: str, record_id: str) -> uuid.UUID:
    """The id of a record in every vector index: uuid5 of (scope digest, space, id).

    `scope` may be its digest alone.
    """
    return _point_id(scope if isinstance(scope, bytes) else scope.digest, space, record_id)


# A write asks for the point of a row several times, and one costs as much as a statement.
@lru_cache(maxsize=16_384)
def _point_id(digest: bytes, space: str, record_id: str) -> uuid.UUID:
    # The space cannot hold NUL, so this encoding is unambiguous.
    return uuid.uuid5(_POINTS, f"{digest.hex()}{space}\0{record_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """One memory, as it is stored.

    Identity is (scope, space, id). `key` names a slot whose value may change over time;
    `importance` is in [0, 1]; `occurred_at` is when the thing happened, `created_at` when it was
    written down; it holds from `valid_from`, or else `created_at`, up to but not including
    `valid_until`, None while it does; `version` counts changes from 1; `mentions` is how often it was said: 1, and one
    more for each exact duplicate that became one with it. `access_count` is how often recall
    returned it, up to some seconds ago.
    """

    id: str
    scope: Scope
    content: str
    created_at: datetime
    updated_at: datetime
    space: str = MEMORIES
    type: RecordType = RecordType.FACT
    key: str | None = None
    importance: float = 0.5
    pinned: bool = False
    status: Status = Status.ACTIVE
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    occurred_at: datetime | None = None
    last_accessed_at: datetime | None = None
    access_count: int = 0
    expires_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    version: int = 1
    supersedes: str | None = None
    superseded_by: str | None = None
    agent_id: str | None = None
    source: str | None = None
    confidence: float | None = None
    created_in_session_id: str | None = None
    promoted_from_id: str | None = None
    compacted_from_ids: tuple[str, ...] = ()
    source_message_ids: tuple[str, ...] = ()
    origin: Origin = Origin.USER
    mentions: int = 1

    @property
    def point_id(self) -> uuid.UUID:
        """The id of this record in every vector index."""
        return point_id(self.scope, self.space, self.id)

    @property
    def speaker(self) -> str | None:
        """Who said it, for a conversation turn; None for a memory."""
        speaker = self.metadata.get("speaker") if self.space == MESSAGES else None
        return speaker if isinstance(speaker, str) else None

    @property
    def index_text(self) -> str:
        """The text that is embedded and keyword-indexed.

        The content, led by the speaker of a turn, or by the context of a chunk of a document.
        """
        if self.space.startswith(DOCUMENTS):
            context = self._context
            return f"{context}\n\n{self.content}" if context else self.content
        return f"{self.speaker}: {self.content}" if self.speaker else self.content

    @property
    def _context(self) -> str | None:
        """What a chunk of a document is about; None without one."""
        # Only chunks have a source in such a space: the metadata of a plain document is the user's.
        chunk = None if self.source is None else self.metadata.get(CHUNK)
        context = chunk.get("context") if isinstance(chunk, Mapping) else None
        return context if isinstance(context, str) else None

    def is_visible_at(self, now: datetime) -> bool:
        """Whether it has not expired at `now`; pinned records never expire."""
        return self.pinned or self.expires_at is None or self.expires_at > now

    def _repr_html_(self) -> str:
        """What a notebook shows: the fields that say something of this record, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        defaults = {one.name: one.default for one in dataclasses.fields(self)}
        always = ("id", "scope", "content", "type", "status", "importance", "created_at")
        values = {name: getattr(self, name) for name in defaults}
        told = {name: value for name, value in values.items() if value and value != defaults[name]}
        return html.fields("Memory record", {name: values[name] for name in always} | told)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPatch:
    """What `Memory.update` changes of a record; what is `OMITTED` stays.

    Attributes:
        content, type, importance, pinned: the new value.
        tags: the new tags, in place of all old ones.
        metadata: keys with their new values; other keys stay, a key with the value None is removed.
        expires_at: the new moment, None for never.
    """

    content: str | Omitted = OMITTED
    type: RecordType | Omitted = OMITTED
    importance: float | Omitted = OMITTED
    tags: tuple[str, ...] | Omitted = OMITTED
    metadata: Mapping[str, JsonValue] | Omitted = OMITTED
    expires_at: datetime | Omitted | None = OMITTED
    pinned: bool | Omitted = OMITTED


class ChangeKind(enum.StrEnum):
    """What happened to a record."""

    CREATED = "created"
    UPDATED = "updated"
    REPLACED = "replaced"
    """The same id was added again."""
    MERGED = "merged"
    """The same was said again, without an id."""
    ARCHIVED = "archived"
    RESTORED = "restored"
    CONFIRMED = "confirmed"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    """Another record holds in its place, see `MemoryRecord.superseded_by`."""
    UNDONE = "undone"
    """The change before was taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChange:
    """One change in the history of a record.

    Attributes:
        version: the version it made.
        kind: what happened.
        at: when.
        before: the changed attributes as they were, as JSON: times in ISO 8601, lists for tuples.
            `version` and `updated_at`, which change each time, are those of the change before.
        dropped: of a merge, what was said the second time and the record did not take, as `before`:
            another wording, source or confidence, metadata values of keys it has already, and so on.
        others: ids of the memories of its scope that the same step changed or made: what took the
            place of what.
        reason: why a judge decided so, "" for a change that nobody judged.
    """

    version: int
    kind: ChangeKind
    at: datetime
    before: Mapping[str, JsonValue] = field(default_factory=dict)
    dropped: Mapping[str, JsonValue] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Why a record was recalled and where it ranks. Higher is better in each.

    Attributes:
        similarity: (1 + cosine) / 2 of query and record in [0, 1]: identical is 1, a zero vector 0;
            None when there was no vector to compare. The only absolute number here: use it for
            thresholds.
        keyword: BM25 of the record inside its owner's records, 0 or more, None when no term matched.
        fused: both legs together, before the conversation around it counts, in [0, 1].
        relevance: the score before importance and recency, in [0, 1].
        importance: the record's own, in [0, 1].
        recency: exp(-age / time constant), in [0, 1].
        lifts: named contributions of the conversation around it (neighbours, session, speaker).
        rerank: what the reranker said, on its own scale; None when none was asked.
    """

    similarity: float | None = None
    keyword: float | None = None
    fused: float = 0.0
    relevance: float = 0.0
    importance: float = 0.0
    recency: float = 0.0
    lifts: Mapping[str, float] = field(default_factory=dict)
    rerank: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRecord:
    """A recalled record: `score` in [0, 1] orders one result and is not comparable across queries.

    `parent` is the larger chunk that a chunk of a document is part of, when the search was asked for it.
    When recall was asked to explain, `embedding` is the fingerprint of the vector space it was compared
    in (None where there was no vector), and `synced` whether the vector index has its newest state.
    """

    record: MemoryRecord
    score: float
    signals: Signals
    parent: MemoryRecord | None = None
    embedding: str | None = None
    synced: bool | None = None

    @property
    def scope(self) -> Scope:
        """Whose memory it is."""
        return self.record.scope

    @property
    def why(self) -> str:
        """In words why it is here: what it shares with the query, and what lifted it."""
        signals, reasons = self.signals, []
        if signals.rerank is not None:
            reasons.append(f"reranker {signals.rerank:.3g}")
        if signals.keyword:
            reasons.append(f"shares words (BM25 {signals.keyword:.2f})")
        if signals.similarity is not None:
            reasons.append(f"similar in meaning ({signals.similarity:.2f})")
        reasons += [_LIFTED[name] for name in signals.lifts if name in _LIFTED]
        return ", ".join(reasons) or "stands beside what was found"


_LIFTED = {
    "neighbour": "beside a turn that matches",
    "passage": "in a passage that matches",
    "session": "in a session that matches",
    "date": "from a time that the query names",
    "newer": "newer than others",
}


class Explanation(list[dict[str, object]]):
    """The rows of `RecallResult.explain`: a list of dicts, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        """What a notebook shows: one line a hit, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        columns = list(self[0]) if self else []
        return html.table(f"{len(self)} hits explained", columns, (list(row.values()) for row in self))


_SHOWN_OF_HITS = ("rank", "content", "score", "why", "similarity", "keyword", "recency", "scope", "id")


@dataclass(frozen=True, slots=True)
class RecallResult(Sequence[ScoredRecord]):
    """The answer of `recall`: a sequence of hits, best first.

    Attributes:
        hits: the hits themselves.
        missing: the legs that did not answer in full, `"dense"` or `"keyword"`; `"reranker"` when it
            failed or was too slow and the hits are in the order they had without it; or `"index"` when
            this process has no vector index and scans instead; empty when nothing is degraded.
        truncated: whether a cap or budget left something out that would have ranked next.
        recall_id: names this answer to `memory.feedback`; None when it is not logged (`Config.recall_log`).
    """

    hits: tuple[ScoredRecord, ...] = ()
    missing: frozenset[str] = frozenset()
    truncated: bool = False
    recall_id: str | None = None

    @overload
    def __getitem__(self, index: int) -> ScoredRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScoredRecord]: ...
    def __getitem__(self, index: int | slice) -> ScoredRecord | Sequence[ScoredRecord]:
        """The hit at `index`, or a tuple of hits for a slice."""
        return self.hits[index]

    def explain(self) -> Explanation:
        """A row a hit, best first, with all that decided its rank; a list of dicts for `pandas.DataFrame`.

        `rank` counts from 1; `scope` is readable; the numbers are those of `score` and `Signals`, with
        each lift in a column of its own (`lift_date`, ...); `why` says it in words.
        """
        names = sorted({name for hit in self.hits for name in hit.signals.lifts})
        return Explanation(
            {
                "rank": rank,
                "id": hit.record.id,
                "content": hit.record.content,
                "scope": str(hit.scope),
                "score": hit.score,
                "similarity": hit.signals.similarity,
                "keyword": hit.signals.keyword,
                "fused": hit.signals.fused,
                "relevance": hit.signals.relevance,
                "importance": hit.signals.importance,
                "recency": hit.signals.recency,
                "rerank": hit.signals.rerank,
                **{f"lift_{name}": hit.signals.lifts.get(name, 0.0) for name in names},
                "embedding": hit.embedding,
                "synced": hit.synced,
                "why": hit.why,
            }
            for rank, hit in enumerate(self.hits, 1)
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the hits, best first, with why they are there, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        missing = f"; not in full: {', '.join(sorted(self.missing))}" if self.missing else ""
        cut = "; more would have ranked next" if self.truncated else ""
        rows = ([row[name] for name in _SHOWN_OF_HITS] for row in self.explain())
        return html.table(f"{len(self)} hits, best first{missing}{cut}", _SHOWN_OF_HITS, rows)

    def __len__(self) -> int:
        """How many hits there are."""
        return len(self.hits)

    def __iter__(self) -> Iterator[ScoredRecord]:
        """The hits, best first."""
        return iter(self.hits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """One page of `list_records`: the records and the cursor of the next page, None at the end."""

    records: tuple[MemoryRecord, ...]
    cursor: str | None = None

    def __iter__(self) -> Iterator[MemoryRecord]:
        """The records of this page, in order."""
        return iter(self.records)

    def __len__(self) -> int:
        """How many records this page holds."""
        return len(self.records)

    def _repr_html_(self) -> str:
        """What a notebook shows: the records in order, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        columns = ("created", "content", "type", "tags", "scope", "id")
        more = "" if self.cursor is None else "; there are more"
        return html.table(
            f"{len(self)} records{more}",
            columns,
            ((one.created_at, one.content, one.type, one.tags, one.scope, one.id) for one in self.records),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReceipt:
    """What one delete removed, by kind.

    Attributes:
        records: memories, documents and other rows that are no turns.
        turns: what made messages searchable.
        messages, sessions, summaries: of conversations.
        vectors: those of records and turns; `turn_vectors` are those of turns among them.
        history: kept changes of records.
        notes: working memories.
        runs: run states.
        keywords: rows of the keyword index: one for each distinct word of each record and turn.
        outbox: changes that still waited for the vector index; that a record is gone is told it instead.
    """

    records: int = 0
    turns: int = 0
    messages: int = 0
    sessions: int = 0
    vectors: int = 0
    history: int = 0
    notes: int = 0
    runs: int = 0
    summaries: int = 0
    turn_vectors: int = 0
    keywords: int = 0
    outbox: int = 0

    @property
    def nothing(self) -> bool:
        """Whether there was nothing to remove."""
        kinds = (self.records, self.turns, self.messages, self.sessions, self.vectors)
        return not any((*kinds, self.notes, self.runs, self.summaries))

    def __add__(self, other: DeleteReceipt) -> DeleteReceipt:
        """What both deletes removed."""
        mine, theirs = dataclasses.asdict(self), dataclasses.asdict(other)
        return DeleteReceipt(**{kind: mine[kind] + theirs[kind] for kind in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The rows one leg of a recall may see: one space of one scope.

    In the space `messages` a session scope stands for its own turns and a user scope for the turns
    of all of that user's sessions: a turn is owned by the pair (user, session). In every other
    space a scope stands for itself alone.
    """

    scope: Scope
    space: str = MEMORIES

    @property
    def owner(self) -> Scope:
        """The scope whose rows share one keyword statistic and one index partition."""
        if self.space == MESSAGES and self.scope.parent is not None and self.scope.kind == "session":
            return self.scope.parent
        return self.scope

    @property
    def narrowed(self) -> bool:
        """Whether only a part of the owner's partition is meant (one session of a user)."""
        return self.owner is not self.scope

    def covers(self, scope: Scope) -> bool:
        """Whether a row of `scope` in this space belongs to this target."""
        return scope == self.scope or (
            self.space == MESSAGES and scope.kind == "session" and scope.parent == self.scope
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call that an assistant message asks for; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str = "{}"


class Role(enum.StrEnum):
    """The four roles every chat API knows; a framework's own role stays in the payload."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a session, kept verbatim.

    Attributes:
        role: one of the four neutral roles.
        text: its readable text, "" when there is none.
        id: unique in its session; made by the store when None. The same id again replaces.
        speaker: who said it, by name, when the conversation knows names.
        tool_calls: the calls an assistant message asks for.
        tool_call_id: the call that a tool message answers.
        created_at: when it was said; the store's clock when None. Never decides the order.
        agent_id, parent_agent_id: the agent that produced it, and that agent's parent.
        metadata: free JSON of the caller; part of what recall can filter on.
        payload: the framework's own message as JSON, returned exactly; None for neutral messages.
        format: who wrote and can read `payload`, such as `"langchain"`.
        indexed: whether the turn is made searchable; None decides by role (user and assistant).
        session, position: where it stands; set by the store, positions ascend in append order.
    """

    role: Role
    text: str
    id: str | None = None
    speaker: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    created_at: datetime | None = None
    agent_id: str | None = None
    parent_agent_id: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    payload: JsonValue = None
    format: str = "memkit"
    indexed: bool | None = None
    session: Scope | None = None
    position: int | None = None

    @property
    def is_turn(self) -> bool:
        """Whether recall can find it: something was said, by a person or the assistant."""
        said = bool(self.text.strip())
        if self.indexed is not None:
            return self.indexed and said
        return said and self.role in (Role.USER, Role.ASSISTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation: its scope (user and session), when it began and last grew, how long it is."""

    scope: Scope
    created_at: datetime
    updated_at: datetime
    messages: int
    title: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """One version of a JSON value that a store keeps for a scope.

    Attributes:
        key: its name, unique in its scope and kind.
        value: the JSON, with the key order it was written in.
        label: what values are listed by, such as the status of a run; None for none.
        version: 1 when it was made, one more with each change.
        created_at, updated_at: when it was made, and when this version was.
    """

    key: str
    value: JsonValue
    label: str | None = None
    version: int
    created_at: datetime
    updated_at: datetime


class NoteFormat(enum.StrEnum):
    """What a working memory holds: JSON with a schema, Markdown with a template, else free text."""

    JSON = "json"
    MARKDOWN = "markdown"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One version of a working memory.

    Attributes:
        scope: whose it is: a session, or a user.
        content: a dict for JSON, else text; None while it is empty.
        format: how it was written.
        version: 0 when nothing was ever written, else one more with each change, clearing included.
        fits: whether it is what is asked for now: its kind, and the schema. One that does not fit
            can be read and replaced.
        created_at, updated_at: when the note was begun and when this version was written; None with
            version 0.
    """

    scope: Scope
    content: str | dict[str, JsonValue] | None
    format: NoteFormat
    version: int
    fits: bool = True
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def text(self) -> str:
        """The content as it is shown to a model: JSON indented, text as it is, "" when empty."""
        if isinstance(self.content, dict):
            return json.dumps(self.content, ensure_ascii=False, indent=2)
        return self.content or ""

    def _repr_html_(self) -> str:
        """What a notebook shows: whose it is, its version and its whole text, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        state = f"version {self.version}" if self.version else "empty"
        return html.block(f"Working memory of {self.scope}, {self.format.value}, {state}", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The saved state of a workflow run: `state` is JSON, `status` the word it is listed by."""

    scope: Scope
    run_id: str
    state: JsonValue
    status: str
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The rolling summary of a session: `text` stands for all messages up to `position`, that one included."""

    session: Scope
    text: str
    position: int
    updated_at: datetime
