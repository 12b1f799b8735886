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
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from memkit_core.errors import BackendError, BackendUnavailableError, ClosedError
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.flat import FlatIndex
from memkit_core.indexes.points import index_point
from memkit_core.indexes.verification import verify
from memkit_core.locks import ProcessLock, ThreadLock
from memkit_core.ports import IndexPoint, RecordStore, VectorIndex, VectorSpace

_log = logging.getLogger("memkit.index")

_FORMAT = 2
"""Of what an index holds and how; a folder of another format is built anew."""
_RETRY_SECONDS = 2.0

_REBUILT_AT_ONCE = 2000
"""Vectors up to which an index is rebuilt in the call that needs it (about 0.2 s), above in a thread."""


class IndexKeeper(Protocol):
    """Hands out the index of one store. Thread-safe; no method raises anything but memkit's errors."""

    def index(self) -> VectorIndex | None:
        """The index, verified, or None while this process cannot have it. Never waits for a rebuild."""

    def writing(self, index: VectorIndex, number: int) -> None:
        """Note with the index, before the first write since it was confirmed, which change it may hold."""

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """Note with the index which change it and the store agree on."""

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """This index failed in use: rebuild it before one is handed out again."""

    def check_disk(self) -> None:
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
                for points in _stored(self._store, batch=250):
                    self._index.upsert(points)
            return self._index

    def writing(self, index: VectorIndex, number: int) -> None:
        """Nothing to note: it never outlives the process."""

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """Nothing to note: it never outlives the process."""

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """See `IndexKeeper.distrust`."""
        with self._mutex:
            if self._index is index:
                _log.warning("the vector index failed and will be rebuilt: %s", error)
                self._index = None

    def check_disk(self) -> None:
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
        # Held while the index is opened, rebuilt, distrusted or closed.
        self._mutex = ThreadLock()
        self._opened_by: int | None = None
        self._index: EdgeIndex | None = None
        self._next_try = 0.0
        self._rebuild_thread: threading.Thread | None = None
        self._closed = False

    def index(self) -> VectorIndex | None:
        """See `IndexKeeper.index`. None in a forked child, and while another process has the folder."""
        if self._closed or self._opened_by not in (None, os.getpid()):
            return None
        with self._mutex:
            if self._index is None and self._may_open():
                self._open()
            return self._index

    def _may_open(self) -> bool:
        return not (self._closed or self._rebuild_thread is not None or time.monotonic() < self._next_try)

    def _open(self) -> None:
        space = self._store.vectors.space()
        if space is None:
            return
        try:
            with _files("open"):
                if not self._lock.held and not self._lock.acquire(0.0):
                    self._next_try = time.monotonic() + _RETRY_SECONDS
                    return
                self._opened_by = os.getpid()
                self.check_disk()
                self._index = self._trusted(space)
        except BackendUnavailableError as error:
            self._give_up(error)
            return
        if self._index is None:
            self._begin_rebuild(space)

    def _trusted(self, space: VectorSpace) -> EdgeIndex | None:
        """The index in the folder, None when there is none that can be believed."""
        folder = self._folder(space)
        if not self._believed(self._manifest(folder), space):
            return None
        index = None
        try:
            index = EdgeIndex(folder, space.dimension, batch=self._batch)
            verify(self._store, index)
        except BackendUnavailableError:
            raise
        except BackendError as error:
            _log.warning("the vector index is rebuilt from the store: %s", error)
            if index is not None:
                _close_quietly(index)
            return None
        return index

    def _begin_rebuild(self, space: VectorSpace) -> None:
        stored, _ = self._store.vectors.counts()
        if stored <= _REBUILT_AT_ONCE:
            self._index = self._rebuilt(space)
            return
        # Without the mutex, so that recall goes on with exact scans meanwhile; nothing else opens
        # or writes the folder while this thread is noted.
        self._rebuild_thread = threading.Thread(
            target=self._rebuild_later, args=(space,), name="memkit-rebuild", daemon=True
        )
        self._rebuild_thread.start()

    def _rebuild_later(self, space: VectorSpace) -> None:
        index = self._rebuilt(space)
        with self._mutex:
            self._index = index
            self._rebuild_thread = None

    def _rebuilt(self, space: VectorSpace) -> EdgeIndex | None:
        index = None
        try:
            with _files("rebuild"):
                folder, synced_through = self._emptied(space), self._store.outbox.synced_through()
                index = EdgeIndex(folder, space.dimension, batch=self._batch)
                for points in _stored(self._store, batch=self._batch):
                    self._check_going_on()
                    index.upsert(points)
                index.flush()
                self._write_manifest(space, synced_through)
                _remove(_aside(folder))
        except (BackendError, ClosedError) as error:
            if index is not None:
                _close_quietly(index)
            self._give_up(error)
            return None
        return index

    def _check_going_on(self) -> None:
        if self._closed:
            raise ClosedError("the memory was closed during a rebuild")
        self.check_disk()

    def _emptied(self, space: VectorSpace) -> Path:
        """The folder, empty; what was in it stands aside until the new index is complete."""
        folder = self._folder(space)
        # First, so that a folder that is filled only in part is never believed.
        self._manifest_path(folder).unlink(missing_ok=True)
        _remove(_aside(folder))
        if folder.exists():
            folder.rename(_aside(folder))
        return folder

    def _give_up(self, error: Exception) -> None:
        _log.warning("recall goes on without the vector index: %s", error)
        self._next_try = time.monotonic() + _RETRY_SECONDS
        self._lock.release()

    def writing(self, index: VectorIndex, number: int) -> None:
        """See `IndexKeeper.writing`."""
        self._note(index, self._store.outbox.synced_through(), unconfirmed=number)

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """See `IndexKeeper.confirmed`."""
        self._note(index, synced_through)

    def _note(self, index: VectorIndex, synced_through: int, unconfirmed: int | None = None) -> None:
        with self._mutex, _files("confirm"):
            space = self._store.vectors.space()
            if self._index is index and space is not None:
                self._write_manifest(space, synced_through, unconfirmed)

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """See `IndexKeeper.distrust`."""
        with self._mutex:
            broken = self._index
            if broken is None or broken is not index or self._opened_by != os.getpid():
                return
            _log.warning("the vector index failed and will be rebuilt: %s", error)
            self._index = None
            _close_quietly(broken)
            space = self._store.vectors.space()
            if space is not None:
                # Without its manifest the folder is not believed at the next opening.
                with _files("distrust"):
                    self._manifest_path(self._folder(space)).unlink(missing_ok=True)

    def check_disk(self) -> None:
        """See `IndexKeeper.check_disk`: a full disk kills the process inside the engine."""
        with _files("write"):
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
        """See `IndexKeeper.close`; a rebuild that is going on is broken off."""
        self._closed = True
        rebuilding = self._rebuild_thread
        if rebuilding is not None and rebuilding.is_alive():
            rebuilding.join()
        with self._mutex:
            index, self._index = self._index, None
            try:
                if index is not None:
                    index.close()
            finally:
                self._lock.release()
                self._lock.close()

    def _folder(self, space: VectorSpace) -> Path:
        # Named by digest: a model's name may hold any character.
        name = hashlib.blake2b(space.fingerprint.encode(), digest_size=8).hexdigest()
        return self._home / name

    def _manifest_path(self, folder: Path) -> Path:
        return folder.with_name(folder.name + ".json")

    def _manifest(self, folder: Path) -> object:
        try:
            return json.loads(self._manifest_path(folder).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _believed(self, manifest: object, space: VectorSpace) -> bool:
        if not isinstance(manifest, dict):
            return False
        unconfirmed = manifest.pop("unconfirmed", None)
        # A store that does not know this change yet is an older copy: the index holds what it does not.
        known = unconfirmed is None or (
            isinstance(unconfirmed, int) and unconfirmed <= self._store.outbox.last_number()
        )
        return known and manifest == _manifest(self._store, space, self._store.outbox.synced_through())

    def _write_manifest(
        self, space: VectorSpace, synced_through: int, unconfirmed: int | None = None
    ) -> None:
        path = self._manifest_path(self._folder(space))
        fresh = path.with_name(path.name + ".new")
        manifest = _manifest(self._store, space, synced_through)
        if unconfirmed is not None:
            manifest["unconfirmed"] = unconfirmed
        fresh.write_text(json.dumps(manifest), encoding="utf-8")
        fresh.replace(path)


def _manifest(store: RecordStore, space: VectorSpace, synced_through: int) -> dict[str, object]:
    return {
        "format": _FORMAT,
        "store": store.store_id,
        "vectors": space.fingerprint,
        "synced_through": synced_through,
    }


@contextmanager
def _files(operation: str) -> Iterator[None]:
    """Turn what the file system says into memkit's error."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailableError(str(error), backend="qdrant-edge", operation=operation) from error


def _close_quietly(index: EdgeIndex) -> None:
    # It failed already; what matters is that its files are let go.
    with contextlib.suppress(BackendError):
        index.close()


def _aside(folder: Path) -> Path:
    return folder.with_name(folder.name + ".aside")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _stored(store: RecordStore, *, batch: int) -> Iterator[list[IndexPoint]]:
    """All vectors of the store as points, a batch at a time."""
    after = 0
    while rows := store.vectors.page(after=after, limit=batch):
        after = rows[-1][0]
        yield [index_point(record, vector) for _, record, vector in rows]
