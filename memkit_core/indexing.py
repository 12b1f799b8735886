"""Keeping the vector index in step with the store, and asking it while it is not.

The store's outbox lists every change the index has not confirmed. `Indexer.sync` works it off:
embed what has no vector, write it to the index, and, once the index has flushed, confirm. Each step
can fail, be killed or run twice without harm: a record is never lost, and a vector is kept only if
the text it was made from is still the record's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np

from memkit_core.embedders.checked import CheckedEmbedder
from memkit_core.errors import BackendError, ClosedError, ConfigError, MemkitError, ModelError
from memkit_core.filters import Condition, Filter, Not, Op, conjunction, indexable
from memkit_core.indexes.checks import unit
from memkit_core.indexes.keeper import IndexKeeper
from memkit_core.indexes.points import index_point
from memkit_core.locks import ThreadLock
from memkit_core.models import Target
from memkit_core.ports import (
    INDEXED_FIELDS,
    IndexHit,
    Matrix,
    OutboxEntry,
    RecordStore,
    Vector,
    VectorIndex,
)
from memkit_core.sequences import chunked
from memkit_core.times import Clock, from_ms, to_ms

_log = logging.getLogger("memkit.index")

_FLUSH_EVERY = 256
"""Changes applied before the index is flushed and the outbox confirmed."""
_FILTERED_BY_INDEX = INDEXED_FIELDS - {"expires_at"}
"""An index knows no expiry of pinned records, which never come to it; a filter on it is the store's."""
_SCAN_POINTS = 2000
"""Unconfirmed rows up to which they are scanned one by one beside the index."""
_NEVER = from_ms(to_ms(datetime.fromisoformat("9999-01-01T00:00:00+00:00")))


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseAnswer:
    """What the dense leg found, best first, and what it could not do."""

    hits: list[IndexHit]
    missing: frozenset[str] = frozenset()


class Indexer:
    """Works off the outbox and answers the dense leg. Thread-safe; safe after fork."""

    def __init__(
        self,
        store: RecordStore,
        embedder: CheckedEmbedder,
        keeper: IndexKeeper,
        *,
        embed_batch: int,
        attempts: int,
        retry_seconds: float,
        clock: Clock,
    ) -> None:
        """Between `store` and the index that `keeper` hands out."""
        self._store = store
        self._embedder = embedder
        self._keeper = keeper
        self._batch = embed_batch
        self._attempts = attempts
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._applying = ThreadLock()
        self._applied: set[int] = set()
        self._space_checked = False

    # ------------------------------------------------------------------ writing

    def sync(self, points: Sequence[UUID] | None = None, *, deadline: float | None = None) -> None:
        """Work off the due outbox entries, of `points` only if given, until none is left.

        A model or index that fails is noted in the outbox and tried again later; nothing is raised
        for it. `deadline` is a `time.monotonic` value after which no further batch is begun.
        """
        if points is None:
            self._sync_all(deadline)
            return
        for chunk in chunked(points, self._batch):
            self._sync_batch(self._due(points=chunk))

    def _sync_all(self, deadline: float | None) -> None:
        seen: set[int] = set()
        while deadline is None or time.monotonic() < deadline:
            entries = self._due(exclude=seen)
            if not entries:
                return
            seen.update(entry.number for entry in entries)
            self._sync_batch(entries)

    def _due(
        self, *, exclude: set[int] | None = None, points: Sequence[UUID] | None = None
    ) -> list[OutboxEntry]:
        skipped = [*self._applied, *(exclude or ())]
        return self._store.outbox.due(now=self._clock(), limit=self._batch, exclude=skipped, points=points)

    def _sync_batch(self, entries: Sequence[OutboxEntry]) -> None:
        if not entries:
            return
        self._embed([entry for entry in entries if entry.record is not None and entry.vector is None])
        self._apply([entry.point_id for entry in entries])

    def _embed(self, entries: Sequence[OutboxEntry]) -> None:
        if not entries:
            return
        texts = [entry.record.index_text for entry in entries if entry.record is not None]
        try:
            vectors = self._embedder.embed_documents(texts)
            self.check_space()
        except (ModelError, ConfigError) as error:
            if len(entries) == 1 or isinstance(error, ConfigError):
                self._failed(entries, error)
                return
            # One bad text must not keep the others from their vectors.
            for entry in entries:
                self._embed([entry])
            return
        self._store.vectors.save(entries, vectors)

    def check_space(self) -> None:
        """Claim the store's vector space for this embedder.

        Raises:
            ConfigError: the store holds the vectors of another model.
        """
        if not self._space_checked:
            self._store.vectors.use_space(self._embedder.space())
            self._space_checked = True

    def _apply(self, points: Sequence[UUID]) -> None:
        with self._applying:
            index = self._keeper.index()
            if index is None:
                return
            # Read again under the lock: the newest change, with the vector that belongs to it.
            entries = [
                entry
                for entry in self._due(points=points)
                if entry.record is None or entry.vector is not None
            ]
            try:
                self._keeper.check_space()
                self._write(index, entries)
                self._applied.update(entry.number for entry in entries)
                if len(self._applied) >= _FLUSH_EVERY:
                    self._confirm(index)
            except BackendError as error:
                if not error.retryable:
                    self._keeper.distrust(error)
                    self._applied.clear()
                self._failed(entries, error)

    def _write(self, index: VectorIndex, entries: Sequence[OutboxEntry]) -> None:
        made = [
            index_point(entry.record, entry.vector)
            for entry in entries
            if entry.record is not None and entry.vector is not None and entry.vector.size
        ]
        kept = {point.point_id for point in made}
        gone = [entry.point_id for entry in entries if entry.point_id not in kept]
        if made:
            index.upsert(made)
        if gone:
            index.delete(gone)

    def flush(self) -> None:
        """Make the index flush what was applied and confirm it in the outbox."""
        with self._applying:
            index = self._keeper.index() if self._applied else None
            if index is not None:
                try:
                    self._confirm(index)
                except BackendError as error:
                    self._keeper.distrust(error)
                    self._applied.clear()

    def _confirm(self, index: VectorIndex) -> None:
        index.flush()
        self._store.outbox.mark_synced(sorted(self._applied))
        self._applied.clear()
        self._keeper.confirmed(self._store.outbox.synced_through())

    def _failed(self, entries: Sequence[OutboxEntry], error: Exception) -> None:
        _log.warning("%d record(s) are not in the vector index yet: %s", len(entries), error)
        by_tries: dict[int, list[int]] = {}
        for entry in entries:
            by_tries.setdefault(entry.attempts + 1, []).append(entry.number)
        for tries, numbers in by_tries.items():
            pause = min(2.0**tries, self._retry_seconds)
            again = _NEVER if tries >= self._attempts else self._clock() + timedelta(seconds=pause)
            self._store.outbox.mark_failed(numbers, str(error), retry_at=again)

    # ------------------------------------------------------------------ reading

    def search(
        self, target: Target, query: Vector, *, where: Filter | None, now: datetime, limit: int
    ) -> DenseAnswer:
        """The target's visible rows that satisfy `where`, by cosine, best first; exact where it must be."""
        pending = self._store.outbox.pending(target)
        missing = {"dense"} if any(not row.embedded for row in pending) else set[str]()
        unconfirmed = {row.point_id for row in pending if row.number not in self._applied}
        index = self._keeper.index()
        if index is None and self._store.vectors.space() is not None:
            missing.add("index")
        usable = where is None or indexable(where, _FILTERED_BY_INDEX)
        if index is not None and usable and len(unconfirmed) <= _SCAN_POINTS:
            try:
                found = index.search(
                    target, query, where=conjunction(where, _not_expired(now)), limit=limit + len(unconfirmed)
                )
            except BackendError as error:
                self._keeper.distrust(error)
                missing.add("index")
            else:
                hits = [hit for hit in found if hit.point_id not in unconfirmed]
                if unconfirmed:
                    hits += self._scan(target, query, where, now, sorted(unconfirmed))
                return DenseAnswer(hits=_best(hits, limit), missing=frozenset(missing))
        hits = self._scan(target, query, where, now, None)
        return DenseAnswer(hits=_best(hits, limit), missing=frozenset(missing))

    def _scan(
        self, target: Target, query: Vector, where: Filter | None, now: datetime, points: list[UUID] | None
    ) -> list[IndexHit]:
        found, vectors = self._store.vectors.scan(target, where=where, now=now, points=points)
        return _cosines(found, vectors, query) if found else []


