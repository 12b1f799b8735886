"""The files of an index: what they are called, and room for them."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memkit_core.errors import BackendUnavailableError
from memkit_core.ports import VectorSpace


def space_name(space: VectorSpace) -> str:
    """A file name that stands for a vector space: a digest, since a model's name may hold any character."""
    return hashlib.blake2b(space.fingerprint.encode(), digest_size=8).hexdigest()


@contextmanager
def files(backend: str, operation: str) -> Iterator[None]:
    """Turn what the file system says into memkit's error."""
    try:
        yield
    except OSError as error:
        raise BackendUnavailableError(str(error), backend=backend, operation=operation) from error


def check_disk(home: Path, reserve: int, *, backend: str) -> None:
    """Make the folder `home`, and refuse to write when less than `reserve` bytes are free there."""
    with files(backend, "write"):
        home.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(home).free
    if free < reserve:
        raise BackendUnavailableError(
            f"{free // 2**20} MiB are free, {reserve // 2**20} MiB are kept in reserve; free some "
            "space, or lower Config.disk_reserve",
            backend=backend,
            operation="write",
        )
