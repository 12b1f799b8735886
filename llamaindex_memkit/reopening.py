"""Finding the live memory of a file again, for adapters that were sent around as JSON."""

from __future__ import annotations

from pathlib import Path
from weakref import WeakValueDictionary

from memkit_core import ConfigError, Memory
from memkit_core.errors import shown
from memkit_core.locks import ThreadLock

# Weak, so that a memory nobody holds any more is closed as if it had never been listed here.
_open_memories: WeakValueDictionary[str, Memory] = WeakValueDictionary()
_mutex = ThreadLock()


def remember_open(memory: Memory) -> None:
    """Have `reopened` return this memory for its file while it is open; one without a file is not listed."""
    if memory.path is not None:
        with _mutex:
            _open_memories[memory.path] = memory


def reopened(path: str) -> Memory:
    """The open memory of this process that lives in `path`, else the file opened with the defaults.

    Raises:
        ConfigError: there is no such file (it is never made here), or it holds the vectors of
            another model than the built-in one; open it yourself then and pass `memory=`.
    """
    path = str(Path(path).absolute())
    with _mutex:
        memory = _open_memories.get(path)
        if memory is None or memory.closed:
            if not Path(path).is_file():
                raise ConfigError(
                    f"cannot reconnect: there is no file {shown(path)}; give memory=Memory.open(...)"
                )
            memory = Memory.open(path)
            _open_memories[path] = memory
        return memory
