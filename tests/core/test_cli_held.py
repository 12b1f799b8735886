"""Commands on a file that another process has open, and whose vector index that process holds."""

import json

import numpy as np
import pytest

from memkit_core import Memory, Scope
from memkit_core.embedders import resolve

ANN = Scope.user("ann")
THERE = ("--db", "memory.db")

HOLDER = """
import sys
from memkit_core import Memory, Scope

class Letters:
    model = "letters"
    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]
    def embed_query(self, text):
        return [1.0, float(len(text))]

with Memory.open("memory.db", embedder=Letters() if sys.argv[1] == "letters" else None) as memory:
    memory.add("I moved to Denver in May.", scope=Scope.user("ann"), id="m1")
    memory.flush()
    assert memory.capabilities.index
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def hold(start_script):
    """Starts the other process with a model; returns a function that ends it."""

    def start(model):
        process = start_script(HOLDER, model)
        assert process.stdout.readline() == "held\n"

        def end():
            process.stdin.close()
            assert process.wait(timeout=30) == 0

        return end

    return start


def hits(memkit_here):
    code, out, err = memkit_here("recall", "the city where I live", *THERE, "--user", "ann", "--json")
    assert code == 0, err
    document = json.loads(out)
    return [
        (hit["record"]["id"], hit["signals"]["similarity"] is not None) for hit in document["hits"]
    ], document["missing"]


def test_reembed_beside_the_process_that_holds_the_index(memkit_here, hold):
    """It is done: every record is found by the new vectors at once, and the output says how; so the code is 0."""
    end = hold("letters")
    code, out, told = memkit_here("reembed", *THERE, "--embedder", "wordllama")
    assert (code, out) == (0, "")
    assert (
        "1 record has a vector of wordllama/l2_supercat_256 (256 dimensions); 1 embedded by this run" in told
    )
    assert (
        "until the vector index has all of it, recall compares with every vector, which is slower: " in told
    )
    assert "another process" in told
    assert "finds by words only until it opens it again" in told
    assert hits(memkit_here) == ([("m1", True)], ["index"])
    end()
    code, out, told = memkit_here("reembed", *THERE, "--embedder", "wordllama")
    assert (code, out, told.count("\n")) == (0, "", 1)
    assert hits(memkit_here) == ([("m1", True)], [])


def test_reembed_as_json(memkit_here, hold):
    """The document says why there is no index, and how many records are without a vector."""
    hold("letters")
    document = json.loads(memkit_here("reembed", *THERE, "--embedder", "wordllama", "--json")[1])
    assert (document["report"]["embedded"], document["without_vectors"]) == (1, 0)
    assert "another process" in document["no_index"]


class Picky:
    """An embedder that fails with one text."""

    model, revision = "picky", "1"

    def __init__(self, _model):
        pass

    def embed_documents(self, texts):
        if any("Denver" in text for text in texts):
            raise ValueError("not that city")
        return np.ones((len(texts), 4), np.float32)

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_reembed_that_leaves_records_without_a_vector(memkit_here, tmp_path, monkeypatch):
    """What cannot be embedded is not done: the output says how many and why, and the code is 1."""
    monkeypatch.setitem(resolve._PROVIDERS, "picky", resolve._Provider(load=lambda: Picky, default="picky"))
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add_many(["I moved to Denver in May.", "I like tea."], scope=ANN)
    code, _, told = memkit_here("reembed", *THERE, "--embedder", "picky")
    assert code == 1
    assert told.startswith("1 record has a vector of picky (4 dimensions); 1 embedded by this run\n")
    assert "1 has none and is found by words only; the last error: " in told
    assert "not that city" in told
    code, out, _ = memkit_here("reembed", *THERE, "--embedder", "picky", "--json")
    assert (code, json.loads(out)["without_vectors"]) == (1, 1)


def test_import_beside_the_process_that_holds_the_index(memkit_here, hold, tmp_path):
    """What was imported is reported and found; only the index is left to the other process."""
    with Memory.open(tmp_path / "other.db") as memory:
        memory.add("I like tea.", scope=ANN, id="m2")
    assert memkit_here("export", "other.jsonl", "--db", "other.db")[0] == 0
    hold("built-in")
    code, out, told = memkit_here("import", "other.jsonl", *THERE)
    assert (code, out) == (0, "")
    assert told.startswith("inserted: 1 record\n")
    assert "another process" in told
    found, missing = hits(memkit_here)
    assert (sorted(found), missing) == ([("m1", True), ("m2", True)], ["index"])
