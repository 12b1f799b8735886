"""Two ways to summarise: by a chat model, and by choosing sentences, which needs no model."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

from memkit_core.chat_models import resolve_chat_model
from memkit_core.conversation.tokens import approximate_tokens
from memkit_core.errors import InvalidInputError, shown
from memkit_core.models import Message, Role
from memkit_core.ports import Summarizer, TokenCounter
from memkit_core.prompts import summary_prompt
from memkit_core.text.clean import normal_form, storable
from memkit_core.text.tokenizer import keyword_terms


class ChatSummarizer:
    """`Summarizer` by a chat model: one call with `prompts.summary_prompt`."""

    def __init__(self, model: object) -> None:
        """Ask `model`: a LangChain chat model, a LlamaIndex LLM, or a function from prompt to answer.

        Raises:
            InvalidInputError: `model` is none of these.
        """
        self._model = resolve_chat_model(model)

    def __call__(self, previous: str, messages: Sequence[Message], max_tokens: int) -> str:
        """See `Summarizer`."""
        return self._model(summary_prompt(previous, messages, max_tokens))


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A candidate of the summary: its line, its terms, and how much it states by itself."""

    line: str
    terms: tuple[str, ...]
    stated: float


_ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")  # noqa: RUF001 - the marks that end a Chinese sentence
_NUMBER = re.compile(r"\d[\d.,:/-]*|[一二三四五六七八九十百千万]+[年月日号点个元岁]")
_NAME = re.compile(r"(?<=[a-z,;:'\"(] )[A-Z][\w'-]+|\b[A-Z][A-Z\d-]+\b|[“\"「《][^”\"」》]{2,40}[”\"」》]")
_OWN = re.compile(r"\b(?:I|I'm|my|we|our|mine)\b|我|咱", re.IGNORECASE)
_LASTING = re.compile(
    r"\b(?:always|never|prefer|allerg\w*|remember|important|must|decided|agreed|deadline|birthday|name is)\b"
    r"|记住|一定|喜欢|过敏|决定|生日|名字|叫|住在|从不",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[?？]\s*$")  # noqa: RUF001 - the full-width question mark
_LONGEST = 400
_ALIKE = 0.8
_CUT = " [...]"
# Of so many terms fewer than one in so many is a new one: a model that repeats itself.
_MANY = 20
_FEW = 3


class ExtractiveSummarizer:
    """`Summarizer` that chooses sentences and rewrites none. Deterministic; needs no key and no model.

    A sentence counts by what it states (numbers and dates, names, what the user says of themselves,
    words such as "always" or 过敏; questions count less) and by how many of the conversation's
    words it shares. Sentences of the summary so far compete with new ones by the same measure, so
    a fact stays for as long as few others state more. Works for English and Chinese; for other
    languages numbers, capitals and shared words decide.
    """

    def __call__(self, previous: str, messages: Sequence[Message], max_tokens: int) -> str:
        """The sentences that state most, in the order they came, one a line; where none fits, the best cut."""
        lines = [line.removeprefix("- ") for line in previous.splitlines() if line.strip()]
        found = [*map(_scored, lines), *(_scored(line) for line in _said(messages))]
        spread = Counter(term for sentence in found for term in set(sentence.terms))
        ranked = sorted(
            range(len(found)), key=lambda i: (-(found[i].stated + _shared(found[i], spread, len(found))), i)
        )
        room, chosen, seen = max_tokens, list[int](), set[str]()
        for i in ranked:
            tokens = approximate_tokens(found[i].line) + 2
            form = normal_form(found[i].line)
            if tokens > room or form in seen or any(_alike(found[i], found[other]) for other in chosen):
                continue
            room -= tokens
            seen.add(form)
            chosen.append(i)
        if ranked and not chosen:
            # Each sentence alone is too long.
            return _cut(f"- {found[ranked[0]].line}", max_tokens, approximate_tokens)
        return "\n".join(f"- {found[i].line}" for i in sorted(chosen))


def _said(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        speaker = message.speaker or message.role.value
        for sentence in _ENDS.split(message.text):
            if sentence and keyword_terms(sentence):
                yield f"{speaker}: {' '.join(sentence.split())[:_LONGEST]}"


def _scored(line: str) -> _Sentence:
    speaker, _, text = line.partition(": ")
    terms = tuple(keyword_terms(text or speaker))
    stated = min(len(_NUMBER.findall(text)), 3) + min(len(_NAME.findall(text)), 3)
    stated += bool(_OWN.search(text)) and speaker != Role.ASSISTANT
    stated += 2 * bool(_LASTING.search(text))
    return _Sentence(line, terms, stated - 2.0 * bool(_QUESTION.search(text)) - (len(terms) < _FEW))


def _shared(sentence: _Sentence, spread: Counter[str], count: int) -> float:
    """From 0 to 1: how far the words of a sentence are those of the rest."""
    if not sentence.terms:
        return 0.0
    return sum(log(spread[term]) for term in sentence.terms) / (len(sentence.terms) * log(count + 1))


def _alike(one: _Sentence, other: _Sentence) -> bool:
    mine, theirs = set(one.terms), set(other.terms)
    return bool(mine) and len(mine & theirs) >= _ALIKE * len(mine | theirs)


def checked_summarizer(given: object, *, awaited: bool = False) -> Summarizer:
    """`given` when it can summarise, `ExtractiveSummarizer` for None.

    Args:
        given: what the caller gave.
        awaited: whether it may be a coroutine function too.
    """
    if given is None:
        return ExtractiveSummarizer()
    if isinstance(given, type) or not callable(given) or hasattr(given, "invoke"):
        raise InvalidInputError(
            "summarizer takes a function of the summary so far, the messages and the most tokens, got "
            f"{shown(given)}; give a chat model as ChatSummarizer(model)"
        )
    coroutine = inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(type(given).__call__)
    if coroutine and not awaited:
        raise InvalidInputError(
            f"summarizer must answer at once, {shown(given)} is async; AsyncMemory.summaries.update awaits it"
        )
    return given


def usable_summary(
    answer: object, max_tokens: int, count: TokenCounter, messages: Sequence[Message]
) -> tuple[str | None, str | None]:
    """The answer as a summary of `messages` in at most `max_tokens`, or what is wrong with it.

    An answer of few different words is none, unless the messages have no more of them.
    """
    if not isinstance(answer, str):
        return None, f"the summarizer answered with no text: {shown(answer)}"
    # A character is at least an eighth of a token: what is far too long is cut before it is counted.
    text = storable(answer[: max_tokens * 8]).strip()
    if not any(character.isalnum() for character in text):
        return None, f"the summarizer answered with no words: {shown(text)}"
    if _repetitive(text) and not _repetitive("\n".join(message.text for message in messages)):
        return None, f"the summarizer repeated itself: {shown(text)}"
    return _cut(text, max_tokens, count), None


def _repetitive(text: str) -> bool:
    terms = keyword_terms(text)
    return len(terms) >= _MANY and len(set(terms)) < len(terms) / _MANY


def _cut(text: str, max_tokens: int, count: TokenCounter) -> str:
    if count(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle] + _CUT) <= max_tokens else (low, middle - 1)
    return text[:low].rstrip() + _CUT
