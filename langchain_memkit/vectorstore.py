"""`MemkitVectorStore`: a collection of documents of one scope as a LangChain vector store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from numpy.typing import ArrayLike

from langchain_memkit.collection import OverCollection
from langchain_memkit.convert import checked_documents, new_documents, to_document
from langchain_memkit.embeddings import MemkitEmbeddings
from langchain_memkit.filters import metadata_filter
from memkit_core import (
    ConfigError,
    InvalidInputError,
    Memory,
    ModelError,
    NewDocument,
    RecallResult,
    Scope,
    ScopeError,
    SearchMode,
)
from memkit_core.degraded import warn_degraded
from memkit_core.errors import shown
from memkit_core.filters import FilterLike
from memkit_core.inputs import checked_count, checked_fraction, checked_ids

_LOGGER = logging.getLogger("memkit.langchain")
_MMR_TAKES = "search by maximal marginal relevance takes a query, k, fetch_k, lambda_mult and filter"
_RETRIEVER_FIELDS = frozenset(VectorStoreRetriever.model_fields) - {"vectorstore"}


class MemkitVectorStore(OverCollection, VectorStore):
    """The documents of one scope, found by meaning, by words, or by both.

    Setup:
        `pip install 'memkit-llm[langchain]'`

    Instantiate:
        ```python
        store = MemkitVectorStore(memory=memory, scope=Scope.user("alice"), name="manuals")
        ```
        It is a space of its own, `documents:<name>`: nothing in it is recalled as a memory, and
        clearing it touches no memory, no other name and no other scope. `from_texts` and
        `from_documents` add to what is there, and take `memory`, `scope` and `name` as well.

    Add:
        `add_documents(documents)` and `add_texts(texts, metadatas, ids=ids)`: one transaction, all
        or nothing. A given id replaces the document that has it, and an id given twice in one call
        is one document, the last. Without an id one is made, so that equal texts stay two
        documents; use `langchain_core.indexing.index` to load the same source again. Metadata is
        JSON and comes back as it was, a tuple as a list; anything else is an error that names the
        key, see `langchain_memkit.plain.plain` for a conversion. A text the model fails on is
        stored, found by words, and embedded later.

    Delete:
        `delete(ids)`, `delete(filter=...)`, or `clear()` for all. `delete()` raises: a forgotten
        argument never empties a store.

    Search:
        `similarity_search(query, k=4, filter={"source": "a.pdf"})`, with `mode="hybrid"` or
        `mode="keyword"` to search by words too; for `filter` see `langchain_memkit.filters`. Documents carry
        the metadata they were given and nothing of ours.

    Search with score:
        Scores, relevance scores and `score_threshold` are one thing: (1 + cosine) / 2, in [0, 1],
        higher is better, identical 1, unrelated about 0.5. They cannot be asked for by words.

    Async:
        Each has its asynchronous form, which does the same work in one worker thread.

    Use as retriever:
        ```python
        store.as_retriever(search_type="mmr", search_kwargs={"k": 4, "filter": {"lang": "en"}})
        ```

    A keyword that a method does not know raises `InvalidInputError`: nothing is answered unfiltered
    by mistake. When the model is down, or without an embedding, words answer instead and a warning
    goes to the logger `memkit.langchain`. Thread-safe. Copies share the memory, unpickling reopens it.

    Attributes:
        memory: where it is kept; the caller closes it.
        scope: whose documents these are.
        name: the name of the collection.
        documents: the collection itself, for what LangChain has no verb for.
    """

    live = frozenset({"documents"})

    def __init__(
        self,
        *,
        memory: Memory,
        scope: Scope,
        name: str = "default",
        embedding: Embeddings | None = None,
        embedding_model: str | None = None,
    ) -> None:
        """Open the collection; nothing is embedded or written yet.

        Args:
            memory: where it is kept.
            scope: whose documents.
            name: any text of at most 4,096 characters.
            embedding: a model of the collection's own; None for the memory's embedder.
            embedding_model: the name of that model, when `embedding` does not say it.

        Raises:
            ScopeError: no scope, or not a `Scope`.
            ConfigError: the collection holds vectors of another model, or a model without a name.
            InvalidInputError: `memory` is no `Memory`, or a name that cannot be one.
        """
        if not isinstance(memory, Memory):
            raise InvalidInputError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        if embedding is None and embedding_model is not None:
            raise ConfigError(
                f"embedding_model={shown(embedding_model)} names the model of embedding=, which was not given"
            )
        self.memory = memory
        self.scope = scope
        self.name = name
        self._embedding = embedding
        self._embedding_model = embedding_model
        self._open()

    def _open(self) -> None:
        self.documents = self.memory.documents(
            self.name, scope=self.scope, embedder=self._embedding, embedding_model=self._embedding_model
        )

    @property
    def embeddings(self) -> Embeddings:
        """The model that was given, or the memory's embedder."""
        return MemkitEmbeddings(self.documents.embedder) if self._embedding is None else self._embedding

    # ------------------------------------------------------------------ writing

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,  # noqa: ARG002 - langchain_core.indexing gives it
        **unknown: object,
    ) -> list[str]:
        """Add texts, replacing those with the same ids; returns the ids in the order of the texts.

        Args:
            texts: what to keep; a generator will do.
            metadatas: one for each text.
            ids: one for each text; where it is None one is made.
            batch_size: changes nothing, see `Config.embed_batch`.
            **unknown: refused.

        Raises:
            InvalidInputError: other than one metadata or id a text, or a value that cannot be
                stored; nothing is written.
            ModelError: a model of the store's own failed at its very first use.
        """
        _refuse(unknown, "add_texts takes texts, metadatas and ids")
        return self._put(new_documents(texts, metadatas, ids))

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        batch_size: int | None = None,  # noqa: ARG002 - langchain_core.indexing gives it
        **unknown: object,
    ) -> list[str]:
        """Add documents under their own ids, or under `ids` when given; see `add_texts`."""
        _refuse(unknown, "add_documents takes documents and ids")
        given = checked_documents(documents)
        texts, metadatas = [one.page_content for one in given], [one.metadata for one in given]
        return self._put(new_documents(texts, metadatas, [one.id for one in given] if ids is None else ids))

    def _put(self, documents: list[NewDocument]) -> list[str]:
        return [record.id for record in self.documents.put(documents)]

    def delete(
        self, ids: list[str] | None = None, *, filter: FilterLike | None = None, **unknown: object
    ) -> bool:
        """Delete the documents with these ids, or those that satisfy `filter`; True when it is done.

        Ids that there are not, and an empty list, delete nothing.

        Raises:
            InvalidInputError: neither or both were given, a text in place of a list of ids, or a
                filter without a condition; see `clear` for all of them.
        """
        _refuse(unknown, "delete takes ids or filter")
        wanted = None if ids is None else checked_ids(ids, "ids")
        self.documents.delete(wanted, filters=metadata_filter(filter))
        return True

    def clear(self) -> None:
        """Delete every document of this store, and nothing else, in one transaction. Idempotent."""
        self.documents.clear()

    async def aclear(self) -> None:
        """See `clear`."""
        await run_in_executor(None, self.clear)

    # ------------------------------------------------------------------ reading

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids that exist, in the order of `ids`, without repeats."""
        return [to_document(record) for record in self.documents.get(checked_ids(ids, "ids"))]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        *,
        filter: FilterLike | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
        **unknown: object,
    ) -> list[Document]:
        """The documents nearest to `query`, best first.

        Args:
            query: the text to compare with.
            k: the most documents, 1 to `Config.max_top_k`.
            filter: conditions on the metadata that every document satisfies, see `langchain_memkit.filters`.
            mode: "dense" by vector, "keyword" by BM25, "hybrid" by both, fused.
            **unknown: refused.

        Raises:
            FilterError: an unknown operator or unusable key; never an empty answer instead.
            InvalidInputError: `k` out of range, an unknown mode or keyword, or a query that is no text.
        """
        _refuse(unknown, "similarity_search takes query, k, filter and mode")
        return [to_document(hit.record) for hit in self._found(query, k=k, filters=filter, mode=mode)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: FilterLike | None = None, **unknown: object
    ) -> list[tuple[Document, float]]:
        """The nearest documents with their similarity in [0, 1], higher is better, best first.

        Where words answered in place of the model no vector was compared: the similarity is 0.
        """
        _refuse(unknown, "search with scores takes query, k, filter and, for relevance, score_threshold")
        found = self._found(query, k=k, filters=filter)
        return [(to_document(hit.record), hit.signals.similarity or 0.0) for hit in found]

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return float  # The similarity is the relevance already.

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: FilterLike | None = None, **unknown: object
    ) -> list[Document]:
        """The documents nearest to a vector of the store's model, best first.

        Raises:
            DimensionMismatchError: it has another length than the vectors of the store.
        """
        _refuse(unknown, "similarity_search_by_vector takes embedding, k and filter")
        return [to_document(hit.record) for hit in self._found(vector=embedding, k=k, filters=filter)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **unknown: object,
    ) -> list[Document]:
        """Documents that are near to `query` and unlike each other, by maximal marginal relevance.

        Args:
            query: the text to compare with.
            k: the most documents.
            fetch_k: how many of the nearest to choose from; at least `k` are.
            lambda_mult: 1 for the nearest, 0 for the most diverse.
            filter: see `similarity_search`.
            **unknown: refused.
        """
        _refuse(unknown, _MMR_TAKES)
        if not isinstance(query, str):
            raise InvalidInputError(f"query must be a string, got {shown(query)}")
        try:
            vector = MemkitEmbeddings(self.documents.embedder).embed_query(query)
        except ModelError:
            # Documented degradation: there is nothing to tell documents apart by, so words answer.
            return self.similarity_search(query, k, filter=filter)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: FilterLike | None = None,
        **unknown: object,
    ) -> list[Document]:
        """See `max_marginal_relevance_search`, for a query's own vector."""
        _refuse(unknown, _MMR_TAKES)
        most = self.memory.config.max_top_k
        fetched = max(checked_count(k, "k", most=most), checked_count(fetch_k, "fetch_k", most=most))
        diverse = checked_fraction(lambda_mult, "lambda_mult")
        found = self._found(vector=embedding, k=fetched, filters=filter)
        vectors = self.documents.vectors([hit.record.id for hit in found])
        near = [hit.record for hit in found if hit.record.id in vectors]
        chosen = maximal_marginal_relevance(
            np.asarray(embedding, np.float32),
            [vectors[record.id].tolist() for record in near],
            lambda_mult=diverse,
            k=k,
        )
        return [to_document(near[i]) for i in chosen]

    def _found(
        self,
        query: str = "",
        *,
        k: int,
        filters: FilterLike | None,
        vector: ArrayLike | None = None,
        mode: SearchMode | str = SearchMode.DENSE,
    ) -> RecallResult:
        result = self.documents.search(
            query, vector=vector, top_k=k, filters=metadata_filter(filters), mode=mode
        )
        warn_degraded(_LOGGER, "vector store", result.missing)
        return result

    # ------------------------------------------------------------------ making one, passing it on

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None = None,
        metadatas: Iterable[dict[str, Any] | None] | None = None,
        *,
        ids: Iterable[str | None] | None = None,
        memory: Memory | None = None,
        scope: Scope | None = None,
        name: str = "default",
        embedding_model: str | None = None,
        **unknown: object,
    ) -> Self:
        """Open a store, see the class for what it takes, and add these texts to what it holds."""
        _refuse(unknown, "MemkitVectorStore takes memory, scope, name, embedding and embedding_model")
        if memory is None:
            raise InvalidInputError("from_texts and from_documents need memory=, where the texts are kept")
        if scope is None:
            raise ScopeError("from_texts and from_documents need scope=, such as Scope.user('alice')")
        store = cls(
            memory=memory, scope=scope, name=name, embedding=embedding, embedding_model=embedding_model
        )
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:
        """LangChain's retriever over this store; `k`, `filter` and so on go into `search_kwargs`.

        Raises:
            InvalidInputError: a keyword that the retriever would ignore.
        """
        _refuse(
            {name: value for name, value in kwargs.items() if name not in _RETRIEVER_FIELDS},
            "as_retriever takes search_type and search_kwargs={'k': ..., 'filter': ...}",
        )
        return super().as_retriever(**kwargs)


def _refuse(unknown: dict[str, object], instead: str) -> None:
    if unknown:
        raise InvalidInputError(f"{instead}; no {', '.join(sorted(unknown))}")
