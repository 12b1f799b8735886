"""Rerankers across the border: memkit's as a node postprocessor, and a postprocessor as memkit's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.bridge.pydantic import ConfigDict, Field, field_validator
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from memkit_core import InvalidInputError
from memkit_core.ports import Reranker
from memkit_core.rerankers import resolve_reranker, scores_of_order


class MemkitPostprocessor(BaseNodePostprocessor):
    """Orders nodes by a reranker, best first; their scores become the reranker's.

    Attributes:
        reranker: what `memkit_core.rerankers.resolve_reranker` takes.
        top_n: the most nodes that are returned; all when None.
    """

    # LlamaIndex's own class takes unknown names without a word, and with them a misspelt top_n.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Any
    top_n: int | None = Field(default=None, ge=1)

    @field_validator("reranker")
    @classmethod
    def _resolved(cls, given: object) -> Reranker:
        return resolve_reranker(given)

    @classmethod
    def class_name(cls) -> str:
        """The name LlamaIndex knows it by."""
        return "MemkitPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise InvalidInputError("MemkitPostprocessor needs the query: give query_bundle or query_str")
        if not nodes:
            return []
        texts = [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
        scores = self.reranker(query_bundle.query_str, texts)
        order = sorted(range(len(nodes)), key=lambda place: -scores[place])
        return [NodeWithScore(node=nodes[place].node, score=scores[place]) for place in order[: self.top_n]]


def postprocessor_reranker(postprocessor: BaseNodePostprocessor) -> Reranker:
    """A LlamaIndex node postprocessor as a `Reranker` for `Memory.recall`.

    Its order decides: 1 for the first node it returns, down to 0 for those it drops.

    Raises:
        InvalidInputError: it is no `BaseNodePostprocessor`.
    """
    if not isinstance(postprocessor, BaseNodePostprocessor):
        raise InvalidInputError(
            f"postprocessor_reranker takes a BaseNodePostprocessor, got {type(postprocessor).__name__}"
        )

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        nodes = [
            NodeWithScore(node=TextNode(id_=str(place), text=text), score=1.0)
            for place, text in enumerate(texts)
        ]
        kept = postprocessor.postprocess_nodes(nodes, query_str=query)
        known = {str(place): place for place in range(len(texts))}
        places = [known.get(node.node.node_id) for node in kept]
        return scores_of_order(places, len(texts), model=type(postprocessor).__name__)

    return resolve_reranker(rerank)
