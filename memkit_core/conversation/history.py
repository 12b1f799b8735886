"""Semantic history: the newest messages of a session and the older ones that answer a query."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memkit_core.conversation.tagged import is_summary
from memkit_core.conversation.tokens import tokens_of
from memkit_core.conversation.windows import repaired
from memkit_core.errors import ClosedError
from memkit_core.models import Message, RecallResult, Role
from memkit_core.ports import MessageLog, TokenCounter
from memkit_core.scope import Scope

RECALLED_TAG = "memkit_recalled"
"""The key in the metadata of a message that was recalled into a window."""
EARLIER = "[From earlier in this conversation] "
"""What the user message of a recalled turn begins with."""

_log = logging.getLogger("memkit")
_PAGE, _WINDOW_PAGE = 32, 64

FindTurns = Callable[[str, Scope, Sequence[Message], int], RecallResult]
"""The turns of a session that answer a text, best first, less those of some messages, at most so many."""


class Merge(StrEnum):
    """Where recalled turns stand: before the recent ones, after them, or in the order they were said.

    The newest turn, which holds the current input, is last in each.
    """

    APPEND = "append"
    PREPEND = "prepend"
    INTERLEAVE = "interleave"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevantWindow:
    """The recent and the relevant messages of a session.

    Attributes:
        messages: system messages first; valid for a chat API.
        recalled: the ids of the recalled messages among them.
        missing: `"relevant"` when nothing could be recalled, else what the recall did without, see
            `RecallResult.missing`; empty when nothing is degraded.
        error: why nothing could be recalled.
    """

    messages: tuple[Message, ...]
    recalled: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    error: str | None = None


def with_relevant(
    log: MessageLog,
    find: FindTurns,
    window: Sequence[Message],
    query: str,
    *,
    session: Scope,
    relevant: int,
    neighbours: int,
    merge: Merge,
    room: int | None,
    count: TokenCounter,
) -> RelevantWindow:
    """A window with the turns around the most relevant older messages; the window alone on failure.

    Args:
        log: where the session is read.
        find: finds its turns.
        window: the recent messages, as `fitted` returns them.
        query: what to look for.
        session: whose messages alone are looked at.
        relevant: the most messages to recall; each brings its turn.
        neighbours: so many turns before and after each come along.
        merge: where they stand.
        room: the most tokens of recalled turns, whole ones only; None for no limit.
        count: how many tokens a text takes.
    """
    spoken = [message for message in window if message.role is not Role.SYSTEM]
    stored = [message for message in spoken if message.position is not None]
    first = stored[0].position or 0 if stored else 0
    try:
        found = find(query, session, [message for message in stored if message.is_turn], relevant)
        chosen: dict[int, list[Message]] = {}
        for hit in found:
            position = hit.record.metadata.get("position")
            if not isinstance(position, int) or position >= first:
                continue
            for turn in _around(log, session, position, neighbours, before=first):
                tokens = 0 if room is None else tokens_of(turn, count)
                start = turn[0].position or 0
                if start not in chosen and (room is None or tokens <= room):
                    chosen[start] = turn
                    room = None if room is None else room - tokens
    except ClosedError:
        raise
    except Exception as error:  # noqa: BLE001 - documented: whatever fails, the chat goes on with the recent ones
        _log.warning("nothing was recalled into the window of %s: %s", session, type(error).__name__)
        told = f"{type(error).__name__}: {error}"
        return RelevantWindow(messages=tuple(window), missing=frozenset({"relevant"}), error=told)
    earlier = [_marked(turn) for _, turn in sorted(chosen.items())]
    system = [message for message in window if message.role is Role.SYSTEM]
    return RelevantWindow(
        messages=(*system, *_merged(spoken, earlier, merge)),
        recalled=tuple(message.id or "" for turn in earlier for message in turn),
        missing=found.missing,
    )


def _merged(recent: Sequence[Message], earlier: Sequence[Sequence[Message]], merge: Merge) -> list[Message]:
    # What is recalled is older than all that is recent, so in the order it was said it stands first.
    told = [message for turn in earlier for message in turn]
    if merge is not Merge.APPEND:
        return [*told, *recent]
    newest = max((i for i, message in enumerate(recent) if message.role is Role.USER), default=0)
    return [*recent[:newest], *told, *recent[newest:]]


def _marked(turn: Sequence[Message]) -> list[Message]:
    """The turn as it is sent again: tagged, its user message begun with `EARLIER`."""
    tagged = [
        dataclasses.replace(message, metadata={**message.metadata, RECALLED_TAG: True}) for message in turn
    ]
    # Without the payload, which holds the text without the mark.
    first = dataclasses.replace(tagged[0], text=EARLIER + tagged[0].text, payload=None, format="memkit")
    return [first, *tagged[1:]]


def _around(
    log: MessageLog, session: Scope, position: int, neighbours: int, *, before: int
) -> list[list[Message]]:
    """The whole, repaired turn that a position is in, and so many on each side; the one it is in first.

    Only turns that lie below position `before`; empty when the position is in none, as what stands
    before the first user message.
    """
    back: list[Message] = []
    page = log.read(session, last=_PAGE, before=position + 1)
    while page:
        back = page + back
        if sum(message.role is Role.USER for message in back) > neighbours or len(page) < _PAGE:
            break
        page = log.read(session, last=_PAGE, before=page[0].position)
    ahead: list[Message] = []
    reached = position + 1
    while reached < before and sum(message.role is Role.USER for message in ahead) <= neighbours:
        reached = min(reached + _PAGE, before)
        page = log.read(session, last=_PAGE, before=reached)
        ahead += [one for one in page if (one.position or 0) > (ahead or back)[-1].position]  # type: ignore[operator]  # stored ones have a position
    turns: list[list[Message]] = []
    for message in repaired([m for m in back + ahead if m.role is not Role.SYSTEM and not is_summary(m)]):
        if message.role is Role.USER:
            turns.append([message])
        elif turns:
            turns[-1].append(message)
    return _nearest(turns, position, neighbours)


def _nearest(turns: list[list[Message]], position: int, neighbours: int) -> list[list[Message]]:
    at = max((i for i, turn in enumerate(turns) if (turn[0].position or 0) <= position), default=None)
    if at is None:
        return []
    near = range(max(at - neighbours, 0), min(at + neighbours + 1, len(turns)))
    return [turns[i] for i in sorted(near, key=lambda i: (abs(i - at), i))]


def newest_turns(
    log: MessageLog, session: Scope, *, last: int | None, max_tokens: int | None, count: TokenCounter
) -> list[Message]:
    """The end of the log with at least what fits, from a user message on, behind all its system messages."""
    tail: list[Message] = []
    tokens = users = 0
    page = log.read(session, last=_WINDOW_PAGE)
    while page:
        # Enough is what fits besides the page just read, which may begin inside a turn.
        full = (last is not None and len(tail) > last) or (max_tokens is not None and tokens > max_tokens)
        tail = page + tail
        tokens += tokens_of(page, count) if max_tokens is not None else 0
        if (full and users) or len(page) < _WINDOW_PAGE:
            break
        users += sum(message.role is Role.USER for message in page)
        page = log.read(session, last=_WINDOW_PAGE, before=page[0].position)
    if len(tail) < _WINDOW_PAGE:
        return tail
    first = tail[0].position or 0
    earlier = [m for m in log.system_messages(session) if (m.position or 0) < first]
    # What the page cut off from its user message is in no window.
    begin = next((i for i, message in enumerate(tail) if message.role is Role.USER), len(tail))
    return earlier + [m for m in tail[:begin] if m.role is Role.SYSTEM] + tail[begin:]
