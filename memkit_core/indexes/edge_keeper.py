"""`EdgeKeeper`: the embedded index in a folder beside the store's file, opened by one process at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.keeper import StoredKeeper, check_disk, space_name
from memkit_core.locks import SharedLock
from memkit_core.ports import VectorIndex, VectorSource, VectorSpace


class EdgeKeeper(StoredKeeper):
    """Keeps an `EdgeIndex` in a folder for its vector space under `home`."""

    readable_by_all: ClassVar[bool] = False
    backend: ClassVar[str] = "qdrant-edge"

    def __init__(
        self,
        source: VectorSource,
        home: Path,
        *,
        batch: int,
        disk_reserve: int,
        lock: SharedLock | None = None,
    ) -> None:
        """For the index of `source`; see `StoredKeeper` and `Config` for the rest."""
        super().__init__(source, home, lock=lock)
        self._batch = batch
        self._disk_reserve = disk_reserve

    def check_room(self) -> None:
        """See `IndexKeeper.check_room`: a full disk kills the process inside the engine."""
        check_disk(self._home, self._disk_reserve, backend=self.backend)

    def _existing(self, space: VectorSpace) -> VectorIndex:
        return EdgeIndex(self._folder(space), space.dimension, batch=self._batch)

    def _emptied(self, space: VectorSpace) -> VectorIndex:
        folder = self._folder(space)
        _remove(_aside(folder))
        if folder.exists():
            folder.rename(_aside(folder))
        return self._existing(space)

    def _completed(self, space: VectorSpace) -> None:
        _remove(_aside(self._folder(space)))

    def _dropped(self, space: VectorSpace) -> None:
        _remove(self._folder(space))
        _remove(_aside(self._folder(space)))

    def _folder(self, space: VectorSpace) -> Path:
        return self._home / space_name(space)


def _aside(folder: Path) -> Path:
    return folder.with_name(folder.name + ".aside")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
