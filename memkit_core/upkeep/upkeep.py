"""`memory.upkeep`: looking after the whole store, whoever's records they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memkit_core.errors import BackendUnavailableError
from memkit_core.indexing import Indexer, Indexers
from memkit_core.inputs import checked_count
from memkit_core.models import DeleteReceipt
from memkit_core.ports import Problem, RecordStore
from memkit_core.times import Clock
from memkit_core.upkeep.reembed import Progress, Reembedder, ReembedReport


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

    def __init__(
        self,
        store: RecordStore,
        indexers: Indexers,
        clock: Clock,
        *,
        changed: Callable[[], None],
        reembedder: Reembedder,
    ) -> None:
        """Look after these; `changed` is called when the indexes have something to catch up with."""
        self._reembedder = reembedder
        self._store = store
        self._indexers = indexers
        self._clock = clock
        self._changed = changed

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

    def sweep(self, *, batch: int = 500) -> DeleteReceipt:
        """Delete what has expired, whoever's it is, and return what was removed; pinned records stay.

        No read ever shows what has expired, swept or not: this frees the space. One transaction for
        each `batch` records, so that other writers wait only shortly; safe to kill and to run twice.
        """
        checked_count(batch, "sweep: batch", most=10_000)
        now, receipt = self._clock(), DeleteReceipt()
        while (swept := self._store.records.sweep(now=now, limit=batch)).records:
            receipt += swept
            self._changed()
        return receipt

    def purge(self) -> DeleteReceipt:
        """Sweep, and leave nothing of what was deleted in any file; returns what was swept.

        Every row is written anew and every vector index built anew, which takes seconds for each
        100,000 records and room for a second copy. Other writers wait; recall goes on.

        Raises:
            BackendError: another process holds the indexes or reads for long, or there is no room.
                Nothing is lost, but something of what was deleted may still be in a file.
        """
        receipt = self.sweep()
        self._indexers.sync()
        self._store.purge()
        self.reindex()
        return receipt

    def reembed(
        self,
        embedder: object,
        *,
        embedding_model: str | None = None,
        progress: Progress | None = None,
    ) -> ReembedReport:
        """Change the embedding model of the memory in place; returns when it has switched.

        The old model answers meanwhile, reads and writes go on, and one transaction switches: no
        recall ever compares vectors of two models. What was embedded is kept when the run is killed or the
        model fails; the same call goes on from there. Another model gives it up. Then the old vectors
        and their index are deleted. Collections with vectors of their own keep these.

        This memory, and those of this process that share its store and settings, go on with the new
        model. Every other one that is open with the old model answers by words from then on, with
        "dense" among `missing` and `capabilities.dense` False, and what it writes waits in the outbox
        for a memory with the new model.

        Args:
            embedder: the new model, in any form `Memory.open` takes.
            embedding_model: the model's name, for an embedder object that does not know it.
            progress: is told how many of how many records are embedded, after each batch.

        Raises:
            ConfigError: no model that can be embedded with, or another process began with another one.
            ModelError: the model is down; the old one stays in use.
        """
        return self._reembedder.run(embedder, embedding_model=embedding_model, progress=progress)

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
