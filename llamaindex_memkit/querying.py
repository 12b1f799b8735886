"""What a `VectorStoreQuery` asks of a collection, with every setting of it honoured or refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from memkit_core import InvalidInputError, RecallResult, ScoredRecord
from memkit_core.degraded import warn_degraded
from memkit_core.documents import Documents, SearchMode
from memkit_core.errors import shown
from memkit_core.filters import Filter, condition
from memkit_core.inputs import checked_count, checked_fraction
from memkit_core.ports import Matrix, Vector

_log = logging.getLogger("memkit.llamaindex")

_Mode = VectorStoreQueryMode
_MODES = {
    _Mode.DEFAULT: SearchMode.DENSE,
    _Mode.MMR: SearchMode.DENSE,
    _Mode.HYBRID: SearchMode.HYBRID,
    _Mode.SPARSE: SearchMode.KEYWORD,
    _Mode.TEXT_SEARCH: SearchMode.KEYWORD,
}
_USED_IN = {
    "alpha": (_Mode.HYBRID,),
    "hybrid_top_k": (_Mode.HYBRID,),
    "sparse_top_k": (_Mode.HYBRID, _Mode.SPARSE, _Mode.TEXT_SEARCH),
    "mmr_threshold": (_Mode.MMR,),
    "output_fields": (),
    "embedding_field": (),
}
_MMR_POOL, _MMR_FACTOR, _MMR_THRESHOLD = 100, 4, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A checked query.

    Attributes:
        mode: how the collection is searched.
        text: the query's text, "" for none.
        vector: its own vector, None when the memory embeds the text.
        top_k: the most nodes.
        legs: how many candidates vector and words may each bring to a fusion, None for the core's own.
        alpha: the vector's share of a fusion, None for the memory's weights.
        apart: the threshold of an mmr query, None for any other.
    """

    mode: SearchMode
    text: str
    vector: list[float] | None
    top_k: int
    legs: tuple[int, int] | None
    alpha: float | None
    apart: float | None

    @classmethod
    def of(cls, query: VectorStoreQuery, *, mmr_threshold: float | None, vectors_given: bool) -> Self:
        """The question that `query` is to a collection whose vectors are given, or the memory's own.

        Raises:
            InvalidInputError: an unknown mode, a setting that the mode does not use, or no vector
                or text where it needs one.
        """
        if not isinstance(query, VectorStoreQuery):
            raise InvalidInputError(f"query takes a VectorStoreQuery, got {shown(query)}")
        mode = _checked_mode(query.mode)
        threshold = query.mmr_threshold if mmr_threshold is None else mmr_threshold
        for name, modes in _USED_IN.items():
            value = threshold if name == "mmr_threshold" else getattr(query, name)
            if value is not None and mode not in modes:
                where = f"used in mode {' or '.join(modes)} only" if modes else "not supported"
                raise InvalidInputError(f"query: {name} is {where}, got {shown(value)} in mode {mode.value}")
        search = _MODES[mode]
        text = query.query_str
        if text is not None and not isinstance(text, str):
            raise InvalidInputError(f"query: query_str must be a string, got {shown(text)}")
        if text is None and (search is not SearchMode.DENSE or not vectors_given):
            raise InvalidInputError(f"query: mode {mode.value} needs query_str here")
        alpha = None if query.alpha is None else checked_fraction(query.alpha, "query: alpha")
        if search is SearchMode.HYBRID:
            search = _one_leg(search, text or "", alpha)
        vector = query.query_embedding if vectors_given and search is not SearchMode.KEYWORD else None
        if vectors_given and vector is None and search is not SearchMode.KEYWORD:
            raise InvalidInputError(f"query: mode {mode.value} needs query_embedding")
        if mode is _Mode.MMR and vector is None:
            raise InvalidInputError("query: mmr needs a store whose nodes come with their embeddings")
        by_words = query.sparse_top_k if search is SearchMode.HYBRID else None
        top_k = query.hybrid_top_k if mode is _Mode.HYBRID else query.sparse_top_k
        return cls(
            mode=search,
            text=text or "",
            vector=vector,
            top_k=query.similarity_top_k if top_k is None else top_k,
            legs=None if by_words is None else (query.similarity_top_k, by_words),
            alpha=alpha,
            apart=_threshold(threshold) if mode is _Mode.MMR else None,
        )

    def answer(self, documents: Documents, where: Filter, *, most: int) -> list[tuple[ScoredRecord, float]]:
        """The hits that satisfy `where`, best first, each with its similarity in [0, 1].

        `most` is the largest `top_k` that the collection takes.
        """
        if self.apart is not None:
            hits = self._apart(documents, where, self.apart, most)
        elif self.legs is not None:
            near, by_words = self.legs
            found = [
                hit.record.id
                for mode, top_k in ((SearchMode.DENSE, near), (SearchMode.KEYWORD, by_words))
                for hit in self._search(documents, where, mode, top_k)
            ]
            hits = self._search(documents, condition("id", "in", found), self.mode, self.top_k)
        else:
            hits = self._search(documents, where, self.mode, self.top_k)
        if self.mode is SearchMode.KEYWORD:
            return [(hit, hit.score) for hit in hits]
        return [(hit, hit.signals.similarity or 0.0) for hit in hits]

    def _search(
        self, documents: Documents, where: Filter, mode: SearchMode, top_k: int
    ) -> list[ScoredRecord]:
        result: RecallResult = documents.search(
            self.text,
            vector=None if mode is SearchMode.KEYWORD else self.vector,
            top_k=top_k,
            filters=where,
            mode=mode,
            alpha=self.alpha if mode is SearchMode.HYBRID else None,
        )
        warn_degraded(_log, "vector store", result.missing)
        return list(result)

    def _apart(self, documents: Documents, where: Filter, threshold: float, most: int) -> list[ScoredRecord]:
        assert self.vector is not None
        checked_count(self.top_k, "query: similarity_top_k", most=most)
        pool = max(self.top_k, min(most, max(_MMR_POOL, _MMR_FACTOR * self.top_k)))
        hits = {hit.record.id: hit for hit in self._search(documents, where, self.mode, pool)}
        rows = documents.vectors(list(hits))
        ids = [one for one in hits if one in rows]
        if not ids:
            return []
        chosen = _unlike(self.vector, [rows[one] for one in ids], top_k=self.top_k, threshold=threshold)
        return [hits[ids[one]] for one in chosen]


