"""The changes that a vector index has not confirmed yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from memkit_core.models import MemoryRecord, Target
from memkit_core.ports.vectors import Vector, VectorSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A change that the derived indexes have not confirmed yet.

    `number` is the change's own; a later change of the same point has a higher one and replaces
    it. `record` is None when the point was deleted. `vector` is the stored vector of the record's
    present text, None while it is not embedded.
    """

    number: int
    point_id: UUID
    attempts: int
    record: MemoryRecord | None
    vector: Vector | None


class Pending(NamedTuple):
    """A row whose newest change, of this number, the index has not confirmed.

    A named tuple, because a recall reads up to some thousand. `point` is the 16 bytes of its id in
    every index; `embedded` says whether it has its vector; a deleted row needs none.
    """

    number: int
    point: bytes
    embedded: bool

    @property
    def point_id(self) -> UUID:
        """The row's id in every index."""
        return UUID(bytes=self.point)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxState:
    """How far the indexes are behind the store."""

    length: int = 0
    oldest: datetime | None = None
    failed: int = 0
    """Entries that used up their tries; kept, shown and tried again on `flush`."""
    last_error: str | None = None


class Outbox(Protocol):
    """The changes that the index of one vector space has not confirmed; at most one a point, the newest."""

    def due(
        self,
        *,
        now: datetime,
        limit: int,
        after: int = 0,
        exclude: Sequence[int] = (),
        points: Sequence[UUID] | None = None,
        unembedded: bool = False,
    ) -> list[OutboxEntry]:
        """The oldest entries above number `after` whose time has come, less the excluded numbers.

        Only of `points` if given, and with `unembedded` only records that wait for their vector.
        """

    def pending(self, target: Target) -> list[Pending]:
        """The target's rows that have an entry, deleted ones too: the index may still find those."""

    def mark_synced(self, numbers: Sequence[int], *, space: VectorSpace | None = None) -> None:
        """Remove these entries; a newer change of the same point has another number and stays.

        Nothing is removed when it was the index of `space` that took them, and another is in use by now.
        """

    def last_number(self) -> int:
        """The highest number ever given to a change of any vector space, 0 before the first."""

    def synced_through(self) -> int:
        """The highest number ever confirmed; tells whether an index and a store belong together."""

    def mark_failed(self, numbers: Sequence[int], error: str, *, retry_at: datetime) -> None:
        """Count one more try, keep the error, and wait until `retry_at`."""

    def retry(self) -> None:
        """Make every waiting entry due at once."""

    def state(self, *, max_attempts: int) -> OutboxState:
        """Length, oldest age, how many used up their tries, and the last error."""
