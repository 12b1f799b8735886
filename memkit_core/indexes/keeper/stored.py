"""What the keepers of every index that outlives the process have in common."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from memkit_core.errors import BackendError, BackendUnavailableError, ClosedError, ConfigError
from memkit_core.indexes.keeper.disk import files, space_name
from memkit_core.indexes.keeper.port import passing
from memkit_core.indexes.points import stored_points
from memkit_core.indexes.verification import verify
from memkit_core.locks import SharedLock, ThreadLock
from memkit_core.ports import VectorIndex, VectorSource, VectorSpace

_log = logging.getLogger("memkit.index")

_FORMAT = 2
"""Of what an index holds and how; one of another format is built anew."""
_RETRY_SECONDS = 2.0

_REBUILT_AT_ONCE = 2000
"""Vectors up to which an index is rebuilt in the call that needs it (about 0.2 s), above in a thread."""


class StoredKeeper(ABC):
    """Keeps an index that outlives the process: the part that is the same for every engine."""

    readable_by_all: ClassVar[bool]
    """Whether a process that does not write the index may search it meanwhile."""
    backend: ClassVar[str]

    def __init__(self, source: VectorSource, home: Path, *, lock: SharedLock | None = None) -> None:
        """For the index of `source`, with a manifest under `home`.

        `lock` is the one that all keepers under this `home` share in this process, if there are
        several: the one process that holds it writes the indexes.
        """
        self._source = source
        self._home = home
        self._lock = lock or SharedLock(home.with_name(home.name + ".lock"))
        # Held while the index is opened, rebuilt, distrusted or closed.
        self._mutex = ThreadLock()
        self._opened_by: int | None = None
        self._index: VectorIndex | None = None
        self._space: VectorSpace | None = None
        self._next_try = 0.0
        self._rebuild_thread: threading.Thread | None = None
        self._closed = False

    # ------------------------------------------------------------------ what an engine adds

    @abstractmethod
    def _existing(self, space: VectorSpace) -> VectorIndex:
        """Open what is there; `BackendError` when it cannot be opened."""

    @abstractmethod
    def _emptied(self, space: VectorSpace) -> VectorIndex:
        """A new, empty index; what was there stands aside until `_completed`."""

    @abstractmethod
    def _completed(self, space: VectorSpace) -> None:
        """The new index is whole: what stood aside may go."""

    @abstractmethod
    def _dropped(self, space: VectorSpace) -> None:
        """Delete the index of a space that is out of use, if there is one."""

    @abstractmethod
    def check_room(self) -> None:
        """See `IndexKeeper.check_room`."""

    # ------------------------------------------------------------------ handing it out

    def index(self) -> VectorIndex | None:
        """See `IndexKeeper.index`. None in a forked child, unless all processes may read."""
        if self._closed or not self._of_this_process():
            return None
        with self._mutex:
            if self._index is not None and self._source.vectors.space() != self._space:
                # The store has changed its model.
                self._let_go()
                self._next_try = 0.0
            if self._index is None and self._may_open():
                self._open()
            elif self._index is not None and not self._lock.held_by(self):
                self._look_again()
            return self._index

    def writable(self) -> VectorIndex | None:
        """See `IndexKeeper.writable`."""
        index = self.index()
        return index if self._lock.held_by(self) else None

    def space_of(self, index: VectorIndex) -> VectorSpace | None:
        """See `IndexKeeper.space_of`."""
        with self._mutex:
            return self._space if index is self._index else None

    def _of_this_process(self) -> bool:
        if self._opened_by in (None, os.getpid()):
            return True
        if self.readable_by_all:
            # The parent's connection is the parent's; the child makes one of its own.
            self._index, self._opened_by, self._rebuild_thread = None, None, None
        return self.readable_by_all

    def _may_open(self) -> bool:
        return not (self._closed or self._rebuild_thread is not None or time.monotonic() < self._next_try)

    def _look_again(self) -> None:
        """As a mere reader: leave an index that its writer rebuilds, and take its place when it is gone."""
        space = self._source.vectors.space()
        if space is None or not self._manifest_path(space).exists():
            self._let_go()
            self._next_try = time.monotonic() + _RETRY_SECONDS
        elif time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + _RETRY_SECONDS
            if self._lock.acquire(self):
                # Opened again, now as the writer: what the other one left is verified like any other.
                self._let_go()
                self._open()

    def _open(self) -> None:
        space = self._source.vectors.space()
        if space is None:
            return
        try:
            with files(self.backend, "open"):
                writer = self._lock.held_by(self) or self._lock.acquire(self)
                if not writer:
                    self._next_try = time.monotonic() + _RETRY_SECONDS
                    if not self.readable_by_all:
                        return
                self._opened_by = os.getpid()
                if writer:
                    self.check_room()
                self._hand_out(self._trusted(space, writer=writer), space)
        except (BackendError, ConfigError) as error:
            # Down, or refused the key: recall goes on without it, and it is asked again later.
            self._give_up(error)
            return
        if self._index is None and writer:
            self._begin_rebuild(space)

    def _hand_out(self, index: VectorIndex | None, space: VectorSpace) -> None:
        self._index, self._space = index, space

    def _trusted(self, space: VectorSpace, *, writer: bool) -> VectorIndex | None:
        """The index that is there, None when there is none that can be believed."""
        if not self._believed(self._manifest(space), space, writer=writer):
            return None
        index = None
        try:
            index = self._existing(space)
            verify(self._source, index)
        except BackendError as error:
            if error.retryable:
                raise
            _log.warning("the vector index is rebuilt from the store: %s", error)
            if index is not None:
                _close_quietly(index)
            return None
        return index

    # ------------------------------------------------------------------ rebuilding

    def _begin_rebuild(self, space: VectorSpace) -> None:
        stored, _ = self._source.vectors.counts()
        if stored <= _REBUILT_AT_ONCE:
            self._hand_out(self._rebuilt(space), space)
            return
        # Without the mutex, so that recall goes on with exact scans meanwhile; nothing else opens
        # or writes the index while this thread is noted.
        self._rebuild_thread = threading.Thread(
            target=self._rebuild_later, args=(space,), name="memkit-rebuild", daemon=True
        )
        self._rebuild_thread.start()

    def _rebuild_later(self, space: VectorSpace) -> None:
        index = self._rebuilt(space)
        with self._mutex:
            self._hand_out(index, space)
            self._rebuild_thread = None

    def _rebuilt(self, space: VectorSpace) -> VectorIndex | None:
        try:
            return self._built(space, self._source)
        except (BackendError, ConfigError, ClosedError) as error:
            self._give_up(error)
            return None

    def _built(self, space: VectorSpace, source: VectorSource) -> VectorIndex:
        index = None
        try:
            with files(self.backend, "rebuild"):
                # First, so that an index that is filled only in part is never believed.
                self._manifest_path(space).unlink(missing_ok=True)
                synced_through = source.outbox.synced_through()
                index = self._emptied(space)
                for points in stored_points(source, batch=250):
                    self._check_going_on()
                    index.upsert(points)
                index.flush()
                if source.vectors.space() != space:
                    raise BackendUnavailableError(
                        "the store changed its model meanwhile", backend=self.backend, operation="rebuild"
                    )
                self._write_manifest(space, synced_through)
                self._completed(space)
        except (BackendError, ConfigError, ClosedError):
            if index is not None:
                _close_quietly(index)
            raise
        return index

    def prepare(self, source: VectorSource) -> bool:
        """See `IndexKeeper.prepare`."""
        space = source.vectors.space()
        # Without the mutex, so that the index in use is searched meanwhile.
        if space is None or self.writable() is None:
            return False
        self._built(space, source).close()
        return True

    def drop(self, space: VectorSpace) -> bool:
        """See `IndexKeeper.drop`."""
        if self._closed or not self._of_this_process():
            return False
        # Looked at first: an index of that space which is still open is let go.
        self.index()
        with self._mutex, files(self.backend, "drop"):
            open_space = None if self._index is None else self._space
            if not self._lock.held_by(self) or self._rebuild_thread is not None or open_space == space:
                return False
            self._manifest_path(space).unlink(missing_ok=True)
            self._dropped(space)
        return True

    def rebuild(self) -> None:
        """See `IndexKeeper.rebuild`; waits for a rebuild that is going on."""
        self._next_try = 0.0
        self.index()
        rebuilding = self._rebuild_thread
        if rebuilding is not None:
            rebuilding.join()
        with self._mutex:
            space = self._source.vectors.space()
            if space is None:
                return
            if self._closed or not self._of_this_process() or not self._lock.acquire(self):
                raise BackendUnavailableError(
                    "another process, or a memory of this one with other settings, holds the index; do it there, or close it first",
                    backend=self.backend,
                    operation="rebuild",
                )
            self._opened_by = os.getpid()
            self._let_go()
            self._hand_out(self._rebuilt(space), space)
            if self._index is None:
                raise BackendUnavailableError(
                    "the index could not be built, see the log", backend=self.backend, operation="rebuild"
                )

    def _check_going_on(self) -> None:
        if self._closed:
            raise ClosedError("the memory was closed during a rebuild")
        self.check_room()

    def _give_up(self, error: Exception) -> None:
        _log.warning("recall goes on without the vector index: %s", error)
        self._next_try = time.monotonic() + _RETRY_SECONDS
        self._lock.release(self)

    # ------------------------------------------------------------------ in use

    def writing(self, index: VectorIndex, number: int) -> None:
        """See `IndexKeeper.writing`."""
        self._note(index, self._source.outbox.synced_through(), unconfirmed=number)

    def confirmed(self, index: VectorIndex, synced_through: int) -> None:
        """See `IndexKeeper.confirmed`."""
        self._note(index, synced_through)

    def _note(self, index: VectorIndex, synced_through: int, unconfirmed: int | None = None) -> None:
        with self._mutex, files(self.backend, "confirm"):
            if self._index is index and self._space is not None:
                self._write_manifest(self._space, synced_through, unconfirmed)

    def distrust(self, index: VectorIndex, error: Exception) -> None:
        """See `IndexKeeper.distrust`."""
        with self._mutex:
            if self._index is None or self._index is not index or self._opened_by != os.getpid():
                return
            if passing(error):
                _log.warning("the vector index cannot be reached: %s", error)
                self._let_go()
                self._next_try = time.monotonic() + _RETRY_SECONDS
                return
            _log.warning("the vector index failed and will be rebuilt: %s", error)
            self._let_go()
            space = self._space
            if space is not None and self._lock.held_by(self):
                # Without its manifest it is not believed at the next opening.
                with files(self.backend, "distrust"):
                    self._manifest_path(space).unlink(missing_ok=True)

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
                self._lock.release(self)
                self._lock.close()

    def _let_go(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            _close_quietly(index)

    # ------------------------------------------------------------------ the manifest

    def _manifest_path(self, space: VectorSpace) -> Path:
        return self._home / f"{space_name(space)}.json"

    def _manifest(self, space: VectorSpace) -> object:
        try:
            return json.loads(self._manifest_path(space).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _believed(self, manifest: object, space: VectorSpace, *, writer: bool) -> bool:
        if not isinstance(manifest, dict):
            return False
        unconfirmed = manifest.pop("unconfirmed", None)
        # A store that does not know this change yet is an older copy: the index holds what it does not.
        known = unconfirmed is None or (
            isinstance(unconfirmed, int) and unconfirmed <= self._source.outbox.last_number()
        )
        expected = self._expected(space, self._source.outbox.synced_through())
        if not writer:
            # The writer confirms meanwhile: a reader sees one of the two numbers first.
            manifest["synced_through"] = expected["synced_through"]
        return known and manifest == expected

    def _write_manifest(
        self, space: VectorSpace, synced_through: int, unconfirmed: int | None = None
    ) -> None:
        path = self._manifest_path(space)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(path.name + ".new")
        manifest = self._expected(space, synced_through)
        if unconfirmed is not None:
            manifest["unconfirmed"] = unconfirmed
        fresh.write_text(json.dumps(manifest), encoding="utf-8")
        fresh.replace(path)

    def _expected(self, space: VectorSpace, synced_through: int) -> dict[str, object]:
        return {
            "format": _FORMAT,
            "store": self._source.store_id,
            "vectors": space.fingerprint,
            "synced_through": synced_through,
        }


def _close_quietly(index: VectorIndex) -> None:
    # It failed already; what matters is that its files are let go.
    with contextlib.suppress(BackendError):
        index.close()
