"""Which rows have words related to those of a query, as a model of words sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memkit_core.recall.ranking import Bools, Floats, bm25_idf

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


class _Near(NamedTuple):
    """Pairs of a term and a related word, by term, `(p,)` each: the term's column, the word, and their cosine."""

    term: NDArray[np.intp]
    number: NDArray[np.intp]
    cosine: Floats


def relatedness(
    query: str, terms: Sequence[str], counts: Floats, words: Sequence[bytes], led: Bools, table: WordTable
) -> Floats:
    """Return how near to each of `terms` the nearest other word of each row is, `(n, t)` in [0, 1].

    `counts` `(n, t)` says how often each term is in each row, `words` which words of `table` a row has, `led` `(n,)`
    which rows a leg found. Of the words of those, the few nearest to a word of the query count in all rows: by the
    square of their cosine, and less if they are commoner than that word. A row that has the term itself, or nothing
    related to it, has 0.

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
    row_of = np.repeat(np.arange(len(words)), np.fromiter(map(len, words), np.int64) // _NUMBER.itemsize)
    near = _nearest(asked, numbers[led[row_of]], table, frozenset(terms))
    if not len(near.term):
        return found
    has = _has(near.number, numbers, row_of, len(words))
    rarity = bm25_idf(has.sum(axis=0), len(words))
    idf = bm25_idf(np.count_nonzero(counts, axis=0), len(words))
    weights = near.cosine**2 * np.minimum(rarity / idf[near.term], 1)
    starts = np.flatnonzero(np.diff(near.term, prepend=-1))
    found[:, near.term[starts]] = np.maximum.reduceat(has * weights, starts, axis=1)
    found[counts > 0] = 0
    return found


def _asked(query: str, terms: Sequence[str], table: WordTable) -> dict[int, int]:
    """The first word of the query that stands for each term, by the term's number; without unknown words."""
    asked = table.of_query(query, most=_MOST_READ)[:_MOST_ASKED]
    first = {table.term(number): number for number in reversed(asked)}
    return {column: first[term] for column, term in enumerate(terms) if term in first}


def _nearest(
    asked: Mapping[int, int], numbers: NDArray[np.int32], table: WordTable, others: frozenset[str]
) -> _Near:
    """Of the words `numbers` the few nearest to each that is `asked`; none that stands for one of the terms `others`."""
    met = np.zeros(numbers.max(initial=-1) + 1, bool)
    met[numbers] = True
    present = np.flatnonzero(met)
    # No product of matrices: for one BLAS wakes threads of its own, see `indexes.checks.dots`.
    cosines = np.einsum("ij,kj->ik", table.vectors(np.array(list(asked.values()))), table.vectors(present))
    which, place = np.nonzero(cosines >= _LEAST)
    best_first = np.lexsort((-cosines[which, place], which))
    which, number = which[best_first], present[place[best_first]]
    taken: list[int] = []
    left = dict.fromkeys(range(len(asked)), _FOR_EACH)
    for pair, (asking, word) in enumerate(zip(which.tolist(), number.tolist(), strict=True)):
        if left[asking] and table.term(word) not in others:
            left[asking] -= 1
            taken.append(pair)
    terms = np.array(list(asked))
    cosine = cosines[which[taken], place[best_first][taken]].astype(np.float64)
    return _Near(terms[which[taken]], number[taken], cosine)


def _has(wanted: NDArray[np.intp], numbers: NDArray[np.int32], row_of: NDArray[np.intp], rows: int) -> Floats:
    """Which rows have which of the `wanted` words, `(rows, w)`: 1 or 0; row `row_of[i]` has the word `numbers[i]`."""
    distinct, column = np.unique(wanted, return_inverse=True)
    column_of = np.full(numbers.max() + 1, -1)
    column_of[distinct] = np.arange(len(distinct))
    columns = column_of[numbers]
    has = np.zeros((rows, len(distinct)))
    has[row_of[columns >= 0], columns[columns >= 0]] = 1
    return has[:, column]
