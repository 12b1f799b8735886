"""The keeper of an index that lives in the memory of the process."""

from __future__ import annotations

import logging

from memkit_core.indexes.flat import FlatIndex
from memkit_core.indexes.points import stored_points
from memkit_core.locks import ThreadLock
from memkit_core.ports import VectorIndex, VectorSource, VectorSpace

_log = logging.getLogger("memkit.index")


class FlatKeeper:
    """Keeps a `FlatIndex` in memory, filled from the store when it is first asked for."""

    def __init__(self, source: VectorSource) -> None:
        """For the index of `source`."""
        self._source = source
        self._index: FlatIndex | None = None
        self._space: VectorSpace | None = None
        self._mutex = ThreadLock()

    def index(self) -> VectorIndex | None:
        """See `IndexKeeper.index`; None only before the first vector."""
        with self._mutex:
            space = self._source.vectors.space()
            if space is not None and (self._index is None or space != self._space):
                self._index, self._space = FlatIndex(space.dimension), space
                for points in stored_points(self._source, batch=250):
                    self._index.upsert(points)
            return self._index

    def writable(self) -> VectorIndex | None:
        """See `IndexKeeper.writable`: no other process can see it."""
        return self.index()

    def space_of(self, index: VectorIndex) -> VectorSpace | None:
        """See `IndexKeeper.space_of`."""
        with self._mutex:
            return self._space if index is self._index else None

    def prepare(self, source: VectorSource) -> bool:  # noqa: ARG002 - the port's method
        """See `IndexKeeper.prepare`: it is filled in a moment when it is asked for."""
        return False

    def drop(self, space: VectorSpace) -> bool:  # noqa: ARG002 - the port's method
        """See `IndexKeeper.drop`: nothing is kept."""
        return True

    def writing(self, index: VectorIndex, number: int) -> None:
        """Nothing to note: it never outlives the process."""

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """Nothing to note: it never outlives the process."""

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """See `IndexKeeper.distrust`."""
        with self._mutex:
            if self._index is index:
                _log.warning("the vector index failed and will be rebuilt: %s", error)
                self._index = None

    def rebuild(self) -> None:
        """See `IndexKeeper.rebuild`."""
        with self._mutex:
            self._index = None
        self.index()

    def check_room(self) -> None:
        """Memory needs no reserve on disk."""

    def close(self) -> None:
        """See `IndexKeeper.close`."""
        if self._index is not None:
            self._index.close()
