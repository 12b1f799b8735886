"""What was recalled in a history: put into it as the core's fenced block, and taken out again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from llama_index.core.base.llms.types import ChatMessage, ContentBlock, MessageRole, TextBlock

from llamaindex_memkit.convert import SYSTEM_ROLES
from memkit_core import ScoredRecord
from memkit_core.conversation.tokens import MESSAGE_OVERHEAD, approximate_tokens
from memkit_core.prompts import RECALLED_FENCE, recalled_block, recalled_line

_OPEN, _CLOSE = RECALLED_FENCE.rsplit("\n", 1)
# Nothing inside can hold the closing tag, since all recalled text is escaped.
_FENCED = re.compile(rf"\n?{re.escape(_OPEN)}.*?{re.escape(_CLOSE)}", re.DOTALL)


def fenced(hits: Iterable[ScoredRecord], *, max_tokens: int) -> str:
    """The hits as one block of at most `max_tokens`, best first, "" when there is none that fits.

    Whole records only: one that does not fit is left out, and smaller ones behind it may still
    stand. `&`, `<` and `>` of recalled text are written as entities, so that it cannot close the fence.
    """
    room = max_tokens - approximate_tokens(RECALLED_FENCE) - MESSAGE_OVERHEAD
    lines: list[str] = []
    for hit in hits:
        line = recalled_line(hit)
        tokens = approximate_tokens(line) + 1
        if tokens <= room:
            room -= tokens
            lines.append(line)
    return recalled_block(lines)


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
    """
    kept = []
    for message in messages:
        if message.role not in SYSTEM_ROLES or not _FENCED.search(message.content or ""):
            kept.append(message)
            continue
        blocks = [block for block in map(_cleaned, message.blocks) if block is not None]
        if blocks:
            kept.append(message.model_copy(update={"blocks": blocks}))
    return kept


def _cleaned(block: ContentBlock) -> ContentBlock | None:
    if not isinstance(block, TextBlock) or not _FENCED.search(block.text):
        return block
    text = _FENCED.sub("", block.text)
    return TextBlock(text=text) if text.strip() else None
