"""From what a user gives as `embedder=` to an `Embedder`."""

from __future__ import annotations

from memkit_core.embedders.objects import wrap_object
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import ConfigError
from memkit_core.ports import Embedder

BUILT_IN = "wordllama"


def resolve_embedder(given: object, *, model: str | None = None) -> Embedder:
    """The embedder that `given` means: None or `"wordllama"` for the built-in one, or an object.

    Args:
        given: None, the name of a built-in embedder, a LangChain `Embeddings`, a LlamaIndex
            `BaseEmbedding`, or any object with `embed_documents` and `embed_query`.
        model: the model's name, for objects that do not know it.

    Raises:
        ConfigError: nothing memkit can embed with, or a model without a name.
    """
    if given is None or given == BUILT_IN:
        return WordLlamaEmbedder()
    if isinstance(given, str):
        raise ConfigError(f"unknown embedder {given!r}; use {BUILT_IN!r}, or give an embedding object")
    return wrap_object(given, model=model)
