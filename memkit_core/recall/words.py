"""The words of texts, numbered, with the vectors by which a model compares them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from memkit_core.errors import ModelError
from memkit_core.locks import ThreadLock
from memkit_core.ports import Matrix
from memkit_core.text.tokenizer import content_words, word_term

MOST_WORDS = 32_768
"""Words that are kept, half a kilobyte each with 128 dimensions; a table that is full is begun anew."""
_SHORTEST = 3
"""Letters a word needs: shorter ones are mostly what is left of others."""
_UNKNOWN = -1
_MOST_MODELS = 4
"""Models whose words are kept."""
_RECENT_CHARACTERS, _TEXT_ROOM = 4_000_000, 200
"""Text whose words are remembered, and what remembering a text takes beside its characters."""


class WordModel(Protocol):
    """What is asked of an embedder here, see `CheckedEmbedder`."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def revision(self) -> str:
        """What changes with its vectors."""

    @property
    def compares_words(self) -> bool:
        """Whether it has vectors of single words."""

    def embed_words(self, words: Sequence[str]) -> Matrix:
        """The vectors of single words."""


class Words:
    """By which model words are compared: the one that embeds if it can, else the built-in one. Thread-safe."""

    def __init__(self, built_in: WordModel) -> None:
        """Nothing is loaded before a word is compared."""
        self._built_in = built_in
        self._tables: dict[tuple[str, str], WordTable] = {}

    def table(self, model: WordModel) -> WordTable:
        """The words that were met so far, where `model` embeds texts; for one recall."""
        by = model if model.compares_words else self._built_in
        name, tables = (by.model, by.revision), self._tables
        table = tables.get(name)
        if table is None or table.full:
            table = WordTable(by.embed_words)
            # A new dict: two threads may each make a table, and nothing but time is lost. Few models compare words.
            self._tables = dict([*tables.items(), (name, table)][-_MOST_MODELS:])
        # Each memory may have an object of the model of its own; the last one works.
        table.embed = by.embed_words
        return table


class WordTable:
    """The words that were met so far, with their vectors. Thread-safe; a word keeps its number.

    A number counts the words in the order in which they were met, from 0.
    """

    def __init__(self, embed: Callable[[Sequence[str]], Matrix], *, most: int = MOST_WORDS) -> None:
        """Have words embedded by `embed`, see `CheckedEmbedder.embed_words`, and keep `most` of them."""
        self.embed = embed
        self._most = most
        self._mutex = ThreadLock()
        self._numbers: dict[str, int] = {}
        self._terms: list[str] = []
        # Longer than the words, so that a new one need not move all.
        self._vectors: Matrix = np.zeros((0, 0), np.float32)
        self._texts = _RecentTexts()

    @property
    def full(self) -> bool:
        """Whether new words are unknown, because no more are kept."""
        return len(self._numbers) >= self._most

    def term(self, number: int) -> str:
        """The term of `keyword_terms` for the word of a number."""
        return self._terms[number]

    def vectors(self, numbers: NDArray[np.intp]) -> Matrix:
        """The vectors of words, `(n, d) float32`, each of length 1."""
        return self._vectors.take(numbers, axis=0, mode="clip")

    def numbers(self, texts: Sequence[str]) -> list[bytes]:
        """The numbers of the distinct words of each text, as `int32`; unknown words are left out.

        Raises:
            ModelError: the model failed on a word that it had not seen, or gave it a vector of another length.
        """
        with self._mutex:
            found = self._texts.get(texts)
            if None in found:
                cut = self._cut(
                    dict.fromkeys(text for text, one in zip(texts, found, strict=True) if one is None)
                )
                found = [cut[text] if one is None else one for text, one in zip(texts, found, strict=True)]
        return cast("list[bytes]", found)

    def of_query(self, query: str, *, most: int) -> list[int]:
        """The numbers of the first `most` distinct words of a query, in their order, as far as they are known.

        No more are looked at: a file that was pasted into a query must not fill the table.

        Raises:
            ModelError: the model failed on a word that it had not seen, or gave it a vector of another length.
        """
        words = list(islice(dict.fromkeys(content_words(query)), most))
        with self._mutex:
            self._meet(words)
            return self._known(words)

    def _cut(self, texts: Iterable[str]) -> dict[str, bytes]:
        words = {text: dict.fromkeys(content_words(text)) for text in texts}
        self._meet(word for of_text in words.values() for word in of_text)
        cut = {text: array("i", self._known(of_text)).tobytes() for text, of_text in words.items()}
        self._texts.put(cut)
        return cut

    def _known(self, words: Iterable[str]) -> list[int]:
        """The numbers of those that have one, in their order."""
        return [number for word in words if (number := self._numbers.get(word, _UNKNOWN)) >= 0]

    def _meet(self, words: Iterable[str]) -> None:
        new = [word for word in dict.fromkeys(words) if word not in self._numbers and len(word) >= _SHORTEST]
        new = new[: self._most - len(self._numbers)]
        if not new:
            return
        vectors = self.embed(new)
        if self._terms and vectors.shape[1] != self._vectors.shape[1]:
            raise ModelError(
                f"returned {vectors.shape[1]} dimensions for words, before {self._vectors.shape[1]}",
                model="embed_words",
            )
        lengths = np.linalg.norm(vectors, axis=1)
        known = np.flatnonzero(lengths)
        numbers = dict.fromkeys(new, _UNKNOWN)
        if len(known):
            before, after = len(self._terms), len(self._terms) + len(known)
            self._make_room(after, vectors.shape[1])
            self._vectors[before:after] = vectors[known] / lengths[known, np.newaxis]
            known_words = [new[place] for place in known.tolist()]
            self._terms += map(word_term, known_words)
            numbers |= {word: number for number, word in enumerate(known_words, before)}
        # Last: words of a call that was interrupted are met again.
        self._numbers |= numbers

    def _make_room(self, rows: int, dimension: int) -> None:
        many = len(self._vectors)
        if rows > many:
            grown = np.zeros((max(rows, min(2 * many, self._most)), dimension), np.float32)
            if self._terms:
                grown[:many] = self._vectors
            self._vectors = grown


class _RecentTexts:
    """The words of texts that were asked for lately, at least those of the last `_RECENT_CHARACTERS`."""

    def __init__(self) -> None:
        self._young: dict[str, bytes] = {}
        self._old: dict[str, bytes] = {}
        self._room = _RECENT_CHARACTERS

    def get(self, texts: Sequence[str]) -> list[bytes | None]:
        found = list(map(self._young.get, texts))
        if self._old and None in found:
            again = {text: self._old[text] for text in texts if text in self._old and text not in self._young}
            self.put(again)
            found = [again.get(text) if one is None else one for text, one in zip(texts, found, strict=True)]
        return found

    def put(self, words: Mapping[str, bytes]) -> None:
        self._room -= sum(map(len, words)) + _TEXT_ROOM * len(words)
        if self._room < 0:
            self._old, self._young, self._room = self._young, {}, _RECENT_CHARACTERS
        self._young |= words
