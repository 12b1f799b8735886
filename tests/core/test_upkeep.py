"""`memory.upkeep`: what is out of step is found and mended, and nothing is embedded again."""

import dataclasses
import json
import shutil
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from memkit_core import Config, Memory, Message, NewMemory, Ranking, Role, Scope
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import BackendUnavailableError, ClosedError
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.models import point_id
from memkit_core.stores.sqlite import SQLiteStore

ALICE = Scope.user("alice")
SESSION = Scope.session("s", user="alice")
WORDS = ("garden", "bicycle", "vegetarian", "piano", "ocean", "contract", "keyboard", "mountain")
DENSE = Ranking(keyword=0.0)


class Counting:
    """The built-in embedder, counting the texts it embeds for storing."""

    model = "counting"

    def __init__(self):
        self.texts = 0
        self.real = WordLlamaEmbedder()

    def embed_documents(self, texts):
        self.texts += len(texts)
        return self.real.embed_documents(texts)

    def embed_query(self, text):
        return self.real.embed_query(text)


@pytest.fixture(scope="module")
def embedder():
    return Counting()


@pytest.fixture
def path(tmp_path, embedder):
    """A closed file with facts, turns and documents whose vectors were given, all of it indexed."""
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        memory.add_many(
            [NewMemory(content=f"Alice likes the {w}", id=w, tags=["hobby", w]) for w in WORDS], scope=ALICE
        )
        said = [Message(role=Role.USER, text=f"I saw a {w} today", id=w) for w in WORDS]
        memory.sessions.append(said, scope=SESSION)
        memory.documents(scope=ALICE, embedding_model="theirs").put(WORDS, vectors=np.eye(8))
        assert memory.flush()
    return tmp_path / "m.db"


