"""One turn's context: all that a prompt is built from, in order and within one budget."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries
from memkit_core.conversation.tokens import MESSAGE_OVERHEAD, tokens_of
from memkit_core.errors import BackendError, InvalidInputError, ModelError, shown
from memkit_core.inputs import checked_count
from memkit_core.models import Message, RecallResult, RecordType, Role, ScoredRecord, Summary
from memkit_core.ports import TokenCounter
from memkit_core.prompts import recalled_block, recalled_line, summary_block
from memkit_core.scope import Scope

_log = logging.getLogger("memkit")
_LARGEST = 2**31
_OTHERS = tuple(kind for kind in RecordType if kind not in (RecordType.EVENT, RecordType.SKILL))


class RecallOf(Protocol):
    """`Memory.recall` as it is used here."""

    def __call__(
        self, query: str, *, scope: Sequence[Scope], top_k: int, types: Sequence[RecordType]
    ) -> RecallResult:
        """See `Memory.recall`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """What a prompt is built from, in this order.

    Attributes:
        system: the system text: what the caller gave, what system messages of the session say, and
            the note of working memory.
        summary: the rolling summary of the session, None when there is none.
        hits: the recalled memories that stand in `recalled`: episodes, skills, then the rest, each
            best first; none twice.
        recalled: these as text, fenced as data that cannot close its fence; "" without any.
        recent: the newest messages, whole turns: valid for a chat API.
        truncated: whether a memory was left out for the budget; `recalled` says so too.
        missing: `"recall"` when nothing could be recalled, and what recall did without, see
            `RecallResult.missing`.
    """

    system: str
    summary: Summary | None
    hits: tuple[ScoredRecord, ...]
    recalled: str
    recent: tuple[Message, ...]
    truncated: bool
    missing: frozenset[str]

    @property
    def prompt(self) -> str:
        """The system prompt: system text, summary and recalled memories, those that there are."""
        summary = "" if self.summary is None else summary_block(self.summary.text)
        return "\n\n".join(part for part in (self.system, summary, self.recalled) if part)

    @property
    def messages(self) -> list[Message]:
        """What to send before the current input: one system message, if it says anything, and `recent`.

        Made anew on each call; nothing of it but `recent` is stored.
        """
        said = [Message(role=Role.SYSTEM, text=self.prompt, indexed=False)] if self.prompt else []
        return [*said, *self.recent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much of each part a context holds, see `Memory.turn_context`."""

    system: str
    working_memory: str
    scopes: tuple[Scope, ...]
    episodes: int
    skills: int
    memories: int
    recent: int
    max_tokens: int | None


def build_turn_context(
    session: Scope,
    query: str,
    wanted: Wanted,
    *,
    sessions: Sessions,
    summaries: Summaries,
    recall: RecallOf,
    count: TokenCounter,
) -> TurnContext:
    """The context of one turn; see `Memory.turn_context`."""
    if not isinstance(query, str):
        raise InvalidInputError(f"turn_context: query must be a string, got {shown(query)}")
    checked_count(wanted.recent, "turn_context: recent", most=_LARGEST)
    budget = wanted.max_tokens
    if budget is not None:
        checked_count(budget, "turn_context: max_tokens", most=_LARGEST)
    newest = sessions.window(scope=session, last=wanted.recent, count=count)
    told = [message.text for message in newest if message.role is Role.SYSTEM and message.text]
    system = "\n\n".join(part for part in (wanted.system, *told, wanted.working_memory) if part)
    summary = summaries.get(scope=session)
    context = TurnContext(
        system=system, summary=summary, hits=(), recalled="", recent=(), truncated=False, missing=frozenset()
    )
    room = None
    if budget is not None:
        # The current input stands behind all of this, unless it is the newest message already.
        known = any(message.role is Role.USER and message.text == query for message in newest[-1:])
        now = 0 if known or not query.strip() else count(query) + MESSAGE_OVERHEAD
        room = budget - tokens_of(context.messages, count) - now
        window = sessions.window(
            # Its system messages are not sent again, so they take nothing of what is left.
            scope=session, last=wanted.recent, count=count,
            max_tokens=max(room, 1) + tokens_of([m for m in newest if m.role is Role.SYSTEM], count),
        )  # fmt: skip
        newest = window
    recent = tuple(message for message in newest if message.role is not Role.SYSTEM)
    hits, missing = _recalled(query, wanted, recall)
    if room is not None:
        room = max(room - tokens_of(recent, count), 0) // 2
    kept, block = _block(hits, room, count)
    return TurnContext(
        system=system, summary=summary, hits=kept, recalled=block, recent=recent,
        truncated=len(kept) < len(hits), missing=missing,
    )  # fmt: skip


def _recalled(query: str, wanted: Wanted, recall: RecallOf) -> tuple[list[ScoredRecord], frozenset[str]]:
    hits: list[ScoredRecord] = []
    missing: set[str] = set()
    parts = (
        (wanted.episodes, (RecordType.EVENT,)),
        (wanted.skills, (RecordType.SKILL,)),
        (wanted.memories, _OTHERS),
    )
    for top_k, types in parts:
        if top_k == 0 or not query.strip():
            continue
        try:
            result = recall(query, scope=wanted.scopes, top_k=top_k, types=types)
        except (BackendError, ModelError) as error:
            # Documented degradation: a chat goes on without its long-term memory.
            _log.warning("turn_context: nothing was recalled: %s", error)
            return hits, frozenset({*missing, "recall"})
        missing |= result.missing
        hits += result
    return hits, frozenset(missing)


def _block(
    hits: Sequence[ScoredRecord], room: int | None, count: TokenCounter
) -> tuple[tuple[ScoredRecord, ...], str]:
    """The hits that fit, whole, and the block that shows them and says when some were left out."""
    kept: list[ScoredRecord] = []
    lines: list[str] = []
    for hit in hits:
        more = [*lines, recalled_line(hit)]
        if room is None or count(recalled_block([*more, _left_out(len(hits))])) <= room:
            lines = more
            kept.append(hit)
    if kept and len(kept) < len(hits):
        lines.append(_left_out(len(hits) - len(kept)))
    return tuple(kept), recalled_block(lines)


def _left_out(number: int) -> str:
    return f'<left_out memories="{number}"/>'
