"""`MemkitVectorStore`: a collection of a memory as the vector store of LlamaIndex's indexes and pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from pydantic import ConfigDict, Field, PrivateAttr, field_serializer

from llamaindex_memkit.filters import has_condition, planned
from llamaindex_memkit.nodes import filterable, from_sources, to_document, to_node
from llamaindex_memkit.querying import Question
from llamaindex_memkit.reopening import remember_open, reopened
from memkit_core import ConfigError, InvalidInputError, Memory, MemoryRecord, Scope, ScopeError
from memkit_core.documents import Documents
from memkit_core.errors import shown
from memkit_core.filters import And, Filter, condition, conjunction
from memkit_core.inputs import checked_id, checked_ids, listed
from memkit_core.scope import require_scope

_PAGE = 10_000


class MemkitVectorStore(BasePydanticVectorStore):
    """A named collection of nodes that belongs to one scope of a `Memory`.

    Instantiate:
        ```python
        from llama_index.core import StorageContext, VectorStoreIndex
        from llamaindex_memkit import MemkitVectorStore
        from memkit_core import Memory, Scope

        store = MemkitVectorStore(memory=Memory.open("memory.db"), scope=Scope.user("alice"))
        VectorStoreIndex(nodes, storage_context=StorageContext.from_defaults(vector_store=store))
        index = VectorStoreIndex.from_vector_store(store)  # the next time
        ```

    Nodes are durable when `add` returns and come back as they went in, without their embedding.
    Nothing here is recalled as a memory, and no other collection or scope is read or changed.

    Every method may be called from any thread; the async ones run in one. All adapters of one
    `Memory` share it, copies and deep copies too; close the `Memory`, not this. `to_dict` and
    pickling keep file, scope and names, never content.

    Attributes:
        scope: whose nodes.
        name: which collection of theirs.
        embedding_model: the name under which the nodes' own vectors are kept, since LlamaIndex does
            not tell the store its model; give your model's name to have another model refused by
            name, not by dimension alone. None: the memory's own embedder embeds each node's text
            and the query's, vectors that come along are not used, and an index does not embed queries.
        path: the file of the memory, None when it keeps none.
    """

    model_config = ConfigDict(extra="forbid")

    stores_text: Literal[True] = True
    scope: Scope
    name: str = "default"
    embedding_model: str | None = Field(default="llama-index", min_length=1)
    path: str | None = None

    _memory: Memory = PrivateAttr()

    def __init__(
        self,
        *,
        scope: Scope | Sequence[Sequence[str]],
        memory: Memory | None = None,
        name: str = "default",
        embedding_model: str | None = "llama-index",
        path: str | None = None,
    ) -> None:
        """Hold `memory`, which stays the caller's to close, or reconnect to the file `path`.

        Args:
            scope: whose nodes, or a scope's `path` as `to_dict` has it.
            memory: the open memory.
            name: which collection of theirs, any id.
            embedding_model: see the class.
            path: a memory's file; only without `memory`.

        Raises:
            ConfigError: neither a memory nor the path of a memory's file, or the collection holds
                vectors of another model.
            ScopeError: a scope that is none.
        """
        if memory is None and path is None:
            raise ConfigError(
                "MemkitVectorStore needs memory=Memory.open(...), or the path of a memory's file to reconnect to"
            )
        if memory is not None and not isinstance(memory, Memory):
            raise ConfigError(f"memory must be a memkit_core.Memory, got {shown(memory)}")
        whose = _scope_of(scope)
        live = reopened(str(path)) if memory is None else memory
        data: dict[str, Any] = {
            "scope": whose,
            "name": name,
            "embedding_model": embedding_model,
            "path": live.path,
        }
        super().__init__(**data)
        self.is_embedding_query = embedding_model is not None
        self._memory = live
        remember_open(live)
        self._documents()

    @field_serializer("scope")
    def _scope_path(self, scope: Scope) -> list[list[str]]:
        return [list(part) for part in scope.path]

    @classmethod
    def class_name(cls) -> str:
        """The name of this class in serialised form."""
        return "MemkitVectorStore"

    @property
    def client(self) -> Memory:
        """The memory."""
        return self._memory

    def _documents(self) -> Documents:
        return self._memory.documents(self.name, scope=self.scope, embedding_model=self.embedding_model)

    # ------------------------------------------------------------------ writing

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:  # type: ignore[override]  # an unknown keyword is an error, not swallowed
        """Store nodes, replacing those with the same ids; returns their ids in order.

        All or nothing, and searchable when this returns. The same id twice in one call is one
        node, the last. The arguments stay as they are.

        Raises:
            InvalidInputError: a node that cannot be stored, or without an embedding where nodes
                come with theirs; nothing is written.
            DimensionMismatchError: embeddings of another length than those the collection holds.
        """
        given = listed(nodes, "nodes")
        for node in given:
            if not isinstance(node, BaseNode):
                raise InvalidInputError(f"add takes nodes, got {shown(node)}")
            if self.embedding_model is not None and node.embedding is None:
                raise InvalidInputError(
                    f"node {node.node_id!r} has no embedding; embed it, or make the store with "
                    "embedding_model=None to have the memory's embedder do it"
                )
        vectors = None if self.embedding_model is None else [node.embedding for node in given]
        stored = self._documents().put([to_document(node) for node in given], vectors=vectors)
        return [record.id for record in stored]

    def delete(self, ref_doc_id: str) -> None:  # type: ignore[override]  # as `add`
        """Delete the nodes whose source is the document `ref_doc_id`; never those without a source."""
        self._documents().delete(filters=from_sources([checked_id(ref_doc_id, "ref_doc_id")]))

    def delete_nodes(  # type: ignore[override]  # as `add`
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Delete the nodes with these ids that satisfy `filters`; unknown ids count as nothing.

        Raises:
            InvalidInputError: neither ids nor a condition was given: see `clear` for all of them; or a
                text in place of a list of ids.
        """
        if node_ids is None and not has_condition(filters):
            raise InvalidInputError("delete_nodes: give node_ids or filters; clear() deletes all nodes")
        wanted = None if node_ids is None else checked_ids(node_ids, "node_ids")
        documents = self._documents()
        documents.delete([record.id for record in _all(documents, _where(documents, filters, wanted))])

    def clear(self) -> None:
        """Delete every node of this collection, and nothing else, in one transaction."""
        self._documents().clear()

    # ------------------------------------------------------------------ reading

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """The nodes with these ids that satisfy `filters`, in the order of `node_ids`, without embeddings.

        None stands for no condition; without ids the newest come first.

        Raises:
            InvalidInputError: a text in place of a list of ids.
        """
        wanted = None if node_ids is None else checked_ids(node_ids, "node_ids")
        documents = self._documents()
        found = _all(documents, _where(documents, filters, wanted))
        if wanted is not None:
            by_id = {record.id: record for record in found}
            found = [by_id[one] for one in dict.fromkeys(wanted) if one in by_id]
        return [to_node(record) for record in found]

    def query(  # type: ignore[override]  # as `add`
        self, query: VectorStoreQuery, *, mmr_threshold: float | None = None
    ) -> VectorStoreQueryResult:
        """The nodes that answer `query`, best first, with similarities, higher is better, in [0, 1].

        `filters`, `doc_ids` and `node_ids` hold before the cut. An empty `node_ids` is no condition:
        that is what an index over a store that keeps text passes. By `query.mode`:

        - `default`: nearest to the query's vector; similarities are (1 + cosine) / 2, identical = 1.
        - `mmr`: of the nearest (four times `similarity_top_k`, at least 100), those least like each
          other, each compared with all that were chosen before it; similarities as above.
        - `text_search`, `sparse`: by words; similarities are BM25 scaled to the best, and order this
          one answer only. `sparse_top_k` replaces `similarity_top_k`.
        - `hybrid`: words and vector fused, best first; similarities are those of the vectors, so
          that a cutoff means the same everywhere, and need not fall. `alpha` is the vector's share
          (0 words alone, 1 vector alone; None the memory's own weights). `hybrid_top_k` replaces
          `similarity_top_k` as the number of nodes; `sparse_top_k` bounds the words' candidates,
          and those of the vector to `similarity_top_k`.

        Args:
            query: LlamaIndex's query.
            mmr_threshold: 1 for nearness alone, 0 for difference alone, .5 when None; also read
                from the query.

        Raises:
            InvalidInputError: a mode or setting that this store, or this mode, does not have; or no
                vector or text where the mode needs it. Nothing is ignored.
            DimensionMismatchError: a vector of another length than the collection's.
        """
        question = Question.of(
            query, mmr_threshold=mmr_threshold, vectors_given=self.embedding_model is not None
        )
        documents = self._documents()
        wanted = [] if query.node_ids is None else checked_ids(query.node_ids, "node_ids")
        sources = None if query.doc_ids is None else checked_ids(query.doc_ids, "doc_ids")
        where = _where(documents, query.filters, wanted or None, sources)
        found = question.answer(documents, where, most=self._memory.config.max_top_k)
        return VectorStoreQueryResult(
            nodes=[to_node(hit.record) for hit, _ in found],
            similarities=[alike for _, alike in found],
            ids=[hit.record.id for hit, _ in found],
        )

    # ------------------------------------------------------------------ async, in worker threads

    async def async_add(self, nodes: Sequence[BaseNode]) -> list[str]:  # type: ignore[override]  # as `add`
        """See `add`."""
        return await asyncio.to_thread(self.add, nodes)

    async def adelete(self, ref_doc_id: str) -> None:  # type: ignore[override]  # as `add`
        """See `delete`."""
        await asyncio.to_thread(self.delete, ref_doc_id)

    async def adelete_nodes(  # type: ignore[override]  # as `add`
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """See `delete_nodes`."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters)

    async def aclear(self) -> None:
        """See `clear`."""
        await asyncio.to_thread(self.clear)

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """See `get_nodes`."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    async def aquery(  # type: ignore[override]  # as `add`
        self, query: VectorStoreQuery, *, mmr_threshold: float | None = None
    ) -> VectorStoreQueryResult:
        """See `query`."""
        return await asyncio.to_thread(self.query, query, mmr_threshold=mmr_threshold)

    # ------------------------------------------------------------------ being sent around

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Where the memory lives, whose nodes and which collection, as JSON; `from_dict` reconnects.

        Raises:
            ConfigError: the memory keeps no file.
        """
        if self.path is None:
            raise ConfigError(
                "a MemkitVectorStore whose Memory keeps no file cannot be serialised; use Memory.open with a path, "
                "or make the store again with memory=..."
            )
        fixed = {"stores_text", "is_embedding_query"}
        return {**self.model_dump(mode="json", exclude=fixed, **kwargs), "class_name": self.class_name()}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as "open this file again", with the `Memory`'s own settings and embedder.

        Raises:
            ConfigError: the memory keeps no file.
        """
        return _unpickled, (type(self), self.to_dict(), self._memory)


