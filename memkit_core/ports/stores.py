"""The record store as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from memkit_core.models import Target
from memkit_core.ports.jobs import JobTable
from memkit_core.ports.keywords import KeywordIndex
from memkit_core.ports.log import MessageLog
from memkit_core.ports.partitions import PartitionTable
from memkit_core.ports.recalls import RecallTable
from memkit_core.ports.records import RecordTable
from memkit_core.ports.spaces import SpaceTable, VectorSource
from memkit_core.ports.values import ValueTable
from memkit_core.ports.vectors import VectorSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something in a store or index that is not what the records say it must be.

    `kind` is a short name for what is wrong, `count` how often, `detail` a sentence with the remedy
    where memkit has none; `mended` says that it is right again.
    """

    kind: str
    count: int
    detail: str
    mended: bool = False


class RecordStore(VectorSource, Protocol):
    """The truth. One object that owns the connection; its parts share it and its transactions.

    As a `VectorSource` it is that of the vectors the memory's own embedder makes.
    """

    @property
    def durable(self) -> bool:
        """Whether what is written outlives the process."""

    def given(self, space: VectorSpace) -> VectorSource:
        """The vectors of a given space, and the changes of the rows that have theirs there."""

    def space_of(self, target: Target) -> VectorSpace | None:
        """The vector space of the target's rows: a given one or the memory's own; None without rows."""

    def given_spaces(self) -> list[VectorSpace]:
        """The given spaces that were ever written to."""

    @property
    def records(self) -> RecordTable:
        """The records of every space."""

    @property
    def keywords(self) -> KeywordIndex:
        """The keyword leg."""

    @property
    def partitions(self) -> PartitionTable:
        """Partitions as a whole."""

    @property
    def spaces(self) -> SpaceTable:
        """The memory's own vector space, and how another takes its place."""

    @property
    def log(self) -> MessageLog:
        """Sessions and messages."""

    @property
    def values(self) -> ValueTable:
        """Working memories and run states."""

    @property
    def recalls(self) -> RecallTable:
        """The recall log."""

    @property
    def jobs(self) -> JobTable:
        """The periodic work on it."""

    def verify(self) -> list[Problem]:
        """What inside the store does not agree with its records; changes nothing. Reads every row."""

    def repair(self) -> list[Problem]:
        """Make what is derived agree with the records again; what `verify` found, marked as mended."""

    def purge(self) -> None:
        """Leave nothing of what was deleted in any file; every row is written anew.

        Raises:
            BackendError: a reader or another process kept that from being done; nothing is lost.
        """

    def close(self) -> None:
        """Let go of everything; safe to call twice. Later calls raise `ClosedError`."""


@runtime_checkable
class Logged(Protocol):
    """A store in a file with a write-ahead log beside it."""

    @property
    def path(self) -> Path:
        """The file it lives in."""

    def log_bytes(self) -> int:
        """How long the write-ahead log is."""

    def checkpoint(self) -> bool:
        """Copy the write-ahead log into the file and empty it; False when a reader prevents it."""
