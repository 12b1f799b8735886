"""What memory adds to a history: put into its system text, and taken out again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock

from llamaindex_memkit.convert import SYSTEM_ROLES
from memkit_core import InvalidInputError
from memkit_core.errors import shown
from memkit_core.inputs import listed
from memkit_core.prompts import without_added


def with_block(history: Sequence[ChatMessage], block: str) -> list[ChatMessage]:
    """The history led by one system text that ends with `block`; its first message may be changed."""
    text = TextBlock(text=block)
    if history and history[0].role in SYSTEM_ROLES:
        history[0].blocks.append(text)
        return list(history)
    return [ChatMessage(role=MessageRole.SYSTEM, blocks=[text]), *history]


def without_blocks(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages without what `with_block` put into them, for a history that is handed back.

    What was recalled must not be stored as said. A system message of nothing else is left out;
    messages without a block are the same objects.

    Raises:
        InvalidInputError: it is no list of `ChatMessage`s.
    """
    kept = []
    for message in checked_messages(messages):
        text = message.content or ""
        if message.role not in SYSTEM_ROLES or without_added(text) == text:
            kept.append(message)
            continue
        blocks = [block for block in map(_cleaned, message.blocks) if block is not None]
        if blocks:
            kept.append(message.model_copy(update={"blocks": blocks}))
    return kept


def checked_messages(given: object) -> list[ChatMessage]:
    """What was given, when it is a list of LlamaIndex messages.

    Raises:
        InvalidInputError: it is not.
    """
    if isinstance(given, ChatMessage):
        raise InvalidInputError("a list of messages is expected, got one; write [message]")
    messages = listed(given, "messages")
    for message in messages:
        if not isinstance(message, ChatMessage):
            raise InvalidInputError(f"messages must be LlamaIndex ChatMessages, got {shown(message)}")
    return messages


def _cleaned(block: ContentBlock) -> ContentBlock | None:
    if not isinstance(block, TextBlock) or (text := without_added(block.text)) == block.text:
        return block
    return TextBlock(text=text) if text.strip() else None
