"""Where a store may lie, and with which SQLite."""

from __future__ import annotations

from pathlib import Path

from memkit_core.errors import ConfigError

OLDEST_SQLITE = (3, 40, 0)
_NETWORK_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "fuse.sshfs", "fuse.glusterfs", "lustre"}
)


def check_sqlite_version(version: tuple[int, ...]) -> None:
    """Refuse an SQLite older than 3.40."""
    if version < OLDEST_SQLITE:
        raise ConfigError(
            f"memkit needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer, this Python has "
            f"{'.'.join(map(str, version))}; use a newer Python build"
        )


def check_place(path: Path) -> None:
    """Refuse a folder that is missing or lies on a network file system, where WAL is not safe."""
    try:
        home, folder = path.parent.is_dir(), path.is_dir()
        # Of the names that go with it the longest, so that none is refused later.
        path.with_name(f"{path.name}.index.lock").exists()
    except OSError as error:
        raise ConfigError(f"cannot open {path}: {error.strerror or error}; give another path") from error
    if not home:
        raise ConfigError(f"cannot open {path}: the folder {path.parent} does not exist; create it first")
    if folder:
        raise ConfigError(f"cannot open {path}: it is a folder; give a file name inside it")
    kind = _file_system(path.parent)
    if kind in _NETWORK_TYPES:
        raise ConfigError(
            f"cannot open {path}: {path.parent} is on a network file system ({kind}), where SQLite's "
            "write-ahead log can lose data; use a local folder"
        )


def _file_system(folder: Path) -> str | None:
    """The type of the file system that holds `folder`, None where it cannot be told."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    best, kind = "", None
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        if folder.is_relative_to(point) and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def log_of(path: Path) -> Path:
    """The write-ahead log of a file."""
    return path.with_name(path.name + "-wal")


def inode(path: Path) -> int | None:
    """What tells a file from another one that takes its name; None where there is none."""
    try:
        return path.stat().st_ino
    except OSError:
        return None
