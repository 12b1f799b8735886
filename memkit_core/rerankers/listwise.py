"""A reranker that shows an LLM all texts at once and asks for their order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memkit_core.chat_models import resolve_chat_model
from memkit_core.errors import ModelError, shown
from memkit_core.prompts import ranking_prompt
from memkit_core.rerankers.orders import scores_of_order

_LIST = re.compile(r"\[\s*(?:\d+\s*(?:,\s*\d+\s*)*)?\]")


class ListwiseReranker:
    """`Reranker` over a chat model: one call for all texts, which it sees numbered and fenced as data.

    After RankGPT (Sun et al., EMNLP 2023), without its sliding window: recall gives few texts. Texts
    that the answer leaves out keep their order behind those it names.
    """

    def __init__(self, model: object, *, max_chars: int = 1000) -> None:
        """`model` is what `resolve_chat_model` takes; of each text it sees the first `max_chars`.

        Raises:
            InvalidInputError: `model` cannot be called.
        """
        self._model = resolve_chat_model(model)
        self._max_chars = max_chars

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `Reranker`: 1 for the first, down to 1 / n for the last.

        Raises:
            ModelError: the model failed, or named no text, one twice, or one that there is not.
        """
        answer = self._model(ranking_prompt(query, [text[: self._max_chars] for text in texts]))
        order = [number - 1 for number in _named(answer)]
        if not order:
            raise ModelError(
                f"was asked for the order of {len(texts)} texts and said {shown(answer)}", model="listwise"
            )
        scores = scores_of_order(order, len(texts), model="listwise")
        # What it leaves out keeps its order behind the rest.
        last = 1 - len(order) / len(texts)
        left = [place for place, score in enumerate(scores) if not score]
        for behind, place in enumerate(left):
            scores[place] = last - behind / len(texts)
        return scores


def _named(answer: str) -> list[int]:
    """The numbers of an answer in the order it gives: a model may reason before it, or write "[2] > [1]"."""
    lists = [re.findall(r"\d+", found) for found in _LIST.findall(answer)]
    longest: list[str] = max(reversed(lists), key=len, default=[])
    if len(longest) > 1:
        return list(map(int, longest))
    return [int(number) for number in dict.fromkeys(number for one in lists for number in one)]
