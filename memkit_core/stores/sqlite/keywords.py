"""The keyword leg: postings kept per owner, BM25 computed where they are.

An index of our own instead of FTS5, because FTS5 counts document frequencies over the whole file
(one user's records would change another's scores), cannot narrow to an owner before it ranks, and
brings a tokenizer and a query language that break Chinese and `POL-358`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from memkit_core.filters import Filter
from memkit_core.models import Target
from memkit_core.ports import Candidate, KeywordHit
from memkit_core.stores.keyword_scores import (
    average_length,
    query_terms,
    term_scores,
    term_weights,
)
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.filters import Parameters, compile_filter
from memkit_core.stores.sqlite.rows import LISTED_RECORDS, VISIBLE, select_candidate
from memkit_core.stores.sqlite.scopes import Place, find_place
from memkit_core.text.tokenizer import keyword_terms
from memkit_core.times import to_ms


@lru_cache(maxsize=65_536)
def term_number(term: str) -> int:
    """64 bits that stand for a term: a key of one size, however long the term is."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big", signed=True)


class Postings:
    """Keyword rows of several texts, written together: in the order of their key they cost far less."""

    def __init__(self) -> None:
        """Nothing to write yet."""
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._added: dict[int, list[int]] = {}

    def add(self, partition_id: int, seq: int, terms: Sequence[str]) -> None:
        """Index one row's terms; nothing is written before `write`."""
        length = len(terms)
        numbers = [term_number(term) for term in terms]
        # Most texts say most words once.
        counts = dict.fromkeys(numbers, 1)
        if len(counts) < length:
            counts = Counter(numbers)
        self._rows += [(partition_id, number, seq, count, length) for number, count in counts.items()]
        added = self._added.setdefault(partition_id, [0, 0])
        added[0] += 1
        added[1] += length

    def write(self, connection: sqlite3.Connection) -> None:
        """Write what was added, and count it in the statistics of its partitions."""
        self._rows.sort()
        connection.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?)", self._rows)
        connection.executemany(
            "UPDATE partitions SET documents = documents + ?, terms = terms + ? WHERE id = ?",
            [(documents, terms, partition_id) for partition_id, (documents, terms) in self._added.items()],
        )


def remove_postings(connection: sqlite3.Connection, partition_id: int, seq: int, text: str) -> int:
    """Undo what `Postings` wrote for the same text; returns how many rows that were."""
    terms = keyword_terms(text)
    removed = connection.executemany(
        "DELETE FROM postings WHERE partition_id = ? AND term = ? AND seq = ?",
        [(partition_id, number, seq) for number in sorted(set(map(term_number, terms)))],
    ).rowcount
    connection.execute(
        "UPDATE partitions SET documents = documents - 1, terms = terms - ? WHERE id = ?",
        (len(terms), partition_id),
    )
    return max(removed, 0)


def remove_partition(connection: sqlite3.Connection, partition_id: int) -> int:
    """Undo what `Postings` wrote for all rows of a partition; returns how many keyword rows that were."""
    removed = connection.execute("DELETE FROM postings WHERE partition_id = ?", (partition_id,)).rowcount
    connection.execute("UPDATE partitions SET documents = 0, terms = 0 WHERE id = ?", (partition_id,))
    return removed


_POSTINGS = "SELECT seq, count, length FROM postings WHERE partition_id = ? AND term = ?"

_SHOWN = f"""
SELECT {{columns}} FROM {LISTED_RECORDS}
WHERE {{place}} AND {VISIBLE} AND {{where}}
"""

# Reading a term's postings costs as much as looking up so many single rows.
_FEW_COUNTS = "SELECT seq, count FROM postings WHERE partition_id = :partition AND term = :term LIMIT :most"
_COUNTS = """
SELECT p.seq, p.count FROM json_each(:rows) c
CROSS JOIN postings p ON p.partition_id = :partition AND p.term = :term AND p.seq = c.value
"""


