"""The vectors a store keeps, by vector space, and how one space takes the place of another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from memkit_core.filters import Filter
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports.outbox import Outbox, OutboxEntry
from memkit_core.ports.vectors import Matrix, Vector, VectorSpace


class VectorTable(Protocol):
    """The vectors of one vector space, kept beside the records so that an index needs no embedding."""

    def use_space(self, space: VectorSpace) -> None:
        """Make `space` the one in use, or raise `ConfigError` that names both when there is another."""

    def space(self) -> VectorSpace | None:
        """The space in use, None before the first vector."""

    def save(
        self, entries: Sequence[OutboxEntry], vectors: Matrix, *, space: VectorSpace | None = None
    ) -> list[bool]:
        """Keep a vector beside each entry's record if that very change is still the newest.

        Returns, aligned, whether it was: a vector is never attached to a text it was not made
        from. An all-zero row is kept as "nothing to embed": never indexed, never embedded again.

        Raises:
            ConfigError: the vectors are of `space`, and another is in use by now; nothing is kept.
            DimensionMismatchError: the rows have another length than the space in use.
        """

    def scan(
        self,
        target: Target,
        *,
        where: Filter | None,
        now: datetime,
        points: Sequence[UUID] | None = None,
        space: VectorSpace | None = None,
    ) -> tuple[list[UUID], Matrix]:
        """The vectors of the target's visible rows that satisfy `where`, or of those among `points`.

        None of them when a `space` is given and another is in use by now.
        """

    def page(self, *, after: int, limit: int) -> list[tuple[int, MemoryRecord, Vector]]:
        """Rows with vectors in ascending row number above `after`, to rebuild an index from."""

    def counts(self) -> tuple[int, int]:
        """How many non-zero vectors there are, and how many of these have an outbox entry."""


class Unembedded(NamedTuple):
    """A row without a vector in a vector space, as it was at the change of this number."""

    row: int
    change: int
    record: MemoryRecord


class SpaceTable(Protocol):
    """The memory's own vector space, and how another takes its place. Each method is one transaction.

    One is in use; one may be coming, its vectors made beside those in use; those that were in use, or
    were to come, are retired until their vectors are dropped. Given spaces have no part in this.
    """

    def begin(self, space: VectorSpace) -> VectorSource:
        """Let `space` come, or go on coming, and return what its index can be built from.

        Another one that was coming is retired; a retired one comes with the vectors it still has right.
        """

    def waiting(self, space: VectorSpace, *, after: int, limit: int) -> list[Unembedded]:
        """Rows with the memory's own vectors that have none of `space`, in ascending number above `after`."""

    def count(self, space: VectorSpace) -> tuple[int, int]:
        """How many rows with the memory's own vectors there are, and how many have one of `space`."""

    def keep(self, space: VectorSpace, rows: Sequence[Unembedded], vectors: Matrix) -> int:
        """Keep a vector of the coming `space` for each row that has not changed since; returns how many.

        Recall sees none of them before `switch`.

        Raises:
            ConfigError: `space` is not coming any more.
            DimensionMismatchError: the vectors are not as long as `space` says.
        """

    def switch(self, space: VectorSpace, *, tell: Sequence[int] = ()) -> int:
        """Make the coming `space` the one in use and retire the one that was; returns how many rows have no vector.

        Those get an outbox entry, and wait for theirs like any other. So do the rows with the numbers
        `tell`, which an index that was built before does not have.

        Raises:
            ConfigError: `space` is not coming any more.
        """

    def retired(self) -> list[VectorSpace]:
        """The spaces whose vectors are to be dropped; their indexes too."""

    def drop(self, space: VectorSpace, *, limit: int) -> int:
        """Delete up to `limit` vectors of the retired `space`; returns how many. None of another one."""

    def forget(self, space: VectorSpace) -> None:
        """Forget the retired `space`, once it has no vectors."""


class VectorSource(Protocol):
    """One vector space of a store: what its index is built from and kept in step with."""

    @property
    def store_id(self) -> str:
        """Random name of the store, made with it; an index of another store is not ours."""

    @property
    def vectors(self) -> VectorTable:
        """The vectors beside the records."""

    @property
    def outbox(self) -> Outbox:
        """The changes the vector index waits for."""
