"""Embedders whose vectors tell which text they were made from, and that can fail in each way."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence

import numpy as np

from memkit_core.ports import Matrix, Vector

DIMENSION = 32
FAULTS = ("raises", "count", "length", "nan", "hangs")
"""The ways in which `FaultyEmbedder` fails."""


def vector_of(text: str) -> Vector:
    """The vector of a text, of length 1; those of any two texts are far apart."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    vector = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class HashEmbedder:
    """Vectors that depend on every character, so that a vector at a wrong text shows at once."""

    model = "faults-hash"

    def __init__(self, *, pause: float = 0.0) -> None:
        """Each call for documents takes `pause` seconds."""
        self.pause = pause
        self.texts = 0
        """How many texts were embedded for storing."""

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text."""
        self.texts += len(texts)
        time.sleep(self.pause)
        return np.stack([vector_of(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """The same vector as that of the document."""
        return vector_of(text)


class OldEmbedder:
    """The model of a store before it is changed: vectors that are those of no text in `HashEmbedder`."""

    model = "faults-old"

    def __init__(self, *, dimension: int) -> None:
        """Vectors of at most `DIMENSION` numbers."""
        self.dimension = dimension

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vector:
        """The same vector as that of the document."""
        return vector_of(f"old {text}")[: self.dimension]


class FaultyEmbedder(HashEmbedder):
    """As `HashEmbedder` while `fault` is None; else documents are embedded wrongly, or never."""

    def __init__(self) -> None:
        """Healthy at first."""
        super().__init__()
        self.fault: str | None = None
        self._healed = threading.Event()

    def heal(self) -> None:
        """Work from now on; calls that hang go on."""
        self.fault = None
        self._healed.set()

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """One row a text, or whatever the fault makes of it."""
        rows = super().embed_documents(texts)
        match self.fault:
            case "raises":
                raise RuntimeError("the model is down")
            case "count":
                return rows[:-1]
            case "length":
                return rows[:, :-1]
            case "nan":
                rows[-1, 0] = np.nan
            case "hangs":
                self._healed.wait()
        return rows
