"""Conversations: whether a long one costs more than a short one, and more than plain SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from benchmarks.plan import Plan
from benchmarks.raw import RawTable
from benchmarks.report import MILLISECONDS, Line, at_most, interleaved, ratio
from benchmarks.texts import Texts
from memkit_core import Memory, Message, Role, Scope
from memkit_core.conversation.summarizers import ExtractiveSummarizer
from memkit_core.conversation.tokens import approximate_tokens, tokens_of
from memkit_core.sequences import chunked

_SHORT, _LONG = 100, 20_000
_LAST = 20
_WINDOW_TOKENS = 4000
_MEDIUM = 1000
_SUMMARIES = 10


def measured_history(plan: Plan) -> list[Line]:
    """Time append and reading the last 20 in a short and a long session; the lines of the table."""
    texts = Texts(seed=7)
    short, medium, long = (Scope.session(name, user="talker") for name in ("short", "medium", "long"))
    table = RawTable(plan.folder / "bare-history.db")
    table.fill(1, texts.sentences(_LONG))
    with Memory.open(plan.folder / "history.db") as memory:
        for session, length in ((short, _SHORT), (medium, _MEDIUM), (long, _LONG)):
            for chunk in chunked(texts.sentences(length), 1000):
                memory.sessions.append([_said(text) for text in chunk], scope=session)
        memory.flush()
        return [
            *_reading(plan, memory, short, long, table),
            *_windows(plan, memory, medium, long),
            *_summaries(memory, texts),
            *_appending(plan, memory, short, long, table),
            *_queueing(plan, memory, long),
        ]


def _reading(plan: Plan, memory: Memory, short: Scope, long: Scope, table: RawTable) -> list[Line]:
    in_short, in_long, bare = interleaved(
        [
            lambda _: memory.sessions.read(scope=short, last=_LAST),
            lambda _: memory.sessions.read(scope=long, last=_LAST),
            lambda _: table.last(1, _LAST),
        ],
        plan.rounds,
    )
    return [
        Line(name=f"read the last {_LAST} of {_LONG:,} messages", measured=str(in_long)),
        ratio(f"  p50 to {_SHORT} messages", in_long.p50, in_short.p50, 1.5),
        ratio("  p50 to plain SQLite", in_long.p50, bare.p50, 20),
    ]


def _windows(plan: Plan, memory: Memory, medium: Scope, long: Scope) -> list[Line]:
    in_medium, in_long = interleaved(
        [
            lambda _: memory.sessions.window(scope=medium, max_tokens=_WINDOW_TOKENS),
            lambda _: memory.sessions.window(scope=long, max_tokens=_WINDOW_TOKENS),
        ],
        plan.rounds,
    )
    return [
        Line(name=f"window of {_WINDOW_TOKENS:,} tokens of {_LONG:,} messages", measured=str(in_long)),
        ratio(f"  p50 to {_MEDIUM:,} messages", in_long.p50, in_medium.p50, 2),
    ]


def _summaries(memory: Memory, texts: Texts) -> list[Line]:
    """How large successive summaries become, how large what the summarizer is given, and how often it is called."""
    talk, given, made = Scope.session("summarised", user="talker"), list[int](), list[int]()
    calls = 0
    summarizer = ExtractiveSummarizer()

    def counted(previous: str, messages: Sequence[Message], max_tokens: int) -> str:
        given.append(approximate_tokens(previous) + tokens_of(messages))
        return summarizer(previous, messages, max_tokens)

    while len(made) < _SUMMARIES:
        memory.sessions.append([_said(text) for text in texts.sentences(50)], scope=talk)
        before = len(given)
        result = memory.summaries.update(
            scope=talk, summarizer=counted, threshold=_WINDOW_TOKENS, count=approximate_tokens
        )
        if result.changed and result.summary is not None:
            made.append(approximate_tokens(result.summary.text))
        calls = max(calls, len(given) - before)
    return [
        Line(name=f"tokens of {_SUMMARIES} successive summaries", measured=" ".join(map(str, made))),
        Line(name="  tokens the summarizer was given", measured=" ".join(map(str, given))),
        at_most("  the most to the first", max(given) / given[0], 1.5, unit="x"),
        at_most("  calls of the summarizer a turn, at most", calls, 1, unit="call"),
    ]


def _appending(plan: Plan, memory: Memory, short: Scope, long: Scope, table: RawTable) -> list[Line]:
    texts, number = Texts(seed=8).sentences(2 * plan.rounds + 20), count()
    in_short, in_long, bare = interleaved(
        [
            lambda _: memory.sessions.append([_said(texts[next(number)])], scope=short),
            lambda _: memory.sessions.append([_said(texts[next(number)])], scope=long),
            lambda i: table.append(1, texts[i]),
        ],
        plan.rounds,
    )
    return [
        Line(name=f"append one message to {_LONG:,}", measured=str(in_long)),
        ratio(f"  p50 to {_SHORT} messages", in_long.p50, in_short.p50, 1.5),
        ratio("  p50 to plain SQLite", in_long.p50, bare.p50, 20),
    ]


def _queueing(plan: Plan, memory: Memory, long: Scope) -> list[Line]:
    texts = Texts(seed=9).sentences(plan.rounds + 10)
    (put,) = interleaved([lambda i: memory.sessions.queue.append([_said(texts[i])], scope=long)], plan.rounds)
    memory.sessions.queue.flush()
    return [at_most("put one message in the queue, p50", put.p50 * MILLISECONDS, 50, unit="µs")]


def _said(text: str) -> Message:
    return Message(role=Role.USER, text=text)
