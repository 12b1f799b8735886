"""From what a caller passes to what is stored: every check happens here, before anything is written."""

from __future__ import annotations

import dataclasses
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar
from uuid import UUID

from memkit_core.config import Config
from memkit_core.errors import InvalidInputError, ScopeError, shown
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.models import (
    MEMORIES,
    MESSAGES,
    MemoryRecord,
    Message,
    Origin,
    RecordPatch,
    RecordType,
    Role,
    Status,
    ToolCall,
    point_id,
)
from memkit_core.omitted import Omitted
from memkit_core.scope import Scope, ScopeKind, id_problem, require_scope
from memkit_core.sequences import iterated
from memkit_core.text.clean import storable
from memkit_core.times import TimeLike, to_utc

E = TypeVar("E", bound=StrEnum)

_PRIORS: Mapping[RecordType, float] = {
    RecordType.PREFERENCE: 0.8,
    RecordType.PROFILE: 0.8,
    RecordType.FACT: 0.7,
    RecordType.SKILL: 0.7,
    RecordType.SUMMARY: 0.6,
}
_OTHER_PRIOR = 0.5
_LONGEST_TIMEOUT = 31_536_000.0
_DEEPEST_PAYLOAD, _LONGEST_INT = 200, 4096
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
        occurred_at=_time(new.occurred_at, "occurred_at"),
        expires_at=_time(new.expires_at, "expires_at"),
        valid_from=_time(new.valid_from, "valid_from"),
        agent_id=_optional_id(new.agent_id, "agent_id") or agent_id,
        source=_optional_id(new.source, "source"),
        confidence=None if new.confidence is None else checked_fraction(new.confidence, "confidence"),
        created_in_session_id=scope.id if scope.kind is ScopeKind.SESSION else None,
        source_message_ids=tuple(
            checked_id(i, "source_message_ids") for i in listed(new.source_message_ids, "source_message_ids")
        ),
        origin=checked_enum(Origin, new.origin, "origin"),
        key=_optional_id(new.key, "key"),
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
        expires_at=expires_at if isinstance(expires_at, Omitted) else _time(expires_at, "expires_at"),
        pinned=pinned if isinstance(pinned, Omitted) else checked_bool(pinned, "pinned"),
    )


def checked_content(content: object, *, max_chars: int) -> str:
    """Text that can be stored: not blank, not too long, NUL and lone surrogates replaced by U+FFFD."""
    text = checked_text(content, "content", max_chars=max_chars)
    if not text.strip():
        raise InvalidInputError(f"content must not be blank, got {shown(content)}")
    return text


def checked_text(text: object, name: str, *, max_chars: int) -> str:
    """Text that can be stored, blank or not: not too long, NUL and lone surrogates replaced by U+FFFD."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{name} must be a string, got {type(text).__name__} {shown(text)}")
    if len(text) > max_chars:
        raise InvalidInputError(
            f"{name} must have at most {max_chars} characters, got {len(text)}; split it, or raise "
            "Config.max_content_chars"
        )
    return storable(text)


def checked_id(value: object, name: str = "id") -> str:
    """`value` when it can be an id."""
    if problem := id_problem(value):
        raise InvalidInputError(f"{name} {problem}")
    return str(value)


def _optional_id(value: object, name: str) -> str | None:
    return None if value is None else checked_id(value, name)


def checked_bool(value: object, name: str) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name} must be True or False, got {shown(value)}")
    return value


def checked_fraction(value: object, name: str) -> float:
    """A number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise InvalidInputError(f"{name} must be a number from 0 to 1, got {shown(value)}")
    return float(value)


