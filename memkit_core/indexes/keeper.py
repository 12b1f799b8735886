"""Who may use an index, and whether it can be trusted.

A keeper hands out the vector index of a store, or None while this process cannot have it. An
embedded folder is opened by one process at a time, compared with the store before it is believed,
and rebuilt from the store's vectors, with no embedding call, when anything is out of step.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from memkit_core.errors import BackendError, BackendUnavailableError
from memkit_core.indexes.checks import unit
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.flat import FlatIndex
from memkit_core.indexes.points import index_point
from memkit_core.locks import ProcessLock, ThreadLock
from memkit_core.models import MemoryRecord, Target
from memkit_core.ports import RecordStore, Vector, VectorIndex, VectorSpace

_log = logging.getLogger("memkit.index")

_RETRY_SECONDS = 2.0
_PROBES = 8
_ENOUGH = 10
_SAME = 1e-3


class IndexKeeper(Protocol):
    """Hands out the index of one store."""

    def index(self) -> VectorIndex | None:
        """The index, verified, or None while this process cannot have it."""

    def confirmed(self, synced_through: int) -> None:
        """Note with the index which change it and the store agree on."""

    def distrust(self, error: BackendError) -> None:
        """The index failed in use: rebuild it before it is handed out again."""

    def check_space(self) -> None:
        """Raise `BackendUnavailableError` when there is too little room to write safely."""

    def close(self) -> None:
        """Let go of the index; safe to call twice."""


class FlatKeeper:
    """Keeps a `FlatIndex` in memory, filled from the store when it is first asked for."""

    def __init__(self, store: RecordStore) -> None:
        """For the index of `store`."""
        self._store = store
        self._index: FlatIndex | None = None
        self._mutex = ThreadLock()

    def index(self) -> VectorIndex | None:
        """See `IndexKeeper.index`; None only before the first vector."""
        with self._mutex:
            space = self._store.vectors.space() if self._index is None else None
            if space is not None:
                self._index = FlatIndex(space.dimension)
                for records in _stored(self._store, batch=250):
                    self._index.upsert([index_point(record, vector) for record, vector in records])
            return self._index

    def confirmed(self, synced_through: int) -> None:
        """Nothing to note: it never outlives the process."""

    def distrust(self, error: BackendError) -> None:
        """See `IndexKeeper.distrust`."""
        _log.warning("the vector index failed and will be rebuilt: %s", error)
        self._index = None

    def check_space(self) -> None:
        """Memory needs no reserve on disk."""

    def close(self) -> None:
        """See `IndexKeeper.close`."""
        if self._index is not None:
            self._index.close()


class EdgeKeeper:
    """Keeps an `EdgeIndex` in a folder beside the store's file."""

    def __init__(self, store: RecordStore, home: Path, *, batch: int, disk_reserve: int) -> None:
        """For the index of `store`, in a folder for its vector space under `home`."""
        self._store = store
        self._home = home
        self._batch = batch
        self._disk_reserve = disk_reserve
        self._lock = ProcessLock(home.with_name(home.name + ".lock"))
        self._mutex = ThreadLock()
        self._pid = os.getpid()
        self._index: EdgeIndex | None = None
        self._space: VectorSpace | None = None
        self._next_try = 0.0
        self._opened = self._closed = False

    def index(self) -> VectorIndex | None:
        """See `IndexKeeper.index`. None in a forked child, and while another process has the folder."""
        with self._mutex:
            if self._closed or (self._pid != os.getpid() and self._opened):
                return None
            if self._index is not None or time.monotonic() < self._next_try:
                return self._index
            self._space = self._space or self._store.vectors.space()
            if self._space is None:
                return None
            if not self._lock.held and not self._lock.acquire(0.0):
                self._next_try = time.monotonic() + _RETRY_SECONDS
                return None
            self._opened = True
            self._index = self._open(self._space)
            return self._index

    def _open(self, space: VectorSpace) -> EdgeIndex | None:
        folder = self._folder(space)
        try:
            self.check_space()
            if self._manifest(folder) == self._expected(space):
                index = EdgeIndex(folder, space.dimension, batch=self._batch)
                self._verify(index)
                return index
            reason: object = "new or not confirmed"
        except BackendUnavailableError as error:
            self._give_up(error)
            return None
        except BackendError as error:
            _log.warning("the vector index is rebuilt from the store: %s", error)
            reason = error
        try:
            return self._rebuild(folder, space)
        except BackendError as error:
            _log.warning("the vector index cannot be built (%s, after: %s)", error, reason)
            self._give_up(error)
            return None

    def _give_up(self, error: BackendError) -> None:
        _log.warning("recall goes on without the vector index: %s", error)
        self._next_try = time.monotonic() + _RETRY_SECONDS
        self._lock.release()

    def _rebuild(self, folder: Path, space: VectorSpace) -> EdgeIndex:
        self.check_space()
        aside = folder.with_name(folder.name + ".aside")
        _remove(aside)
        if folder.exists():
            folder.rename(aside)
        synced_through = self._store.outbox.synced_through()
        index = EdgeIndex(folder, space.dimension, batch=self._batch)
        for records in _stored(self._store, batch=self._batch):
            index.upsert([index_point(record, vector) for record, vector in records])
        index.flush()
        self._write_manifest(folder, space, synced_through)
        _remove(aside)
        return index

    def _verify(self, index: EdgeIndex) -> None:
        """Raise `BackendError` when the folder does not hold what the store says it must."""
        stored, waiting = self._store.vectors.counts()
        count, slack = index.count(), self._store.outbox.state(max_attempts=1).length
        if not stored - waiting <= count <= stored + slack:
            raise BackendError(
                f"it holds {count} points, the store {stored} vectors ({waiting} unconfirmed)",
                backend="qdrant-edge",
                operation="verify",
            )
        for record, vector in self._probes(stored):
            _probe(self._store, index, record, vector)

    def _probes(self, stored: int) -> Iterator[tuple[MemoryRecord, Vector]]:
        first = self._store.vectors.page(after=0, limit=_PROBES)
        if not first or stored <= _PROBES:
            yield from (row[1:] for row in first)
            return
        yield from (row[1:] for row in first[:2])
        generator = np.random.default_rng()
        for after in generator.integers(first[0][0], first[0][0] + stored, size=_PROBES - 2):
            yield from (row[1:] for row in self._store.vectors.page(after=int(after), limit=1))

    def confirmed(self, synced_through: int) -> None:
        """See `IndexKeeper.confirmed`."""
        if self._space is not None and self._index is not None:
            self._write_manifest(self._folder(self._space), self._space, synced_through)

    def distrust(self, error: BackendError) -> None:
        """See `IndexKeeper.distrust`."""
        with self._mutex:
            if self._pid != os.getpid() or self._index is None or self._space is None:
                return
            _log.warning("the vector index failed and will be rebuilt: %s", error)
            broken, self._index = self._index, None
            with contextlib.suppress(BackendError):
                broken.close()
            # Without its manifest the folder is not believed at the next opening.
            self._manifest_path(self._folder(self._space)).unlink(missing_ok=True)

    def check_space(self) -> None:
        """See `IndexKeeper.check_space`: a full disk kills the process inside the engine."""
        self._home.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._home).free
        if free < self._disk_reserve:
            raise BackendUnavailableError(
                f"{free // 2**20} MiB are free, {self._disk_reserve // 2**20} MiB are kept in reserve; free some "
                "space, or lower Config.disk_reserve",
                backend="qdrant-edge",
                operation="write",
            )

    def close(self) -> None:
        """See `IndexKeeper.close`."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            try:
                if self._index is not None:
                    self._index.close()
            finally:
                self._lock.close()

    def _folder(self, space: VectorSpace) -> Path:
        # Named by digest: a model's name may hold any character.
        name = hashlib.blake2b(space.fingerprint.encode(), digest_size=8).hexdigest()
        return self._home / name

    def _manifest_path(self, folder: Path) -> Path:
        return folder.with_name(folder.name + ".json")

    def _expected(self, space: VectorSpace) -> dict[str, object]:
        return _manifest(self._store, space, self._store.outbox.synced_through())

    def _manifest(self, folder: Path) -> object:
        try:
            return json.loads(self._manifest_path(folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _write_manifest(self, folder: Path, space: VectorSpace, synced_through: int) -> None:
        path = self._manifest_path(folder)
        fresh = path.with_name(path.name + ".new")
        fresh.write_text(json.dumps(_manifest(self._store, space, synced_through)), encoding="utf-8")
        fresh.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _manifest(store: RecordStore, space: VectorSpace, synced_through: int) -> dict[str, object]:
    return {
        "format": 1,
        "store": store.store_id,
        "vectors": space.fingerprint,
        "synced_through": synced_through,
    }


def _stored(store: RecordStore, *, batch: int) -> Iterator[list[tuple[MemoryRecord, Vector]]]:
    after = 0
    while rows := store.vectors.page(after=after, limit=batch):
        after = rows[-1][0]
        yield [(record, vector) for _, record, vector in rows]


def _probe(store: RecordStore, index: VectorIndex, record: MemoryRecord, vector: Vector) -> None:
    point = record.point_id
    target = Target(scope=record.scope, space=record.space)
    if any(pending.point_id == point for pending in store.outbox.pending(target)):
        return
    held = index.get([point]).get(point)
    hits = index.search(target, vector, where=None, limit=_ENOUGH)
    itself = held is not None and float(held @ unit(vector)) > 1 - _SAME
    # More rows of one text than were asked for are possible; then all that came must be as near.
    found = any(hit.point_id == point for hit in hits) or len(hits) == _ENOUGH
    if not itself or not found or abs(hits[0].cosine - 1) > _SAME:
        raise BackendError(f"point {point} does not find itself", backend="qdrant-edge", operation="verify")
