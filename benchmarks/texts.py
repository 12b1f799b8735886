"""Texts that behave like language: a vocabulary used by Zipf's law, led by real function words."""

from __future__ import annotations

from functools import cache

import numpy as np

# The commonest words of English, in about their order: what a stop list drops, and what it keeps.
_COMMON = """the of and to in a is that it was for on are as with they be at one have this from or
had by not but what some we can out other were all there when up use your how said an each she which
do their time if will way about many then them would like so these her long make thing see him two
has look more day could go come did my sound no most number who over know water than call first
people may down side been now find"""
_STARTS = "b c ch d f g h j k l m n p r s sh st t tr v w"
_VOWELS = "aeiou"
_ENDS = ["", "", "", "n", "r", "s", "l", "t"]
_SHORTEST, _LONGEST = 6, 28
_VOCABULARY = 20_000


class Texts:
    """An endless, reproducible source of sentences over 20,000 words.

    The word of rank r is drawn with a probability proportional to 1 / r (Zipf 1949).
    """

    def __init__(self, seed: int) -> None:
        """Equal seeds give equal texts; the vocabulary is the same for all seeds."""
        self._words = np.array(_vocabulary(), dtype=object)
        ranks = np.arange(1, len(self._words) + 1)
        self._bounds = np.cumsum(1 / ranks) / np.sum(1 / ranks)
        self._random = np.random.default_rng(seed)

    def sentences(self, count: int) -> list[str]:
        """`count` sentences of 6 to 28 words."""
        lengths = self._random.integers(_SHORTEST, _LONGEST + 1, size=count)
        return [f"{' '.join(self._draw(int(length))).capitalize()}." for length in lengths]

    def questions(self, count: int) -> list[str]:
        """`count` questions of 5 to 10 words."""
        lengths = self._random.integers(4, 10, size=count)
        return [f"What {' '.join(self._draw(int(length)))}?" for length in lengths]

    def _draw(self, count: int) -> list[str]:
        ranks = np.searchsorted(self._bounds, self._random.random(count))
        return [str(word) for word in self._words[ranks]]


@cache
def _vocabulary() -> list[str]:
    random = np.random.default_rng(20)
    common, parts = _COMMON.split(), (_STARTS.split(), list(_VOWELS), _ENDS)
    words: set[str] = set()
    while len(words) < _VOCABULARY:
        syllables = int(random.integers(1, 4))
        words.add("".join(str(random.choice(part)) for _ in range(syllables) for part in parts))
    # Frequent words are short ones (Zipf's law of abbreviation).
    rest = sorted(words.difference(common), key=lambda word: (len(word), word))
    return [*common, *rest]
