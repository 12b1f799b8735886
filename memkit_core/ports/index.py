"""The vector index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from memkit_core.filters import Filter
from memkit_core.models import Target
from memkit_core.ports.vectors import Vector

INDEXED_FIELDS = frozenset({"type", "status", "created_at", "occurred_at", "expires_at", "tags"})
"""The record fields that a vector index holds beside a vector and must be able to filter on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPoint:
    """A vector and what the index may know of its record. Never text, never free metadata."""

    point_id: UUID
    vector: Vector
    owner: bytes
    """Digest of the scope whose rows share a partition (`Target.owner`)."""
    scope: bytes
    """Digest of the record's own scope."""
    space: str
    type: str
    status: str
    created_at: int
    occurred_at: int | None = None
    expires_at: int | None = None
    tags: tuple[str, ...] = field(default=())


class IndexHit(NamedTuple):
    """A point the index found; `cosine` in [-1, 1], higher is better."""

    point_id: UUID
    cosine: float


class VectorIndex(Protocol):
    """Derived: may lag behind the store, can be dropped and rebuilt from it at any time."""

    @property
    def dimension(self) -> int:
        """Length of the vectors it holds."""

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Add points, replacing those with the same id. Searchable when it returns."""

    def delete(self, points: Sequence[UUID]) -> None:
        """Remove points; unknown ids are ignored."""

    def search(self, target: Target, vector: Vector, *, where: Filter | None, limit: int) -> list[IndexHit]:
        """The target's points that satisfy `where`, by cosine, best first.

        `where` names only `INDEXED_FIELDS`. A zero vector finds nothing.
        """

    def get(self, points: Sequence[UUID]) -> dict[UUID, Vector]:
        """The stored vectors (scaled to length 1) of those points that exist."""

    def count(self) -> int:
        """How many points it holds."""

    def clear(self) -> None:
        """Remove every point."""

    def flush(self) -> None:
        """Make all that was written survive a power cut as well as a kill."""

    def close(self) -> None:
        """Let go of files, locks and threads; safe to call twice."""
