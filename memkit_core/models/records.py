"""Records, their changes, and what a page or a delete of them gives."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from memkit_core.jsonvalues import JsonValue
from memkit_core.models.spaces import CHUNK, DOCUMENTS, MEMORIES, MESSAGES, point_id
from memkit_core.omitted import OMITTED, Omitted
from memkit_core.plurals import plural
from memkit_core.scope import Scope


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

    def telling(self) -> dict[str, object]:
        """The fields that say something of this record: what it always has, and what is not the default."""
        defaults = {one.name: one.default for one in dataclasses.fields(self)}
        always = ("id", "scope", "content", "type", "status", "importance", "created_at")
        values = {name: getattr(self, name) for name in defaults}
        told = {name: value for name, value in values.items() if value and value != defaults[name]}
        return {name: values[name] for name in always} | told

    def _repr_html_(self) -> str:
        """What a notebook shows: the fields that say something of this record, escaped."""
        # Only notebooks need it.
        from memkit_core import html

        return html.fields("Memory record", self.telling())


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
            f"{len(self)} {plural(len(self), 'record')}{more}",
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
