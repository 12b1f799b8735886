"""What is measured on: sizes, places, and the same records for every contestant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.texts import Texts
from memkit_core import Scope

DIMENSION = 256
"""Of WordLlama's vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Sizes and places of one run.

    Attributes:
        folder: an empty folder that the run may fill; on the file system to be measured.
        records: how many records, spread evenly over the users.
        users: how many users.
        rounds: how often each quick call is timed.
    """

    folder: Path
    records: int = 50_000
    users: int = 10
    rounds: int = 300

    @property
    def store(self) -> Path:
        """The file of the memory under test."""
        return self.folder / "memory.db"

    @property
    def raw(self) -> Path:
        """The folder of the bare engine."""
        return self.folder / "raw"

    @property
    def vectors(self) -> Path:
        """All vectors, float32, in the order of `texts`."""
        return self.folder / "vectors.f32"

    @property
    def asked(self) -> str:
        """The user whose records the queries search."""
        return f"user-{self.users // 2}"

    @property
    def scope(self) -> Scope:
        """The scope of `asked`."""
        return Scope.user(self.asked)

    def texts(self) -> Iterator[tuple[str, list[str]]]:
        """The records of each user, by the user's id."""
        texts = Texts(seed=1)
        for number in range(self.users):
            yield f"user-{number}", texts.sentences(self.records // self.users)

    def questions(self, count: int, *, seed: int = 2) -> list[str]:
        """Queries in the words of the records."""
        return Texts(seed).questions(count)
