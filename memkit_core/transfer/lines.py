"""The lines of an export file: what each holds, checked when it comes from outside. See `docs/transfer.md`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from memkit_core.models import (
    MEMORIES,
    ChangeKind,
    MemoryRecord,
    Message,
    Origin,
    RecordChange,
    RecordType,
    Role,
    Session,
    Status,
    StoredValue,
    Summary,
    ToolCall,
)
from memkit_core.ports import (
    MovedMessage,
    MovedRecord,
    MovedRow,
    MovedSession,
    MovedValue,
    RowKind,
    Tombstone,
    Vector,
    VectorSpace,
)
from memkit_core.transfer.fields import (
    FLOATS,
    Before,
    Count,
    Digest,
    Fraction,
    Id,
    Json,
    Metadata,
    Packed,
    ScopePath,
    Space,
    Text,
    Time,
    Version,
)

FORMAT, VERSION = "memkit-export", 1
"""What the first line of every export says."""


class _Line(BaseModel):
    # Strict: a number written as text is a damaged file, not a number.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)


class SpaceEntry(_Line):
    """A vector space that records of the file have vectors of."""

    fingerprint: str
    model: Id
    revision: Text
    dimension: Annotated[int, Field(ge=1, le=65_536)]
    given: bool

    def space(self) -> VectorSpace:
        """The space itself."""
        return VectorSpace(
            model=self.model, revision=self.revision, dimension=self.dimension, given=self.given
        )


class HeaderLine(_Line):
    """The first line."""

    kind: Literal["header"]
    format: str
    version: int
    store: str
    watermark: str
    after: str | None
    vector_spaces: list[SpaceEntry]


class EndLine(_Line):
    """The last line: a file without it was cut off. `lines` counts those between header and end."""

    kind: Literal["end"]
    lines: Count


class DeletedLine(_Line):
    """What was deleted since the watermark that the header names as `after`."""

    kind: Literal["deleted"]
    what: RowKind
    owner: Digest
    name: Digest
    scope: ScopePath | None
    made_at: Time | None

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        owner = bytes.fromhex(self.owner)
        if scope is not None and scope.digest != owner:
            raise ValueError("owner is not the digest of scope")
        return Tombstone(
            kind=self.what, owner=owner, name=bytes.fromhex(self.name), scope=scope, made_at=self.made_at
        )


class SessionLine(_Line):
    """A session; its messages and its summary follow."""

    kind: Literal["session"]
    scope: ScopePath
    title: Text | None
    metadata: Metadata
    created_at: Time
    updated_at: Time
    next_position: Count

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        if scope.kind != "session":
            raise ValueError(f"{scope} is no session")
        session = Session(
            scope=scope,
            created_at=self.created_at,
            updated_at=self.updated_at,
            messages=0,
            title=self.title,
            metadata=self.metadata,
        )
        return MovedSession(session=session, next_position=self.next_position)


class CallEntry(_Line):
    """A tool call of a message."""

    id: Text
    name: Text
    arguments: Text


class MessageLine(_Line):
    """A message of the session above it."""

    kind: Literal["message"]
    scope: ScopePath
    position: Count
    id: Id
    role: Role
    text: Text
    speaker: Text | None
    tool_calls: list[CallEntry]
    tool_call_id: Text | None
    created_at: Time
    agent_id: Id | None
    parent_agent_id: Id | None
    metadata: Metadata
    payload: Any
    format: Text
    indexed: bool | None

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        calls = tuple(
            ToolCall(id=call.id, name=call.name, arguments=call.arguments) for call in self.tool_calls
        )
        return MovedMessage(
            message=Message(
                session=scope, position=self.position, id=self.id, role=self.role, text=self.text,
                speaker=self.speaker, tool_calls=calls, tool_call_id=self.tool_call_id,
                created_at=self.created_at, agent_id=self.agent_id, parent_agent_id=self.parent_agent_id,
                metadata=self.metadata, payload=self.payload, format=self.format, indexed=self.indexed,
            )
        )  # fmt: skip


class SummaryLine(_Line):
    """The summary of the session above it."""

    kind: Literal["summary"]
    scope: ScopePath
    text: Text
    position: Count
    updated_at: Time

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        return Summary(session=scope, text=self.text, position=self.position, updated_at=self.updated_at)


class VersionEntry(_Line):
    """One version of a value."""

    version: Version
    label: Text | None
    updated_at: Time
    value: Json


class ValueLine(_Line):
    """A stored value, such as a working memory (`notes`) or a run state (`runs`), oldest version first."""

    kind: Literal["value"]
    scope: ScopePath
    of: Id
    key: Text
    created_at: Time
    versions: Annotated[list[VersionEntry], Field(min_length=1)]

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        numbers = [one.version for one in self.versions]
        if numbers != sorted(set(numbers)):
            raise ValueError("the versions are not in order")
        versions = tuple(
            StoredValue(
                key=self.key, value=one.value, label=one.label, version=one.version,
                created_at=self.created_at, updated_at=one.updated_at,
            )
            for one in self.versions
        )  # fmt: skip
        return MovedValue(scope=scope, kind=self.of, versions=versions)


class ChangeEntry(_Line):
    """A change in the history of a record."""

    version: Version
    kind: ChangeKind
    at: Time
    before: Before
    dropped: Before
    others: list[str]
    reason: str = ""


class RecordLine(_Line):
    """A record of any space, with its vector and its history."""

    kind: Literal["record"]
    scope: ScopePath
    space: Space
    id: Id
    content: Text
    type: RecordType
    key: Text | None
    importance: Fraction
    pinned: bool
    status: Status
    tags: list[Id]
    metadata: Metadata
    created_at: Time
    updated_at: Time
    occurred_at: Time | None
    last_accessed_at: Time | None
    access_count: Count
    expires_at: Time | None
    valid_from: Time | None
    valid_until: Time | None
    version: Version
    mentions: Version
    supersedes: Text | None
    superseded_by: Text | None
    agent_id: Text | None
    source: Text | None
    confidence: Fraction | None
    created_in_session_id: Text | None
    promoted_from_id: Text | None
    compacted_from_ids: list[Text]
    source_message_ids: list[Text]
    origin: Origin
    vector_space: str | None
    vector: Packed | None
    history: list[ChangeEntry]

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:
        """The row that a store takes."""
        if self.history and self.space != MEMORIES:
            raise ValueError("only memories have a history")
        return MovedRecord(
            record=self._record(),
            vector_space=self._vector_space(spaces),
            vector=self._vector(spaces),
            history=tuple(
                RecordChange(
                    version=one.version,
                    kind=one.kind,
                    at=one.at,
                    before=one.before,
                    dropped=one.dropped,
                    others=tuple(one.others),
                    reason=one.reason,
                )
                for one in self.history
            ),
        )

    def _record(self) -> MemoryRecord:
        scope: Any = self.scope
        return MemoryRecord(
            scope=scope, space=self.space, id=self.id, content=self.content, type=self.type, key=self.key,
            importance=self.importance, pinned=self.pinned, status=self.status, tags=tuple(self.tags),
            metadata=self.metadata, created_at=self.created_at, updated_at=self.updated_at,
            occurred_at=self.occurred_at, last_accessed_at=self.last_accessed_at,
            access_count=self.access_count, expires_at=self.expires_at, valid_from=self.valid_from,
            valid_until=self.valid_until, version=self.version, mentions=self.mentions,
            supersedes=self.supersedes, superseded_by=self.superseded_by, agent_id=self.agent_id,
            source=self.source, confidence=self.confidence,
            created_in_session_id=self.created_in_session_id, promoted_from_id=self.promoted_from_id,
            compacted_from_ids=tuple(self.compacted_from_ids),
            source_message_ids=tuple(self.source_message_ids), origin=self.origin,
        )  # fmt: skip

    def _vector_space(self, spaces: dict[str, VectorSpace]) -> VectorSpace | None:
        if self.vector_space is None:
            return None
        if self.vector_space not in spaces:
            raise ValueError(f"the header names no vector space {self.vector_space!r}")
        return spaces[self.vector_space]

    def _vector(self, spaces: dict[str, VectorSpace]) -> Vector | None:
        packed: Any = self.vector
        space = self._vector_space(spaces)
        if packed is None:
            return None
        if space is None:
            raise ValueError("the vector is of no vector space")
        if packed and len(packed) != FLOATS.itemsize * space.dimension:
            raise ValueError(
                f"the vector has {len(packed)} bytes; {space.fingerprint} has {space.dimension} dimensions "
                f"of {FLOATS.itemsize} bytes"
            )
        vector = np.frombuffer(packed, FLOATS).astype(np.float32)
        if not np.isfinite(vector).all():
            raise ValueError("the vector is not finite")
        return vector


Line = DeletedLine | SessionLine | MessageLine | SummaryLine | ValueLine | RecordLine | HeaderLine | EndLine
_LINES: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


def parsed(line: bytes) -> Line:
    """What a line says.

    Raises:
        ValueError: why it is no line of an export.
    """
    try:
        return _LINES.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from error
