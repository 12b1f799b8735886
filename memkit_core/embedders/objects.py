"""Embedding objects of other libraries, recognised by their methods, not by an import."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from memkit_core.errors import ConfigError, shown
from memkit_core.ports import Embedder, Matrix, Vector


@runtime_checkable
class DocumentEmbeddings(Protocol):
    """A LangChain `Embeddings`, or any object with its two methods."""

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """One vector a text."""

    def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a query."""


@runtime_checkable
class TextEmbedding(Protocol):
    """A LlamaIndex `BaseEmbedding`, or any object with these two methods."""

    def get_text_embedding_batch(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """One vector a text."""

    def get_query_embedding(self, query: str) -> Sequence[float]:
        """The vector of a query."""


class LangChainEmbedder:
    """A LangChain `Embeddings` as an `Embedder`."""

    def __init__(self, embeddings: DocumentEmbeddings, *, model: str, revision: str) -> None:
        """Use `embeddings`, known by `model`."""
        self.model, self.revision = model, revision
        # What only memkit's own, and objects made for it, say of themselves; see `CheckedEmbedder`.
        self.fast = getattr(embeddings, "fast", False) is True
        self.knows = getattr(embeddings, "knows", None)
        self.embed_words = getattr(embeddings, "embed_words", None)
        self._embeddings = self.wrapped = embeddings

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`."""
        return _rows(self._embeddings.embed_documents(list(texts)) if texts else [])

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`."""
        return np.asarray(self._embeddings.embed_query(text), dtype=np.float32)


class LlamaIndexEmbedder:
    """A LlamaIndex `BaseEmbedding` as an `Embedder`."""

    def __init__(self, embedding: TextEmbedding, *, model: str, revision: str) -> None:
        """Use `embedding`, known by `model`."""
        self.model, self.revision = model, revision
        self._embedding = self.wrapped = embedding

    def embed_documents(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder.embed_documents`."""
        return _rows(self._embedding.get_text_embedding_batch(list(texts)) if texts else [])

    def embed_query(self, text: str) -> Vector:
        """See `Embedder.embed_query`."""
        return np.asarray(self._embedding.get_query_embedding(text), dtype=np.float32)


def _rows(vectors: Sequence[Sequence[float]]) -> Matrix:
    # An empty list alone would be no matrix.
    return np.asarray(vectors, np.float32) if len(vectors) else np.zeros((0, 0), np.float32)


def wrap_object(found: object, *, model: str | None) -> Embedder:
    """The `Embedder` for an object of LangChain, of LlamaIndex, or with the port's own methods.

    Raises:
        ConfigError: it is a class, has none of the known methods or `async` ones, or its model has no name.
    """
    if isinstance(found, type):
        raise ConfigError(
            f"an embedder is an object; got the class {found.__name__}, give {found.__name__}(...)"
        )
    if model is not None and not isinstance(model, str):
        raise ConfigError(f"embedding_model must be the name of a model, got {shown(model)}")
    name = model or _name(found)
    revision = getattr(found, "revision", "")
    if not isinstance(revision, str):
        revision = ""
    for method in (
        "embed_documents", "embed_query", "embed_words", "get_text_embedding_batch", "get_query_embedding",
    ):  # fmt: skip
        if inspect.iscoroutinefunction(getattr(found, method, None)):
            raise ConfigError(
                f"{type(found).__name__}.{method} is async; an embedder answers at once, also for AsyncMemory, "
                "which waits in a thread"
            )
    if isinstance(found, TextEmbedding):
        return LlamaIndexEmbedder(found, model=_named(name, found), revision=revision)
    if isinstance(found, DocumentEmbeddings):
        return LangChainEmbedder(found, model=_named(name, found), revision=revision)
    raise ConfigError(
        "an embedder needs embed_documents and embed_query (LangChain, memkit) or "
        f"get_text_embedding_batch and get_query_embedding (LlamaIndex); got {type(found).__name__} {shown(found)}"
    )


def _name(found: object) -> str | None:
    for attribute in ("model", "model_name"):
        name = getattr(found, attribute, None)
        # LlamaIndex calls every unnamed model "unknown": as good as no name.
        if isinstance(name, str) and name and name != "unknown":
            # Of a string Enum the value, not "Class.MEMBER".
            return str.__str__(name)
    return None


def _named(name: str | None, found: object) -> str:
    if name is None:
        raise ConfigError(
            f"{type(found).__name__} does not say which model it is; give its name: "
            "Memory.open(..., embedder=..., embedding_model='my-model'). Vectors of two models must "
            "never meet in one space"
        )
    return name
