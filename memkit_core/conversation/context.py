"""One turn's context: all that a prompt is built from, in order and within one budget."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol
from uuid import UUID

from memkit_core.config import Config
from memkit_core.conversation.profile import ListOf, points_of_copies, shown_profile
from memkit_core.conversation.sessions import Sessions
from memkit_core.conversation.summary import Summaries
from memkit_core.conversation.tokens import MESSAGE_OVERHEAD, tokens_of
from memkit_core.errors import BackendError, InvalidInputError, ModelError, shown
from memkit_core.filters import Filter, parse_filter
from memkit_core.inputs import checked_amount, checked_count, checked_fraction, turn_point
from memkit_core.models import Message, RecallResult, RecordType, Role, ScoredRecord, Status, Summary
from memkit_core.ports import TokenCounter
from memkit_core.prompts import recalled_block, recalled_line, summary_block
from memkit_core.recall.query import RecallQuery
from memkit_core.scope import Scope
from memkit_core.text.clean import storable
from memkit_core.times import Clock

_log = logging.getLogger("memkit")
_LARGEST = 2**31
_APART = (RecordType.EVENT, RecordType.SKILL)
_OTHERS = tuple(kind for kind in RecordType if kind not in _APART)
# A turn is an event too: what tells it is what memkit itself puts into its metadata.
_OTHERS_AND_TURNS: Filter | None = parse_filter(
    {
        "or": [
            {"type": {"in": [kind.value for kind in _OTHERS]}},
            {"metadata.session_id": {"exists": True}, "metadata.role": {"exists": True}},
        ]
    }
)


class RecallOf(Protocol):
    """`Recall.run`, with what a memory notes of each recall."""

    def __call__(self, query: RecallQuery) -> RecallResult:
        """See `Recall.run`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """What a prompt is built from, in this order.

    Attributes:
        system: the system text: what the caller gave, what system messages of the session say, the
            note of working memory, and the user's profile.
        system_messages: these system messages themselves, for who sends them as they are.
        working_memory: the note, as it stands in `system`.
        profile: the user's profile documents, fenced as data, as they stand at the end of `system`; ""
            without any.
        summary: the rolling summary of the session, None when there is none.
        hits: the recalled memories that stand in `recalled`: episodes, skills, then the rest, each
            best first; none twice, nor one whose document stands in `profile`.
        recalled: these as text, fenced as data that cannot close its fence; "" without any.
        recent: the newest messages, whole turns: valid for a chat API.
        truncated: whether a memory or a document was left out for the budget; the text says so too.
        missing: `"recall"` when nothing could be recalled, and what recall did without, see
            `RecallResult.missing`.
    """

    system: str
    system_messages: tuple[Message, ...]
    working_memory: str
    profile: str
    summary: Summary | None
    hits: tuple[ScoredRecord, ...]
    recalled: str
    recent: tuple[Message, ...]
    truncated: bool
    missing: frozenset[str]

    @property
    def prompt(self) -> str:
        """The system prompt: system text, summary and recalled memories, those that there are."""
        return _joined(self.system, self._summary, self.recalled)

    @property
    def added(self) -> str:
        """What memory adds to the system text: note, profile, summary, recalled memories; "" without any."""
        return _joined(self.working_memory, self.profile, self._summary, self.recalled)

    @property
    def _summary(self) -> str:
        return "" if self.summary is None else summary_block(self.summary.text)

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
    profile_tokens: int
    scopes: tuple[Scope, ...]
    episodes: int
    skills: int
    memories: int
    recent: int | None
    include_messages: bool
    max_tokens: int | None
    recent_share: float

    def __post_init__(self) -> None:
        """Refuse what cannot be, before anything is read."""
        for name in ("system", "working_memory"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInputError(
                    f"turn_context: {name} must be a string, got {shown(getattr(self, name))}"
                )
        for name in ("episodes", "skills", "memories"):
            checked_amount(getattr(self, name), f"turn_context: {name}", most=_LARGEST)
        if not isinstance(self.include_messages, bool):
            raise InvalidInputError(
                f"turn_context: include_messages must be True or False, got {shown(self.include_messages)}"
            )
        if self.max_tokens is not None:
            checked_count(self.max_tokens, "turn_context: max_tokens", most=_LARGEST)
        elif self.recent is None:
            raise InvalidInputError("turn_context: recent=None takes what max_tokens leaves; give max_tokens")
        if self.recent is not None:
            checked_amount(self.recent, "turn_context: recent", most=_LARGEST)
        checked_fraction(self.recent_share, "turn_context: recent_share")


def build_turn_context(
    session: Scope,
    query: str | None,
    wanted: Wanted,
    *,
    sessions: Sessions,
    summaries: Summaries,
    list_records: ListOf,
    recall: RecallOf,
    config: Config,
    clock: Clock,
    count: TokenCounter,
) -> TurnContext:
    """The context of one turn; see `Memory.turn_context`."""
    if query is not None and not isinstance(query, str):
        raise InvalidInputError(f"turn_context: query must be a string or None, got {shown(query)}")
    budget = wanted.max_tokens
    last = None if wanted.recent is None else max(wanted.recent, 1)
    newest = sessions.window(scope=session, last=last, max_tokens=None if last else budget, count=count)
    own = tuple(message for message in newest if message.role is Role.SYSTEM)
    summary = summaries.get(scope=session)
    user = session.parent
    assert user is not None
    profile = shown_profile(
        list_records, user, count=count, now=clock(),
        room=wanted.profile_tokens if budget is None else min(wanted.profile_tokens, budget // 4),
    )  # fmt: skip
    context = TurnContext(
        system=_joined(
            wanted.system,
            *(message.text for message in own if message.text != wanted.system),
            wanted.working_memory,
            profile.text,
        ),
        system_messages=own, working_memory=wanted.working_memory, profile=profile.text, summary=summary,
        hits=(), recalled="", recent=(), truncated=profile.truncated, missing=frozenset(),
    )  # fmt: skip
    room = None
    if budget is not None:
        room = budget - tokens_of(context.messages, count) - _tokens_of_input(query, newest, count)
        newest = sessions.window(
            # Its system messages are not sent again, so they take nothing of what is left.
            scope=session, last=last, count=count,
            max_tokens=max(int(room * wanted.recent_share), 1) + tokens_of(own, count),
        )  # fmt: skip
    recent = tuple(message for message in newest if message.role is not Role.SYSTEM)
    asked = next((m.text for m in reversed(recent) if m.role is Role.USER), "") if query is None else query
    if wanted.recent == 0:
        recent = ()
    elif wanted.recent is None and summary is not None:
        recent = _not_covered(recent, summary.position)
    hits, missing = _recalled(
        _question(asked, wanted, config, clock),
        wanted,
        recent,
        shown=profile.points,
        copies=lambda: points_of_copies(list_records, wanted.scopes, user, profile.ids),
        recall=recall,
    )
    if room is not None:
        left = max(room - tokens_of(recent, count), 0)
        room = max(left // 2, min(left, room - int(room * wanted.recent_share)))
    kept, block = _block(hits, room, count)
    return dataclasses.replace(
        context, hits=kept, recalled=block, recent=recent, missing=missing,
        truncated=profile.truncated or len(kept) < len(hits),
    )  # fmt: skip


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _tokens_of_input(query: str | None, newest: Sequence[Message], count: TokenCounter) -> int:
    """What the current input takes, which stands behind all of this unless it is the newest message already."""
    if query is None or not query.strip():
        return 0
    known = any(message.role is Role.USER and message.text == query for message in newest[-1:])
    return 0 if known else count(query) + MESSAGE_OVERHEAD


def _not_covered(recent: Sequence[Message], position: int) -> tuple[Message, ...]:
    """The turns that a summary up to `position` does not cover wholly; the newest turn in any case."""
    starts = [place for place, message in enumerate(recent) if message.role is Role.USER]
    for start, end in pairwise(starts):
        if any(m.position is not None and m.position > position for m in recent[start:end]):
            return tuple(recent[start:])
    return tuple(recent[starts[-1] :]) if starts else ()


def _question(text: str, wanted: Wanted, config: Config, clock: Clock) -> RecallQuery:
    """What `Memory.recall` would ask of the scopes; the parts differ in kind and number."""
    for name in ("episodes", "skills", "memories"):
        checked_amount(getattr(wanted, name), f"turn_context: {name}", most=config.max_top_k)
    now = clock()
    return RecallQuery(
        text=storable(text), scopes=wanted.scopes, top_k=1, where=None, types=(), statuses=(Status.ACTIVE,),
        include_messages=False, ranking=config.ranking, candidates=config.candidates, asked_at=now, now=now,
    )  # fmt: skip


def _recalled(
    question: RecallQuery,
    wanted: Wanted,
    recent: Sequence[Message],
    *,
    shown: frozenset[UUID],
    copies: Callable[[], frozenset[UUID]],
    recall: RecallOf,
) -> tuple[list[ScoredRecord], frozenset[str]]:
    hits: list[ScoredRecord] = []
    missing: set[str] = set()
    if not question.text.strip():
        return hits, frozenset()
    try:
        for query in _parts(question, wanted, recent, shown=shown, copies=copies):
            result = recall(query)
            missing |= result.missing
            shown_already = {hit.record.point_id for hit in hits}
            hits += [hit for hit in result if hit.record.point_id not in shown_already]
    except (BackendError, ModelError) as error:
        # Documented degradation: a chat goes on without its long-term memory.
        _log.warning("turn_context: nothing was recalled: %s", error)
        return hits, frozenset({*missing, "recall"})
    return hits, frozenset(missing)


def _parts(
    question: RecallQuery,
    wanted: Wanted,
    recent: Sequence[Message],
    *,
    shown: frozenset[UUID],
    copies: Callable[[], frozenset[UUID]],
) -> Iterator[RecallQuery]:
    def part(top_k: int) -> RecallQuery:
        return dataclasses.replace(question, top_k=top_k, candidates=max(question.candidates, 3 * top_k))

    for kind, top_k in zip(_APART, (wanted.episodes, wanted.skills), strict=True):
        if top_k:
            yield dataclasses.replace(part(top_k), types=(kind,))
    if not wanted.memories:
        return
    # A document of the profile stands in the prompt already, and so does what it was promoted to. By
    # point, not by a filter: what is kept in memory answers no filter.
    unseen = shown | copies() if shown else shown
    others = dataclasses.replace(part(wanted.memories), exclude=unseen)
    if wanted.include_messages:
        # What stands in the prompt already must not be found again, nor be what the rest is measured
        # against: the question itself would always be the best hit.
        said = {turn_point(message) for message in recent if message.is_turn}
        yield dataclasses.replace(
            others, where=_OTHERS_AND_TURNS, include_messages=True, exclude=unseen | said
        )
    else:
        yield dataclasses.replace(others, types=_OTHERS)


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
