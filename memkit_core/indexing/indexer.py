"""Keeping the index of one vector space in step with the store, and asking it while it is not.

The store's outbox lists every change the index has not confirmed. `Indexer.sync` works it off:
embed what has no vector, write it to the index, and, once the index has flushed, confirm. Each step
can fail, be killed or run twice without harm: a record is never lost, and a vector is kept only if
the text it was made from is still the record's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from memkit_core.errors import (
    BackendError,
    ClosedError,
    ConfigError,
    DimensionMismatchError,
    MissingDependencyError,
    ModelError,
)
from memkit_core.filters import Condition, Filter, Not, Op, conjunction, indexable
from memkit_core.indexes.checks import dots, unit
from memkit_core.indexes.keeper import passing
from memkit_core.indexes.points import index_point
from memkit_core.indexing.embedding import vectors_of
from memkit_core.locks import ThreadLock
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import (
    INDEXED_FIELDS,
    IndexHit,
    Matrix,
    OutboxEntry,
    OutboxState,
    Pending,
    Vector,
    VectorIndex,
    VectorSource,
    VectorSpace,
)
from memkit_core.sequences import chunked
from memkit_core.times import Clock, from_ms, to_ms

if TYPE_CHECKING:
    from memkit_core.embedders.checked import CheckedEmbedder
    from memkit_core.indexes.keeper import IndexKeeper

_log = logging.getLogger("memkit.index")

_FLUSH_EVERY = 2048
"""Changes applied before the index is flushed and the outbox confirmed: a flush holds the GIL while the
disk works, nearly as long for few changes as for many, but each recall reads what is unconfirmed."""
_FILTERED_BY_INDEX = INDEXED_FIELDS - {"expires_at"}
"""An index knows no expiry of pinned records, which never come to it; a filter on it is the store's."""
_SCAN_POINTS = 2000
"""Unconfirmed rows up to which they are scanned one by one beside the index."""
_CAUGHT_UP = 300
"""Rows of a target that a recall embeds itself rather than answer without them."""
_COMPARED = 500
"""Vectors that are compared with the index in one go."""
_SAME = 1 - 1e-3
"""The cosine of two vectors that are the same but for rounding."""
_NEVER = from_ms(to_ms(datetime.fromisoformat("9999-01-01T00:00:00+00:00")))


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseAnswer:
    """What the dense leg found, best first, and what it could not do."""

    hits: list[IndexHit]
    missing: frozenset[str] = frozenset()


