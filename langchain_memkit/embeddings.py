"""`MemkitEmbeddings`: an embedder of memkit as LangChain's `Embeddings`."""

from __future__ import annotations

from typing import Self

from langchain_core.embeddings import Embeddings

from memkit_core import ConfigError
from memkit_core.embedders import resolve_embedder
from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.embedders.resolve import without_secrets


class MemkitEmbeddings(Embeddings):
    """An embedder of memkit, for whatever else of LangChain takes `Embeddings`.

    `MemkitEmbeddings()` is the built-in one: no key, no server, no download. The asynchronous forms
    do the same work in a worker thread. Thread-safe; copies share the embedder.

    Attributes:
        model: the model's name.
        revision: what else changes the vectors.
    """

    def __init__(self, embedder: object = None, *, embedding_model: str | None = None) -> None:
        """Wrap `embedder`; nothing is loaded, downloaded or sent yet.

        Args:
            embedder: any form that `Memory.open` takes; None for the built-in one.
            embedding_model: the model's name, for an embedder object that does not know it.

        Raises:
            ConfigError: nothing memkit can embed with, or a model without a name.
            MissingDependencyError: the provider's package is not installed.
        """
        self._given = (without_secrets(embedder), embedding_model)
        self._embedder = (
            embedder
            if isinstance(embedder, CheckedEmbedder)
            else CheckedEmbedder(resolve_embedder(embedder, model=embedding_model))
        )
        self.model, self.revision = self._embedder.model, self._embedder.revision

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in order; all zero for a text that holds nothing to embed.

        Raises:
            ModelError: the model failed or answered nonsense.
        """
        vectors: list[list[float]] = self._embedder.embed_documents(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector to compare with documents; see `embed_documents`."""
        vector: list[float] = self._embedder.embed_query(text).tolist()
        return vector

    def __copy__(self) -> Self:
        """The same object: the model is shared, not copied."""
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """The same object: frameworks deep-copy what holds it."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as "make it again from what was given".

        Raises:
            ConfigError: it belongs to an open memory.
        """
        if isinstance(self._given[0], CheckedEmbedder):
            raise ConfigError(
                "the embeddings of an open memory cannot be pickled; pickle the vector store, or use "
                "MemkitEmbeddings('provider:model')"
            )
        return _made_again, self._given


def _made_again(embedder: object, embedding_model: str | None) -> MemkitEmbeddings:
    return MemkitEmbeddings(embedder, embedding_model=embedding_model)
