"""One partition in memory, as arrays, and both legs over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memkit_core.indexes.checks import dots, unit, unit_matrix
from memkit_core.locks import ThreadLock
from memkit_core.models import RecordType, Status
from memkit_core.recall.columns import COLUMNS, Chosen, Columns, Speakers, column_values
from memkit_core.recall.query import Found
from memkit_core.stores.keyword_scores import average_length, term_scores, term_weights
from memkit_core.times import to_ms

if TYPE_CHECKING:
    from memkit_core.models import Target
    from memkit_core.ports import (
        Candidate,
        Matrix,
        PartitionChanges,
        PartitionMark,
        PartitionRow,
        PartitionTable,
        Postings,
        Vector,
        VectorSpace,
    )
    from memkit_core.recall.bm25 import Floats
    from memkit_core.recall.query import RecallQuery
    from memkit_core.recall.ranking import Bools, Ints

_NEVER = np.iinfo(np.int64).max
_STATUSES = {status.value: place for place, status in enumerate(Status)}
_TYPES = {kind.value: place for place, kind in enumerate(RecordType)}
_WAITING, _EMPTY, _EMBEDDED = 0, 1, 2
_COLUMNS = np.dtype(
    [
        *COLUMNS,
        ("row", np.int64),
        ("scope", np.int32),
        ("status", np.int8),
        ("type", np.int8),
        ("vector", np.int8),
        ("expires", np.int64),
        ("from", np.int64),
        ("until", np.int64),
    ]
)
_POSTINGS_A_ROW = 32
"""Postings that are kept for each row; of more, only those of the present question are kept."""


@dataclass(frozen=True, slots=True)
class _Term:
    """Where a term is: places of rows, how often, and what it adds to their scores."""

    places: NDArray[np.intp]
    counts: Ints
    scores: Floats


def _size(term: _Term) -> int:
    return len(term.places)


class PartitionCopy:
    """The rows of one partition in the order of writing, and the postings that were asked for.

    A place is the index of a row in all arrays. Every method is called while `lock` is held.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.lock = ThreadLock()
        self.too_large = self.empty = False
        self._mark: PartitionMark | None = None
        self._candidates: list[Candidate] = []
        self._columns = np.zeros(0, _COLUMNS)
        # Longer than the rows, so that a new one need not move all.
        self._vectors: Matrix = np.zeros((0, 0), np.float32)
        self._scopes: dict[bytes, int] = {}
        self._speakers: Speakers = {}
        self._documents = self._total = 0
        self._terms: dict[str, _Term] = {}
        self._postings = 0
        self._turns: tuple[Ints, NDArray[np.intp]] | None = None
        self._by_status: dict[tuple[str, ...], Bools] = {}
        self._expires = self._waiting = False

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return len(self._candidates)

    @property
    def dimension(self) -> int:
        """The length of its vectors, 0 before the first."""
        return int(self._vectors.shape[1])

    def comparable(self, space: VectorSpace | None) -> bool:
        """Whether every row has been embedded, and in `space`; None when there is nothing to compare with."""
        if self._waiting:
            return False
        return space is None or (self._mark is not None and self._mark.space == space)

    # ------------------------------------------------------------------ keeping up

    def update(self, table: PartitionTable, target: Target, terms: Sequence[str], most: int) -> bool:
        """Read what changed; False when the partition is empty or has more rows than `most`."""
        changes = table.changes(target, after=self._mark, most=most, terms=terms, held=self._terms.keys())
        self.empty = changes is None
        if changes is None or changes.rows is None or changes.documents > most:
            self.too_large = changes is not None
            return False
        if changes.mark != self._mark:
            self._apply(changes, changes.rows)
        self._keep(changes.postings, terms)
        return True

    def _apply(self, changes: PartitionChanges, rows: list[PartitionRow]) -> None:
        before, self._mark = self._mark, None  # Whatever fails from here on: all is read anew.
        self._terms, self._postings, self._turns, self._by_status = {}, 0, None, {}
        self._documents, self._total = changes.documents, changes.terms
        if before is None or before[::2] != changes.mark[::2]:
            dimension = 0 if changes.mark.space is None else changes.mark.space.dimension
            self._candidates, self._columns = [], np.zeros(0, _COLUMNS)
            self._vectors = np.zeros((0, dimension), np.float32)
        elif changes.present is not None:
            self._remove(np.array(changes.present, np.int64))
        last = self._columns["row"][-1] if len(self._columns) else -1
        known = sum(row.candidate.row <= last for row in rows)
        for row in rows[:known]:
            place = int(np.searchsorted(self._columns["row"], row.candidate.row))
            self._put(place, [row])
        self._append(rows[known:])
        # What every question would else look for in all rows.
        self._expires = bool((self._columns["expires"] != _NEVER).any())
        self._waiting = bool((self._columns["vector"] == _WAITING).any())
        self._mark = changes.mark

    def _remove(self, present: Ints) -> None:
        kept = np.flatnonzero(np.isin(self._columns["row"], present, assume_unique=True))
        # A new list: a recall that is not done yet goes on with the places of the old one.
        self._candidates = [self._candidates[place] for place in kept.tolist()]
        self._columns, self._vectors = self._columns[kept], self._vectors[kept]

    def _append(self, rows: Sequence[PartitionRow]) -> None:
        first, many = len(self._columns), len(self._columns) + len(rows)
        if many > len(self._vectors):
            grown = np.zeros((max(many, min(2 * first, first + 10_000)), self.dimension), np.float32)
            grown[:first] = self._vectors[:first]
            self._vectors = grown
        self._columns = np.concatenate([self._columns, np.zeros(len(rows), _COLUMNS)])
        self._candidates += [row.candidate for row in rows]
        self._put(first, rows)

    def _put(self, place: int, rows: Sequence[PartitionRow]) -> None:
        end = place + len(rows)
        self._candidates[place:end] = [row.candidate for row in rows]
        self._columns[place:end] = [
            (
                *column_values(row.candidate, self._speakers),
                row.candidate.row,
                self._scopes.setdefault(row.scope, len(self._scopes)),
                _STATUSES[row.status],
                _TYPES[row.type],
                _WAITING if row.vector is None else _EMBEDDED if row.vector else _EMPTY,
                _NEVER if row.expires_at is None else row.expires_at,
                row.held_from,
                _NEVER if row.held_until is None else row.held_until,
            )
            for row in rows
        ]
        with_vectors = [number for number, row in enumerate(rows, place) if row.vector]
        if with_vectors:
            flat = np.frombuffer(b"".join([row.vector for row in rows if row.vector]), "<f4")
            self._vectors[with_vectors] = unit_matrix(flat.reshape(len(with_vectors), -1))

    def _keep(self, postings: Mapping[str, Postings], asked: Sequence[str]) -> None:
        if postings and self._postings > _POSTINGS_A_ROW * self.rows:
            # Not those of this question: they were held, so they did not come with the others.
            self._terms = {term: self._terms[term] for term in asked if term in self._terms}
            self._postings = sum(map(_size, self._terms.values()))
        average = average_length(self._documents, self._total)
        for term, found in postings.items():
            places = np.searchsorted(self._columns["row"], found.rows)
            weights = np.full(len(places), term_weights([len(places)], self._documents)[0])
            lengths = self._columns["length"][places]
            scores = term_scores(weights, found.counts, lengths, average)
            self._terms[term] = _Term(places, found.counts, scores)
            self._postings += len(places)

    # ------------------------------------------------------------------ finding

    def find(self, query: RecallQuery, target: Target, terms: Sequence[str], vector: Vector | None) -> Found:
        """What both legs find in the target's rows, with the turns around it."""
        shown = self._shown(query, target)
        by_words, by_vector = np.zeros(self.rows, bool), np.zeros(self.rows, bool)
        keyword, cosine = np.zeros(self.rows), None
        if query.ranking.keyword > 0:
            keyword = self._keyword(terms)
            by_words[_best(keyword, np.flatnonzero(shown & (keyword > 0)), query.per_leg)] = True
        if vector is not None:
            cosine = self._cosines(vector)
            by_vector[_best(cosine, np.flatnonzero(shown & ~np.isnan(cosine)), query.per_leg)] = True
        if query.exclude:
            shown &= ~self._among({point.bytes for point in query.exclude})
        among = (by_words | by_vector) & shown
        radius = query.radius(target)
        if radius:
            among[self._neighbours(np.flatnonzero(among), radius)] = True
            among &= shown
        chosen = np.flatnonzero(among)
        return Found(
            target=target,
            candidates=Chosen(self._candidates, chosen),
            columns=self._columns[chosen],
            speakers=tuple(self._speakers),
            keyword=np.where(by_words, keyword, 0.0)[chosen],
            cosine=np.where(by_vector, np.nan if cosine is None else cosine, np.nan)[chosen],
            counts=self._counts(terms, chosen) if query.counted else None,
            compared=None if cosine is None else cosine[chosen],
        )

    def _shown(self, query: RecallQuery, target: Target) -> Bools:
        """Which rows are the target's, have not expired, and have a status and type that is asked for."""
        columns = self._columns
        shown = self._of_status(query.statuses).copy()
        if self._expires:
            shown &= columns["expires"] > to_ms(query.now)
        if query.as_of is not None:
            at = to_ms(query.as_of)
            shown &= (columns["from"] <= at) & (columns["until"] > at)
        if query.types:
            shown &= _chosen(_TYPES, query.types)[columns["type"]]
        if target.narrowed:
            shown &= columns["scope"] == self._scopes.get(target.scope.digest, -1)
        return shown

    def _of_status(self, statuses: Sequence[str]) -> Bools:
        """Which rows have one of the statuses; nearly every question asks for the same."""
        key = tuple(statuses)
        if key not in self._by_status:
            self._by_status[key] = _chosen(_STATUSES, statuses)[self._columns["status"]]
        return self._by_status[key]

    def _keyword(self, terms: Sequence[str]) -> Floats:
        scores = np.zeros(self.rows)
        # In one order whatever the query's, so that equal rows get equal sums.
        for term in sorted(terms):
            scores[self._terms[term].places] += self._terms[term].scores
        return scores

    def _cosines(self, vector: Vector) -> Floats:
        """The cosine of each row, NaN where there was nothing to embed or `vector` has no direction."""
        if not vector.any():
            return np.full(self.rows, np.nan)
        cosines = dots(self._vectors[: self.rows], unit(vector)).astype(np.float64)
        cosines[self._columns["vector"] != _EMBEDDED] = np.nan
        return np.clip(cosines, -1, 1, out=cosines)

    def _counts(self, terms: Sequence[str], chosen: NDArray[np.intp]) -> Floats:
        counts = np.zeros((len(chosen), len(terms)))
        for number, term in enumerate(terms):
            column = np.zeros(self.rows)
            column[self._terms[term].places] = self._terms[term].counts
            counts[:, number] = column[chosen]
        return counts

    def _among(self, points: set[bytes]) -> Bools:
        return np.fromiter((one.point in points for one in self._candidates), bool, self.rows)

    def _neighbours(self, chosen: NDArray[np.intp], radius: int) -> NDArray[np.intp]:
        """The places of the turns up to `radius` positions beside a chosen one in its session."""
        if self._turns is None:
            keys = _turns(self._columns)
            order = np.argsort(keys)
            self._turns = keys[order], order
        keys, order = self._turns
        steps = np.array([step for step in range(-radius, radius + 1) if step], np.int64)
        wanted = (_turns(self._columns[chosen])[:, np.newaxis] + steps).ravel()
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        beside: NDArray[np.intp] = order[found[keys[found] == wanted]]
        return beside


def _turns(columns: Columns) -> Ints:
    """A number for each turn, the next of its session following it; sessions are far apart."""
    numbers: Ints = (columns["session"] << 32) + columns["position"]
    return numbers


def _chosen(places: Mapping[str, int], wanted: Sequence[str]) -> Bools:
    return np.isin(np.arange(len(places)), [places[one] for one in wanted])


def _best(scores: Floats, among: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Those of the places `among` with the highest scores, the newest first of equal ones; any order."""
    if len(among) <= limit:
        return among
    least = np.partition(scores[among], len(among) - limit)[len(among) - limit]
    among = among[scores[among] >= least]
    order = np.lexsort((-among, -scores[among]))
    return among[order[:limit]]
