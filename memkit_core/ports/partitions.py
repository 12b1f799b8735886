"""Partitions as a whole, for readers that keep a copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memkit_core.models import Target
from memkit_core.ports.rows import Candidate
from memkit_core.ports.vectors import VectorSpace


class PartitionMark(NamedTuple):
    """How far a reader has seen one partition: its own number, its last change, its vectors' space."""

    partition: int
    change: int
    space: VectorSpace | None


class PartitionRow(NamedTuple):
    """A row as recall sees it, with what decides whether it may be seen.

    Attributes:
        candidate: what ranking needs.
        scope: digest of the row's own scope.
        status, type: as the record's values.
        expires_at: milliseconds; None for never, pinned records included.
        held_from, held_until: milliseconds; from when on, and until when, it holds; None for no end.
        vector: little-endian float32, of any length above 0; empty when the text held nothing to
            embed; None while it is not embedded.
    """

    candidate: Candidate
    scope: bytes
    status: str
    type: str
    expires_at: int | None
    held_from: int
    held_until: int | None
    vector: bytes | None


class Postings(NamedTuple):
    """The rows of a partition that hold a term, ascending, and how often: `(n,) int64` each."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanges:
    """What a partition is now, as far as the reader has not seen it.

    Attributes:
        mark: what to ask with the next time.
        documents, terms: of the whole partition, as `KeywordIndex` counts them.
        rows: those that changed, ascending by their number; None when there were too many.
        present: the numbers of all rows, ascending, when one was taken away; else None.
        postings: of each term that was asked for.
    """

    mark: PartitionMark
    documents: int
    terms: int
    rows: list[PartitionRow] | None = None
    present: list[int] | None = None
    postings: Mapping[str, Postings] = field(default_factory=dict)


class PartitionTable(Protocol):
    """Partitions as a whole, for readers that keep a copy: the rows of one owner in one space."""

    def changes(
        self,
        target: Target,
        *,
        after: PartitionMark | None,
        most: int,
        terms: Sequence[str],
        held: Collection[str] = (),
    ) -> PartitionChanges | None:
        """What changed in the partition of `target.owner` since `after`; all of it without `after`.

        Every change that recall could see is told: of a row, its place, its text, its vector. One
        consistent state. Where `after` is of another partition or of another space of vectors, all
        rows come. None when the partition has no rows.

        Args:
            target: one of the owner's targets.
            after: the mark of the last call.
            most: more changed rows than these are not read.
            terms: whose postings are wanted.
            held: those of them that are known if nothing changed.
        """
