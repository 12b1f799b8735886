"""`SpaceTable` in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit_core.errors import ConfigError
from memkit_core.ports import Matrix, Outbox, Unembedded, Vector, VectorSource, VectorSpace
from memkit_core.stores.checks import check_vectors, not_coming
from memkit_core.stores.memory.state import Row, State, copied, kept
from memkit_core.stores.memory.vectors import InMemoryVectors


class InMemorySpaces:
    """The memory's own vector spaces in one state."""

    def __init__(self, state: State, store: VectorSource) -> None:
        """Read and write in `state`, which is that of `store`."""
        self._state = state
        self._store = store
        self._coming: VectorSpace | None = None
        self._retired: list[VectorSpace] = []

    def begin(self, space: VectorSpace) -> VectorSource:
        """See `SpaceTable.begin`."""
        with self._state.open():
            if self._coming not in (None, space):
                self._retired.append(self._coming)
            if space != self._state.vector_space:
                self._coming = space
                self._retired = [one for one in self._retired if one != space]
        return _Coming(
            store_id=self._store.store_id,
            vectors=_ComingVectors(self._state, space),
            outbox=self._store.outbox,
        )

    def waiting(self, space: VectorSpace, *, after: int, limit: int) -> list[Unembedded]:
        """See `SpaceTable.waiting`."""
        with self._state.open():
            bare = [row for row in self._own() if row.seq > after and space not in row.beside]
            return [Unembedded(row.seq, row.changed, copied(row.record)) for row in bare[:limit]]

    def count(self, space: VectorSpace) -> tuple[int, int]:
        """See `SpaceTable.count`."""
        with self._state.open():
            rows = self._own()
            if space == self._state.vector_space:
                return len(rows), sum(row.vector is not None for row in rows)
            return len(rows), sum(space in row.beside for row in rows)

    def keep(self, space: VectorSpace, rows: Sequence[Unembedded], vectors: Matrix) -> int:
        """See `SpaceTable.keep`."""
        check_vectors(vectors, space, backend="memory")
        with self._state.open():
            self._check(space)
            present = {row.seq: row for row in self._own()}
            many = 0
            for told, vector in zip(rows, vectors, strict=True):
                row = present.get(told.row)
                if row is not None and row.changed == told.change:
                    row.beside[space] = kept(vector)
                    many += 1
            return many

    def switch(self, space: VectorSpace, *, tell: Sequence[int] = ()) -> int:
        """See `SpaceTable.switch`."""
        with self._state.open():
            self._check(space)
            before, self._coming = self._state.vector_space, None
            bare = []
            for row in self._own():
                if before is not None and row.vector is not None:
                    row.beside[before] = row.vector
                row.vector = row.beside.pop(space, None)
                if row.vector is None:
                    bare.append(row)
            if before is not None:
                self._retired.append(before)
            self._state.vector_space = space
            for row in self._own():
                if row.vector is None or row.seq in tell:
                    self._state.enqueue(row.record, row, None)
            return len(bare)

    def retired(self) -> list[VectorSpace]:
        """See `SpaceTable.retired`."""
        with self._state.open():
            return list(self._retired)

    def drop(self, space: VectorSpace, *, limit: int) -> int:
        """See `SpaceTable.drop`."""
        with self._state.open():
            if space not in self._retired:
                return 0
            held = [row for row in self._own() if space in row.beside][:limit]
            for row in held:
                del row.beside[space]
            return len(held)

    def forget(self, space: VectorSpace) -> None:
        """See `SpaceTable.forget`."""
        with self._state.open():
            if not any(space in row.beside for row in self._own()):
                self._retired = [one for one in self._retired if one != space]

    def _own(self) -> list[Row]:
        # Rows are kept in the order they were made, and a replaced one keeps its number.
        return [row for row in self._state.rows.values() if row.given is None]

    def _check(self, space: VectorSpace) -> None:
        if space != self._coming:
            raise ConfigError(not_coming(space))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coming:
    """`VectorSource` of the coming space: the changes it waits for are those of the one in use."""

    store_id: str
    vectors: InMemoryVectors
    outbox: Outbox


class _ComingVectors(InMemoryVectors):
    """Vectors that stand beside those in use."""

    def __init__(self, state: State, space: VectorSpace) -> None:
        super().__init__(state, space)
        self._space = space

    def _stored(self, row: Row) -> Vector | None:
        vector = row.beside.get(self._space)
        return vector if vector is not None and vector.size else None