def checked_enum(kind: type[E], value: object, name: str) -> E:
    """The member of `kind` that `value` names."""
    try:
        # Text alone: an array of one text equals it, and a list without end cannot be printed.
        return kind(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidInputError(f"{name} must be one of {', '.join(kind)}, got {shown(value)}") from None


def listed(given: object, name: str) -> list[Any]:
    """What was given as a list, a single text standing for itself."""
    if isinstance(given, str):
        return [given]
    items = iterated(given)
    if items is None:
        raise InvalidInputError(f"{name} must be a list, got {shown(given)}")
    return list(items)


def checked_ids(given: object, name: str) -> list[str]:
    """A list of ids, or anything that gives ids one by one; a single text is refused."""
    if isinstance(given, str):
        raise InvalidInputError(f"{name} must be a list of ids, got the text {shown(given)}")
    return [checked_id(one, name) for one in listed(given, name)]


def checked_space(space: object) -> str:
    """The name of a space: `memories`, `messages`, `documents:<name>` or `store:<name>` (spec A0)."""
    name = checked_id(space, "space")
    kind, _, rest = name.partition(":")
    if name in (MEMORIES, MESSAGES) or (kind in ("documents", "store") and rest):
        return name
    raise InvalidInputError(
        f"space must be {MEMORIES!r}, {MESSAGES!r}, 'documents:<name>' or 'store:<name>', got {shown(space)}"
    )


def checked_tags(tags: object) -> tuple[str, ...]:
    """Tags lower-cased and without repeats, in the order given."""
    given = iterated(tags)
    if given is None:
        raise InvalidInputError(f"tags must be a list of strings, got {shown(tags)}")
    return tuple(dict.fromkeys(checked_id(tag, "tags").lower() for tag in given))


def checked_count(value: object, name: str, *, most: int) -> int:
    """A whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidInputError(f"{name} must be a whole number from 1 to {most}, got {shown(value)}")
    return value


def checked_budget(value: object, name: str) -> int:
    """A number of tokens, 0 or more."""
    return checked_amount(value, name, most=2**62)


def checked_mapping(value: object, name: str) -> Mapping[Any, Any]:
    """A mapping; empty for None."""
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping, got {shown(value)}")
    return value or {}


def checked_amount(value: object, name: str, *, most: int) -> int:
    """A whole number from 0 to `most`, where 0 stands for none."""
    return 0 if type(value) is int and value == 0 else checked_count(value, name, most=most)


def checked_timeout(value: object, name: str) -> float | None:
    """A number of seconds, 0 or more; None for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidInputError(
            f"{name} must be seconds, 0 or more, or None for no limit, got {shown(value)}"
        )
    # What no clock of the system can count is as good as no limit.
    return float(min(value, _LONGEST_TIMEOUT))


def checked_version(value: object) -> int:
    """The version that a stored value is expected to have, 0 for "there is none"."""
    return (
        0 if type(value) is int and value == 0 else checked_count(value, "expected_version", most=2**63 - 1)
    )


def _time(value: TimeLike | None, name: str) -> datetime | None:
    return None if value is None else to_utc(value, name=name)


def build_message(message: object, *, max_chars: int) -> Message:
    """The message as it can be stored: with an id, and NUL and lone surrogates replaced in its text."""
    if not isinstance(message, Message):
        raise InvalidInputError(f"messages must be memkit_core.Message values, got {shown(message)}")
    if not isinstance(message.text, str) or len(message.text) > max_chars:
        raise InvalidInputError(
            f"message text must be a string of at most {max_chars} characters, got {shown(message.text)}"
        )
    return dataclasses.replace(
        message,
        id=str(uuid.uuid4()) if message.id is None else checked_id(message.id, "message id"),
        role=checked_enum(Role, message.role, "role"),
        text=storable(message.text),
        speaker=_checked_text(message.speaker, "speaker") or None,
        tool_calls=tuple(_checked_call(call) for call in listed(message.tool_calls, "tool_calls")),
        tool_call_id=_checked_text(message.tool_call_id, "tool_call_id"),
        created_at=_time(message.created_at, "created_at"),
        agent_id=_optional_id(message.agent_id, "agent_id"),
        parent_agent_id=_optional_id(message.parent_agent_id, "parent_agent_id"),
        metadata=checked_metadata(message.metadata),
        payload=_storable_json(message.payload, 0),
        format=checked_id(message.format, "message format"),
        indexed=None if message.indexed is None else checked_bool(message.indexed, "indexed"),
    )


def _checked_call(call: object) -> ToolCall:
    if not isinstance(call, ToolCall):
        raise InvalidInputError(f"tool_calls must be memkit_core.ToolCall values, got {shown(call)}")
    return ToolCall(
        id=_checked_text(call.id, "tool call id") or "",
        name=_checked_text(call.name, "tool call name") or "",
        arguments=_checked_text(call.arguments, "tool call arguments") or "",
    )


def listed_messages(given: object, name: str) -> list[Any]:
    """What was given as a list of messages, not looked into; a single message is none."""
    if isinstance(given, Message):
        raise InvalidInputError(f"{name} takes a list of messages, got one; write [message]")
    items = iterated(given)
    if items is None:
        raise InvalidInputError(f"{name} takes a list of messages, got {shown(given)}")
    return list(items)


def _checked_text(value: object, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a string or None, got {shown(value)}")
    return value if value is None else storable(value)


def _storable_json(value: object, depth: int) -> JsonValue:
    """A payload as a store can hold it; what no JSON can hold is refused."""
    if depth > _DEEPEST_PAYLOAD:
        raise InvalidInputError(f"message payload is nested deeper than {_DEEPEST_PAYLOAD} levels")
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list | tuple):
        return [_storable_json(item, depth + 1) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {storable(key): _storable_json(item, depth + 1) for key, item in value.items()}
    if value is None or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and value.bit_length() <= _LONGEST_INT:
        return value
    raise InvalidInputError(f"message payload must be JSON, got {type(value).__name__} {shown(value)}")


def build_turn(message: Message, *, session: Scope, now: datetime) -> MemoryRecord:
    """The searchable record of a message: its text with speaker, session and time; a store adds its place."""
    assert message.id is not None
    said = message.created_at
    own = {"session_id": session.id, "role": message.role.value, "speaker": message.speaker}
    return MemoryRecord(
        id=message.id,
        scope=session,
        space=MESSAGES,
        content=message.text,
        type=RecordType.EVENT,
        importance=default_importance(RecordType.EVENT, message.text, important=False),
        # Ours win: a caller's metadata can never change whose turn it is.
        metadata={**message.metadata, **own},
        created_at=said or now,
        updated_at=now,
        occurred_at=said,
        agent_id=message.agent_id,
        created_in_session_id=session.id,
        origin=Origin.ASSISTANT if message.role is Role.ASSISTANT else Origin.USER,
    )


def turn_point(message: Message) -> UUID:
    """The point of the turn of a stored message that recall is to leave out."""
    if not isinstance(message, Message) or message.id is None or message.session is None:
        raise InvalidInputError(
            f"recall: exclude_messages takes messages as memory.sessions returns them, got {shown(message)}"
        )
    return point_id(message.session, MESSAGES, message.id)


def checked_scopes(given: object, *, verb: str) -> tuple[Scope, ...]:
    """The distinct scopes that one scope, or several, name; the narrow ones first."""
    if isinstance(given, Scope) or not isinstance(given, Sequence):
        return (require_scope(given, verb=verb),)
    if not given:
        raise ScopeError(f"{verb}: at least one scope is required")
    scopes = dict.fromkeys(require_scope(one, verb=verb) for one in given)
    return tuple(sorted(scopes, key=lambda scope: scope.kind.breadth))


def checked_statuses(given: object) -> tuple[Status, ...]:
    """The statuses that one, or several, name; at least one."""
    statuses = tuple(checked_enum(Status, one, "status") for one in listed(given, "status"))
    if not statuses:
        raise InvalidInputError(f"status must name at least one of {', '.join(Status)}")
    return statuses
