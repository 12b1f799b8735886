"""BM25 as every record store computes it, so that two stores give the same scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memkit_core.recall.bm25 import BM25_B, BM25_K1, Floats, bm25_idf
from memkit_core.recall.ranking import Ints
from memkit_core.text.tokenizer import keyword_terms

MAX_QUERY_TERMS = 1024
"""Distinct terms of one query that are looked up; what a longer query says after them is left out."""


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query that are looked up, in order of appearance."""
    return list(dict.fromkeys(keyword_terms(query)))[:MAX_QUERY_TERMS]


def term_weights(frequencies: Sequence[int], documents: int) -> list[float]:
    """The factor of the score that each term brings, given how many of the owner's rows hold it."""
    idf = bm25_idf(np.array(frequencies, np.int64), documents)
    return [(BM25_K1 + 1) * float(one) for one in idf]


def average_length(documents: int, terms: int) -> float:
    """Terms a row of the owner has on average, never below 1."""
    return max(terms / max(documents, 1), 1.0)


def term_score(weight: float, count: int, length: int, average: float) -> float:
    """What a term adds to the score of a row of `length` terms that holds it `count` times."""
    return weight * count / (count + BM25_K1 * (1 - BM25_B + BM25_B * length / average))


def term_scores(weights: Floats, counts: Ints, lengths: Ints, average: float) -> Floats:
    """`term_score` of each of `n` rows."""
    return weights * counts / (counts + BM25_K1 * (1 - BM25_B + BM25_B * lengths / average))