def change(path, *statements):
    """Damage the closed file behind memkit's back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        assert connection.execute(statement).rowcount != 0
    connection.commit()
    connection.close()


def answers(memory):
    """What every way of finding something finds."""
    found = []
    for word in WORDS:
        for ranking in (DENSE, Ranking(dense=0.0)):
            hits = memory.recall(word, scope=ALICE, ranking=ranking, include_messages=True, top_k=3)
            found.append([(hit.record.space, hit.record.id) for hit in hits])
        found.append([record.id for record in memory.list_records(scope=ALICE, tags=[word])])
        session = memory.sessions.get(scope=SESSION)
        found.append(session.messages)
    notes = memory.documents(scope=ALICE, embedding_model="theirs")
    found.append([[hit.record.content for hit in notes.search(vector=row, top_k=1)] for row in np.eye(8)])
    return found


DAMAGES = {
    "tags lost": ("tags", ["DELETE FROM record_tags WHERE tag = 'hobby'"]),
    "tags too many": ("tags", ["INSERT INTO record_tags SELECT scope_id, 'piano', seq FROM records WHERE id = 'ocean'"]),
    "tags of no record": ("tags", ["INSERT INTO record_tags VALUES (1, 'piano', 9999)"]),
    "keyword rows lost": ("keywords", ["DELETE FROM postings WHERE seq % 3 = 0"]),
    "keyword rows too many": ("keywords", ["INSERT INTO postings SELECT partition_id, 77, seq, 1, 1 FROM postings GROUP BY seq"]),
    "keyword counts": ("keywords", ["UPDATE postings SET count = count + 5 WHERE seq % 2 = 0"]),
    "statistics": ("keywords", ["UPDATE partitions SET documents = 1, terms = 3"]),
    "vectors lost": ("unembedded", ["DELETE FROM vectors WHERE seq IN (SELECT seq FROM records WHERE space = 'memories')"]),
    "vectors cut off": ("vectors", ["UPDATE vectors SET vector = substr(vector, 1, 40) WHERE seq IN (SELECT seq FROM records WHERE id = 'piano' AND space = 'memories')"]),
    "vectors of no record": ("vectors", ["INSERT INTO vectors SELECT vector_space_id, 9999, vector FROM vectors LIMIT 1"]),
    "changes of no record": ("outbox", ["INSERT INTO outbox(point_id, seq, owner, space, scope, enqueued_at) VALUES (x'00112233445566778899aabbccddeeff', 9999, x'00', 'memories', x'00', 0)"]),
    "session counters": ("sessions", ["UPDATE sessions SET messages = 99, next_position = 1"]),
    "turns of no message": ("turns", ["DELETE FROM messages WHERE id = 'ocean'", "UPDATE sessions SET messages = messages - 1"]),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_the_file(path, embedder, damage):
    """Each kind of damage is found, told without being touched by `verify`, and mended by `repair`."""
    kind, statements = DAMAGES[damage]
    with Memory.open(path, embedder=embedder) as memory:
        assert not memory.upkeep.verify()
        before = answers(memory)
    change(path, *statements)
    # Without a memory: its worker would mend some of it between two looks.
    store = SQLiteStore(path)
    found = store.verify()
    assert kind in {problem.kind for problem in found}
    assert store.verify() == found
    assert store.repair() == [dataclasses.replace(problem, mended=True) for problem in found]
    assert store.verify() == []
    store.close()
    with Memory.open(path, embedder=embedder) as memory:
        assert memory.upkeep.repair().whole
        assert memory.flush()
        assert not memory.upkeep.verify()
        if kind != "turns":
            assert answers(memory) == before
        else:
            assert "ocean" not in {r.id for r in memory.list_records(scope=SESSION, space="messages")}


def test_what_cannot_be_mended_is_not_called_mended(path):
    """A scope that is not what its digest says is told by `repair` as by `verify`, with the way out."""
    change(path, "UPDATE scopes SET digest = zeroblob(16) WHERE id = (SELECT max(id) FROM scopes)")
    store = SQLiteStore(path)
    (found,) = store.verify()
    assert (found.kind, found.mended) == ("scopes", False)
    assert "export" in found.detail
    assert store.repair() == store.verify() == [found]
    store.close()


def test_damage_in_the_index(path, embedder):
    """Points that are missing, too many or wrong are found and mended, with no embedding call."""
    with Memory.open(path, embedder=embedder) as memory:
        before = answers(memory)
    calls = embedder.texts
    folders = [folder for folder in path.with_name("m.db.index").iterdir() if folder.is_dir()]
    assert len(folders) == 2
    with Memory.open(path, embedder=embedder) as memory:
        held = memory._indexers.own.held()
        held.delete([point_id(ALICE, "memories", "piano")])
        given = memory.documents(scope=ALICE, embedding_model="theirs")
        (space,) = memory._store.given_spaces()
        memory._indexers.given(space).held().clear()
        assert given.search(vector=np.eye(8)[0]).hits == ()
        found = memory.upkeep.verify()
        assert sorted((problem.kind, problem.count) for problem in found) == [("index", 1), ("index", 8)]
        assert memory.upkeep.repair().whole
        assert not memory.upkeep.verify()
        assert answers(memory) == before
        assert memory.upkeep.reindex() == 24
        assert answers(memory) == before
    assert embedder.texts == calls


@pytest.mark.parametrize(("look", "when"), [("get", "before"), ("count", "before"), ("count", "after")])
def test_what_is_indexed_meanwhile_is_no_damage(path, embedder, monkeypatch, look, when):
    """Changes that reach the index while `verify` compares it, in whatever moment, are never told as damage."""
    with Memory.open(path, embedder=embedder) as memory:
        if when == "after":
            # Not through the memory, whose worker would confirm it before it is looked at.
            memory._store.records.delete(ALICE, "memories", WORDS)

        def work():
            if when == "before":
                memory.update("piano", scope=ALICE, content="Alice sold the piano")
                memory.add("a harp", scope=ALICE)
            assert memory.flush()

        working = threading.Thread(target=work)

        def looked(index, *given):
            seen = looks(index, *given)
            if index is own and working.ident is None:
                working.start()
                # Long enough for what may be done while the index is looked at; what may not waits.
                working.join(0.3)
            return looks(index, *given) if when == "before" else seen

        own, looks = memory._indexers.own.held(), getattr(EdgeIndex, look)
        monkeypatch.setattr(EdgeIndex, look, looked)
        assert not memory.upkeep.verify()
        assert working.ident is not None
        working.join()
        assert not memory.upkeep.verify()


def test_without_the_index(path, embedder):
    """Where another holds the index, `verify` says what it could not look at, `reindex` is a typed error."""
    with Memory.open(path, embedder=embedder) as memory:
        assert memory.capabilities.index
        with Memory.open(path, embedder=Counting(), config=Config(busy_timeout=1.0)) as other:
            assert not other.capabilities.index
            findings = other.upkeep.verify()
            assert findings.whole
            assert findings.unchecked == ("counting", "theirs")
            with pytest.raises(BackendUnavailableError, match="with other settings, holds the index"):
                other.upkeep.reindex()


def test_a_file_that_is_damaged_itself(path, embedder):
    """Damage of SQLite's own pages cannot be mended: it is told, and nothing is touched."""
    connection = sqlite3.connect(path)
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'postings'")
    ((size,),) = connection.execute("PRAGMA page_size")
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with Memory.open(path, embedder=embedder) as memory:
        findings = memory.upkeep.repair()
        assert [problem.kind for problem in findings] == ["file"]
        assert not findings.whole
        assert len(memory.list_records(scope=ALICE)) == len(WORDS)


def test_closed(path, embedder):
    """After `close` each verb raises."""
    memory = Memory.open(path, embedder=embedder)
    memory.close()
    for verb in (memory.upkeep.verify, memory.upkeep.repair, memory.upkeep.reindex):
        with pytest.raises(ClosedError):
            verb()


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "memkit_core.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_on_the_command_line(tmp_path):
    """`memkit repair` tells, mends, and says by its exit code whether all is well; `reindex` rebuilds."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        memory.add_many(WORDS, scope=ALICE)
    change(path, "DELETE FROM postings WHERE seq % 3 = 0")
    looked = run("repair", "--db", path, "--dry-run")
    assert (looked.returncode, "keywords" in looked.stdout) == (1, True)
    mended = run("repair", "--db", path, "--json")
    assert mended.returncode == 0
    (problem,) = json.loads(mended.stdout)["problems"]
    assert (problem["kind"], problem["mended"]) == ("keywords", True)
    assert run("repair", "--db", path).stderr.strip().endswith("all is well")
    shutil.rmtree(path.with_name("m.db.index"))
    assert json.loads(run("reindex", "--db", path, "--json").stdout) == {"points": 8}
    (folder,) = [folder for folder in path.with_name("m.db.index").iterdir() if folder.is_dir()]
    index = EdgeIndex(folder, 256)
    assert index.count() == 8
    index.close()
