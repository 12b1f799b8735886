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
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memkit_core.filters import Filter
from memkit_core.models import Target
from memkit_core.ports import Candidate, KeywordHit
from memkit_core.recall.ranking import BM25_B, BM25_K1
from memkit_core.stores.keyword_scores import (
    average_length,
    query_terms,
    term_weights,
)
from memkit_core.stores.sqlite.database import Database
from memkit_core.stores.sqlite.filters import Parameters, compile_filter
from memkit_core.stores.sqlite.rows import VISIBLE
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
        self._rows += [
            (partition_id, number, seq, count, length)
            for number, count in Counter(map(term_number, terms)).items()
        ]
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


def remove_postings(connection: sqlite3.Connection, partition_id: int, seq: int, text: str) -> None:
    """Undo what `Postings` wrote for the same text."""
    terms = keyword_terms(text)
    connection.executemany(
        "DELETE FROM postings WHERE partition_id = ? AND term = ? AND seq = ?",
        [(partition_id, number, seq) for number in sorted(set(map(term_number, terms)))],
    )
    connection.execute(
        "UPDATE partitions SET documents = documents - 1, terms = terms - ? WHERE id = ?",
        (len(terms), partition_id),
    )


_FREQUENCIES = """
SELECT q.value, count(*) FROM json_each(:terms) q
CROSS JOIN postings p ON p.partition_id = :partition AND p.term = q.value GROUP BY q.value
"""

# The order of the joins is given: weights first (a handful), then their postings by primary key.
_SEARCH = f"""
WITH weights(term, weight) AS (
  SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:weights)
), found(seq, score) AS (
  SELECT p.seq, sum(w.weight * p.count / (p.count + {BM25_K1} * (1 - {BM25_B} + {BM25_B} * p.length / :average)))
  FROM weights w CROSS JOIN postings p ON p.partition_id = :partition AND p.term = w.term
  GROUP BY p.seq
)
SELECT r.point_id, found.score FROM found CROSS JOIN records r ON r.seq = found.seq
WHERE {{place}} AND {VISIBLE} AND {{where}}
ORDER BY found.score DESC, found.seq DESC LIMIT :limit
"""


_COUNTS = """
SELECT p.seq, q.key, p.count FROM json_each(:terms) q CROSS JOIN json_each(:rows) c
CROSS JOIN postings p ON p.partition_id = :partition AND p.term = q.value AND p.seq = c.value
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
            weights, average = ([], 1.0) if place is None else _weights(connection, place, terms)
            if place is None or not weights:
                return []
            parameters = Parameters()
            sql = _SEARCH.format(place=place.sql, where=compile_filter(where, parameters))
            values = {"weights": json.dumps(weights), "average": average, "now": to_ms(now), "limit": limit}
            rows = connection.execute(sql, values | place.parameters | parameters.values).fetchall()
        return [KeywordHit(point_id=UUID(bytes=point), score=score) for point, score in rows]

    def counts(self, target: Target, query: str, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """See `KeywordIndex.counts`."""
        terms = _numbers(query)
        counts = np.zeros((len(candidates), len(terms)))
        place_of = {candidate.row: i for i, candidate in enumerate(candidates)}
        with self._database.snapshot() as connection:
            place = find_place(connection, target) if terms else None
            if place is not None:
                rows = connection.execute(
                    _COUNTS,
                    {
                        "terms": json.dumps(terms),
                        "rows": json.dumps(sorted(place_of)),
                        "partition": place.partition_id,
                    },
                )
                for row, term, count in rows:
                    counts[place_of[row], term] = count
        return counts


def _numbers(query: str) -> list[int]:
    """The distinct terms of a query, as numbers, in order of appearance."""
    return [term_number(term) for term in query_terms(query)]


def _weights(
    connection: sqlite3.Connection, place: Place, terms: Sequence[int]
) -> tuple[list[tuple[int, float]], float]:
    """Each term that occurs with its factor of the score, and the average length of a row."""
    found = connection.execute(
        _FREQUENCIES, {"terms": json.dumps(terms), "partition": place.partition_id}
    ).fetchall()
    documents, total = connection.execute(
        "SELECT documents, terms FROM partitions WHERE id = ?", (place.partition_id,)
    ).fetchone()
    weights = term_weights([frequency for _, frequency in found], documents)
    factors = [(term, weight) for (term, _), weight in zip(found, weights, strict=True)]
    return factors, average_length(documents, total)