def _unpickled(kind: type[MemkitVectorStore], data: dict[str, Any], memory: Memory) -> MemkitVectorStore:
    return kind.from_dict(data, memory=memory)


def _scope_of(given: object) -> Scope:
    if not isinstance(given, list | tuple):
        return require_scope(given, verb="MemkitVectorStore")
    try:
        return Scope.from_path(tuple((kind, owner) for kind, owner in given))
    except (TypeError, ValueError) as error:
        raise ScopeError(f"MemkitVectorStore: {shown(given)} is no path of a scope: {error}") from error


def _all(documents: Documents, where: Filter) -> list[MemoryRecord]:
    page = documents.list(filters=where, limit=_PAGE)
    found = list(page)
    while page.cursor is not None:
        page = documents.list(filters=where, limit=_PAGE, cursor=page.cursor)
        found += page
    return found


def _ids(ids: Sequence[str]) -> Filter:
    return condition("id", "in", ids)


def _where(
    documents: Documents,
    filters: MetadataFilters | None,
    node_ids: Sequence[str] | None,
    doc_ids: Sequence[str] | None = None,
) -> Filter:
    """All the conditions on a node as one that the store decides."""
    plan = planned(filters)
    wanted = None if node_ids is None else _ids(node_ids)
    sources = None if doc_ids is None else from_sources(doc_ids)
    where = conjunction(plan.where, wanted, sources) or And(())
    if not plan.rest:
        return where
    found = ((record.id, filterable(record)) for record in _all(documents, where))
    return _ids([one for one, metadata in found if all(check(metadata) for check in plan.rest)])
