"""`QdrantIndex` and `connect_qdrant`: opening, errors, keys, threads, forks, requests.

No real server runs here. The client's own engine answers where answers matter; servers on loopback
play a script where errors and requests do.
"""

import dataclasses
import json
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from memkit_core.errors import (
    BackendError,
    BackendTimeoutError,
    BackendUnavailableError,
    ConfigError,
    DimensionMismatchError,
    MissingDependencyError,
)
from memkit_core.filters import parse_filter
from memkit_core.indexes.points import index_point
from memkit_core.indexes.qdrant import QdrantIndex, connect_qdrant
from memkit_core.models import Target
from memkit_core.testing.samples import ALICE, record

models = pytest.importorskip("qdrant_client.models")

KEY = "key-of-this-test-only"
QUERY = np.ones(8, np.float32)
MINE = Target(scope=ALICE)


def one_point(name="x", vector=QUERY):
    return index_point(record(ALICE, name), vector)


@pytest.fixture
def opened(qdrant_server, connect):
    """An index whose server answered well so far."""
    return QdrantIndex(connect(qdrant_server.url, api_key=KEY), "memories", 8)


def calls(index):
    """Each call of an index that asks the server."""
    return {
        "upsert": lambda: index.upsert([one_point()]),
        "delete": lambda: index.delete([one_point().point_id]),
        "search": lambda: index.search(MINE, QUERY, where=None, limit=1),
        "get": lambda: index.get([one_point().point_id]),
        "count": index.count,
        "clear": index.clear,
    }


# ---------------------------------------------------------------------------------------- opening


def test_a_collection_is_made_once_and_found_again(connect):
    """The first index makes the collection, the next one finds it; `exists` tells."""
    client = connect()
    assert QdrantIndex.exists(client, "memories") is False
    first = QdrantIndex(client, "memories", 8)
    first.upsert([one_point()])
    first.close()
    assert QdrantIndex.exists(client, "memories") is True
    assert QdrantIndex(client, "memories", 8).count() == 1


def test_another_dimension_is_refused_at_opening(connect):
    """A collection for vectors of another length raises `DimensionMismatchError` with both lengths."""
    client = connect()
    QdrantIndex(client, "memories", 8)
    with pytest.raises(DimensionMismatchError, match=r"'memories' holds vectors of 8 .* makes 16"):
        QdrantIndex(client, "memories", 16)


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (models.VectorParams(size=8, distance=models.Distance.DOT), "measures Dot, memkit needs Cosine"),
        ({"v": models.VectorParams(size=8, distance=models.Distance.COSINE)}, "names its vectors"),
        ({}, "names its vectors"),
    ],
)
def test_a_collection_of_another_kind_is_refused(connect, vectors, said):
    """A collection that memkit cannot use raises `ConfigError`, which names it and says why."""
    client = connect()
    client.create_collection("theirs", vectors_config=vectors)
    with pytest.raises(ConfigError, match=f"'theirs' {said}"):
        QdrantIndex(client, "theirs", 8)


def test_points_of_somebody_else_are_an_error(connect):
    """A point whose id is no UUID was not written by memkit: `BackendError`, never a wrong hit."""
    client = connect()
    index = QdrantIndex(client, "memories", 8)
    index.upsert([one_point()])
    [kept], _ = client.scroll("memories", with_payload=True)
    client.upsert("memories", [models.PointStruct(id=7, vector=QUERY.tolist(), payload=kept.payload)])
    with pytest.raises(BackendError, match="7 is no UUID"):
        index.search(MINE, QUERY, where=None, limit=5)


def test_a_missing_package_says_what_to_install(monkeypatch):
    """Without qdrant-client the error ends with the pip command."""
    monkeypatch.setitem(sys.modules, "qdrant_client", None)
    with pytest.raises(MissingDependencyError, match=re.escape("pip install 'memkit-llm[qdrant]'") + "$"):
        connect_qdrant(":memory:")


# --------------------------------------------------------------------------------------- requests


def test_payload_indexes_are_made_on_a_server(qdrant_server, connect):
    """A new collection gets an index for each payload field that a search names, the owner's as tenant."""
    qdrant_server.exists = False
    QdrantIndex(connect(qdrant_server.url), "memories", 8)
    assert (
        "PUT",
        "/collections/memories",
        {"vectors": {"size": 8, "distance": "Cosine"}},
    ) in qdrant_server.requests
    made = {
        body["field_name"]: body["field_schema"]
        for _, path, body in qdrant_server.requests
        if "/index" in path
    }
    assert made.pop("partition") == {"type": "keyword", "is_tenant": True}
    assert made == {
        **dict.fromkeys(("scope", "type", "status", "tags"), "keyword"),
        **dict.fromkeys(("created_at", "occurred_at", "expires_at"), "integer"),
    }


def test_only_missing_payload_indexes_are_made(qdrant_server, connect):
    """An index that a killed process did not get to is made at the next opening, the others are left."""
    kept = ("partition", "scope", "type", "status", "tags")
    qdrant_server.collection["payload_schema"] = {key: {"data_type": "keyword", "points": 0} for key in kept}
    QdrantIndex(connect(qdrant_server.url), "memories", 8)
    made = {body["field_name"] for _, path, body in qdrant_server.requests if "/index" in path}
    assert made == {"created_at", "occurred_at", "expires_at"}


