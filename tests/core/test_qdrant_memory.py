"""A memory whose vectors are on a Qdrant server; the client's own engine stands in for the server."""

import dataclasses
import pickle
import socket

import pytest

from memkit_core import Config, ConfigError, Memory, QdrantServer, Ranking, Scope
from memkit_core.indexes import qdrant_keeper
from memkit_core.indexes.qdrant import QdrantIndex, connect_qdrant

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
DENSE = Ranking(keyword=0.0)
SERVER = Config(index=QdrantServer(url="http://localhost:6333"))
APART = dataclasses.replace(SERVER, outbox_attempts=4)
"""Other settings, so that two memories in one process share nothing."""


@pytest.fixture
def server(monkeypatch):
    """One engine for all who connect, as a server is; it outlives the memories."""
    client = connect_qdrant(":memory:")
    close = client.close
    monkeypatch.setattr(client, "close", lambda: None)
    monkeypatch.setattr(qdrant_keeper, "connect_qdrant", lambda *_, **__: client)
    yield client
    close()


def found(memory, query="tent", scope=ALICE):
    hits = memory.recall(query, scope=scope, ranking=DENSE)
    return [hit.record.content for hit in hits], hits.missing


def points(server):
    return sum(server.count(one.name).count for one in server.get_collections().collections)


def test_it_remembers(server, tmp_path):
    """Adding, recalling, updating and deleting work as with the embedded index, over a restart."""
    with Memory.open(tmp_path / "m.db", config=SERVER) as memory:
        record = memory.add("The tent is green.", scope=ALICE)
        memory.add("The tent is red.", scope=BOB)
        assert memory.flush()
        assert memory.capabilities.index
        assert found(memory) == (["The tent is green."], set())
        memory.update(record.id, scope=ALICE, content="The tent is blue.")
        assert found(memory) == (["The tent is blue."], set())
    assert points(server) == 2
    with Memory.open(tmp_path / "m.db", config=SERVER) as memory:
        assert found(memory) == (["The tent is blue."], set())
        memory.delete(scope=ALICE)
        assert memory.flush()
        assert found(memory) == ([], set())
    assert points(server) == 1


def test_what_is_out_of_step_is_rebuilt(server, tmp_path):
    """A collection that lost points, or is gone, is filled from the file again; another file's is left alone."""
    for name in ("a.db", "b.db"):
        with Memory.open(tmp_path / name, config=SERVER) as memory:
            memory.add_many([f"Fact {i} of {name}" for i in range(9)], scope=ALICE)
            assert memory.flush()
    assert points(server) == 18
    (first, _) = sorted(server.get_collections().collections, key=lambda one: one.name)
    server.delete_collection(first.name)
    for name in ("a.db", "b.db"):
        with Memory.open(tmp_path / name, config=SERVER) as memory:
            contents, missing = found(memory, "Fact")
            assert (len(contents), missing) == (9, set())
            assert not memory.upkeep.verify()
    assert points(server) == 18


def test_one_writes_and_all_search(server, tmp_path):
    """Who does not hold the write lock still searches the collection; what is unconfirmed is scanned exactly."""
    with Memory.open(tmp_path / "m.db", config=SERVER) as writer:
        writer.add("The tent is green.", scope=ALICE)
        assert writer.flush()
        with Memory.open(tmp_path / "m.db", config=APART) as reader:
            assert reader.capabilities.index
            assert found(reader) == (["The tent is green."], set())
            reader.add("The canoe is blue.", scope=ALICE)
            contents, missing = found(reader, "canoe")
            assert (contents[0], missing) == ("The canoe is blue.", set())
            assert not reader.flush()
            assert writer.flush()
            assert found(reader, "canoe") == found(writer, "canoe")
            assert points(server) == 2


def test_a_server_that_is_down(tmp_path):
    """Nothing is lost and everything is found while the server cannot be reached; it is said so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = Config(index=QdrantServer(url=f"http://127.0.0.1:{port}", timeout=1))
    with Memory.open(tmp_path / "m.db", config=config) as memory:
        memory.add("The tent is green.", scope=ALICE)
        assert not memory.capabilities.index
        assert not memory.flush()
        assert found(memory) == (["The tent is green."], {"index"})
    with Memory.open(tmp_path / "m.db") as memory:
        assert memory.flush()
        assert found(memory) == (["The tent is green."], set())


@pytest.mark.usefixtures("server")
def test_from_the_folder_to_the_server_and_back(tmp_path):
    """Moving up is a change of setting: the vectors come from the file, with no embedding call."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("The tent is green.", scope=ALICE)
    with Memory.open(tmp_path / "m.db", config=SERVER) as memory:
        assert found(memory) == (["The tent is green."], set())
        memory.add("The canoe is blue.", scope=ALICE)
    with Memory.open(tmp_path / "m.db") as memory:
        contents, missing = found(memory, "canoe")
        assert (contents[0], missing) == ("The canoe is blue.", set())


def test_settings(server, tmp_path):
    """Other settings are refused; a key is in no repr and no pickle; collections begin with the prefix."""
    for wrong in ("qdrant", None, "http://localhost:6333"):
        with pytest.raises(ConfigError, match="QdrantServer"):
            Config(index=wrong)
    config = Config(index=QdrantServer(url="https://q.example.org", api_key="s3cret", prefix="app"))
    assert "s3cret" not in repr(config)
    with Memory.open(tmp_path / "m.db", config=config) as memory:
        memory.add("The tent is green.", scope=ALICE)
        assert memory.flush()
        assert b"s3cret" not in pickle.dumps(memory)
    (collection,) = server.get_collections().collections
    assert collection.name.startswith("app-")
    assert QdrantIndex(server, collection.name, 256).count() == 1
