"""Which vectors a collection holds, and whether those that are given can join them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.errors import ConfigError, DimensionMismatchError, InvalidInputError, shown
from memkit_core.models import Target
from memkit_core.ports import Matrix, RecordStore, VectorSpace

_MATRIX = 2


class CollectionSpace:
    """The vector space of one collection. Thread-safe."""

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        store: RecordStore,
        embedder: CheckedEmbedder | None,
        model: str | None,
    ) -> None:
        """As in `Documents`: `embedder` and `model` are None for the memory's own vectors."""
        self._name = name
        self._target = target
        self._store = store
        self._embedder = embedder
        self._model = model

    def checked(self, vectors: ArrayLike | None, count: int) -> Matrix | None:
        """The vectors that come with `count` texts, shape `(count, d) float32`; None when they come without.

        Raises:
            InvalidInputError: they cannot be, or are missing where nothing embeds the texts.
        """
        if vectors is None or not count:
            if self._model is not None and self._embedder is None and count:
                raise InvalidInputError(
                    f"the texts of {self._name!r} come with the vectors of {self._model!r}; give vectors, or open "
                    "the collection with an embedder"
                )
            return None
        if self._model is None:
            raise InvalidInputError(
                f"{self._name!r} is embedded by the memory itself; open it with embedding_model= to give vectors"
            )
        matrix = finite(vectors, _MATRIX, f"vectors, one row for each of {count} documents,")
        if len(matrix) != count:
            raise InvalidInputError(f"vectors: {count} documents came with {len(matrix)} vectors")
        return matrix

    def to_write(self, vectors: Matrix | None) -> VectorSpace | None:
        """The given space that texts with these vectors are written to; None for the memory's own.

        Raises:
            ConfigError, DimensionMismatchError: as `held`.
            ModelError: the collection's embedder failed at its first use.
        """
        if self._model is None:
            return None
        held = self.held(vectors.shape[1] if vectors is not None else None)
        if held is not None:
            return held
        if vectors is None:
            assert self._embedder is not None
            return self._embedder.space()
        return self._named_space(self._model, vectors.shape[1])

    def _named_space(self, model: str, dimension: int) -> VectorSpace:
        revision = "" if self._embedder is None else self._embedder.revision
        return VectorSpace(model=model, revision=revision, dimension=dimension, given=True)

    def held(self, dimension: int | None) -> VectorSpace | None:
        """The given space the collection's vectors are in, None when it is empty or has the memory's.

        Raises:
            ConfigError: they are not those this collection was opened for.
            DimensionMismatchError: they have another length than `dimension`.
        """
        held, place = self._store.space_of(self._target), f"{self._target.space!r} of {self._target.scope}"
        if held is None:
            return None
        if self._model is None:
            if held.given:
                raise ConfigError(
                    f"{place} holds vectors of {held.model!r}; open it with that embedder, or "
                    f"with embedding_model={held.model!r}"
                )
            return None
        expected = self._named_space(self._model, held.dimension)
        if held != expected:
            raise ConfigError(
                f"{place} holds vectors of {held.model!r}, it was opened for {self._model!r}; "
                "open it with the model it was made with, or clear it first"
            )
        if dimension not in (None, held.dimension):
            raise DimensionMismatchError(
                f"{self._target.space!r} holds vectors of {held.dimension} dimensions, got {dimension}; use the model it was "
                "made with",
                backend="memkit",
                operation="documents",
            )
        return held


def finite(vectors: ArrayLike, dimensions: int, expected: str) -> Matrix:
    """`vectors` as float32 with so many `dimensions`; `expected` names them in the error."""
    try:
        found = np.array(vectors, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{expected} must be numbers, got {shown(vectors)}") from error
    if found.ndim != dimensions or not found.shape[-1] or not np.isfinite(found).all():
        raise InvalidInputError(f"{expected} must be finite numbers, got shape {found.shape}")
    return found
