"""What the driver's errors are for memkit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from memkit_core.errors import BackendError, BackendTimeoutError, BackendUnavailableError, SchemaError

_ERRORS: dict[int, type[BackendError]] = {
    sqlite3.SQLITE_BUSY: BackendTimeoutError,
    sqlite3.SQLITE_LOCKED: BackendTimeoutError,
    sqlite3.SQLITE_FULL: BackendUnavailableError,
    sqlite3.SQLITE_IOERR: BackendUnavailableError,
    sqlite3.SQLITE_CANTOPEN: BackendUnavailableError,
    sqlite3.SQLITE_READONLY: BackendUnavailableError,
    sqlite3.SQLITE_PERM: BackendUnavailableError,
    sqlite3.SQLITE_NOMEM: BackendUnavailableError,
    sqlite3.SQLITE_NOTADB: SchemaError,
    sqlite3.SQLITE_CORRUPT: SchemaError,
    sqlite3.SQLITE_SCHEMA: SchemaError,
}
_EXPLAINED: dict[int, str] = {
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; give the path of a memkit file, or of none",
}


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turn the driver's errors into memkit's; the original stays as the cause."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        known = BackendError if code is None else _ERRORS.get(code & 0xFF, BackendError)
        text = _EXPLAINED.get(code, str(error)) if code is not None else str(error)
        raise known(text, backend="sqlite", operation=operation) from error
    except json.JSONDecodeError as error:
        raise SchemaError(
            "a stored value cannot be read; the file is damaged", backend="sqlite", operation=operation
        ) from error