class Indexer:
    """Works off the outbox of one vector space and answers its dense leg. Thread-safe; safe after fork."""

    def __init__(
        self,
        source: VectorSource,
        embedder: CheckedEmbedder | None,
        keeper: IndexKeeper,
        *,
        embed_batch: int,
        attempts: int,
        retry_seconds: float,
        clock: Clock,
    ) -> None:
        """Between `source` and the index that `keeper` hands out.

        Without an embedder the vectors come with the texts, or from another process.
        """
        self._source = source
        self._embedder = embedder
        self._keeper = keeper
        self._batch = embed_batch
        self._attempts = attempts
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._clock_stood_at = clock()
        # One thread embeds at a time, so that no text is paid for twice.
        self._embedding = ThreadLock()
        self._applying = ThreadLock()
        # The changes that `_applied_to` holds and the outbox still lists.
        self._applied: set[int] = set()
        self._applied_to: VectorIndex | None = None
        self._applied_space: VectorSpace | None = None
        self._claimed: VectorSpace | None = None
        self._holding = 0

    def embed_with(self, embedder: CheckedEmbedder) -> None:
        """Embed with this from now on: an object that is given later may hold the key that works."""
        if embedder is not self._embedder:
            self._embedder, self._claimed = embedder, None

    # ------------------------------------------------------------------ another model

    def outdated(self) -> bool:
        """Whether the store has the vectors of another model by now than the one this embeds with."""
        space, embedder = self._source.vectors.space(), self._embedder
        return (
            space is not None
            and embedder is not None
            and (space.model, space.revision) != (embedder.model, embedder.revision)
        )

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Confirm no change for as long as the block lasts: an index that is built meanwhile needs them all."""
        with self._applying:
            self._holding += 1
        try:
            yield
        finally:
            with self._applying:
                self._holding -= 1

    def prepare(self, source: VectorSource) -> bool:
        """Build the index of a coming space, see `IndexKeeper.prepare`."""
        return self._keeper.prepare(source)

    def drop(self, space: VectorSpace) -> bool:
        """Delete the index of a retired space, see `IndexKeeper.drop`."""
        return self._keeper.drop(space)

    # ------------------------------------------------------------------ writing

    def sync(
        self,
        points: Sequence[UUID] | None = None,
        *,
        deadline: float | None = None,
    ) -> None:
        """Work off the due outbox entries, of `points` only if given, until none is left.

        A model or index that fails is noted in the outbox and tried again later; nothing is raised
        for it. `deadline` is a `time.monotonic` value after which no further batch is begun.

        Raises:
            BackendError: the store failed; the outbox keeps what was not done.
        """
        if points is None:
            self._sync_all(deadline)
            return
        for chunk in chunked(points, self._batch):
            self._sync_points(chunk)

    def _sync_all(self, deadline: float | None) -> None:
        self._retry_if_clock_was_set_back()
        after = 0
        while deadline is None or time.monotonic() < deadline:
            entries = self._apply_next(after)
            if not entries:
                return
            after = entries[-1].number
            waiting = [entry.point_id for entry in entries if _waits(entry)]
            if waiting:
                self._embed(waiting)

    def _apply_next(self, after: int) -> list[OutboxEntry]:
        """Write the next due changes that need no vector, or have it, to the index; returns all of them."""
        with self._applying:
            index = self._present_index()
            # Read under the lock: the newest change, with the vector that belongs to it.
            entries = self._source.outbox.due(
                now=self._clock(),
                limit=self._batch,
                after=after,
                exclude=tuple(self._applied),
                # Without the index only what waits for its vector is ours to do.
                unembedded=index is None,
            )
            if index is not None:
                self._write_read(index, [entry for entry in entries if not _waits(entry)])
        return entries

    def _retry_if_clock_was_set_back(self) -> None:
        """What waits for a moment would else wait for as long as the clock was set back."""
        now, before = self._clock(), self._clock_stood_at
        self._clock_stood_at = now
        if now + timedelta(seconds=self._retry_seconds) < before:
            self._source.outbox.retry()

    def _sync_points(self, points: Sequence[UUID]) -> None:
        if self._embed(points) < len(points):
            self._apply(points)

    def _due(self, points: Sequence[UUID], *, unembedded: bool = False) -> list[OutboxEntry]:
        return self._source.outbox.due(
            now=self._clock(), limit=self._batch, points=points, unembedded=unembedded
        )

    def at_once(self, texts: Sequence[str]) -> tuple[VectorSpace, Matrix] | None:
        """The vectors of a few texts of an embedder that makes no one wait, to be stored with the records.

        They come with their space. None when it is not so. What fails here is tried again, and told, once the records are stored.

        Raises:
            BackendError: the store failed.
        """
        embedder = self._embedder
        if embedder is None or not embedder.fast or len(texts) > self._batch:
            return None
        try:
            vectors = embedder.embed_documents(texts)
            return self._claim_space(embedder), vectors
        except (ModelError, MissingDependencyError, ConfigError):
            return None

    def _embed(self, points: Sequence[UUID]) -> int:
        """Embed those of `points` that wait for it, and write them to the index; how many those were."""
        embedder = self._embedder
        if embedder is None or self.outdated():
            return 0
        with self._embedding:
            entries = self._due(points, unembedded=True)
            if not entries:
                return 0
            texts = [entry.record.index_text for entry in entries if entry.record is not None]
            vectors, failure = vectors_of(embedder, texts)
            error: Exception | None = failure
            done = [
                replace(entry, vector=vector)
                for entry, vector in zip(entries, vectors, strict=False)
                if vector is not None
            ]
            kept = {entry.number for entry in done}
            failed = [entry for entry in entries if entry.number not in kept]
            try:
                if done:
                    self._save(done, self._claim_space(embedder))
            except ConfigError as mismatch:
                if self.outdated() or embedder is not self._embedder:
                    # Changed in this moment: what waits is for who has the new model.
                    return 0
                failed, error = entries, mismatch
            if failed and error is not None:
                self._failed(failed, error)
            return len(entries)

    def _save(self, entries: Sequence[OutboxEntry], space: VectorSpace) -> None:
        vectors = np.stack([entry.vector for entry in entries if entry.vector is not None])
        # The lock is held over both, so that of two changes of a point the newer is written last.
        with self._applying:
            saved = self._source.vectors.save(entries, vectors, space=space)
            index = self._present_index()
            if index is not None and self._applied_space == space:
                self._write(index, [entry for entry, kept in zip(entries, saved, strict=True) if kept])

    def _claim_space(self, embedder: CheckedEmbedder) -> VectorSpace:
        """Make this embedder's vector space the store's, and return it.

        Raises:
            ConfigError: the store holds the vectors of another model.
        """
        claimed, space = self._claimed, embedder.space()
        if claimed != space:
            self._source.vectors.use_space(space)
            self._claimed = space
        return space

    def _apply(self, points: Sequence[UUID]) -> None:
        with self._applying:
            index = self._present_index()
            if index is None:
                return
            # Read under the lock, as above.
            entries = [
                entry
                for entry in self._due(points)
                if entry.number not in self._applied and not _waits(entry)
            ]
            self._write_read(index, entries)

    def _write_read(self, index: VectorIndex, entries: Sequence[OutboxEntry]) -> None:
        # Looked at afterwards: the vectors that were read are those of the index.
        if self._source.vectors.space() == self._applied_space:
            self._write(index, entries)

    def _write(self, index: VectorIndex, entries: Sequence[OutboxEntry]) -> None:
        if not entries:
            return
        try:
            self._keeper.check_room()
            if not self._applied:
                self._keeper.writing(index, max(entry.number for entry in entries))
            _write(index, entries)
        except (BackendError, ConfigError, ClosedError) as error:
            if passing(error):
                # Not the entries' fault: they keep their tries and wait, however long it takes.
                _log.warning("the vector index is not written: %s", error)
            else:
                self._keeper.distrust(index, error)
                self._failed(entries, error)
            return
        self._applied.update(entry.number for entry in entries)
        if len(self._applied) >= _FLUSH_EVERY:
            self._confirm(index)

    def _present_index(self) -> VectorIndex | None:
        """The index; what was applied to another one before it counts no longer."""
        index = self._keeper.writable()
        if index is not self._applied_to:
            self._applied.clear()
            self._applied_to = index
            self._applied_space = None if index is None else self._keeper.space_of(index)
        return index

    def flush(self) -> None:
        """Make the index flush what was applied and confirm it in the outbox.

        Raises:
            BackendError: the store failed; the changes are confirmed the next time.
        """
        with self._applying:
            index = self._present_index()
            if index is not None and self._applied:
                self._confirm(index)

    def _confirm(self, index: VectorIndex) -> None:
        if self._holding:
            return
        try:
            index.flush()
        except (BackendError, ConfigError, ClosedError) as error:
            self._keeper.distrust(index, error)
            return
        numbers = sorted(self._applied)
        self._source.outbox.mark_synced(numbers, space=self._applied_space)
        self._applied.difference_update(numbers)
        self._keeper.confirmed(index, self._source.outbox.synced_through())

    def _failed(self, entries: Sequence[OutboxEntry], error: Exception) -> None:
        _log.warning("%d record(s) are not in the vector index yet: %s", len(entries), error)
        by_tries: dict[int, list[int]] = {}
        for entry in entries:
            by_tries.setdefault(entry.attempts + 1, []).append(entry.number)
        for tries, numbers in by_tries.items():
            pause = min(2.0**tries, self._retry_seconds)
            again = _NEVER if tries >= self._attempts else self._clock() + timedelta(seconds=pause)
            self._source.outbox.mark_failed(numbers, str(error), retry_at=again)

    def differing(self) -> int | None:
        """How many confirmed rows the index holds not, or not as the store does; None without the index.

        Compares every vector, and the number of points. Recall and writers go on meanwhile. Of a server's index
        that another process writes, a change that it confirms in this moment may be counted.
        """
        after = wrong = 0
        while True:
            # For as long as nothing is applied or confirmed, all that rightly differs is in the outbox.
            with self._applying:
                index = self._keeper.index()
                if index is None:
                    return None
                rows = self._source.vectors.page(after=after, limit=_COMPARED)
                if not rows:
                    stored, _ = self._source.vectors.counts()
                    return wrong + max(index.count() - stored - self.state().length, 0)
                wrong += self._unlike(index, rows)
            after = rows[-1][0]

    def _unlike(self, index: VectorIndex, rows: Sequence[tuple[int, MemoryRecord, Vector]]) -> int:
        """How many of these rows the index does not hold as they are, though it confirmed them."""
        held = index.get([record.point_id for _, record, _ in rows])
        different = [
            record.point_id for _, record, vector in rows if not _same(held.get(record.point_id), vector)
        ]
        if not different:
            return 0
        # Read after the rows: what changed meanwhile has an entry now.
        changes = self._source.outbox.due(now=_NEVER, limit=len(different), points=different)
        return len(set(different) - {change.point_id for change in changes})

    @property
    def name(self) -> str:
        """The model whose vectors these are."""
        space = self._source.vectors.space()
        return "no model yet" if space is None else space.model

    def points(self) -> int:
        """How many vectors the store has for the index."""
        return self._source.vectors.counts()[0]

    def rebuild(self) -> None:
        """Build the index anew from the store, without embedding.

        Raises:
            BackendError: another process holds it, or it cannot be built.
        """
        with self._applying:
            self._keeper.rebuild()
            self._present_index()

    def retry(self, *, settled: bool = False) -> None:
        """Make every waiting change due at once; `settled` waits for a batch being embedded, and includes it."""
        if settled:
            with self._embedding:
                pass
        self._source.outbox.retry()

    def state(self) -> OutboxState:
        """How far the index is behind."""
        return self._source.outbox.state(max_attempts=self._attempts)

    def held(self) -> VectorIndex | None:
        """The index, if this process can search it right now; for those who look into it."""
        return self._keeper.index()

    def close(self) -> None:
        """Let go of the index; safe to call twice."""
        self._keeper.close()

    # ------------------------------------------------------------------ reading

    def search(
        self,
        target: Target,
        query: Vector,
        *,
        space: VectorSpace | None,
        where: Filter | None,
        now: datetime,
        limit: int,
    ) -> DenseAnswer:
        """The target's visible rows that satisfy `where`, by cosine, best first; exact where it must be.

        Only vectors of `space`, that of the query, are compared with it: when another is in use by now,
        nothing is found and "dense" is missing.

        Raises:
            DimensionMismatchError: the query's vector has another length than the store's.
        """
        pending = self._caught_up(target, self._source.outbox.pending(target))
        missing = {"dense"} if any(not row.embedded for row in pending) else set[str]()
        held = self.compared_with(query, space)
        if held is not None and held != space:
            return DenseAnswer(hits=[], missing=frozenset({"dense"}))
        if held is None or not query.any():
            return DenseAnswer(hits=[], missing=frozenset(missing))
        index = self._keeper.index()
        if index is not None and self._keeper.space_of(index) != space:
            index = None
        if index is None:
            missing.add("index")
        applied = self._applied if index is self._applied_to else ()
        unconfirmed = {row.point_id for row in pending if row.number not in applied}
        usable = where is None or indexable(where, _FILTERED_BY_INDEX)
        if index is not None and usable and len(unconfirmed) <= _SCAN_POINTS:
            try:
                found = index.search(
                    target, query, where=conjunction(where, _not_expired(now)), limit=limit + len(unconfirmed)
                )
            except (BackendError, ConfigError, ClosedError) as error:
                # Documented degradation: the exact scan answers, and the result says so.
                self._keeper.distrust(index, error)
                missing.add("index")
            else:
                if unconfirmed:
                    found = [hit for hit in found if hit.point_id not in unconfirmed]
                    found += self._scan(target, query, space, where, now, sorted(unconfirmed))
                return DenseAnswer(hits=_best(found, limit), missing=frozenset(missing))
        hits = self._scan(target, query, space, where, now, None)
        return DenseAnswer(hits=_best(hits, limit), missing=frozenset(missing))

    def _caught_up(self, target: Target, pending: list[Pending]) -> list[Pending]:
        """What is pending once little work was done at once, for an embedder that makes no one wait."""
        waiting = [row.point_id for row in pending if not row.embedded]
        if self._embedder is None or not self._embedder.fast or not 0 < len(waiting) <= _CAUGHT_UP:
            return pending
        for chunk in chunked(waiting, self._batch):
            self._embed(chunk)
        return self._source.outbox.pending(target)

    def compare(
        self,
        target: Target,
        query: Vector,
        points: Sequence[UUID],
        *,
        space: VectorSpace | None,
        now: datetime,
    ) -> dict[UUID, float]:
        """The cosine of each of the target's `points` that has a vector of `space`, that of the query."""
        if space is None or not query.any():
            return {}
        hits = self._scan(target, query, space, None, now, list(points))
        return {hit.point_id: hit.cosine for hit in hits}

    def compared_with(self, query: Vector, space: VectorSpace | None = None) -> VectorSpace | None:
        """The space that is in use, None before the first vector.

        Raises:
            DimensionMismatchError: `query` is of that model, as far as is known, and has another length.
        """
        held = self._source.vectors.space()
        known = None if space is None else (space.model, space.revision)
        if (
            held is not None
            and known in (None, (held.model, held.revision))
            and query.shape != (held.dimension,)
        ):
            raise DimensionMismatchError(
                f"the store holds {held.model!r} vectors of {held.dimension} dimensions, the query has "
                f"{len(query)}; open the store with the embedder it was made with",
                backend="memkit",
                operation="dense recall",
            )
        return held

    def _scan(
        self,
        target: Target,
        query: Vector,
        space: VectorSpace | None,
        where: Filter | None,
        now: datetime,
        points: list[UUID] | None,
    ) -> list[IndexHit]:
        found, vectors = self._source.vectors.scan(target, where=where, now=now, points=points, space=space)
        return _cosines(found, vectors, query) if found else []


