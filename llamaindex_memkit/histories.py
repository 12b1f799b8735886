"""Making a list of chat messages the history of a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llama_index.core.base.llms.types import ChatMessage

from llamaindex_memkit.convert import to_chat_message, to_message
from llamaindex_memkit.recalled import without_blocks
from memkit_core import Memory, Message, Scope
from memkit_core.conversation.windows import repaired
from memkit_core.stores.redacting import Redaction


def make_history(memory: Memory, messages: Iterable[ChatMessage], *, scope: Scope) -> None:
    """Have the log of a session say what `messages` say, in one transaction.

    What it already begins with stays as it is; the rest is appended, and what `messages` does not have
    is deleted with its searchable turns, as is what others append in the same moment.

    Raises:
        InvalidInputError: a message that cannot be stored; nothing changes.
    """
    given = list(map(to_message, without_blocks(messages)))
    # A caller may hold what was said, of which `Config.redact` took something out.
    redact = memory.config.redact
    stored = given if redact is None else [*map(Redaction(redact).message, given)]
    log = memory.sessions.read(scope=scope)
    # Most callers have the repaired view; its placeholders are not what happened.
    known = [len(one) for one in (log, repaired(log)) if _common(stored, one) == len(one)]
    kept = len(log) if known else _common(stored, log)
    new = given[max(known, default=kept) :]
    memory.sessions.replace(new, scope=scope, keep=[str(message.id) for message in log[:kept]])


def _common(given: Sequence[Message], stored: Sequence[Message]) -> int:
    """How many messages both lists begin with alike."""
    for n, (new, old) in enumerate(zip(given, stored, strict=False)):
        if new.payload != to_message(to_chat_message(old)).payload:
            return n
    return min(len(given), len(stored))
