"""Answers of a model that hold nothing."""

from __future__ import annotations

from collections.abc import Mapping

from memkit_core.jsonvalues import JsonValue
from memkit_core.models import Message, Role

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_THOUGHT_TYPES = frozenset({"thinking", "reasoning", "redacted_thinking"})
# What adapters keep beside the content and send as something of its own.
_BESIDE = ("function_call", "tool_calls", "audio")


def is_empty(message: Message) -> bool:
    """Whether an assistant message neither says, calls nor shows anything, whatever was thought.

    A payload that is not understood counts as something.
    """
    if message.role is not Role.ASSISTANT or message.text.strip() or message.tool_calls:
        return False
    payload = message.payload
    if payload is None:
        return True
    # LangChain says what kind of message it is and keeps its fields under "data"; LlamaIndex does neither.
    if not isinstance(payload, Mapping) or payload.get("type", "ai") != "ai":
        return False
    data = payload.get("data")
    fields = data if isinstance(data, Mapping) else payload
    kwargs = fields.get("additional_kwargs")
    beside = kwargs if isinstance(kwargs, Mapping) else {}
    if fields.get("invalid_tool_calls") or any(beside.get(name) for name in _BESIDE):
        return False
    held = fields.get("content", fields.get("blocks"))
    return held == "" or (isinstance(held, list) and all(map(_is_empty_block, held)))


def _is_empty_block(block: JsonValue) -> bool:
    if not isinstance(block, Mapping):
        return isinstance(block, str) and not block.strip()
    kind = str(block.get("type") or block.get("block_type") or "")
    return kind in _THOUGHT_TYPES or (kind in _TEXT_TYPES and not str(block.get("text") or "").strip())