class SQLiteKeywords:
    """`KeywordIndex` over the postings table."""

    def __init__(self, database: Database) -> None:
        """Search in `database`."""
        self._database = database

    def search(
        self, target: Target, query: str, *, where: Filter | None, now: datetime, limit: int
    ) -> list[KeywordHit]:
        """See `KeywordIndex.search`."""
        terms = _numbers(query)
        with self._database.snapshot() as connection:
            place = find_place(connection, target) if terms else None
            if place is None:
                return []
            shown = _Shown(connection, target.space, place, where, now)
            hits: list[KeywordHit] = []
            seqs, scores = _ranked(connection, place, terms)
            # Whether a row may be seen is asked of the best ones only, and of the next while some may not.
            for start, end in _stretches(len(seqs), limit):
                found = shown(seqs[start:end])
                hits += [
                    KeywordHit(found[seq], score)
                    for seq, score in zip(seqs[start:end], scores[start:end], strict=True)
                    if seq in found
                ]
                if len(hits) >= limit:
                    break
        return hits[:limit]

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """See `KeywordIndex.counts`."""
        terms = _numbers(query)
        counts = np.zeros((len(candidates), len(terms)))
        place_of = {candidate.row: i for i, candidate in enumerate(candidates)}
        with self._database.snapshot() as connection:
            place = find_place(connection, target)
            if place is None:
                return counts
            for column, term in enumerate(terms):
                for row, count in _counted(connection, place, term, place_of):
                    counts[place_of[row], column] = count
        return counts


class _Shown:
    """Tells which rows of a place are visible and satisfy a filter."""

    def __init__(
        self, connection: sqlite3.Connection, space: str, place: Place, where: Filter | None, now: datetime
    ) -> None:
        self._connection = connection
        parameters = Parameters()
        filtered = compile_filter(where, parameters)
        self._sql = _SHOWN.format(columns=select_candidate(space), place=place.sql, where=filtered)
        self._values = {"now": to_ms(now)} | place.parameters | parameters.values

    def __call__(self, seqs: Sequence[int]) -> dict[int, Candidate]:
        """Those of `seqs` that may be seen."""
        rows = self._connection.execute(self._sql, {**self._values, "rows": json.dumps(seqs)})
        return {row[1]: Candidate(*row) for row in rows}


def _stretches(length: int, size: int) -> Iterator[tuple[int, int]]:
    """Bounds that cut `length` rows into parts of `size` and, each time, twice as many."""
    start = 0
    while start < length and size > 0:
        yield start, start + size
        start, size = start + size, 2 * size


def _numbers(query: str) -> list[int]:
    """The distinct terms of a query, as numbers, in order of appearance."""
    return [term_number(term) for term in query_terms(query)]


def _ranked(
    connection: sqlite3.Connection, place: Place, terms: Sequence[int]
) -> tuple[list[int], list[float]]:
    """The rows of the place's partition that hold a term and their scores, best first, then newest first."""
    found = [
        # In the order of the key, and so that the scores are added in one order whatever the query's.
        connection.execute(_POSTINGS, (place.partition_id, term)).fetchall()
        for term in sorted(terms)
    ]
    found = [postings for postings in found if postings]
    if not found:
        return [], []
    documents, total = connection.execute(
        "SELECT documents, terms FROM partitions WHERE id = ?", (place.partition_id,)
    ).fetchone()
    frequencies = [len(postings) for postings in found]
    weights = np.repeat(term_weights(frequencies, documents), frequencies)
    flat = np.fromiter(chain.from_iterable(chain.from_iterable(found)), np.int64, 3 * sum(frequencies))
    seq, count, length = flat.reshape(-1, 3).T
    rows, row_of = np.unique(seq, return_inverse=True)
    scores = np.bincount(row_of, term_scores(weights, count, length, average_length(documents, total)))
    best = np.lexsort((-rows, -scores))
    return rows[best].tolist(), scores[best].tolist()


def _counted(
    connection: sqlite3.Connection, place: Place, term: int, rows: Collection[int]
) -> list[tuple[int, int]]:
    """How often a term is in those of `rows` that hold it."""
    values = {"partition": place.partition_id, "term": term, "most": len(rows) + 1}
    found = connection.execute(_FEW_COUNTS, values).fetchall()
    if len(found) <= len(rows):
        return [(row, count) for row, count in found if row in rows]
    return connection.execute(_COUNTS, {**values, "rows": json.dumps(list(rows))}).fetchall()
