"""BM25 over arrays: how much a record's words say about a query."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BM25_K1, BM25_B = 1.2, 0.75
"""The usual constants; other values were better for some sets and worse for the rest."""


def bm25_idf(document_frequency: NDArray[np.integer] | Floats, documents: int) -> Floats:
    """Return ln(1 + (N - df + 0.5) / (df + 0.5)), which is never negative.

    Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with
    the 1 that Lucene adds inside the logarithm.
    """
    df = document_frequency.astype(np.float64)
    return np.log1p((documents - df + 0.5) / (df + 0.5))


def bm25_weight(tf: Floats, length: Floats, average: float, *, k1: float, b: float) -> Floats:
    """Return tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average)); 0 where tf is 0.

    `tf` is `(n, t)` and `length` `(n,)`. Robertson and Zaragoza (2009), equation 3.15.
    """
    norm = k1 * (1 - b + b * length / average) if average > 0 else np.full_like(length, k1)
    return np.divide(tf * (k1 + 1), tf + norm[:, None], out=np.zeros_like(tf), where=tf > 0)


def bm25(counts: Floats, totals: Floats, idf: Floats, *, k1: float = BM25_K1, b: float = BM25_B) -> Floats:
    """Return the BM25 score of each row. A term that the query repeats counts once.

    k1 and b are the usual defaults: smaller b was better on LoCoMo and meetings only.
    """
    filled = totals[totals > 0]
    average = float(filled.mean()) if filled.size else 0.0
    return bm25_weight(counts, totals, average, k1=k1, b=b) @ idf


def counts_of_related(relatedness: Floats) -> Floats:
    """Return what part of an occurrence brings `relatedness` times the score of a whole one, in a text of usual length.

    BM25 saturates, so a tenth of an occurrence would bring far more than a tenth of its score: solved for the count c
    in c * (k1 + 1) / (c + k1) = relatedness.
    """
    return BM25_K1 * relatedness / (BM25_K1 + 1 - relatedness)
