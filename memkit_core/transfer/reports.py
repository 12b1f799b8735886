"""What the verbs of `memory.transfer` are given and give; light to import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

Progress = Callable[[int, int], object]
"""Is told how much of how much is done, some hundred times at most a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export wrote.

    Attributes:
        watermark: where the next increment begins: give it as `watermark`.
        counts: how many lines of each kind: records, turns, sessions, messages, summaries, values,
            deleted; those there are none of are left out.
        bytes: how much was written.
    """

    watermark: str
    counts: Mapping[str, int]
    bytes: int

    @property
    def rows(self) -> int:
        """How many lines, header and end left out."""
        return sum(self.counts.values())


class OnError(StrEnum):
    """What a line that cannot be imported means for the others."""

    STOP = "stop"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that was not imported, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did; each mapping counts by kind and leaves out what there is none of.

    Kinds are records, turns, sessions, messages, summaries, values, and in `unchanged` also deleted.

    Attributes:
        inserted: what was not there.
        updated: what was there in an older version.
        unchanged: what was there as it is or newer, and deletes of what was not there.
        deleted: what was deleted because the exporting store had deleted it.
        skipped: how many lines were not imported.
        skipped_lines: the first hundred of them.
        reembedded: records whose vectors were of another model; they wait for the memory's own.
        superseded: memories that gave way to a newer value of their key, from the file or in the store.
    """

    inserted: Mapping[str, int]
    updated: Mapping[str, int]
    unchanged: Mapping[str, int]
    deleted: int = 0
    skipped: int = 0
    skipped_lines: tuple[SkippedLine, ...] = ()
    reembedded: int = 0
    superseded: int = 0

    @property
    def changed(self) -> bool:
        """Whether anything is other than before."""
        return bool(self.inserted or self.updated or self.deleted or self.superseded)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The copy that a backup made: its absolute path and its size."""

    path: str
    bytes: int