def test_another_process_was_quicker(qdrant_server, connect):
    """When another process makes the collection in between, its collection is opened."""
    told = iter([False, True])

    def reply(method, path):
        if path.endswith("/exists"):
            return 200, {"result": {"exists": next(told)}}
        if method == "PUT" and path == "/collections/memories":
            return 409, {"status": {"error": "Collection `memories` already exists!"}}
        return qdrant_server.healthy(method, path)

    qdrant_server.reply = reply
    QdrantIndex(connect(qdrant_server.url), "memories", 8).upsert([one_point()])


def test_a_collection_that_cannot_be_made(qdrant_server, connect):
    """A collection that the server does not make is the server's error."""
    qdrant_server.reply = lambda _, path: (
        (200, {"result": {"exists": False}})
        if path.endswith("/exists")
        else (500, {"status": {"error": "no disk"}})
    )
    with pytest.raises(BackendError, match=r"create failed.*no disk"):
        QdrantIndex(connect(qdrant_server.url), "memories", 8)


def test_writes_wait_and_go_in_batches(qdrant_server, connect):
    """Five points in batches of two are three requests that wait; of two points with one id the last is sent."""
    index = QdrantIndex(connect(qdrant_server.url), "memories", 8, batch=2)
    qdrant_server.requests.clear()
    index.upsert([one_point(str(i)) for i in range(5)])
    assert [len(body["points"]) for _, _, body in qdrant_server.requests] == [2, 2, 1]
    index.upsert([one_point(), one_point(vector=-QUERY)])
    assert [point["vector"][0] < 0 for point in qdrant_server.requests[-1][2]["points"]] == [True]
    index.delete([one_point(str(i)).point_id for i in range(3)])
    index.clear()
    assert qdrant_server.requests[-1][2] == {"filter": {}}
    assert all(path.endswith("?wait=true") for _, path, _ in qdrant_server.requests)


def test_the_filter_is_in_the_request(qdrant_server, opened):
    """Owner, scope and filter go to the server with the limit; no payload or vector comes back."""
    opened.search(Target(scope=ALICE), QUERY, where=parse_filter({"status": "active"}), limit=3)
    method, path, body = qdrant_server.requests[-1]
    assert (method, path) == ("POST", "/collections/memories/points/query")
    assert [one["key"] for one in body["filter"]["must"]] == ["partition", "status"]
    assert (body["limit"], body["with_payload"], body["with_vector"]) == (3, False, False)


def test_no_text_leaves_for_the_server(qdrant_server, opened):
    """A point on the wire has digests, labels and times, no word of the record and no name of the user."""
    secret = record(ALICE, "x", "my pin is 4711", tags=("diet",), metadata={"a": "4711"})
    opened.upsert([index_point(secret, QUERY)])
    sent = json.dumps(qdrant_server.requests[-1][2])
    assert not any(word in sent for word in ("4711", "diet", "alice"))


def test_a_write_that_is_only_accepted_is_no_success(qdrant_server, opened):
    """An answer that says the change is not applied yet is a timeout, which may be tried again."""
    qdrant_server.always(200, {"result": {"operation_id": 1, "status": "acknowledged"}})
    with pytest.raises(BackendTimeoutError, match="acknowledged"):
        opened.upsert([one_point()])


# ------------------------------------------------------------------------- threads, forks, warnings


def test_no_warning_reaches_the_user(connect, qdrant_server):
    """Connecting, opening and writing warn of nothing, in memory and on a server, key or not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for client in (connect(), connect(qdrant_server.url), connect(qdrant_server.url, api_key=KEY)):
            index = QdrantIndex(client, "memories", 8)
            index.upsert([one_point()])
            index.clear()
    assert caught == []
    assert not any(path == "/" for _, path, _ in qdrant_server.requests)


def test_two_indexes_on_one_engine_in_memory(connect):
    """Eight threads write through two indexes of one client in memory; nothing breaks or is lost (B46)."""
    client = connect()
    indexes = [QdrantIndex(client, "memories", 8) for _ in range(2)]
    vectors = np.random.default_rng(1).normal(size=(320, 8)).astype(np.float32)

    def write(worker):
        for i in range(worker, 320, 8):
            indexes[worker % 2].upsert([one_point(str(i), vectors[i])])
            indexes[worker % 2].search(MINE, QUERY, where=None, limit=3)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert indexes[0].count() == 320
    assert len(indexes[1].search(MINE, QUERY, where=None, limit=999)) == 320


def test_a_forked_child_is_refused_at_once(qdrant_server, opened, in_child):
    """In a forked child each call is a `BackendUnavailableError`, closing touches nothing, the parent goes on."""
    opened.upsert([one_point()])
    asked = len(qdrant_server.requests)

    def child():
        errors = []
        for call in calls(opened).values():
            try:
                call()
            except BackendUnavailableError as error:
                errors.append(str(error))
        opened.close()
        return errors

    errors = in_child(child)
    assert len(errors) == 6
    assert all("forked" in error for error in errors)
    assert len(qdrant_server.requests) == asked
    opened.upsert([one_point()])


def test_a_child_opens_an_index_of_its_own(qdrant_server, connect, in_child):
    """A forked child that connects for itself writes and reads."""
    QdrantIndex(connect(qdrant_server.url), "memories", 8).upsert([one_point()])

    def child():
        client = connect_qdrant(qdrant_server.url)
        index = QdrantIndex(client, "memories", 8)
        index.upsert([one_point()])
        return index.search(MINE, QUERY, where=None, limit=1)

    assert in_child(child) == []


def test_closing_leaves_the_client_open(connect):
    """An index that was closed leaves its client to the others that use it."""
    client = connect()
    first, second = (QdrantIndex(client, name, 8) for name in ("a", "b"))
    first.close()
    second.upsert([dataclasses.replace(one_point(), tags=("t",))])
    assert second.count() == 1
