"""`QdrantIndex`: what each failure of a server becomes, and where an API key never shows.

No real server runs here: servers on loopback play a script, over HTTP and over gRPC.
"""

import logging
import socket
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ConfigError,
    DimensionMismatchError,
)
from memkit_core.indexes.points import index_point
from memkit_core.indexes.qdrant import QdrantIndex, connect_qdrant
from memkit_core.models import Target
from memkit_core.testing.samples import ALICE, record

pytest.importorskip("qdrant_client")
grpc = pytest.importorskip("grpc")

KEY = "key-of-this-test-only"
QUERY = np.ones(8, np.float32)
POINT = index_point(record(ALICE, "x"), QUERY)


@pytest.fixture
def opened(qdrant_server, connect):
    """An index whose server answered well so far."""
    return QdrantIndex(connect(qdrant_server.url, api_key=KEY), "memories", 8)


@pytest.fixture
def closed_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def silent_port():
    """A port that takes connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def grpc_refusing():
    """Starts a gRPC server on loopback that refuses every call with a code; returns its port."""
    servers = []

    class Refusing(grpc.GenericRpcHandler):
        def __init__(self, code, said):
            self.answer = lambda _, context: context.abort(grpc.StatusCode[code], said)

        def service(self, _):
            return grpc.unary_unary_rpc_method_handler(self.answer)

    def start(code, said):
        server = grpc.server(ThreadPoolExecutor(1), handlers=[Refusing(code, said)])
        servers.append(server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return port

    yield start
    for server in servers:
        server.stop(None).wait()


def calls(index):
    """Each call of an index that asks the server."""
    return {
        "upsert": lambda: index.upsert([POINT]),
        "delete": lambda: index.delete([POINT.point_id]),
        "search": lambda: index.search(Target(scope=ALICE), QUERY, where=None, limit=1),
        "get": lambda: index.get([POINT.point_id]),
        "count": index.count,
        "clear": index.clear,
    }


REFUSALS = [
    (401, "UNAUTHENTICATED", ConfigError, None),
    (403, "PERMISSION_DENIED", ConfigError, None),
    (404, "NOT_FOUND", BackendError, False),
    (429, "RESOURCE_EXHAUSTED", BackendUnavailableError, True),
    (500, "INTERNAL", BackendError, False),
    (503, "UNAVAILABLE", BackendUnavailableError, True),
    (504, "DEADLINE_EXCEEDED", BackendTimeoutError, True),
]


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        *((status, kind, retryable) for status, _, kind, retryable in REFUSALS),
        (408, BackendTimeoutError, True),
        (502, BackendUnavailableError, True),
    ],
)
def test_a_refusal_says_what_can_be_done(qdrant_server, opened, status, kind, retryable):
    """Each refusal of a server is the error that says whether to wait, to fix the settings, or neither."""
    qdrant_server.always(status, {"status": {"error": "so it is"}})
    for operation, call in calls(opened).items():
        with pytest.raises(kind, match=f"{operation}.*'memories'.*so it is") as caught:
            call()
        assert type(caught.value) is kind
        assert getattr(caught.value, "retryable", None) is retryable


def test_too_many_requests_with_a_time_to_wait(qdrant_server, opened):
    """A full server that says when to come back is a `BackendUnavailableError` as well."""
    qdrant_server.more_headers["Retry-After"] = "3"
    qdrant_server.always(429, {"status": {"error": "too many"}})
    with pytest.raises(BackendUnavailableError, match="too many"):
        opened.count()


@pytest.mark.parametrize(("code", "kind", "retryable"), [one[1:] for one in REFUSALS])
def test_a_refusal_over_grpc(grpc_refusing, connect, code, kind, retryable):
    """Over gRPC the same refusals are the same errors, and the key shows in none."""
    client = connect(
        "http://127.0.0.1:1", api_key=KEY, grpc=True, grpc_port=grpc_refusing(code, f"so it is {KEY}")
    )
    with pytest.raises(kind, match=r"open.*'memories'.*so it is") as caught:
        QdrantIndex(client, "memories", 8)
    assert type(caught.value) is kind
    assert getattr(caught.value, "retryable", None) is retryable
    assert KEY not in "".join(traceback.format_exception(caught.value))


def test_a_wrong_length_over_grpc(grpc_refusing, connect):
    """A length that the server refuses over gRPC is a `DimensionMismatchError`."""
    port = grpc_refusing("INVALID_ARGUMENT", "Wrong input: Vector dimension error: expected dim: 4, got 8")
    client = connect("http://127.0.0.1:1", grpc=True, grpc_port=port)
    with pytest.raises(DimensionMismatchError, match="expected dim: 4, got 8"):
        QdrantIndex.exists(client, "memories")


def test_a_collection_made_anew_with_another_length(qdrant_server, opened):
    """A server that refuses a vector's length while in use is a `DimensionMismatchError`."""
    qdrant_server.always(
        400, {"status": {"error": "Wrong input: Vector dimension error: expected dim: 4, got 8"}}
    )
    with pytest.raises(DimensionMismatchError, match="expected dim: 4, got 8"):
        opened.upsert([POINT])


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"result": {}}', b'{"result": null}', b"[]"])
def test_nonsense_is_a_backend_error(qdrant_server, opened, answer):
    """An answer that no Qdrant gives, as a proxy may, is a `BackendError`, never a foreign exception."""
    qdrant_server.always(200, answer)
    for operation, call in calls(opened).items():
        with pytest.raises(BackendError, match=f"qdrant: {operation} failed"):
            call()


