"""Partitions kept in memory: the same answers as the store's, without asking it for rows.

A copy is brought up to date before each use, in one consistent read that tells only what changed, so
another process's commit is seen like one of our own. What is kept is bounded in bytes; the least
recently used copy goes first.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from memkit_core.locks import ThreadLock
from memkit_core.recall.partition import PartitionCopy
from memkit_core.recall.query import Found, RecallQuery
from memkit_core.stores.keyword_scores import query_terms

if TYPE_CHECKING:
    from memkit_core.models import Target
    from memkit_core.ports import PartitionTable, Vector, VectorSpace

_ROW_BYTES = 2048
"""What a row costs beside its vector: the candidate with its text, the columns, and its share of postings."""
_USUAL_DIMENSION = 256
_AT_ONCE = 500
"""Rows up to which the first question reads a partition: about as quick as asking the index."""
_ASKED = 10_000
"""Partitions whose askings are remembered."""
_TOO_LARGE = -1000
"""So many askings later, a partition that was too large is tried again."""

_Key = tuple[bytes, str]


class PartitionCopies:
    """The copies of one store's partitions, read from its table. Thread-safe; a forked child starts with none."""

    def __init__(self, max_bytes: int) -> None:
        """Keep up to about `max_bytes`, one partition half of it at most; 0 keeps none."""
        self._max_bytes = max_bytes
        self._mutex = ThreadLock()
        self._copies: OrderedDict[_Key, PartitionCopy] = OrderedDict()
        self._asked: OrderedDict[_Key, int] = OrderedDict()
        self._pid = os.getpid()

    def find(
        self,
        table: PartitionTable,
        query: RecallQuery,
        target: Target,
        vector: Vector | None,
        space: VectorSpace | None,
    ) -> Found | None:
        """The candidates of `target`; None where the store and its index must be asked.

        That is so for a filter, for a partition that was not asked before or is too large, and while a
        row waits for its vector. `vector` is compared with those of `space`; None for the keyword leg
        alone.
        """
        if self._max_bytes <= 0 or query.where is not None:
            return None
        key = (target.owner.digest, target.space)
        copy, first = self._copy(key)
        if copy is None:
            return None
        terms = query_terms(query.text)
        most = self._max_bytes // 2 // _bytes(1, _USUAL_DIMENSION if vector is None else len(vector))
        if first:
            # One question does not pay for reading a large partition: a process may ask only one.
            most = min(most, _AT_ONCE)
        with copy.lock:
            known = copy.update(table, target, terms, most)
            found = None
            if known and (vector is None or copy.comparable(space)):
                found = copy.find(query, target, terms, vector)
        if known:
            self._make_room()
        else:
            self._forget(key, copy, first=first)
        if copy.empty and query.vector is None:
            # Nobody need be asked for what nobody has.
            return Found.nothing(target, terms if query.counted else None)
        return found

    def _copy(self, key: _Key) -> tuple[PartitionCopy | None, bool]:
        """The copy, made when new, and whether the partition is asked for the first time."""
        with self._mutex:
            if self._pid != os.getpid():
                # Another thread of the parent may have been writing in them.
                self._copies, self._pid = OrderedDict(), os.getpid()
            copy = self._copies.get(key)
            if copy is not None:
                self._copies.move_to_end(key)
                return copy, False
            asked = self._asked[key] = self._asked.pop(key, 0) + 1
            if len(self._asked) > _ASKED:
                self._asked.popitem(last=False)
            if asked < 1:
                return None, False
            copy = self._copies[key] = PartitionCopy()
            return copy, asked == 1

    def _forget(self, key: _Key, copy: PartitionCopy, *, first: bool) -> None:
        with self._mutex:
            if self._copies.get(key) is copy:
                del self._copies[key]
                if copy.too_large and not first:
                    self._asked[key] = _TOO_LARGE

    def _make_room(self) -> None:
        with self._mutex:
            held = sum(_bytes(copy.rows, copy.dimension) for copy in self._copies.values())
            while held > self._max_bytes and len(self._copies) > 1:
                _, gone = self._copies.popitem(last=False)
                held -= _bytes(gone.rows, gone.dimension)


def _bytes(rows: int, dimension: int) -> int:
    return rows * (_ROW_BYTES + np.dtype(np.float32).itemsize * dimension)
