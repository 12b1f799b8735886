"""The message that carries a summary to a model, told from everything that was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memkit_core.conversation.tokens import message_tokens, tokens_of
from memkit_core.conversation.windows import fitted, shortened_turn
from memkit_core.models import Message, Role, Summary
from memkit_core.ports import TokenCounter
from memkit_core.prompts import summary_block

SUMMARY_TAG = "memkit_summary"
"""The key in the metadata of a summary message that tells it from what was said."""

_ID = "memkit-summary:"


def summary_message(summary: Summary) -> Message:
    """The summary as a message for a model: tagged, fenced as data, never searchable.

    The user's, since chat APIs take system messages only at the start and want a user's first.
    """
    return Message(
        role=Role.USER,
        text=summary_block(summary.text),
        id=f"{_ID}{summary.position}",
        metadata={SUMMARY_TAG: True},
        created_at=summary.updated_at,
        session=summary.session,
        indexed=False,
    )


def is_summary(message: Message) -> bool:
    """Whether a message is a summary that somebody put into the log, by tag, id or LangChain's mark."""
    if SUMMARY_TAG in message.metadata or (message.id or "").startswith(_ID):
        return True
    if message.text.startswith("<conversation_summary>"):
        return True
    data = message.payload.get("data") if isinstance(message.payload, Mapping) else None
    extra = data.get("additional_kwargs") if isinstance(data, Mapping) else None
    return isinstance(extra, Mapping) and extra.get("lc_source") == "summarization"


def spoken(messages: Sequence[Message]) -> list[Message]:
    """What can be summarised: neither system messages, which stay, nor earlier summaries."""
    return [message for message in messages if message.role is not Role.SYSTEM and not is_summary(message)]


def behind_summary(
    tagged: Message, view: Sequence[Message], max_tokens: int, count: TokenCounter
) -> list[Message]:
    """The summary message and what fits of the messages behind it."""
    together = [tagged, *view]
    if tokens_of(together, count) <= max_tokens:
        return together
    turns = fitted(view, max_tokens=max(max_tokens - message_tokens(tagged, count), 0), count=count)
    return [tagged, *turns] if turns else shortened_turn(together, max_tokens, count)
