"""Another embedding model for a store that is in use (spec C10).

The vectors of the new model are made beside those in use, a batch at a time, and what is made stays:
a run that was killed goes on where it stopped. Then the second index is built, what changed meanwhile
is caught up with, and one transaction switches. Until then the old model answers, after it the new one.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memkit_core.config import Config
from memkit_core.connect import checked_embedder
from memkit_core.embedders.resolve import resolve_embedder
from memkit_core.errors import (
    BackendError,
    ClosedError,
    ConfigError,
    InvalidInputError,
    MemkitError,
    ModelError,
    shown,
)
from memkit_core.indexing.embedding import vectors_of
from memkit_core.inputs import checked_id
from memkit_core.observing import observer_of, use
from memkit_core.ports import RecordStore, Unembedded, VectorSpace

if TYPE_CHECKING:
    from memkit_core.connect import Parts
    from memkit_core.embedders.checked import CheckedEmbedder

_log = logging.getLogger("memkit.upkeep")

EmbeddingProgress = Callable[[int, int], object]
"""Is told how many of how many records are embedded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembedReport:
    """What a change of the embedding model did.

    Attributes:
        model: the name of the model that is in use now.
        dimension: the length of its vectors.
        records: how many records have, or wait for, a vector of the memory's own model.
        embedded: how many of them this run embedded; others had their vectors from an earlier run.
        waiting: how many were written, or could not be embedded, when it switched; they wait in the
            outbox as after `add`.
    """

    model: str
    dimension: int
    records: int
    embedded: int
    waiting: int


class Reembedder:
    """Changes the model of one store. Thread-safe: one run at a time, the next one waits for it."""

    def __init__(
        self, store: RecordStore, parts: Parts, config: Config, *, changed: Callable[[], None]
    ) -> None:
        """Change the model of `parts`, whose store one memory has as `store`.

        `changed` is called when the outbox has something to do.
        """
        self._store = store
        self._parts = parts
        self._own = parts.indexers.own
        self._config = config
        self._changed = changed

    def run(
        self, given: object, *, embedding_model: str | None, progress: EmbeddingProgress | None
    ) -> ReembedReport:
        """See `Upkeep.reembed`."""
        if progress is not None and not callable(progress):
            raise InvalidInputError(f"reembed: progress must be a function, got {shown(progress)}")
        if embedding_model is not None:
            checked_id(embedding_model, "embedding_model")
        model = checked_embedder(resolve_embedder(given, model=embedding_model), self._config, dimension=None)
        if model.absent:
            raise ConfigError("reembed: embedder='none' embeds nothing; name the new model")
        space, named = model.space(), (given, embedding_model)
        with self._parts.indexers.changing:
            self._store.spaces.begin(space)
            embedded = waiting = 0
            if self._store.vectors.space() == space:
                self._parts.change_model(model, named, lambda: 0)
            else:
                embedded, waiting = self._change(model, named, space, progress)
            # What failed with the old model, or waited without one, may succeed now.
            self._own.retry()
            self._changed()
            self._parts.indexers.tidy()
            records, _ = self._store.spaces.count(space)
        return ReembedReport(
            model=space.model,
            dimension=space.dimension,
            records=records,
            embedded=embedded,
            waiting=waiting,
        )

    def run_later(self, given: object, embedding_model: str | None) -> None:
        """Do it in a thread that tries until it is done, the memory is closed, or another model is chosen."""

        def run() -> None:
            use(observer_of(self._store))
            while True:
                try:
                    self.run(given, embedding_model=embedding_model, progress=None)
                except ClosedError:
                    return
                except MemkitError as error:
                    _log.warning("the model is not changed, and the old one goes on: %s", error)
                    if isinstance(error, ConfigError):
                        return
                    time.sleep(self._config.outbox_seconds)
                else:
                    return

        threading.Thread(target=run, name="memkit-reembed", daemon=True).start()

    def _change(
        self,
        model: CheckedEmbedder,
        named: tuple[object, str | None],
        space: VectorSpace,
        progress: EmbeddingProgress | None,
    ) -> tuple[int, int]:
        """Embed, build the index and switch; how many were embedded, and how many were left."""
        run = _Run(self._store, model, space, batch=self._config.embed_batch, progress=progress)
        try:
            run.embed()
            # From here on every change stays in the outbox: the new index needs those that come
            # after it is built, and what came before is embedded first.
            with self._own.holding():
                run.embed()
                self._prepare(space)
                late = run.embed()
                left = self._parts.change_model(
                    model, named, lambda: self._store.spaces.switch(space, tell=late)
                )
                # Opened here, so that no recall waits for it.
                self._own.held()
        except ConfigError:
            if self._store.vectors.space() != space:
                raise
            # Another process did the same and was first.
            left = self._parts.change_model(model, named, lambda: 0)
        return run.embedded, left

    def _prepare(self, space: VectorSpace) -> None:
        try:
            self._own.prepare(self._store.spaces.begin(space))
        except BackendError as error:
            # Documented degradation: exact scans answer until the index can be built.
            _log.warning("the index of %s is built later: %s", space.model, error)


class _Run:
    """The embedding of one run; `embed` again does what changed since."""

    def __init__(
        self,
        store: RecordStore,
        model: CheckedEmbedder,
        space: VectorSpace,
        *,
        batch: int,
        progress: EmbeddingProgress | None,
    ) -> None:
        self._store = store
        self._model = model
        self._space = space
        self._batch = batch
        self._progress = progress
        self._failed: set[tuple[int, int]] = set()
        self.embedded = 0

    def embed(self) -> list[int]:
        """Embed what has no vector yet, a batch at a time, each kept in a transaction of its own.

        Returns the numbers of these rows. Ends when it has caught up, or nearly so with a writer who never stops.

        Raises:
            ModelError: the model is down; what was embedded is kept.
        """
        total, done = self._store.spaces.count(self._space)
        self._tell(done, total)
        after, seen = 0, list[int]()
        while rows := self._store.spaces.waiting(self._space, after=after, limit=self._batch):
            after = rows[-1].row
            todo = [row for row in rows if row[:2] not in self._failed]
            done += self._kept(todo)
            seen += [row.row for row in todo]
            self._tell(done, max(total, done))
            if len(rows) < self._batch:
                break
        return seen

    def _kept(self, rows: Sequence[Unembedded]) -> int:
        if not rows:
            return 0
        vectors, error = vectors_of(self._model, [row.record.index_text for row in rows])
        made = [(row, vector) for row, vector in zip(rows, vectors, strict=True) if vector is not None]
        kept = 0
        if made:
            matrix = np.stack([vector for _, vector in made])
            kept = self._store.spaces.keep(self._space, [row for row, _ in made], matrix)
            self.embedded += kept
        if error is not None:
            if not isinstance(error, ModelError) or not self._answers():
                raise error
            # The texts are to blame: they wait in the outbox once it has switched, like any other.
            self._failed |= {row[:2] for row, vector in zip(rows, vectors, strict=True) if vector is None}
            _log.warning("reembed: %d text(s) cannot be embedded: %s", len(rows) - len(made), error)
        return kept

    def _answers(self) -> bool:
        """Whether the model embeds a text that it was never asked for."""
        try:
            self._model.embed_documents([uuid.uuid4().hex])
        except ModelError:
            return False
        return True

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)
