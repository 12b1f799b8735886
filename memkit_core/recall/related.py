"""Which rows have words related to those of a query, as a model of words sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
    met = np.zeros(numbers.max() + 1, bool)
    met[numbers[led[row_of]]] = True
    present = np.flatnonzero(met)
    # No product of matrices: for one BLAS wakes threads of its own, see `indexes.checks.dots`.
    cosines = np.einsum("ij,kj->ki", table.vectors(present), table.vectors(np.array(list(asked.values()))))
    near = [_nearest(one, present, table, frozenset(terms)) for one in cosines]
    chosen = list(dict.fromkeys(place for places in near for place in places))
    column_of = np.full(len(met), -1)
    column_of[present[chosen]] = np.arange(len(chosen))
    columns = column_of[numbers]
    has = np.zeros((len(words), len(chosen)))
    has[row_of[columns >= 0], columns[columns >= 0]] = 1
    rarity = bm25_idf(has.sum(axis=0), len(words))
    idf = bm25_idf(np.count_nonzero(counts, axis=0), len(words))
    for term, places, cosine in zip(asked, near, cosines, strict=True):
        if places:
            these = column_of[present[places]]
            weights = cosine[places] ** 2 * np.minimum(rarity[these] / idf[term], 1)
            found[:, term] = (has[:, these] * weights).max(axis=1)
    found[counts > 0] = 0
    return found


def _asked(query: str, terms: Sequence[str], table: WordTable) -> dict[int, int]:
    """The first word of the query that stands for each term, by the term's number; without unknown words."""
    asked = table.of_query(query, most=_MOST_READ)[:_MOST_ASKED]
    first = {table.term(number): number for number in reversed(asked)}
    return {column: first[term] for column, term in enumerate(terms) if term in first}


def _nearest(
    cosines: NDArray[np.float32], present: NDArray[np.intp], table: WordTable, others: frozenset[str]
) -> list[int]:
    """The places in `present` of the few words nearest to one; none that stands for one of the terms `others`."""
    near = np.flatnonzero(cosines >= _LEAST)
    taken: list[int] = []
    for place in near[np.argsort(-cosines[near], kind="stable")].tolist():
        if table.term(present[place]) not in others:
            taken.append(place)
            if len(taken) == _FOR_EACH:
                break
    return taken
