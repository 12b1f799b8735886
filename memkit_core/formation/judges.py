"""Two judges: rules that only ever say *same* or *unrelated*, and a chat model."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence

from memkit_core.chat_models import resolve_chat_model
from memkit_core.errors import InvalidInputError, shown
from memkit_core.formation.answers import json_object
from memkit_core.models import MemoryRecord
from memkit_core.ports import Judge, Judgement, Verdict
from memkit_core.prompts import judge_prompt
from memkit_core.stores.succession import held_since
from memkit_core.text.clean import normal_form

_log = logging.getLogger("memkit")

# Far fewer than the keyword leg drops: "before", "off", "her" and "was" say something here.
_EMPTY = frozenset({"a", "an", "the", "just", "really", "please", "also", "oh", "well", "actually", "so"})
_EMPTY_CHINESE = str.maketrans("", "", "的啊呀呢吧哦嗯啦很")
_SPELT_OUT = (
    (re.compile(r"\b(i)['\u2019]m\b"), r"\1 am"),
    (re.compile(r"\b(it|he|she|that|there|what|who)['\u2019]s\b"), r"\1 is"),
    (re.compile(r"\b(you|we|they)['\u2019]re\b"), r"\1 are"),
    (re.compile(r"\b(i|you|we|they)['\u2019]ve\b"), r"\1 have"),
    (re.compile(r"\bcan(?:['\u2019]t|not)\b"), "can not"),
    (re.compile(r"\b(\w{2,8})n['\u2019]t\b"), r"\1 not"),
)
# Numbers with what belongs to them; words; each further sign but white space and sentence marks.
_TOKEN = re.compile(
    r"[+-]?\d[\d.,:/-]*\d|\d|\w+(?:['\u2019]\w+)*|[^\w\s.,;!\"'()\[\]{}\u2018-\u201f\u3000-\u303f\uff01\uff0c\uff1b]"
)
_LONGEST_REASON = 500


class RuleJudge:
    """`Judge` that needs no model: two memories are *same* or *unrelated*, never does one replace another.

    Same are two of one type, key and time whose texts are identical but for case, width, sentence
    marks, contractions ("I'm") and words that say nothing ("the", "really", 的): the same words in
    the same order, so with the same negation and the same numbers.
    """

    name = "rules"

    def __call__(self, new: MemoryRecord, olds: Sequence[MemoryRecord]) -> list[Judgement | None]:
        """See `Judge`."""
        return [_by_rule(new, old) for old in olds]


def _by_rule(new: MemoryRecord, old: MemoryRecord) -> Judgement:
    if _place(new) != _place(old):
        return Judgement(Verdict.UNRELATED, "another type, key or time")
    if said_words(new.content) == said_words(old.content):
        return Judgement(Verdict.SAME, "the same words in the same order")
    return Judgement(Verdict.UNRELATED, "other words, or in another order")


def _place(record: MemoryRecord) -> tuple[object, ...]:
    return record.type, record.key, record.occurred_at, record.valid_from, record.valid_until


def said_words(text: str) -> list[str]:
    """The words, numbers and signs of a text that say something, in order."""
    plain = unicodedata.normalize("NFC", normal_form(text))
    for form, spelt in _SPELT_OUT:
        plain = form.sub(spelt, plain)
    # A question mark at the end is no sentence mark here: asked is not said.
    asked = ["?"] if text.rstrip().endswith(("?", "\uff1f")) else []
    tokens = [token for token in _TOKEN.findall(plain.translate(_EMPTY_CHINESE)) if token not in _EMPTY]
    return [*tokens, *asked]


class ChatJudge:
    """`Judge` by a chat model: one call a new memory, with `prompts.judge_prompt`.

    The old memories are shown under the numbers 1, 2, 3. What the answer says of other numbers, of
    one number twice, or with another word than same, replaces or unrelated, is no decision.
    """

    def __init__(self, model: object) -> None:
        """Ask `model`: a LangChain chat model, a LlamaIndex LLM, or a function from prompt to answer.

        Raises:
            InvalidInputError: `model` is none of these.
        """
        self._model = resolve_chat_model(model)
        self.name = f"chat model {getattr(self._model, 'name', '')}".strip()

    def __call__(self, new: MemoryRecord, olds: Sequence[MemoryRecord]) -> list[Judgement | None]:
        """See `Judge`.

        Raises:
            ModelError: the model failed, or its answer is not one JSON object with `decisions`.
        """
        prompt = judge_prompt(_line(new), [_line(old) for old in olds])
        listed = json_object(self._model(prompt), model=self.name).get("decisions")
        decided: dict[int, Judgement | None] = {}
        for item in listed if isinstance(listed, list) else []:
            number, judgement = _decision(item, len(olds))
            if number is not None:
                # Said twice it is not said at all, unless both times the same.
                agreed = number not in decided or _verdict(decided[number]) == _verdict(judgement)
                decided[number] = judgement if agreed else None
        return [decided.get(number) for number in range(1, len(olds) + 1)]


def _verdict(judgement: Judgement | None) -> Verdict | None:
    return None if judgement is None else judgement.verdict


def _line(record: MemoryRecord) -> tuple[str, str, str]:
    moment = record.occurred_at or held_since(record)
    return record.type.value, moment.date().isoformat(), record.content


def _decision(item: object, most: int) -> tuple[int | None, Judgement | None]:
    number = item.get("id") if isinstance(item, dict) else None
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < len("1000000"):
        number = int(number)
    if not isinstance(item, dict) or type(number) is not int or not 1 <= number <= most:
        _log.warning("a judge spoke of a memory that it was not shown; that is left out: %s", shown(number))
        return None, None
    word, reason = item.get("verdict"), item.get("reason")
    if not isinstance(word, str) or word.strip().lower() not in list(Verdict):
        _log.warning("a judge gave no verdict that there is; that is left out: %s", shown(word))
        return number, None
    told = " ".join(reason.split())[:_LONGEST_REASON] if isinstance(reason, str) else ""
    return number, Judgement(Verdict(word.strip().lower()), told or "no reason was given")


def checked_judge(given: object) -> Judge:
    """`given` when it can judge, `RuleJudge` for None."""
    if given is None:
        return RuleJudge()
    if isinstance(given, type) or not callable(given) or hasattr(given, "invoke"):
        raise InvalidInputError(
            f"judge takes a function of a new memory and older ones, got {shown(given)}; give a chat model "
            "as ChatJudge(model)"
        )
    return given
