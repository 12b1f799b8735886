"""Which rows have words related to those of a query, as a model of words sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memkit_core.recall.bm25 import Floats, bm25_idf

if TYPE_CHECKING:
    from memkit_core.recall.words import WordTable

_FOR_EACH = 6
"""Related words that count for one of the query: 4 and 10 do about as well."""
_MOST_ASKED = 64
"""Words of one query that are compared."""
_MOST_READ = 4 * _MOST_ASKED
"""Words of one query that are looked up, known or not: a file that was pasted must not fill the table."""
_LEAST = 0.3
"""The cosine from which words are related: of the words of five LoCoMo conversations one pair in 270 is above."""
_NUMBER = np.dtype(np.int32)


def relatedness(
    query: str,
    terms: Sequence[str],
    counts: Floats,
    rows: NDArray[np.intp],
    words: Sequence[bytes],
    table: WordTable,
) -> Floats:
    """Return how near to each of `terms` the nearest other word of each row is, `(n, t)` in [0, 1].

    `counts` `(n, t)` says how often each term is in each row, `words` which words of `table` each of `rows` has. Of
    all those the few nearest to a word of the query count: by the square of their cosine, and less if they are commoner
    than that word. A row that has the term itself, or nothing related to it, has 0, and so has any other row.

    A related word is a weak sign of the word itself: Berger and Lafferty, "Information Retrieval as Statistical
    Translation" (SIGIR 1999), with cosines of word vectors in place of probabilities as in Zuccon et al. (ADCS 2015).

    Raises:
        ModelError: the model of `table` failed on a word of the query.
    """
    found = np.zeros_like(counts)
    asked = _asked(query, terms, table)
    numbers = np.frombuffer(b"".join(words), _NUMBER)
    if not asked or not len(numbers):
        return found
    near = _nearest(asked, numbers, table, frozenset(terms))
    if not near:
        return found
    chosen = list(dict.fromkeys(word for words_near in near.values() for word, _ in words_near))
    row_of = np.repeat(np.arange(len(words)), np.fromiter(map(len, words), np.int64) // _NUMBER.itemsize)
    has = _has(chosen, numbers, row_of, len(words))
    rarity = bm25_idf(has.sum(axis=0), len(counts))
    idf = bm25_idf((counts > 0).sum(axis=0), len(counts))
    column_of = {word: column for column, word in enumerate(chosen)}
    for term, words_near in near.items():
        columns = [column_of[word] for word, _ in words_near]
        cosines = np.array([cosine for _, cosine in words_near])
        weights = cosines**2 * np.minimum(rarity[columns] / idf[term], 1)
        found[rows, term] = (has[:, columns] * weights).max(axis=1)
    found[counts > 0] = 0
    return found


def _asked(query: str, terms: Sequence[str], table: WordTable) -> dict[int, int]:
    """The first word of the query that stands for each term, by the term's number; without unknown words."""
    asked = table.of_query(query, most=_MOST_READ)[:_MOST_ASKED]
    first = {table.term(number): number for number in reversed(asked)}
    return {column: first[term] for column, term in enumerate(terms) if term in first}


def _nearest(
    asked: Mapping[int, int], numbers: NDArray[np.int32], table: WordTable, others: frozenset[str]
) -> dict[int, list[tuple[int, float]]]:
    """By term: of the words `numbers` the few nearest to the one that is `asked`, nearest first, with their cosines.

    None of them stands for one of the terms `others`; a term without any is left out.
    """
    met = np.zeros(numbers.max() + 1, bool)
    met[numbers] = True
    present = np.flatnonzero(met)
    # No product of matrices: for one BLAS wakes threads of its own, see `indexes.checks.dots`.
    every = np.einsum("ij,kj->ik", table.vectors(np.array(list(asked.values()))), table.vectors(present))
    nearest = {}
    for term, cosines in zip(asked, every, strict=True):
        near = np.flatnonzero(cosines >= _LEAST)
        near = near[np.argsort(-cosines[near], kind="stable")]
        pairs = zip(present[near].tolist(), cosines[near].tolist(), strict=True)
        taken = list(islice((pair for pair in pairs if table.term(pair[0]) not in others), _FOR_EACH))
        if taken:
            nearest[term] = taken
    return nearest


def _has(wanted: Sequence[int], numbers: NDArray[np.int32], row_of: NDArray[np.intp], rows: int) -> Floats:
    """Which rows have which of the `wanted` words, `(rows, w)`: 1 or 0; row `row_of[i]` has the word `numbers[i]`."""
    column_of = np.full(numbers.max() + 1, -1)
    column_of[list(wanted)] = np.arange(len(wanted))
    columns = column_of[numbers]
    found = np.flatnonzero(columns >= 0)
    has = np.zeros((rows, len(wanted)))
    has[row_of[found], columns[found]] = 1
    return has
