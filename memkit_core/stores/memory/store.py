"""`InMemoryStore`: the parts of a record store over one state, and its closing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from memkit_core.models import Target
from memkit_core.ports import (
    MovedRow,
    Problem,
    Received,
    Selection,
    StoreSnapshot,
    VectorSource,
    VectorSpace,
)
from memkit_core.stores.memory.jobs import InMemoryJobs
from memkit_core.stores.memory.keywords import InMemoryKeywords
from memkit_core.stores.memory.log import InMemoryLog
from memkit_core.stores.memory.moving import InMemorySnapshot, receive_row, settle_keys
from memkit_core.stores.memory.partitions import InMemoryPartitions
from memkit_core.stores.memory.recalls import InMemoryRecalls
from memkit_core.stores.memory.records import InMemoryRecords
from memkit_core.stores.memory.spaces import InMemorySpaces
from memkit_core.stores.memory.state import State
from memkit_core.stores.memory.values import InMemoryValues
from memkit_core.stores.memory.vectors import InMemoryOutbox, InMemoryVectors

if TYPE_CHECKING:
    from collections.abc import Callable

    from memkit_core.ports import KeywordIndex, RecordStore


class InMemoryStore:
    """`RecordStore` in dicts and lists: for tests and trials, and the model other stores are held to.

    Everything is gone with the process. One lock serves all threads; each call costs the rows of its
    target, a delete of a scope all rows. A forked child has a copy of its own.
    """

    def __init__(self) -> None:
        """An empty store with a name of its own."""
        self._state = State()
        self.records = InMemoryRecords(self._state)
        self.keywords: KeywordIndex = InMemoryKeywords(self._state)
        self.vectors = InMemoryVectors(self._state)
        self.outbox = InMemoryOutbox(self._state)
        self.partitions = InMemoryPartitions(self._state)
        self.spaces = InMemorySpaces(self._state, self)
        self.log = InMemoryLog(self._state)
        self.values = InMemoryValues(self._state)
        self.recalls = InMemoryRecalls(self._state)
        self.jobs = InMemoryJobs(self._state)
        self.store_id: str = uuid.uuid4().hex
        self.durable = False

    def given(self, space: VectorSpace) -> VectorSource:
        """See `RecordStore.given`."""
        return _Given(
            store_id=self.store_id,
            vectors=InMemoryVectors(self._state, space),
            outbox=InMemoryOutbox(self._state, space),
        )

    def space_of(self, target: Target) -> VectorSpace | None:
        """See `RecordStore.space_of`."""
        with self._state.open():
            partition = self._state.partitions.get((target.owner, target.space))
            return None if partition is None else partition.given or self._state.vector_space

    def given_spaces(self) -> list[VectorSpace]:
        """See `RecordStore.given_spaces`."""
        with self._state.open():
            return [space for space in self._state.synced_through if space is not None]

    @contextmanager
    def snapshot(self, selection: Selection) -> Iterator[StoreSnapshot]:
        """See `Portable.snapshot`; it is copied at the start."""
        with self._state.open():
            taken = InMemorySnapshot(self._state, selection)
        yield taken

    def receive(self, rows: Sequence[MovedRow]) -> list[Received]:
        """See `Portable.receive`."""
        with self._state.open():
            return [receive_row(self._state, row) for row in rows]

    def settle_keys(self, *, now: datetime, limit: int) -> int:
        """See `Portable.settle_keys`."""
        with self._state.open():
            return settle_keys(self._state, now=now, limit=limit)

    def verify(self) -> list[Problem]:
        """See `RecordStore.verify`: nothing is kept twice here, so nothing can disagree."""
        with self._state.open():
            return []

    def repair(self) -> list[Problem]:
        """See `RecordStore.repair`."""
        return self.verify()

    def purge(self) -> None:
        """See `RecordStore.purge`: there are no files."""
        with self._state.open():
            pass

    def close(self) -> None:
        """Forget everything; safe to call twice."""
        self._state.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """`VectorSource` of a given space."""

    store_id: str
    vectors: InMemoryVectors
    outbox: InMemoryOutbox


if TYPE_CHECKING:
    _is_a_record_store: Callable[[], RecordStore] = InMemoryStore