def _unlike(query: list[float], rows: Sequence[Vector], *, top_k: int, threshold: float) -> list[int]:
    """The `top_k` of `rows` by maximal marginal relevance (Carbonell and Goldstein 1998), in order.

    Each is the one with the largest `threshold` times its cosine with `query`, less `1 - threshold` times its
    cosine with the most similar of all that were chosen before. LlamaIndex's own `get_top_k_mmr_embeddings`
    (0.14.25) looks at the last chosen alone, so that a copy of an earlier one comes back.
    """
    given = _units([np.asarray(query, np.float32), *rows])
    near, like = given[1:] @ given[0], np.zeros(len(rows), np.float32)
    left, chosen = np.ones(len(rows), np.bool_), list[int]()
    for _ in range(min(top_k, len(rows))):
        gain = threshold * near - (1 - threshold) * like
        best = int(np.argmax(np.where(left, gain, -np.inf)))
        to_best = given[1:] @ given[1 + best]
        like = np.maximum(like, to_best) if chosen else to_best
        chosen.append(best)
        left[best] = False
    return chosen


def _units(rows: Sequence[Vector]) -> Matrix:
    matrix: Matrix = np.stack(rows)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    unit: Matrix = matrix / lengths
    return unit


def _checked_mode(mode: object) -> VectorStoreQueryMode:
    known = next((one for one in _MODES if isinstance(mode, str) and one.value == mode), None)
    if known is None:
        raise InvalidInputError(f"query: mode must be one of {', '.join(_MODES)}, got {shown(mode)}")
    return known


def _one_leg(search: SearchMode, text: str, alpha: float | None) -> SearchMode:
    """The leg that is left when the other has no weight, or nothing to look for."""
    if alpha == 0:
        return SearchMode.KEYWORD
    return SearchMode.DENSE if alpha == 1 or not text.strip() else search


def _threshold(value: float | None) -> float:
    return _MMR_THRESHOLD if value is None else checked_fraction(value, "query: mmr_threshold")
