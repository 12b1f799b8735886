"""Rerankers across the border: memkit's as a LangChain compressor, and a LangChain compressor as memkit's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from pydantic import ConfigDict, Field, field_validator

from memkit_core import InvalidInputError
from memkit_core.ports import Reranker
from memkit_core.rerankers import resolve_reranker, scores_of_order

_SCORE = "memkit_rerank"
_PLACE = "memkit_place"


class MemkitDocumentCompressor(BaseDocumentCompressor):
    """Orders documents by a reranker, best first, for a `ContextualCompressionRetriever`.

    Attributes:
        reranker: what `memkit_core.rerankers.resolve_reranker` takes.
        top_n: the most documents that are returned; all when None.
    """

    # LangChain's own class takes unknown names without a word, and with them a misspelt top_n.
    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    reranker: Any
    top_n: int | None = Field(default=None, ge=1)

    @field_validator("reranker")
    @classmethod
    def _resolved(cls, given: object) -> Reranker:
        return resolve_reranker(given)

    def compress_documents(
        self,
        documents: Sequence[Document],
        query: str,
        callbacks: Callbacks | None = None,  # noqa: ARG002 - LangChain's signature
    ) -> Sequence[Document]:
        """Copies of the best documents, with `memkit_rerank` in their metadata.

        Raises:
            ModelError: the reranker failed.
        """
        given = list(documents)
        if not given:
            return []
        scores = self.reranker(query, [document.page_content for document in given])
        order = sorted(range(len(given)), key=lambda place: -scores[place])
        return [
            given[place].model_copy(update={"metadata": {**given[place].metadata, _SCORE: scores[place]}})
            for place in order[: self.top_n]
        ]


def compressor_reranker(compressor: BaseDocumentCompressor) -> Reranker:
    """A LangChain document compressor as a `Reranker` for `Memory.recall`.

    Its order decides: 1 for the first document it returns, down to 0 for those it drops.

    Raises:
        InvalidInputError: it is no `BaseDocumentCompressor`.
    """
    if not isinstance(compressor, BaseDocumentCompressor):
        raise InvalidInputError(
            f"compressor_reranker takes a BaseDocumentCompressor, got {type(compressor).__name__}"
        )

    def rerank(query: str, texts: Sequence[str]) -> list[float]:
        documents = [
            Document(page_content=text, metadata={_PLACE: place}) for place, text in enumerate(texts)
        ]
        kept = compressor.compress_documents(documents, query)
        places = [document.metadata.get(_PLACE) for document in kept]
        return scores_of_order(places, len(texts), model=type(compressor).__name__)

    return resolve_reranker(rerank)
