"""What every store does to a turn when it gives its message a place."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import SEARCHABLE, MemoryRecord, Message, ToolCall


def placed_turn(turn: MemoryRecord, position: int) -> MemoryRecord:
    """The turn with the position of its message in its metadata, where recall and filters find it."""
    return dataclasses.replace(turn, metadata={**turn.metadata, "position": position})


def words_of(message: Message) -> tuple[str, str, str | None, tuple[ToolCall, ...]]:
    """What a message says: a summary that covers it holds until these change."""
    return message.role.value, message.text, message.speaker, message.tool_calls


def is_searchable(metadata: Mapping[str, JsonValue]) -> bool:
    """Whether a session with this metadata has its turns made searchable."""
    return metadata.get(SEARCHABLE) is not False
