"""From what a user gives as `embedder=` to an `Embedder`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memkit_core.embedders.absent import NAME as ABSENT
from memkit_core.embedders.absent import AbsentEmbedder
from memkit_core.embedders.objects import wrap_object
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import ConfigError, shown
from memkit_core.ports import Embedder

BUILT_IN = "wordllama"

SECRET_OPTIONS = frozenset({"api_key"})
"""Options that no pickle, log or message may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """How a provider's embedder is made.

    Attributes:
        load: returns the class; it imports, so that a process imports only what it uses.
        default: the model when none is named; None when one must be.
    """

    load: Callable[[], Callable[..., Embedder]]
    default: str | None = None


def _absent() -> Callable[..., Embedder]:
    # Whatever model is named behind it: there is none.
    return lambda _: AbsentEmbedder()


def _e5() -> Callable[..., Embedder]:
    from memkit_core.embedders.e5 import E5Embedder

    return E5Embedder


def _fastembed() -> Callable[..., Embedder]:
    from memkit_core.embedders.fastembed import FastEmbedEmbedder

    return FastEmbedEmbedder


def _openai() -> Callable[..., Embedder]:
    from memkit_core.embedders.openai import OpenAIEmbedder

    return OpenAIEmbedder


def _sentence_transformers() -> Callable[..., Embedder]:
    from memkit_core.embedders.sentence_transformers import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder


def _wordllama() -> Callable[..., Embedder]:
    return WordLlamaEmbedder


_PROVIDERS = {
    ABSENT: _Provider(load=_absent, default=ABSENT),
    "e5": _Provider(load=_e5, default="multilingual-e5-small"),
    "fastembed": _Provider(load=_fastembed),
    "openai": _Provider(load=_openai),
    "sentence-transformers": _Provider(load=_sentence_transformers),
    BUILT_IN: _Provider(load=_wordllama, default="l2_supercat_256"),
}


def resolve_embedder(given: object, *, model: str | None = None) -> Embedder:
    """The embedder that `given` means; nothing is loaded, downloaded or sent yet.

    Args:
        given: None for the built-in one, a string, a dict, or an object:

            - `"provider:model"` or `"provider/model"`; the first of the two marks divides, so that
              a model's name may hold both. `"wordllama"` and `"e5"` alone mean their one model,
              `"none"` that there is none, see `AbsentEmbedder`. The
              `model` of what comes back is such a string again.
            - `{"provider": ..., "model": ...}` with options of that provider's embedder class.
            - a LangChain `Embeddings`, a LlamaIndex `BaseEmbedding`, or any object with
              `embed_documents` and `embed_query`.
        model: the model's name, for objects that do not know it.

    Raises:
        ConfigError: nothing memkit can embed with, an unknown provider or option, or a model
            without a name.
        MissingDependencyError: the provider's package is not installed.
    """
    if given is None or isinstance(given, str | Mapping):
        if model is not None:
            raise ConfigError(
                f"the model's name is a part of embedder={shown(without_secrets(given))}; give "
                f"embedding_model={shown(model)} only with an embedding object"
            )
        return _made(*_read(BUILT_IN if given is None else given))
    return wrap_object(given, model=model)


def without_secrets(given: object) -> object:
    """`given` as it may be kept or pickled: a dict loses its keys, all else stays what it is."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if name not in SECRET_OPTIONS}


def _read(given: str | Mapping[Any, Any]) -> tuple[str, str, dict[str, Any]]:
    """Provider, model and options; the model is "" when none is named."""
    if isinstance(given, str):
        mark = re.search("[:/]", given)
        return (given, "", {}) if mark is None else (given[: mark.start()], given[mark.end() :], {})
    options = dict(given)
    provider, model = options.pop("provider", None), options.pop("model", "")
    if not isinstance(provider, str) or not isinstance(model, str):
        raise ConfigError(
            "an embedder dict needs 'provider' and 'model' as strings, such as "
            "{'provider': 'openai', 'model': 'text-embedding-3-small'}"
        )
    return provider, model, options


def _made(name: str, model: str, options: dict[str, Any]) -> Embedder:
    provider = _PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(
            f"unknown embedder {shown(name)}; the provider is one of {', '.join(_PROVIDERS)}, as in "
            "'openai:text-embedding-3-small', or give an embedding object"
        )
    chosen = model or provider.default
    if chosen is None:
        raise ConfigError(f"name a model of {name}, as in '{name}:model-name'")
    make = provider.load()
    taken = [one.name for one in inspect.signature(make).parameters.values() if one.kind is one.KEYWORD_ONLY]
    unknown = [option for option in options if option not in taken]
    if unknown:
        # The names only: a value may be a key under a misspelt name.
        raise ConfigError(
            f"{name} takes no option {', '.join(map(repr, unknown))}; it takes {', '.join(taken) or 'none'}"
        )
    return make(chosen, **options)
