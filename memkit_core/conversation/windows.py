"""Views of a message log that a chat API accepts. The log itself always stays what happened."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_core.conversation.tokens import MESSAGE_OVERHEAD, approximate_tokens, message_text
from memkit_core.models import Message, Role, ToolCall
from memkit_core.ports import TokenCounter

NO_RESULT = "[No result of this call was recorded.]"
"""The text that stands in for the result of a call that never got one."""


def repaired(log: Sequence[Message]) -> list[Message]:
    """The log with every tool call answered: what can be sent to a model, the same on every read.

    Each result stands right behind its call, in the order they came; a call without a result is
    answered by a placeholder (`NO_RESULT`); a result without a call is left out. Nothing is
    trimmed, and the stored log is not changed.
    """
    answers = _answers(log)
    view: list[Message] = []
    for place, message in enumerate(log):
        if message.role is Role.TOOL:
            continue
        view.append(message)
        view.extend(_answer(message, call, place, answers) for call in message.tool_calls)
    return view


def _answer(asked: Message, call: ToolCall, place: int, answers: dict[tuple[int, str], Message]) -> Message:
    # Taken out, so that a second call with the same id does not get the same result again.
    key = (place, call.id)
    return answers.pop(key) if key in answers else _placeholder(asked, call)


def _answers(log: Sequence[Message]) -> dict[tuple[int, str], Message]:
    """The result of each call, by the place of the message that asks and the call's id.

    Some models use an id again in a later turn (`call_0`), so a result belongs to the newest call
    before it. One that came before its call was even logged goes to the first call with its id.
    """
    answers: dict[tuple[int, str], Message] = {}
    asked: dict[str, int] = {}
    early: dict[str, Message] = {}
    for place, message in enumerate(log):
        for call in message.tool_calls:
            if call.id not in asked and call.id in early:
                answers[place, call.id] = early[call.id]
            asked[call.id] = place
        if message.role is Role.TOOL and message.tool_call_id is not None:
            if message.tool_call_id in asked:
                answers.setdefault((asked[message.tool_call_id], message.tool_call_id), message)
            else:
                early.setdefault(message.tool_call_id, message)
    return answers


def _placeholder(asked: Message, call: ToolCall) -> Message:
    return Message(
        role=Role.TOOL,
        text=NO_RESULT,
        id=f"{asked.id}:{call.id}",
        tool_call_id=call.id,
        created_at=asked.created_at,
        session=asked.session,
        indexed=False,
    )


def fitted(
    view: Sequence[Message],
    *,
    last: int | None = None,
    max_tokens: int | None = None,
    count: TokenCounter = approximate_tokens,
) -> list[Message]:
    """The end of a repaired view that fits, as whole turns: valid for a chat API.

    A turn is a user message with all that follows it up to the next one, so the first message
    after the system messages is the user's and no call loses its results. The newest turn is kept
    even when it alone is too large; without any user message only system messages are returned.

    Args:
        view: a view as `repaired` makes it.
        last: the most messages to return beside the system messages, None for no limit.
        max_tokens: the most tokens, system messages included, None for no limit.
        count: how many tokens a text takes.
    """
    system = [message for message in view if message.role is Role.SYSTEM]
    turns: list[list[Message]] = []
    for message in view:
        if message.role is Role.USER:
            turns.append([message])
        elif message.role is not Role.SYSTEM and turns:
            turns[-1].append(message)
    room = None if max_tokens is None else max_tokens - tokens_of(system, count)
    kept: list[list[Message]] = []
    messages = tokens = 0
    for turn in reversed(turns):
        messages += len(turn)
        tokens += tokens_of(turn, count) if room is not None else 0
        if kept and ((last is not None and messages > last) or (room is not None and tokens > room)):
            break
        kept.append(turn)
    return system + [message for turn in reversed(kept) for message in turn]


def tokens_of(messages: Sequence[Message], count: TokenCounter = approximate_tokens) -> int:
    """What these messages take of a model's context."""
    return sum(count(message_text(message)) + MESSAGE_OVERHEAD for message in messages)
