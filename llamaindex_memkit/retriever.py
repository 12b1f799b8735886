"""`MemkitRetriever`: memories as the nodes of a query or chat engine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from memkit_core import Memory, RecordType, Scope, ScoredRecord, parse_filter
from memkit_core.degraded import warn_degraded
from memkit_core.documents import document_metadata
from memkit_core.filters import FilterLike
from memkit_core.scope import require_scope

_log = logging.getLogger("memkit.llamaindex")


class MemkitRetriever(BaseRetriever):
    """Recalls the records of the given scopes; nodes come best first.

    A node's id is the record's point id, which no other record of any scope shares. Its score is
    `signals.similarity`, in [0, 1] and comparable across queries, or None for a record without a
    vector; the order is recall's own, which weighs more than similarity. Metadata is that of
    `memkit_core.documents.document_metadata`; none of it is part of what a model or an embedder sees.

    Args:
        memory: the open memory; it stays the caller's to close.
        scope: one scope or several, as for `Memory.recall`.
        top_k: the most nodes.
        include_messages: also retrieve conversation turns.
        filters, types: only records that satisfy these.
        callback_manager: LlamaIndex's own.
    """

    def __init__(
        self,
        *,
        memory: Memory,
        scope: Scope | Sequence[Scope],
        top_k: int = 5,
        include_messages: bool = True,
        filters: FilterLike | None = None,
        types: Iterable[RecordType | str] = (),
        callback_manager: CallbackManager | None = None,
    ) -> None:
        """Read from `memory`; see the class."""
        super().__init__(callback_manager=callback_manager)
        scopes = [scope] if isinstance(scope, Scope) or not isinstance(scope, Sequence) else scope
        self._scopes = tuple(require_scope(one, verb="MemkitRetriever") for one in scopes)
        self._memory = memory
        self._top_k = top_k
        self._include_messages = include_messages
        self._filters = parse_filter(filters)
        self._types = tuple(types)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result = self._memory.recall(
            query_bundle.query_str,
            scope=self._scopes,
            top_k=self._top_k,
            include_messages=self._include_messages,
            filters=self._filters,
            types=self._types,
        )
        # Nodes say so too, but an empty answer has none that could.
        warn_degraded(_log, "retriever", result.missing)
        return [_node(hit, result.missing) for hit in result]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: ScoredRecord, missing: frozenset[str]) -> NodeWithScore:
    metadata = document_metadata(hit, missing=missing)
    node = TextNode(
        id_=str(hit.record.point_id),
        text=hit.record.content,
        metadata=metadata,
        excluded_llm_metadata_keys=list(metadata),
        excluded_embed_metadata_keys=list(metadata),
    )
    return NodeWithScore(node=node, score=hit.signals.similarity)
