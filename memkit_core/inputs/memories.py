"""The records and patches that memories to be added or changed become."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs.checks import (
    checked_bool,
    checked_content,
    checked_enum,
    checked_fraction,
    checked_id,
    checked_tags,
    listed,
    optional_id,
    optional_time,
)
from memkit_core.jsonvalues import checked_metadata
from memkit_core.models import MemoryRecord, Origin, RecordPatch, RecordType, Status
from memkit_core.omitted import Omitted
from memkit_core.scope import Scope, ScopeKind
from memkit_core.sequences import iterated
from memkit_core.times import TimeLike

_PRIORS: Mapping[RecordType, float] = {
    RecordType.PREFERENCE: 0.8,
    RecordType.PROFILE: 0.8,
    RecordType.FACT: 0.7,
    RecordType.SKILL: 0.7,
    RecordType.SUMMARY: 0.6,
}
_OTHER_PRIOR = 0.5
_LENGTH_BONUS, _FULL_LENGTH, _MARKED_BONUS = 0.2, 100, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to be added: what `Memory.add` takes, as a value for `Memory.add_many`.

    Only `content` is required. See `MemoryRecord` for the meaning of the fields; `important` adds
    to the default importance, `importance` replaces it; `pending` hides it until it is confirmed.
    """

    content: str
    id: str | None = None
    type: RecordType | str = RecordType.FACT
    tags: Iterable[str] = ()
    metadata: Mapping[str, object] | None = None
    importance: float | None = None
    important: bool = False
    pinned: bool = False
    occurred_at: TimeLike | None = None
    expires_at: TimeLike | None = None
    valid_from: TimeLike | None = None
    agent_id: str | None = None
    source: str | None = None
    confidence: float | None = None
    origin: Origin | str = Origin.USER
    source_message_ids: Sequence[str] = field(default=())
    key: str | None = None
    pending: bool = False


def default_importance(kind: RecordType, content: str, *, important: bool) -> float:
    """The importance of a record whose caller gave none, in [0, 1] (spec B2).

    A prior by type, up to 0.2 more for length (full at 100 characters), 0.3 more when marked.
    """
    length = _LENGTH_BONUS * min(len(content) / _FULL_LENGTH, 1.0)
    return min(_PRIORS.get(kind, _OTHER_PRIOR) + length + (_MARKED_BONUS if important else 0.0), 1.0)


def listed_news(items: object) -> list[NewMemory]:
    """What `add_many` was given, a text standing for a memory with this content."""
    given = iterated(items)
    if given is None:
        raise InvalidInputError(f"add_many takes a list of texts or NewMemory, got {shown(items)}")
    # What is neither is refused, in its turn, by `build_records`.
    return [NewMemory(content=item) if isinstance(item, str) else item for item in given]  # type: ignore[misc]


def build_records(
    news: Sequence[NewMemory], *, scope: Scope, now: datetime, config: Config, verb: str
) -> list[MemoryRecord]:
    """The records that `news` become in `scope`, in order.

    Raises:
        InvalidInputError: too many at once, or one that cannot be stored.
    """
    if len(news) > config.max_batch:
        raise InvalidInputError(
            f"{verb}: at most {config.max_batch} records in one call, got {len(news)}; split them"
        )
    for new in news:
        if not isinstance(new, NewMemory):
            raise InvalidInputError(f"{verb} takes texts or NewMemory, got {shown(new)}")
    return [
        build_record(new, scope=scope, now=now, agent_id=config.agent_id, max_chars=config.max_content_chars)
        for new in news
    ]


def build_record(
    new: NewMemory, *, scope: Scope, now: datetime, agent_id: str | None, max_chars: int
) -> MemoryRecord:
    """The record that `new` becomes in `scope`.

    Raises:
        InvalidInputError: names the field and the value that cannot be stored.
    """
    content = checked_content(new.content, max_chars=max_chars)
    kind = checked_enum(RecordType, new.type, "type")
    important = checked_bool(new.important, "important")
    importance = (
        default_importance(kind, content, important=important)
        if new.importance is None
        else checked_fraction(new.importance, "importance")
    )
    return MemoryRecord(
        id=str(uuid.uuid4()) if new.id is None else checked_id(new.id),
        scope=scope,
        content=content,
        type=kind,
        importance=importance,
        pinned=checked_bool(new.pinned, "pinned"),
        tags=checked_tags(new.tags),
        metadata=checked_metadata(new.metadata),
        created_at=now,
        updated_at=now,
        occurred_at=optional_time(new.occurred_at, "occurred_at"),
        expires_at=optional_time(new.expires_at, "expires_at"),
        valid_from=optional_time(new.valid_from, "valid_from"),
        agent_id=optional_id(new.agent_id, "agent_id") or agent_id,
        source=optional_id(new.source, "source"),
        confidence=None if new.confidence is None else checked_fraction(new.confidence, "confidence"),
        created_in_session_id=scope.id if scope.kind is ScopeKind.SESSION else None,
        source_message_ids=tuple(
            checked_id(i, "source_message_ids") for i in listed(new.source_message_ids, "source_message_ids")
        ),
        origin=checked_enum(Origin, new.origin, "origin"),
        key=optional_id(new.key, "key"),
        status=Status.PENDING if checked_bool(new.pending, "pending") else Status.ACTIVE,
    )


def build_patch(
    *,
    content: object,
    kind: object,
    importance: object,
    tags: object,
    metadata: object,
    expires_at: TimeLike | Omitted | None,
    pinned: object,
    max_chars: int,
) -> RecordPatch:
    """What an update changes, by the same checks as a new record.

    Raises:
        InvalidInputError: names the field and the value that cannot be stored, None included where it
            means nothing.
    """
    if metadata is None:
        raise InvalidInputError("metadata must be a dict, got None; a key given as None is removed")
    return RecordPatch(
        content=content if isinstance(content, Omitted) else checked_content(content, max_chars=max_chars),
        type=kind if isinstance(kind, Omitted) else checked_enum(RecordType, kind, "type"),
        importance=(
            importance if isinstance(importance, Omitted) else checked_fraction(importance, "importance")
        ),
        tags=tags if isinstance(tags, Omitted) else checked_tags(tags),
        metadata=metadata if isinstance(metadata, Omitted) else checked_metadata(metadata),
        expires_at=expires_at if isinstance(expires_at, Omitted) else optional_time(expires_at, "expires_at"),
        pinned=pinned if isinstance(pinned, Omitted) else checked_bool(pinned, "pinned"),
    )
