"""Vectors, and the spaces they are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""Shape `(d,) float32`."""
Matrix = NDArray[np.float32]
"""Shape `(n, d) float32`, one row a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSpace:
    """One named space of vectors: which model made them. Retrieval never mixes two spaces.

    `given` tells the space of vectors that come with their texts, or from a model of their own, from
    the space of the memory's embedder: that one changes when the memory is embedded anew.
    """

    model: str
    revision: str
    dimension: int
    given: bool = False

    @property
    def fingerprint(self) -> str:
        """The space's name: model, revision, dimension, and whether it is a given one."""
        return f"{self.model}|{self.revision}|{self.dimension}" + ("|given" if self.given else "")
