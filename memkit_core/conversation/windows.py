"""Views of a message log that a chat API accepts. The log itself always stays what happened."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from memkit_core.conversation.empty import is_empty
from memkit_core.conversation.tokens import approximate_tokens, holds_media, message_tokens, tokens_of
from memkit_core.models import Message, Role, ToolCall
from memkit_core.ports import TokenCounter

NO_RESULT = "[No result of this call was recorded.]"
"""The text that stands in for the result of a call that never got one."""
LEFT_OUT = "\n[... {} characters left out ...]\n"
"""What stands in a window for the middle of a message that is too large for it."""

NO_MEDIA = "\n[... an attachment left out ...]"
"""What stands in a text for the images and documents of a message that is sent without its payload."""

# No token of natural text is longer on average, so more characters never fit.
_CHARS_A_TOKEN = 8


# ------------------------------------------------------------------ repair


def repaired(log: Sequence[Message]) -> list[Message]:
    """The log with every tool call answered: what can be sent to a model, the same on every read.

    Each result stands right behind its call, in the order they came; a call without a result is
    answered by a placeholder (`NO_RESULT`); a result without a call is left out, and so is an
    assistant message that says nothing, which some models refuse with all that follows. Which result
    belongs to a call depends on nothing before the user message that the call follows, so a window
    of whole turns is repaired as the whole log is. Nothing is trimmed, and the stored log is not
    changed.
    """
    answers = _answers(log)
    view: list[Message] = []
    for place, message in enumerate(log):
        if message.role is Role.TOOL or is_empty(message):
            continue
        view.append(message)
        if message.role is Role.ASSISTANT:
            found = {key: iter(answers[place, key]) for key in {call.id for call in message.tool_calls}}
            results = [
                next(found[call.id], None) or _placeholder(message, call, number)
                for number, call in enumerate(message.tool_calls)
            ]
            # One message may hold the results of several calls.
            view.extend({id(result): result for result in results}.values())
    return view


def _answers(log: Sequence[Message]) -> dict[tuple[int, str], list[Message]]:
    """The results of each call, by the place of the message that asks and the call's id.

    Some models use an id again in a later turn (`call_0`), so a result belongs to the newest call
    before it in its turn, else to a later one of its turn (it was logged too early), else to the
    newest one of the turns before. Where there are more results than calls, the first count.
    """
    answers: dict[tuple[int, str], list[Message]] = defaultdict(list)
    open_calls: dict[tuple[int, str], int] = defaultdict(int)
    newest: dict[str, int] = {}
    for turn in _turns(log):
        asked: dict[str, int] = {}
        strays: list[tuple[Message, str]] = []
        for place in turn:
            message = log[place]
            if message.role is Role.ASSISTANT:
                for call in message.tool_calls:
                    asked[call.id] = place
                    open_calls[place, call.id] += 1
            elif message.role is Role.TOOL and message.tool_call_id is not None:
                told = _answered(message, message.tool_call_id)
                if len(told) > 1:
                    _give_several(message, told, newest | asked, answers, open_calls)
                elif told[0] in asked:
                    _give(message, (asked[told[0]], told[0]), answers, open_calls)
                else:
                    strays.append((message, told[0]))
        for message, call_id in strays:
            own = (place for place in turn if open_calls.get((place, call_id)))
            found = next(own, newest.get(call_id))
            if found is not None:
                _give(message, (found, call_id), answers, open_calls)
        newest |= asked
    return answers


def _answered(result: Message, call_id: str) -> list[str]:
    """The calls that a result answers: its own, and those of further result blocks in its payload."""
    data = result.payload.get("data") if isinstance(result.payload, Mapping) else None
    content = data.get("content") if isinstance(data, Mapping) else None
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    told = [str(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"]
    return [call_id, *(other for other in dict.fromkeys(told) if other != call_id)]


def _give_several(
    result: Message,
    told: Sequence[str],
    asked: Mapping[str, int],
    answers: dict[tuple[int, str], list[Message]],
    open_calls: dict[tuple[int, str], int],
) -> None:
    """Give one message to all of the calls that it answers, or, as it cannot be sent in part, to none."""
    keys = [(asked.get(call_id, -1), call_id) for call_id in told]
    if len({place for place, _ in keys}) == 1 and all(open_calls.get(key) for key in keys):
        for key in keys:
            _give(result, key, answers, open_calls)


def _give(
    result: Message,
    key: tuple[int, str],
    answers: dict[tuple[int, str], list[Message]],
    open_calls: dict[tuple[int, str], int],
) -> None:
    if open_calls[key]:
        open_calls[key] -= 1
        answers[key].append(result)


def _turns(log: Sequence[Message]) -> Iterator[range]:
    """The places of each turn: a user message with what follows it, and what stands before the first."""
    starts = [place for place, message in enumerate(log) if message.role is Role.USER]
    bounds = [0, *starts, len(log)]
    return (range(start, end) for start, end in pairwise(bounds) if start < end)


def _placeholder(asked: Message, call: ToolCall, number: int) -> Message:
    twin = any(other.id == call.id for other in asked.tool_calls[:number])
    return Message(
        role=Role.TOOL,
        text=NO_RESULT,
        id=f"{asked.id}:{call.id}" + (f":{number}" if twin else ""),
        tool_call_id=call.id,
        created_at=asked.created_at,
        session=asked.session,
        indexed=False,
    )


def whole_groups(log: Sequence[Message], most: int) -> int:
    """The largest number of messages, up to `most`, whose end separates no call from its result."""
    places = {id(message): place for place, message in enumerate(log)}
    cut = most
    spans = sorted(
        (
            sorted((place, places[id(result)]))
            for (place, _), found in _answers(log).items()
            for result in found
        ),
        reverse=True,
    )
    for first, last in spans:
        if first < cut <= last:
            cut = first
    return cut


# ------------------------------------------------------------------ fitting


def fitted(
    view: Sequence[Message],
    *,
    last: int | None = None,
    max_tokens: int | None = None,
    count: TokenCounter = approximate_tokens,
) -> list[Message]:
    """The end of a repaired view that fits, as whole turns: valid for a chat API.

    A turn is a user message with all that follows it up to the next one, so the first message
    after the system messages is the user's and no call loses its results. Without any user message
    only system messages are returned, each text of them once, see `system_of`.

    The newest turn is always there. With `last` it is whole, also when it alone has more messages.
    With `max_tokens` it is cut to fit, see `shortened_turn`; only the system messages, which are
    never cut, and a remainder of some words a message can then take more than the budget.

    Args:
        view: a view as `repaired` makes it.
        last: the most messages to return beside the system messages, None for no limit.
        max_tokens: the most tokens, system messages included, None for no limit.
        count: how many tokens a text takes.
    """
    system = system_of(view)
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
        if room is not None and tokens > room and not kept:
            return system + shortened_turn(turn, max(room, 0), count)
        if kept and ((last is not None and messages > last) or (room is not None and tokens > room)):
            break
        kept.append(turn)
    return system + [message for turn in reversed(kept) for message in turn]


def system_of(messages: Iterable[Message]) -> list[Message]:
    """The system messages, each text once: many callers log their system prompt anew in every turn."""
    said: dict[str, Message] = {}
    for message in messages:
        if message.role is Role.SYSTEM:
            said.setdefault(message.text, message)
    return list(said.values())


def shortened_turn(turn: Sequence[Message], max_tokens: int, count: TokenCounter) -> list[Message]:
    """A turn that is too large: its user message and as many of its newest steps as fit.

    A step is an assistant message with the results of its calls. The newest step is kept; where it
    does not fit beside the user message, texts are cut, the longest first, with a marker
    (`LEFT_OUT`) in place of their middle. A message that was cut has no payload. Stored messages
    stay whole.
    """
    steps: list[list[Message]] = []
    for message in turn[1:]:
        if message.role is Role.TOOL and steps:
            steps[-1].append(message)
        else:
            steps.append([message])
    kept: list[Message] = steps.pop() if steps else []
    tokens = tokens_of([turn[0], *kept], count)
    while steps and tokens + (more := tokens_of(steps[-1], count)) <= max_tokens:
        kept = steps.pop() + kept
        tokens += more
    return _shortened([turn[0], *kept], max_tokens, count)


def _shortened(messages: list[Message], max_tokens: int, count: TokenCounter) -> list[Message]:
    """The messages with the largest cut so far that all of them fit, or as far as they can be."""
    sizes = [message_tokens(message, count) for message in messages]
    if sum(sizes) <= max_tokens:
        return messages
    # The smallest stay whole: each may take an even share of what those before it have left.
    room, shares = max_tokens, dict[int, int]()
    for rank, place in enumerate(sorted(range(len(sizes)), key=lambda place: sizes[place])):
        shares[place] = min(sizes[place], max(room, 0) // (len(sizes) - rank))
        room -= shares[place]
    return [
        message if sizes[place] <= shares[place] else shortened(message, shares[place], count)
        for place, message in enumerate(messages)
    ]


def shortened(message: Message, max_tokens: int, count: TokenCounter = approximate_tokens) -> Message:
    """The message with the middle of its text cut so that it takes at most `max_tokens`.

    At the least the marker stays; a text of fewer than some 70 characters, and the calls it makes,
    are never cut. Without its payload, which holds the whole text, and with `NO_MEDIA` for what only
    the payload has. One that fits, or that holds the results of several calls, is returned as it is.
    """
    several = len(_answered(message, message.tool_call_id or "")) > 1
    if several or message_tokens(message, count) <= max_tokens:
        return message
    bare = dataclasses.replace(message, text=text_alone(message), payload=None, format="memkit")
    most = min(len(bare.text), max(max_tokens, 0) * _CHARS_A_TOKEN)
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if message_tokens(_cut(bare, middle), count) <= max_tokens:
            low = middle
        else:
            most = middle - 1
    return _cut(bare, low)


def text_alone(message: Message) -> str:
    """What a message says without its payload, with `NO_MEDIA` for what only that has."""
    if not holds_media(message):
        return message.text
    return message.text + NO_MEDIA if message.text else NO_MEDIA.strip()


def _cut(message: Message, keep: int) -> Message:
    text = message.text
    marker = LEFT_OUT.format(len(text) - keep)
    if len(text) - keep <= 2 * len(marker):
        # The marker would take about as much as it saves.
        return message
    head = (keep + 1) // 2
    tail = text[len(text) - (keep - head) :] if keep > head else ""
    return dataclasses.replace(message, text=text[:head] + marker + tail)
