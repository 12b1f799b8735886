"""All indexes of one store: that of the memory's own vectors, and one for each given vector space."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.errors import BackendError
from memkit_core.indexing.indexer import Indexer
from memkit_core.locks import ThreadLock
from memkit_core.ports import OutboxState, RecordStore, VectorSource, VectorSpace

_log = logging.getLogger("memkit.index")

_DROPPED_TOGETHER = 500
"""Vectors of one transaction: other writers wait only shortly."""


class Indexers:
    """Makes and owns the indexers of a store. Thread-safe; safe after fork."""

    def __init__(
        self,
        store: RecordStore,
        embedder: CheckedEmbedder | None,
        make: Callable[[VectorSource, CheckedEmbedder | None], Indexer],
    ) -> None:
        """`make` gives the indexer of a source: of the memory's own vectors, or of a given space."""
        self._store = store
        self._make = make
        self._mutex = ThreadLock()
        self.changing = ThreadLock()
        """Held by who changes the model of the memory's own vectors."""
        self._given: dict[VectorSpace, Indexer] = {}
        self.own = make(store, embedder)

    def given(self, space: VectorSpace, embedder: CheckedEmbedder | None = None) -> Indexer:
        """The indexer of a given vector space; one for each space, whoever asks.

        The last `embedder` that was given for a space embeds its rows.
        """
        with self._mutex:
            found = self._given.get(space)
            if found is None:
                found = self._given[space] = self._make(self._store.given(space), embedder)
            elif embedder is not None:
                found.embed_with(embedder)
            return found

    def all(self) -> list[Indexer]:
        """Every indexer that has, or may have, something to do."""
        return [self.own, *(self.given(space) for space in self._store.given_spaces())]

    def sync(self, *, deadline: float | None = None) -> None:
        """Drop what a change of the model left, and work off the outboxes, see `Indexer.sync`."""
        self.tidy()
        for indexer in self.all():
            indexer.sync(deadline=deadline)

    def tidy(self) -> None:
        """Drop the vectors and indexes of models that are out of use; what cannot be done now waits."""
        spaces = self._store.spaces
        for space in spaces.retired():
            while spaces.drop(space, limit=_DROPPED_TOGETHER):
                pass
            try:
                if self.own.drop(space):
                    spaces.forget(space)
            except BackendError as error:
                _log.warning("the index of %s is not deleted yet: %s", space.model, error)

    def flush(self) -> None:
        """Confirm what was applied, see `Indexer.flush`."""
        for indexer in self.all():
            indexer.flush()

    def retry(self, *, settled: bool = False) -> None:
        """Make every waiting change due at once, see `Indexer.retry`."""
        for indexer in self.all():
            indexer.retry(settled=settled)

    def state(self) -> OutboxState:
        """How far all indexes together are behind the store."""
        states = [indexer.state() for indexer in self.all()]
        oldest = [state.oldest for state in states if state.oldest is not None]
        return OutboxState(
            length=sum(state.length for state in states),
            oldest=min(oldest, default=None),
            failed=sum(state.failed for state in states),
            last_error=next((state.last_error for state in states if state.last_error), None),
        )

    def close(self) -> None:
        """Let go of every index, also when letting go of one fails; safe to call twice."""
        with self._mutex:
            indexers = [self.own, *self._given.values()]
        failed: BackendError | None = None
        for indexer in indexers:
            try:
                indexer.close()
            except BackendError as error:
                failed = failed or error
        if failed is not None:
            raise failed