def _cosines(points: Sequence[UUID], vectors: Matrix, query: Vector) -> list[IndexHit]:
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = (vectors @ unit(query)) / np.where(lengths > 0, lengths, 1)
    return [IndexHit(point_id=p, cosine=float(c)) for p, c in zip(points, cosines, strict=True)]


def _best(hits: list[IndexHit], limit: int) -> list[IndexHit]:
    return sorted(hits, key=lambda hit: (-hit.cosine, hit.point_id.bytes))[:limit]


def _not_expired(now: datetime) -> Filter:
    return Not(Condition(("expires_at",), Op.LTE, to_ms(now)))


class Worker:
    """A thread that syncs an `Indexer` every `interval` seconds, and at once when woken.

    Started by the first write; daemonic, so that it never keeps a process alive. In a forked child
    the first write starts a new one.
    """

    def __init__(self, indexer: Indexer, *, interval: float) -> None:
        """Nothing runs yet."""
        self._indexer = indexer
        self._interval = interval
        self._mutex = ThreadLock()
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._stopped = False

    def wake(self) -> None:
        """Have the outbox worked off now."""
        self.start()
        self._woken.set()

    def start(self) -> None:
        """Have the outbox worked off, and the index confirmed, within `interval` seconds."""
        with self._mutex:
            if self._stopped:
                return
            if self._thread is None or not self._thread.is_alive():
                self._woken = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._woken,), name="memkit-outbox", daemon=True
                )
                self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread, waiting for its present batch at most `timeout` seconds."""
        with self._mutex:
            self._stopped = True
            thread = self._thread
            self._woken.set()
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self, woken: threading.Event) -> None:
        while not self._stopped:
            woken.wait(self._interval)
            woken.clear()
            try:
                self._indexer.sync()
                self._indexer.flush()
            except ClosedError:
                return
            except MemkitError as error:
                _log.warning("the outbox waits: %s", error)
