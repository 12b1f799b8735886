"""How often recall returned each record: counted in memory, written in batches (spec C7)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from memkit_core.errors import MemkitError
from memkit_core.locks import ThreadLock
from memkit_core.models import MemoryRecord, point_id
from memkit_core.ports import Access, RecordTable
from memkit_core.scope import Scope

_MOST = 10_000
"""Records counted at most between two writes; beyond it only those count that are counted already."""


class AccessCounts:
    """Counts what recall returned until `write` hands it to the store. Thread-safe.

    A killed process loses what was not written. A forked child starts with nothing: what its parent
    counted is the parent's to write.
    """

    def __init__(self, records: RecordTable) -> None:
        """Nothing is counted yet."""
        self._records = records
        self._mutex = ThreadLock()
        # By identity: making a point id costs more than all the rest, and is done when writing.
        self._counts: dict[tuple[Scope, str, str], Access] = {}
        self._pid = os.getpid()

    def count(self, records: Iterable[MemoryRecord], *, now: datetime) -> None:
        """Count one access to each record, at `now`. Never waits for the store."""
        with self._mutex:
            counts = self._own()
            for record in records:
                _add(counts, (record.scope, record.space, record.id), Access(1, now))

    def write(self) -> None:
        """Hand the counts to the store in one transaction; nothing is done when there are none.

        Raises:
            MemkitError: the store failed; the counts are kept for the next time.
        """
        with self._mutex:
            counts = self._own()
            self._counts = {}
        if not counts:
            return
        accesses: dict[UUID, Access] = {point_id(*key): access for key, access in counts.items()}
        try:
            self._records.touch(accesses)
        except MemkitError:
            with self._mutex:
                present = self._own()
                for key, access in counts.items():
                    _add(present, key, access)
            raise

    def _own(self) -> dict[tuple[Scope, str, str], Access]:
        if self._pid != os.getpid():
            self._counts, self._pid = {}, os.getpid()
        return self._counts


def _add(counts: dict[tuple[Scope, str, str], Access], key: tuple[Scope, str, str], access: Access) -> None:
    known = counts.get(key)
    if known is not None:
        counts[key] = Access(known.count + access.count, max(known.last, access.last))
    elif len(counts) < _MOST:
        counts[key] = access
