"""`memory.upkeep`: looking after the whole store, whoever's records they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memkit_core.errors import BackendUnavailableError
from memkit_core.indexing import Indexer, Indexers
from memkit_core.ports import Problem, RecordStore


@dataclass(frozen=True, slots=True)
class Findings:
    """What `verify` or `repair` found; empty, and false, when all is well.

    Attributes:
        problems: each kind of trouble once, see `Problem`.
        unchecked: vector spaces whose index this process could not look at, because another process,
            or another memory of this one with other settings, holds it.
    """

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many kinds of trouble there are."""
        return len(self.problems)

    def __iter__(self) -> Iterator[Problem]:
        """The problems."""
        return iter(self.problems)

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong any more: nothing was found, or all of it was mended."""
        return all(problem.mended for problem in self.problems)


class Upkeep:
    """Verbs on the store as a whole. Reached as `memory.upkeep`; thread-safe."""

    def __init__(self, store: RecordStore, indexers: Indexers) -> None:
        """Look after these."""
        self._store = store
        self._indexers = indexers

    def verify(self) -> Findings:
        """Compare everything derived with the records: tags, keyword rows, counters, vectors, indexes.

        Changes nothing. Reads every row and every vector: about a second for each 10,000 records.
        Other threads and processes go on meanwhile.
        """
        return self._with_indexes(self._store.verify(), mend=False)

    def repair(self) -> Findings:
        """Mend what `verify` finds, as far as it follows from the records; no text is embedded again.

        What lost its vector waits in the outbox and is embedded as usual. A problem that is not
        `mended` says in its `detail` what to do. Safe to run twice, and to kill.
        """
        return self._with_indexes(self._store.repair(), mend=True)

    def reindex(self) -> int:
        """Build every vector index anew from the stored vectors, without embedding; returns how many points.

        Recall goes on with exact scans meanwhile.

        Raises:
            BackendError: somebody else holds the indexes, or one cannot be built.
        """
        points = 0
        for indexer in self._indexers.all():
            indexer.rebuild()
            points += indexer.points()
        return points

    def _with_indexes(self, problems: list[Problem], *, mend: bool) -> Findings:
        unchecked = []
        for indexer in self._indexers.all():
            differing = indexer.differing()
            if differing is None and mend:
                # Out of use: what was mended in the store may be what kept it from being built.
                differing = _rebuilt(indexer)
            if differing is None and indexer.points():
                unchecked.append(indexer.name)
            elif differing:
                problems = [*problems, _index_problem(indexer, differing, mend=mend)]
        return Findings(tuple(problems), tuple(unchecked))


def _rebuilt(indexer: Indexer) -> int | None:
    try:
        indexer.rebuild()
    except BackendUnavailableError:
        return None
    return indexer.differing()


def _index_problem(indexer: Indexer, differing: int, *, mend: bool) -> Problem:
    if mend:
        indexer.rebuild()
    return Problem(
        kind="index",
        count=differing,
        detail=f"points of the index of {indexer.name} that are not those of the store",
        mended=mend,
    )