@pytest.mark.parametrize("over_grpc", [False, True])
def test_a_server_that_is_down(connect, closed_port, over_grpc):
    """No connection is a `BackendUnavailableError`, at opening and when asked whether it exists."""
    client = connect(f"http://127.0.0.1:{closed_port}", grpc=over_grpc, grpc_port=closed_port, timeout=5)
    for call in (lambda: QdrantIndex(client, "memories", 8), lambda: QdrantIndex.exists(client, "memories")):
        with pytest.raises(BackendUnavailableError, match="qdrant: open failed: collection 'memories'"):
            call()


@pytest.mark.parametrize("over_grpc", [False, True])
def test_a_server_that_does_not_answer(connect, silent_port, over_grpc):
    """No answer within the client's timeout is an error that may be tried again."""
    client = connect(f"http://127.0.0.1:{silent_port}", grpc=over_grpc, grpc_port=silent_port, timeout=1)
    with pytest.raises((BackendTimeoutError, BackendUnavailableError)) as caught:
        QdrantIndex(client, "memories", 8)
    assert caught.value.retryable
    if not over_grpc:  # gRPC may call a server that never greets it unavailable.
        assert type(caught.value) is BackendTimeoutError


def test_a_client_that_was_closed(connect):
    """After its maker closed the client, a call is a `BackendError`."""
    client = connect()
    index = QdrantIndex(client, "memories", 8)
    client.close()
    with pytest.raises(BackendError, match="closed"):
        index.count()


def test_every_error_of_the_client_is_known():
    """Each exception class that qdrant-client defines is one the translation was written for."""
    from qdrant_client.common import client_exceptions
    from qdrant_client.http import exceptions

    defined = {
        name
        for module in (exceptions, client_exceptions)
        for name, one in vars(module).items()
        if isinstance(one, type) and issubclass(one, Exception) and one.__module__ == module.__name__
    }
    assert defined == {
        "ApiException",
        "UnexpectedResponse",
        "ResponseHandlingException",
        "QdrantException",
        "ResourceExhaustedResponse",
    }


# ------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize("padding", [0, 60, 150, 170, 185, 400])
def test_an_echoed_key_is_hidden(qdrant_server, opened, padding):
    """A key that a server sends back shows in no message, repr or traceback, not in part either."""
    qdrant_server.always(401, {"status": {"error": "." * padding + f"bad key {KEY}, sorry"}})
    with pytest.raises(ConfigError) as caught:
        opened.count()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(opened)
    assert KEY[:8] not in shown
    assert padding > 200 or "**********" in shown


@pytest.mark.usefixtures("opened")
def test_the_key_is_sent(qdrant_server):
    """The key reaches the server with each request."""
    assert len(qdrant_server.headers) > 2
    assert all(headers["api-key"] == KEY for headers in qdrant_server.headers)


@pytest.mark.parametrize("key", ["", " ", "secret\n", "sécret", "se\0cret"])
def test_a_key_that_no_header_carries_is_refused(key):
    """A key with a line break, as one read from a file has, is a `ConfigError` that does not show it."""
    with pytest.raises(ConfigError, match="api key") as caught:
        connect_qdrant("https://127.0.0.1:1", api_key=key)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:6333",
        "localhost:6333",
        "ftp://h",
        "http://",
        "http://h:x",
        "https://me:secret@h",
        "/a/folder",
    ],
)
def test_a_url_that_is_none_is_refused(url):
    """What is no http(s) URL, or holds a login, is a `ConfigError` that does not show it."""
    with pytest.raises(ConfigError, match="a Qdrant url is") as caught:
        connect_qdrant(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "warned"),
    [("http://qdrant.invalid:6333", True), ("https://qdrant.invalid", False), ("http://127.0.0.1:1", False)],
)
def test_an_unprotected_key_is_logged(connect, caplog, url, warned):
    """A key sent in the clear to another machine is a line in the log, without the key; never a Python warning."""
    with caplog.at_level(logging.WARNING, "memkit.index"):
        connect(url, api_key=KEY)
    assert ("without encryption" in caplog.text) is warned
    assert KEY not in caplog.text
