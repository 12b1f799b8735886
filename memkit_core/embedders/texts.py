"""What happens to a text before a model sees it: cut to a limit, marked with its side."""

from __future__ import annotations

from dataclasses import dataclass

from memkit_core.embedders.options import checked_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """What a model wants written before a query and before a document; "" for nothing."""

    query: str = ""
    document: str = ""


_E5 = Prefixes(query="query: ", document="passage: ")
_NOMIC = Prefixes(query="search_query: ", document="search_document: ")
_SENTENCE = Prefixes(query="Represent this sentence for searching relevant passages: ")
_GEMMA = Prefixes(query="task: search result | query: ", document="title: none | text: ")
_QWEN = Prefixes(
    query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)

PREFIXES = {
    "BAAI/bge-base-en": _SENTENCE,
    "BAAI/bge-large-en": _SENTENCE,
    "BAAI/bge-small-en": _SENTENCE,
    "Qwen/Qwen3-Embedding-0.6B": _QWEN,
    "Qwen/Qwen3-Embedding-0.6B-Q": _QWEN,
    "google/embeddinggemma-300m": _GEMMA,
    "intfloat/e5-base": _E5,
    "intfloat/e5-base-v2": _E5,
    "intfloat/e5-large": _E5,
    "intfloat/e5-large-v2": _E5,
    "intfloat/e5-small": _E5,
    "intfloat/e5-small-v2": _E5,
    "intfloat/multilingual-e5-base": _E5,
    "intfloat/multilingual-e5-large": _E5,
    "intfloat/multilingual-e5-small": _E5,
    "mixedbread-ai/mxbai-embed-large-v1": _SENTENCE,
    "nomic-ai/nomic-embed-text-v1": _NOMIC,
    "nomic-ai/nomic-embed-text-v1.5": _NOMIC,
    "nomic-ai/nomic-embed-text-v1.5-Q": _NOMIC,
    "snowflake/snowflake-arctic-embed-l": _SENTENCE,
    "snowflake/snowflake-arctic-embed-m": _SENTENCE,
    "snowflake/snowflake-arctic-embed-m-long": _SENTENCE,
    "snowflake/snowflake-arctic-embed-s": _SENTENCE,
    "snowflake/snowflake-arctic-embed-xs": _SENTENCE,
}
"""Models trained with prefixes that no library adds by itself, each as its model card says.

A name that is not here gets none: `query_prefix` and `document_prefix` say it for any model.
"""


def prefixes_of(model: str, *, query: object = None, document: object = None) -> Prefixes:
    """The prefixes of `model`: those given, else those of `PREFIXES`, else none.

    Raises:
        ConfigError: one that was given is no string.
    """
    if query is None and document is None:
        return PREFIXES.get(model, Prefixes())
    return Prefixes(
        query="" if query is None else checked_text("query_prefix", query),
        document="" if document is None else checked_text("document_prefix", document),
    )


def is_blank(text: str) -> bool:
    """Whether nothing but white space is in it."""
    return not text or text.isspace()


def cut_bytes(text: str, limit: int) -> str:
    """The longest beginning of `text` of at most `limit` bytes of UTF-8, whole characters only."""
    if len(text) * 4 <= limit:
        return text
    # A character takes at least one byte: no more than `limit` of them need encoding.
    encoded = text[:limit].encode("utf-8")
    return encoded[:limit].decode("utf-8", "ignore")
