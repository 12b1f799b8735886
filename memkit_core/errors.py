"""Every error memkit raises, grouped by what the caller can do about it.

```
MemkitError
├── InvalidInputError(ValueError)      a value memkit cannot take: fix the call
│   ├── FilterError                    a filter with an unknown operator or an unusable key
│   ├── ImportFileError                a file that is no export, or not a whole one
│   └── InvalidPromotionError          a promotion that does not go upwards
├── ScopeError(ValueError)             a missing or malformed scope: fix the call
├── ConfigError(ValueError)            settings that contradict each other or the store
├── RecordNotFoundError(LookupError)   no such record in this scope (never says where else it is)
├── ConflictError                      somebody else changed it first: read again, decide
│   └── InvalidTransitionError         its status does not allow this: see `memkit_core.life`
├── CompactionError                    the sources or the callback of a compaction; nothing was changed
├── ClosedError(RuntimeError)          the memory was closed
├── BackendError                       a store or index failed
│   ├── BackendUnavailableError        it is down, busy or locked: retrying may help
│   ├── BackendTimeoutError            it did not answer in time: retrying may help
│   ├── SchemaError                    the file is not one this version can read
│   └── DimensionMismatchError         vectors of another length: re-embed
├── ModelError                         an embedder, reranker or chat model failed or spoke nonsense
└── MissingDependencyError(ImportError)  an extra is not installed; the text ends with the pip command
```

Messages say what was attempted, with which value, and what to do.
"""

from __future__ import annotations

_SHOWN = 80


def shown(value: object) -> str:
    """`repr(value)` cut to a length that fits in an error message, always encodable."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a caller's broken __repr__ must not hide the real error
        text = f"<{type(value).__name__} whose repr failed: {type(error).__name__}>"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


class MemkitError(Exception):
    """The root of every error raised on purpose by memkit."""


class InvalidInputError(MemkitError, ValueError):
    """A value memkit cannot take; nothing was changed."""


class FilterError(InvalidInputError):
    """A filter that cannot be evaluated: unknown operator, unusable key or value."""


class InvalidPromotionError(InvalidInputError):
    """A promotion that does not go upwards; nothing was changed."""


class ImportFileError(InvalidInputError):
    """A file that cannot be imported.

    Attributes:
        file: its path, or the name of the stream.
        line: the number of the line, from 1; 0 when it is about the whole file.
    """

    def __init__(self, message: str, *, file: str, line: int) -> None:
        """Keep `file` and `line` beside the message."""
        super().__init__(f"import: {file}{f', line {line}' if line else ''}: {message}")
        self.file = file
        self.line = line


class ScopeError(MemkitError, ValueError):
    """A scope is missing, of the wrong type or malformed; nothing was read or changed."""


class ConfigError(MemkitError, ValueError):
    """Settings that contradict each other, or the store that is being opened."""


class RecordNotFoundError(MemkitError, LookupError):
    """No such record in this scope. It is not told whether the id exists in another."""


class ConflictError(MemkitError):
    """The record changed since it was read; read it again and decide."""


class InvalidTransitionError(ConflictError):
    """A record's status does not allow what was asked; nothing was changed."""


class LeaseLostError(MemkitError):
    """Periodic work took longer than its lease, and another process does it now; this one ended it."""


class CompactionError(MemkitError):
    """Records cannot become one: a source is missing, or the callback failed; nothing was changed."""


class ClosedError(MemkitError, RuntimeError):
    """The memory, store or index was closed before this call."""


class BackendError(MemkitError):
    """A store or an index failed.

    Attributes:
        backend: which one, such as `"sqlite"` or `"qdrant-edge"`.
        operation: what was attempted.
        retryable: whether the same call may succeed later.
    """

    retryable = False

    def __init__(self, message: str, *, backend: str, operation: str) -> None:
        """Keep `backend` and `operation` beside the message."""
        super().__init__(f"{backend}: {operation} failed: {message}")
        self.backend = backend
        self.operation = operation


class BackendUnavailableError(BackendError):
    """The backend is down, locked by somebody else or out of space; a retry may help."""

    retryable = True


class BackendTimeoutError(BackendError):
    """The backend did not answer in time; a retry may help."""

    retryable = True


class SchemaError(BackendError):
    """The file or server holds something this version cannot read."""


class DimensionMismatchError(BackendError):
    """A vector's length is not the length of the space it was meant for."""


class ModelError(MemkitError):
    """An embedder, reranker or chat model raised, or returned what cannot be used.

    Attributes:
        model: the model's name.
    """

    def __init__(self, message: str, *, model: str) -> None:
        """Keep `model` beside the message."""
        super().__init__(f"model {model!r}: {message}")
        self.model = model


class MissingDependencyError(MemkitError, ImportError):
    """A package that an extra brings is not installed."""

    def __init__(self, needs: str, *, extra: str | None) -> None:
        """Say which package is missing and end with the command that installs it."""
        wanted = "memkit-llm" if extra is None else f"memkit-llm[{extra}]"
        super().__init__(f"{needs} is not installed. Run: pip install '{wanted}'")
