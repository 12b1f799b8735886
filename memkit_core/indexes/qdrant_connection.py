"""Clients for `QdrantIndex`, and what their errors mean: the one file that imports qdrant-client.

What the client is known to do (qdrant-client 1.15 to 1.20) and what is done about it here:

- Its engine in this process (`":memory:"`) is not thread-safe: upserts at the same time leave its
  arrays at different lengths. All calls to such clients wait for each other; a remote client is
  shared as it is.
- A remote client asks the server for its version in a thread and warns if there is no answer:
  switched off. It warns of a key sent without encryption: the log says it instead.
- Its errors are of six packages, some of them the client's own assertions on a strange answer. All
  become memkit's in `asking`, without the API key.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ConfigError,
    DimensionMismatchError,
    MemkitError,
    MissingDependencyError,
)
from memkit_core.locks import ThreadLock

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_log = logging.getLogger("memkit.index")

BACKEND = "qdrant"
"""The name in errors."""

_MEMORY = ":memory:"
_HIDDEN = "**********"
_SAID = 300
"""Characters of a server's answer that an error shows."""

# HTTP statuses, by what they mean for the caller.
_WRONG, _FORBIDDEN, _SLOW, _BUSY = 400, (401, 403), (408, 504), (429, 502, 503)

# One for all engines in the process: they are for tests, where nobody waits long.
_one_at_a_time = ThreadLock()


def package() -> Any:
    """The module `qdrant_client` with its `models`, imported when it is first needed."""
    try:
        import qdrant_client.models
    except ImportError as error:
        raise MissingDependencyError("qdrant-client", extra="qdrant") from error
    return qdrant_client


def connect_qdrant(
    url: str, *, api_key: str | None = None, grpc: bool = False, grpc_port: int = 6334, timeout: int = 10
) -> QdrantClient:
    """A client for the server at `url`, or for an engine in this process with `":memory:"`.

    Nothing is sent yet. Whoever asks for the client closes it, after the indexes that use it.

    Args:
        url: with its scheme, such as `"https://qdrant.example.org:6333"`; 6333 if it names no port.
        api_key: sent with every request.
        grpc: speak gRPC instead of HTTP.
        grpc_port: the server's port for gRPC.
        timeout: seconds that one call may take.

    Raises:
        ConfigError: a URL or key that cannot be used.
        MissingDependencyError: qdrant-client is not installed.
    """
    client: QdrantClient
    if url == _MEMORY:
        client = package().QdrantClient(location=_MEMORY)
        return client
    host = _checked_host(url)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip()):
        raise ConfigError(
            "the Qdrant api key is empty or holds what no header can carry, such as a line break"
        )
    if api_key is not None and url.startswith("http://") and host not in ("localhost", "127.0.0.1", "::1"):
        _log.warning("the Qdrant api key is sent to %s without encryption; use an https:// url", host)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        client = package().QdrantClient(
            url=url,
            api_key=api_key,
            prefer_grpc=grpc,
            grpc_port=grpc_port,
            timeout=timeout,
            check_compatibility=False,
        )
    return client


def _checked_host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    # Not shown: what is wrong with it may be a password in it.
    if not host or not url.startswith(("http://", "https://")) or "@" in url:
        raise ConfigError(
            "a Qdrant url is ':memory:' or begins with http:// or https://, with a host and without a login; "
            "give the key as api_key"
        )
    return host


def is_local(client: QdrantClient) -> bool:
    """Whether the client has its engine in this process."""
    options = client.init_options
    return options["location"] == _MEMORY or options["path"] is not None


@contextmanager
def asking(client: QdrantClient, collection: str, operation: str) -> Iterator[None]:
    """Give the client its turn, and turn whatever it raises into memkit's error, without the key."""
    try:
        with _one_at_a_time if is_local(client) else nullcontext():
            yield
    except MemkitError:
        raise
    except Exception as error:  # noqa: BLE001 - raised again below, where the key can be hidden first
        failure = error
    else:
        return
    plain, status = _meaning(failure)
    said = plain
    for secret in _secrets(client):
        said = said.replace(secret, _HIDDEN)
    translated = _translated(f"collection {collection!r}: {said[:_SAID]}", status, operation)
    # A cause that shows the key is dropped: a traceback would print it.
    raise translated from (failure if said == plain else None)


def _secrets(client: QdrantClient) -> list[str]:
    options = client.init_options
    headers = options.get("headers") or {}
    named = [value for name, value in headers.items() if name.lower() in ("api-key", "authorization")]
    return [secret for secret in (options["api_key"], *named) if secret]


def _meaning(error: Exception) -> tuple[str, int | None]:
    """What an error says in one line, and the HTTP status that stands for its kind."""
    import grpc
    import httpx
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    source = error.source if isinstance(error, ResponseHandlingException) else error
    said = f"{type(source).__name__}: {source}"
    status = None
    match source:
        case UnexpectedResponse():
            # All of the answer: its own text is cut, perhaps in the middle of an echoed key.
            answer = source.content.decode("utf-8", "replace")
            said, status = f"{source.status_code} {source.reason_phrase}: {answer}", source.status_code
        case ResourceExhaustedResponse():
            status = 429
        case httpx.TimeoutException():
            status = 504
        case httpx.TransportError():
            status = 503
        case grpc.RpcError() if isinstance(source, grpc.Call):
            code = source.code()
            said = f"{code.name}: {source.details()}"
            status = {
                grpc.StatusCode.UNAUTHENTICATED: 401,
                grpc.StatusCode.PERMISSION_DENIED: 403,
                grpc.StatusCode.INVALID_ARGUMENT: 400,
                grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
                grpc.StatusCode.UNAVAILABLE: 503,
                grpc.StatusCode.DEADLINE_EXCEEDED: 504,
            }.get(code)
    return " ".join(said.split()), status


def _translated(said: str, status: int | None, operation: str) -> MemkitError:
    if status in _FORBIDDEN:
        return ConfigError(f"qdrant: {operation} was refused: {said}; give an api key that may do this")
    if status in _SLOW:
        return BackendTimeoutError(said, backend=BACKEND, operation=operation)
    if status in _BUSY:
        return BackendUnavailableError(said, backend=BACKEND, operation=operation)
    # The collection was made anew with another length since it was opened.
    if status == _WRONG and "dimension error" in said:
        return DimensionMismatchError(said, backend=BACKEND, operation=operation)
    return BackendError(said, backend=BACKEND, operation=operation)
