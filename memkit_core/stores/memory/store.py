"""`InMemoryStore`: the parts of a record store over one state, and its closing."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from memkit_core.stores.memory.keywords import InMemoryKeywords
from memkit_core.stores.memory.log import InMemoryLog
from memkit_core.stores.memory.records import InMemoryRecords
from memkit_core.stores.memory.state import State
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
        self.log = InMemoryLog(self._state)
        self.store_id: str = uuid.uuid4().hex
        self.durable = False

    def close(self) -> None:
        """Forget everything; safe to call twice."""
        self._state.close()


if TYPE_CHECKING:
    _is_a_record_store: Callable[[], RecordStore] = InMemoryStore
