"""`CheckedEmbedder`: what memkit itself calls. Batches, caches, and believes no model."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from memkit_core.embedders.absent import AbsentEmbedder
from memkit_core.embedders.texts import is_blank
from memkit_core.errors import MissingDependencyError, ModelError
from memkit_core.locks import ThreadLock
from memkit_core.observing import EmbeddingCall
from memkit_core.ports import Embedder, Matrix, Vector, VectorSpace
from memkit_core.sequences import chunked

_MATRIX = 2
_LONGEST_REASON = 500

# Larger numbers square to infinity in float32, and a vector's length with them.
_LARGEST = 1e15


class CurrentModel(Protocol):
    """What a memory embeds with now; another one once its model was changed."""

    def __call__(self, *, settled: bool = False) -> CheckedEmbedder:
        """The embedder; `settled` waits for a change that is being made in this moment."""


class CheckedEmbedder:
    """Wraps an `Embedder`: batches of at most `batch`, an LRU cache with a time limit, and checks.

    Every result is `(n, d) float32`, finite, one row a text, of one dimension for good; anything
    else, an exception of the model included, is a `ModelError`. A text of white space only is never
    sent, since some services refuse it: its vector is zero. Arrays belong to the caller.
    Thread-safe if the model is; two threads that miss the same text at once both send it.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        batch: int = 100,
        cache_size: int = 10_000,
        cache_seconds: float = 3600.0,
        dimension: int | None = None,
        given: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap `embedder`; a `cache_size` of 0 keeps nothing; `dimension` is that of the store, if known.

        `given` says that its vectors are of a given space, see `VectorSpace`.
        """
        self._embedder = embedder
        self._batch = batch
        self._cache = _Cache(cache_size, cache_seconds, monotonic)
        self._dimension = dimension
        self._given = given
        self._mutex = ThreadLock()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._embedder.model

    @property
    def revision(self) -> str:
        """What else changes the vectors."""
        return self._embedder.revision

    @property
    def absent(self) -> bool:
        """Whether the memory was opened without its model."""
        return isinstance(self._embedder, AbsentEmbedder)

    @property
    def fast(self) -> bool:
        """Whether embedding some hundred texts takes milliseconds and no network."""
        return getattr(self._embedder, "fast", False) is True

    def knows(self, text: str) -> float:
        """The share of `text`, 0 to 1, that the model has words for; 1 when it does not say.

        A model says it by a method of this name. A vector of what it does not know finds what looks alike, not what
        means the same, so the ranking listens to it less.

        Raises:
            ModelError: it failed or answered nonsense.
        """
        ask = getattr(self._embedder, "knows", None)
        if not callable(ask):
            return 1.0
        try:
            share = float(ask(text))
        except (ModelError, MissingDependencyError):
            raise
        except Exception as error:  # any failure of a foreign model is one documented error
            raise ModelError(f"knows() raised {type(error).__name__}", model=self.model) from error
        if not 0 <= share <= 1:
            raise ModelError(f"knows() gave {share}, not a share from 0 to 1", model=self.model)
        return share

    @property
    def compares_words(self) -> bool:
        """Whether the model is a `WordEmbedder`."""
        return callable(getattr(self._embedder, "embed_words", None))

    @property
    def dimension(self) -> int | None:
        """Length of the vectors, None before the first one."""
        return self._dimension

    def space(self) -> VectorSpace:
        """The vector space of this model; embeds one short text when the dimension is not known yet.

        Raises:
            ModelError: that failed.
        """
        return VectorSpace(
            model=self.model,
            revision=self.revision,
            dimension=self._known_dimension(),
            given=self._given,
        )

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """The vectors of `texts`, in order; texts seen lately, or twice, are embedded once.

        Raises:
            ModelError: the model failed or answered nonsense; nothing of this call is returned.
        """
        keys = {text: self._key("document", text) for text in dict.fromkeys(texts) if not is_blank(text)}
        known = {text: self._cache.get(key) for text, key in keys.items()}
        missing = [text for text, vector in known.items() if vector is None]
        for chunk in chunked(missing, self._batch):
            rows = self._call(partial(self._embedder.embed_documents, list(chunk)), len(chunk))
            for text, row in zip(chunk, rows, strict=True):
                known[text] = row
                self._cache.put(keys[text], row)
        found = [known.get(text) for text in texts]
        if not found:
            return np.zeros((0, self._dimension or 0), np.float32)
        nothing = np.zeros(self._known_dimension(), np.float32)
        return np.stack([nothing if row is None else row for row in found])

    def embed_query(self, text: str) -> Vector:
        """The vector of a query, `(d,) float32`.

        Raises:
            ModelError: the model failed or answered nonsense.
        """
        if is_blank(text):
            return np.zeros(self._known_dimension(), np.float32)
        vector = self._cache.get(self._key("query", text))
        if vector is None:
            vector = self._ask_query(text)
        return vector.copy()

    def embed_words(self, words: Sequence[str]) -> Matrix:
        """The vectors of single words, see `WordEmbedder`; only for a model that `compares_words`.

        Raises:
            ModelError: the model failed or answered nonsense.
        """
        embed: Callable[[list[str]], Matrix] = getattr(self._embedder, "embed_words")  # noqa: B009 - no part of the port
        return self._checked(partial(embed, list(words)), len(words))

    def _ask_query(self, text: str) -> Vector:
        vector: Vector = self._call(lambda: np.asarray(self._embedder.embed_query(text))[np.newaxis], 1)[0]
        self._cache.put(self._key("query", text), vector)
        return vector

    def _known_dimension(self) -> int:
        return self._dimension or len(self._ask_query("dimension"))

    def _call(self, embed: Callable[[], Matrix], count: int) -> Matrix:
        with EmbeddingCall(self.model, of=self._embedder, texts=count, local=self.fast):
            rows = self._checked(embed, count)
        with self._mutex:
            if self._dimension is None:
                self._dimension = rows.shape[1]
        if rows.shape[1] != self._dimension:
            raise ModelError(
                f"returned vectors of {rows.shape[1]} dimensions, those before have {self._dimension}",
                model=self.model,
            )
        return rows

    def _checked(self, embed: Callable[[], Matrix], count: int) -> Matrix:
        try:
            # A copy: what the model returned stays the model's. Too large for float32 is not finite.
            with np.errstate(over="ignore"):
                rows = np.array(embed(), dtype=np.float32)
        except (ModelError, MissingDependencyError):
            raise
        except Exception as error:  # any failure of a foreign model is one documented error
            reason = f"{type(error).__name__}: {error}"
            if len(reason) > _LONGEST_REASON:
                reason = f"{reason[:_LONGEST_REASON]}… ({len(reason)} characters)"
            raise ModelError(f"embedding {count} text(s) raised {reason}", model=self.model) from error
        if rows.ndim != _MATRIX or len(rows) != count or not rows.size:
            raise ModelError(f"returned shape {rows.shape} for {count} text(s)", model=self.model)
        if not (np.abs(rows) < _LARGEST).all():
            raise ModelError(
                f"returned numbers that are not finite, or above {_LARGEST:g}, for {count} text(s)",
                model=self.model,
            )
        return rows

    def _key(self, side: str, text: str) -> bytes:
        """A digest of model, revision, side and text: long texts cost nothing extra."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.model, self.revision, side, text):
            # Lone surrogates are the model's to refuse.
            encoded = part.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
        return digest.digest()


class _Cache:
    """An LRU map with a time limit, counted from when an entry was put."""

    def __init__(self, size: int, seconds: float, monotonic: Callable[[], float]) -> None:
        self._size, self._seconds, self._monotonic = size, seconds, monotonic
        self._entries: OrderedDict[bytes, tuple[float, Vector]] = OrderedDict()
        self._mutex = ThreadLock()

    def get(self, key: bytes) -> Vector | None:
        with self._mutex:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._monotonic() - entry[0] > self._seconds:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, key: bytes, vector: Vector) -> None:
        if self._size <= 0:
            return
        # A row of its own: a view would keep the whole batch alive.
        kept = vector.copy()
        with self._mutex:
            self._entries[key] = (self._monotonic(), kept)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
