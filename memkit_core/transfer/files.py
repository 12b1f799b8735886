"""Files and streams as lines: written whole or not at all, read without trusting their length."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from memkit_core.errors import ImportFileError, InvalidInputError, shown

Place = str | Path | IO[str] | IO[bytes]
"""A path, or a stream that is open: text or binary."""

LONGEST_LINE = 256 * 2**20
"""Bytes of a line at most: a record holds some million characters, a file that is no export may hold
anything."""
_PIECE = 2**20


class NumberedLine(NamedTuple):
    """A line without its end; None for one that is longer than `LONGEST_LINE`."""

    number: int
    text: bytes | None


def path_of(place: object, verb: str) -> Path | None:
    """The path that was given, through every symbolic link; None for a stream."""
    if isinstance(place, str | Path):
        try:
            return Path(place).resolve()
        except ValueError as error:  # NUL, or half of a character
            raise InvalidInputError(f"{verb}: {shown(str(place))} is no path: {error}") from error
    if callable(getattr(place, "read", None)) or callable(getattr(place, "write", None)):
        return None
    raise InvalidInputError(f"{verb}: give a path or an open stream, got {shown(place)}")


def check_apart(path: Path, store: str | None, verb: str) -> None:
    """Refuse a file of the open store itself: opening it by other means than SQLite drops its locks."""
    if store is None:
        return
    home = Path(store)
    own = [home, *(home.with_name(home.name + end) for end in ("-wal", "-shm", ".lock", ".index"))]
    if any(path == one or one in path.parents for one in own) or _same_file(path, home):
        raise InvalidInputError(f"{verb}: {path} belongs to the store itself; give another path")


def _same_file(path: Path, store: Path) -> bool:
    try:
        return path.samefile(store)
    except OSError:
        return False


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A new empty file beside `path` that takes its place when the block ends well, else is removed.

    Readable by its owner alone. What is at `path` afterwards is whole, whenever the process is killed.
    """
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; give a file name inside it")
    if not path.parent.is_dir():
        # Before the name of the temporary file stands in the error.
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist; create it first", str(path.parent))
    if path.exists() and not path.is_file():
        # Replaced, /dev/null would be a file from then on, for all of the machine.
        raise InvalidInputError(
            f"{path} is a device or a pipe; give a file name, or open it and give the stream"
        )
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".part")
    os.close(number)
    part = Path(name)
    try:
        yield part
        _synced(part)
        part.replace(path)
        _synced(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _synced(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def writing(place: Place, *, store: str | None) -> Iterator[Callable[[bytes], object]]:
    """A function that writes to a file that appears when the block ends, or to a stream."""
    path = path_of(place, "export_jsonl")
    if path is None:
        yield _stream_writer(place)
        flush = getattr(place, "flush", None)
        if flush is not None:
            flush()
        return
    check_apart(path, store, "export_jsonl")
    with replaced_file(path) as part, part.open("wb", buffering=_PIECE) as file:
        yield file.write
        file.flush()


def _stream_writer(stream: Any) -> Callable[[bytes], object]:
    if isinstance(stream, io.TextIOBase) or hasattr(stream, "encoding"):
        return lambda line: stream.write(line.decode())
    write: Callable[[bytes], object] = stream.write
    return write


@contextmanager
def reading(place: Place, *, store: str | None) -> Iterator[Source]:
    """The lines of a file or stream, which can be read more than once inside the block."""
    path = path_of(place, "import_jsonl")
    if path is not None:
        check_apart(path, store, "import_jsonl")
        with path.open("rb") as file:
            yield Source(file, str(path))
        return
    name = str(getattr(place, "name", None) or "the stream")
    with _rereadable(place) as file:
        yield Source(file, name)


def _rereadable(stream: Any) -> AbstractContextManager[IO[bytes]]:
    """The stream itself if it can be set back, else its content in a temporary file."""
    text = isinstance(stream, io.TextIOBase) or hasattr(stream, "encoding")
    if not text and getattr(stream, "seekable", bool)():
        return contextlib.nullcontext(stream)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    while piece := stream.read(_PIECE):
        # What a text stream made of bytes that are no text stays what it was: no line of an export.
        file.write(piece.encode("utf-8", "surrogateescape") if text else piece)
    file.seek(0)
    return file


class Source:
    """Lines that can be read again from where they began."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        """From the place where `file` stands."""
        self._file = file
        self._start = file.tell()
        self._end = _end(file)
        self.name = name

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self._end - self._start

    def lines(self) -> Iterator[NumberedLine]:
        """Every line from the beginning, also an empty one."""
        self._file.seek(self._start)
        number = 0
        while line := self._file.readline(LONGEST_LINE + 1):
            number += 1
            if number == 1:
                # What some editors put in front of a file that they save.
                line = line.removeprefix(codecs.BOM_UTF8)
            if len(line) <= LONGEST_LINE or line.endswith(b"\n"):
                yield NumberedLine(number, line.rstrip(b"\r\n"))
                continue
            del line
            while (rest := self._file.readline(_PIECE)) and not rest.endswith(b"\n"):
                pass
            yield NumberedLine(number, None)

    def again(self) -> IO[bytes]:
        """All of it as a stream that stands at the beginning; open as long as this."""
        self._file.seek(self._start)
        return self._file

    def error(self, message: str, line: int = 0) -> ImportFileError:
        """What is wrong with it."""
        return ImportFileError(message, file=self.name, line=line)


def _end(file: IO[bytes]) -> int:
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    return end
