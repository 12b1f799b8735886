"""The lines of an export file: what each holds, checked when it comes from outside. See `docs/transfer.md`."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from memkit_core.errors import MemkitError
from memkit_core.inputs import checked_id, checked_space
from memkit_core.jsonvalues import JsonValue, canonical_json, checked_metadata
from memkit_core.models import (
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
from memkit_core.scope import Scope
from memkit_core.text.clean import storable
from memkit_core.times import to_utc

FORMAT, VERSION = "memkit-export", 1
"""What the first line of every export says."""
_FLOATS = np.dtype("<f4")


def _checked(check: Callable[[Any], Any]) -> AfterValidator:
    """`check` with memkit's errors told as pydantic wants to hear them."""

    def run(value: Any) -> Any:
        try:
            return check(value)
        except MemkitError as error:
            raise ValueError(str(error)) from error

    return AfterValidator(run)


def _stored_text(text: str) -> str:
    if storable(text) is not text:
        raise ValueError("the text holds NUL or a lone surrogate")
    return text


def _scope(path: list[tuple[str, str]]) -> Scope:
    try:
        return _scope_of(tuple(path))
    except ValueError as error:  # of a kind that is none, as well as a ScopeError
        raise ValueError(f"no scope: {error}") from error


@lru_cache(maxsize=1024)
def _scope_of(path: tuple[tuple[str, str], ...]) -> Scope:
    return Scope.from_path(path)


def _finite(value: Any) -> Any:
    json.dumps(value, allow_nan=False)
    return value


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no base64: {error}") from error


_Text = Annotated[str, AfterValidator(_stored_text)]
_Id = Annotated[str, _checked(checked_id)]
_Space = Annotated[str, _checked(checked_space)]
_Time = Annotated[AwareDatetime, _checked(to_utc)]
_Path = Annotated[list[tuple[str, str]], Field(min_length=1, max_length=8), AfterValidator(_scope)]
_Metadata = Annotated[dict[str, Any], _checked(checked_metadata)]
_Json = Annotated[Any, AfterValidator(_finite)]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Version = Annotated[int, Field(ge=1, lt=2**63)]
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class _Line(BaseModel):
    # Strict: a number written as text is a damaged file, not a number.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)


class SpaceEntry(_Line):
    """A vector space that records of the file have vectors of."""

    fingerprint: str
    model: _Id
    revision: _Text
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
    lines: _Count


class DeletedLine(_Line):
    """What was deleted since the watermark that the header names as `after`."""

    kind: Literal["deleted"]
    what: RowKind
    owner: _Digest
    name: _Digest
    scope: _Path | None
    made_at: _Time | None

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
    scope: _Path
    title: _Text | None
    metadata: _Metadata
    created_at: _Time
    updated_at: _Time
    next_position: _Count

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

    id: _Text
    name: _Text
    arguments: _Text


class MessageLine(_Line):
    """A message of the session above it."""

    kind: Literal["message"]
    scope: _Path
    position: _Count
    id: _Id
    role: Role
    text: _Text
    speaker: _Text | None
    tool_calls: list[CallEntry]
    tool_call_id: _Text | None
    created_at: _Time
    agent_id: _Id | None
    parent_agent_id: _Id | None
    metadata: _Metadata
    payload: Any
    format: _Text
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
    scope: _Path
    text: _Text
    position: _Count
    updated_at: _Time

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:  # noqa: ARG002 - as of every line
        """The row that a store takes."""
        scope: Any = self.scope
        return Summary(session=scope, text=self.text, position=self.position, updated_at=self.updated_at)


class VersionEntry(_Line):
    """One version of a value."""

    version: _Version
    label: _Text | None
    updated_at: _Time
    value: _Json


class ValueLine(_Line):
    """A stored value, such as a working memory (`notes`) or a run state (`runs`), oldest version first."""

    kind: Literal["value"]
    scope: _Path
    of: _Id
    key: _Text
    created_at: _Time
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

    version: _Version
    kind: ChangeKind
    at: _Time
    before: Annotated[dict[str, Any], AfterValidator(_finite)]


