"""`CheckedEmbedder`: what memkit itself calls. Batches, caches, and believes no model."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from memkit_core.errors import MissingDependencyError, ModelError
from memkit_core.locks import ThreadLock
from memkit_core.ports import Embedder, Matrix, Vector, VectorSpace
from memkit_core.sequences import chunked

_MATRIX = 2


class CheckedEmbedder:
    """Wraps an `Embedder`: batches of at most `batch`, an LRU cache with a time limit, and checks.

    Every result is `(n, d) float32`, finite, one row a text, of one dimension for good; anything
    else, an exception of the model included, is a `ModelError`. Thread-safe if the model is.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        batch: int = 100,
        cache_size: int = 10_000,
        cache_seconds: float = 3600.0,
        dimension: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap `embedder`; a `cache_size` of 0 keeps nothing; `dimension` is that of the store, if known."""
        self._embedder = embedder
        self._batch = batch
        self._cache = _Cache(cache_size, cache_seconds, monotonic)
        self._dimension = dimension
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
    def fast(self) -> bool:
        """Whether embedding some hundred texts takes milliseconds and no network."""
        return getattr(self._embedder, "fast", False) is True

    @property
    def dimension(self) -> int | None:
        """Length of the vectors, None before the first one."""
        return self._dimension

    def space(self) -> VectorSpace:
        """The vector space of this model; embeds one short text when the dimension is not known yet."""
        if self._dimension is None:
            self.embed_query("dimension")
        assert self._dimension is not None
        return VectorSpace(model=self.model, revision=self.revision, dimension=self._dimension)

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """The vectors of `texts`, in order; texts seen lately, or twice, are embedded once.

        Raises:
            ModelError: the model failed or answered nonsense; nothing of this call is returned.
        """
        known = {text: self._cache.get("document", text) for text in texts}
        missing = [text for text, vector in known.items() if vector is None]
        for chunk in chunked(missing, self._batch):
            rows = self._call(partial(self._embedder.embed_documents, list(chunk)), len(chunk))
            for text, row in zip(chunk, rows, strict=True):
                known[text] = row
                self._cache.put("document", text, row)
        found = [known[text] for text in texts]
        if not found:
            return np.zeros((0, self._dimension or 0), np.float32)
        return np.stack([row for row in found if row is not None])

    def embed_query(self, text: str) -> Vector:
        """The vector of a query, `(d,) float32`.

        Raises:
            ModelError: the model failed or answered nonsense.
        """
        cached = self._cache.get("query", text)
        if cached is not None:
            return cached
        vector: Vector = self._call(lambda: np.asarray(self._embedder.embed_query(text))[np.newaxis], 1)[0]
        self._cache.put("query", text, vector)
        return vector

    def _call(self, embed: Callable[[], Matrix], count: int) -> Matrix:
        try:
            # A copy: what the model returned stays the model's.
            rows = np.array(embed(), dtype=np.float32)
        except MissingDependencyError:
            raise
        except Exception as error:  # any failure of a foreign model is one documented error
            raise ModelError(
                f"embedding {count} text(s) raised {type(error).__name__}: {error}", model=self.model
            ) from error
        if rows.ndim != _MATRIX or len(rows) != count:
            raise ModelError(f"returned shape {rows.shape} for {count} text(s)", model=self.model)
        if not np.isfinite(rows).all():
            raise ModelError(f"returned numbers that are not finite for {count} text(s)", model=self.model)
        with self._mutex:
            if self._dimension is None and rows.shape[1] > 0:
                self._dimension = rows.shape[1]
        if rows.shape[1] != self._dimension:
            raise ModelError(
                f"returned vectors of {rows.shape[1]} dimensions, those of the store have {self._dimension}",
                model=self.model,
            )
        return rows


class _Cache:
    """An LRU map with a time limit. Texts are kept as digests, so long ones cost nothing extra."""

    def __init__(self, size: int, seconds: float, monotonic: Callable[[], float]) -> None:
        self._size, self._seconds, self._monotonic = size, seconds, monotonic
        self._entries: OrderedDict[bytes, tuple[float, Vector]] = OrderedDict()
        self._mutex = ThreadLock()

    def get(self, side: str, text: str) -> Vector | None:
        key = _key(side, text)
        with self._mutex:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._monotonic() - entry[0] > self._seconds:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return entry[1]

    def put(self, side: str, text: str, vector: Vector) -> None:
        if self._size <= 0:
            return
        with self._mutex:
            self._entries[_key(side, text)] = (self._monotonic(), vector)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


def _key(side: str, text: str) -> bytes:
    return hashlib.blake2b(f"{side}\0{text}".encode(), digest_size=16).digest()