def _waits(entry: OutboxEntry) -> bool:
    """Whether it waits for its vector."""
    return entry.record is not None and entry.vector is None


def _same(held: Vector | None, stored: Vector) -> bool:
    return held is not None and held.shape == stored.shape and float(held @ unit(stored)) >= _SAME


def _write(index: VectorIndex, entries: Sequence[OutboxEntry]) -> None:
    made = [
        index_point(entry.record, entry.vector)
        for entry in entries
        if entry.record is not None and entry.vector is not None and entry.vector.any()
    ]
    kept = {point.point_id for point in made}
    gone = [entry.point_id for entry in entries if entry.point_id not in kept]
    if made:
        index.upsert(made)
    if gone:
        index.delete(gone)


def _cosines(points: Sequence[UUID], vectors: Matrix, query: Vector) -> list[IndexHit]:
    lengths = np.linalg.norm(vectors, axis=1)
    cosines = dots(vectors, unit(query)) / np.where(lengths > 0, lengths, 1)
    return [IndexHit(point_id=p, cosine=float(c)) for p, c in zip(points, cosines, strict=True)]


def _best(hits: list[IndexHit], limit: int) -> list[IndexHit]:
    return sorted(hits, key=lambda hit: (-hit.cosine, hit.point_id.int))[:limit]


def _not_expired(now: datetime) -> Filter:
    return Not(Condition(("expires_at",), Op.LTE, to_ms(now)))