class RecordLine(_Line):
    """A record of any space, with its vector and its history."""

    kind: Literal["record"]
    scope: _Path
    space: _Space
    id: _Id
    content: _Text
    type: RecordType
    key: _Text | None
    importance: _Fraction
    pinned: bool
    status: Status
    tags: list[_Id]
    metadata: _Metadata
    created_at: _Time
    updated_at: _Time
    occurred_at: _Time | None
    last_accessed_at: _Time | None
    access_count: _Count
    expires_at: _Time | None
    valid_from: _Time | None
    valid_until: _Time | None
    version: _Version
    mentions: _Version
    supersedes: _Text | None
    superseded_by: _Text | None
    agent_id: _Text | None
    source: _Text | None
    confidence: _Fraction | None
    created_in_session_id: _Text | None
    promoted_from_id: _Text | None
    compacted_from_ids: list[_Text]
    source_message_ids: list[_Text]
    origin: Origin
    vector_space: str | None
    vector: Annotated[str, AfterValidator(_decoded)] | None
    history: list[ChangeEntry]

    def row(self, spaces: dict[str, VectorSpace]) -> MovedRow:
        """The row that a store takes."""
        return MovedRecord(
            record=self._record(),
            vector_space=self._vector_space(spaces),
            vector=self._vector(spaces),
            history=tuple(
                RecordChange(version=one.version, kind=one.kind, at=one.at, before=one.before)
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
        if packed and len(packed) != _FLOATS.itemsize * space.dimension:
            raise ValueError(
                f"the vector has {len(packed)} bytes; {space.fingerprint} has {space.dimension} dimensions "
                f"of {_FLOATS.itemsize} bytes"
            )
        vector = np.frombuffer(packed, _FLOATS).astype(np.float32)
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


# --------------------------------------------------------------------------------- writing


def written(row: MovedRow) -> dict[str, object]:
    """The line of a row, its keys in the order they are written."""
    if isinstance(row, MovedRecord):
        return _record_line(row)
    if isinstance(row, MovedMessage):
        return _message_line(row.message)
    if isinstance(row, MovedSession):
        session = row.session
        return {
            "kind": "session", "scope": session.scope.path, "title": session.title,
            "metadata": _sorted(session.metadata), "created_at": _iso(session.created_at),
            "updated_at": _iso(session.updated_at), "next_position": row.next_position,
        }  # fmt: skip
    if isinstance(row, Summary):
        return {
            "kind": "summary", "scope": row.session.path, "text": row.text, "position": row.position,
            "updated_at": _iso(row.updated_at),
        }  # fmt: skip
    if isinstance(row, MovedValue):
        newest = row.versions[-1]
        versions = [
            {"version": one.version, "label": one.label, "updated_at": _iso(one.updated_at), "value": one.value}
            for one in row.versions
        ]  # fmt: skip
        return {
            "kind": "value", "scope": row.scope.path, "of": row.kind, "key": newest.key,
            "created_at": _iso(newest.created_at), "versions": versions,
        }  # fmt: skip
    return {
        "kind": "deleted", "what": row.kind, "owner": row.owner.hex(), "name": row.name.hex(),
        "scope": None if row.scope is None else row.scope.path, "made_at": _maybe(row.made_at),
    }  # fmt: skip


def _record_line(row: MovedRecord) -> dict[str, object]:
    record = row.record
    return {
        "kind": "record", "scope": record.scope.path, "space": record.space, "id": record.id,
        "content": record.content, "type": record.type, "key": record.key, "importance": record.importance,
        "pinned": record.pinned, "status": record.status, "tags": record.tags, "metadata": _sorted(record.metadata),
        "created_at": _iso(record.created_at), "updated_at": _iso(record.updated_at),
        "occurred_at": _maybe(record.occurred_at), "last_accessed_at": _maybe(record.last_accessed_at),
        "access_count": record.access_count, "expires_at": _maybe(record.expires_at),
        "valid_from": _maybe(record.valid_from), "valid_until": _maybe(record.valid_until),
        "version": record.version, "mentions": record.mentions, "supersedes": record.supersedes,
        "superseded_by": record.superseded_by, "agent_id": record.agent_id, "source": record.source,
        "confidence": record.confidence, "created_in_session_id": record.created_in_session_id,
        "promoted_from_id": record.promoted_from_id, "compacted_from_ids": record.compacted_from_ids,
        "source_message_ids": record.source_message_ids, "origin": record.origin,
        "vector_space": None if row.vector_space is None else row.vector_space.fingerprint,
        "vector": None if row.vector is None else _packed(row.vector),
        "history": [
            {"version": one.version, "kind": one.kind, "at": _iso(one.at), "before": _sorted(one.before)}
            for one in row.history
        ],
    }  # fmt: skip


def _packed(vector: Vector) -> str:
    return base64.b64encode(vector.astype(_FLOATS).tobytes()).decode() if vector.any() else ""


def _message_line(message: Message) -> dict[str, object]:
    return {
        "kind": "message", "scope": None if message.session is None else message.session.path,
        "position": message.position, "id": message.id, "role": message.role, "text": message.text,
        "speaker": message.speaker,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ],
        "tool_call_id": message.tool_call_id, "created_at": _maybe(message.created_at),
        "agent_id": message.agent_id, "parent_agent_id": message.parent_agent_id,
        "metadata": _sorted(message.metadata), "payload": message.payload, "format": message.format,
        "indexed": message.indexed,
    }  # fmt: skip


def _sorted(free: Mapping[str, JsonValue]) -> JsonValue:
    """Free metadata as stores keep it, its keys in order."""
    return json.loads(canonical_json(dict(free))) if free else {}


def _iso(moment: datetime) -> str:
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _maybe(moment: datetime | None) -> str | None:
    return None if moment is None else _iso(moment)
