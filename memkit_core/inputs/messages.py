"""The messages and turns that what was said becomes."""

from __future__ import annotations

import dataclasses
import math
import uuid
from datetime import datetime
from typing import Any
from uuid import UUID

from memkit_core.errors import InvalidInputError, shown
from memkit_core.inputs.checks import (
    checked_bool,
    checked_enum,
    checked_id,
    listed,
    optional_id,
    optional_time,
)
from memkit_core.inputs.memories import default_importance
from memkit_core.jsonvalues import JsonValue, checked_metadata
from memkit_core.models import MESSAGES, MemoryRecord, Message, Origin, RecordType, Role, ToolCall, point_id
from memkit_core.scope import Scope
from memkit_core.sequences import iterated
from memkit_core.text.clean import storable

_DEEPEST_PAYLOAD, _LONGEST_INT = 200, 4096


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
        text=storable(str.__str__(message.text)),
        speaker=_checked_text(message.speaker, "speaker") or None,
        tool_calls=tuple(_checked_call(call) for call in listed(message.tool_calls, "tool_calls")),
        tool_call_id=_checked_text(message.tool_call_id, "tool_call_id"),
        created_at=optional_time(message.created_at, "created_at"),
        agent_id=optional_id(message.agent_id, "agent_id"),
        parent_agent_id=optional_id(message.parent_agent_id, "parent_agent_id"),
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
    return value if value is None else storable(str.__str__(value))


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
