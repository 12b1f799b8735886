"""A change of the embedding model in place: nothing is lost, nothing is mixed, and recall goes on."""

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import memkit_core
from memkit_core import AsyncMemory, Config, Memory, Message, Ranking, Scope
from memkit_core.documents import NewDocument
from memkit_core.errors import ConfigError, InvalidInputError, ModelError
from memkit_core.indexes.keeper import StoredKeeper, space_name
from memkit_core.indexing import Indexer
from memkit_core.ports import VectorSpace
from memkit_core.stores.sqlite import SQLiteStore

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
DENSE = Ranking(keyword=0.0)


class Letters:
    """Vectors are letter counts."""

    model = "letters"
    size = 26

    def __init__(self):
        self.seen = []
        self.calls = []
        self.fails = lambda _: False

    def embed_documents(self, texts):
        self.seen.extend(texts)
        self.calls.append(len(texts))
        if any(self.fails(text) for text in texts):
            raise RuntimeError("down")
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.lower().count(chr(97 + i % 26))) for i in range(self.size)]


class Pairs(Letters):
    """Another model, with vectors of another length."""

    model = "pairs"
    size = 40


class Reversed(Letters):
    """Another model with vectors of the same length, which only its name tells from those of `Letters`."""

    model = "reversed"

    def embed_query(self, text):
        return super().embed_query(text)[::-1]


def text(name, i):
    return f"{name} likes {chr(97 + i) * 9}"


def filled(memory, count=24):
    for scope in (ALICE, BOB):
        memory.add_many([text(scope.id, i) for i in range(count)], scope=scope)
    memory.flush()


def dense(memory, query, scope=ALICE):
    return memory.recall(query, scope=scope, ranking=DENSE)


@pytest.mark.parametrize("new", [Pairs, Reversed])
def test_the_new_model_takes_over(tmp_path, new):
    """After `reembed` the same memory answers with the new model, every record once, none missing."""
    path = tmp_path / "m.db"
    with Memory.open(path, embedder=Letters()) as memory:
        filled(memory)
        before = memory.list_records(scope=ALICE, limit=100).records
        embedder, told = new(), []
        report = memory.upkeep.reembed(embedder, progress=lambda done, total: told.append((done, total)))
        assert (report.model, report.dimension, report.records) == (new.model, new.size, 48)
        assert (report.embedded, report.waiting) == (48, 0)
        assert told[0] == (0, 48)
        assert told[-1] == (48, 48)
        assert memory.list_records(scope=ALICE, limit=100).records == before
        assert memory.capabilities.embedding_model == new.model
        assert memory.capabilities.dense
        result = dense(memory, text("alice", 2))
        assert result.missing == frozenset()
        assert result[0].record.content == text("alice", 2)
        assert result[0].signals.similarity == pytest.approx(1.0, abs=1e-3)
        memory.add("zzz zzz", scope=ALICE)
        assert dense(memory, "zzz zzz")[0].record.content == "zzz zzz"
        assert memory.flush()
        assert memory.upkeep.verify().whole
        assert len(memory.upkeep.verify()) == 0
    with pytest.raises(ConfigError, match="memkit reembed"):
        Memory.open(path, embedder=Letters())
    with Memory.open(path, embedder=new()) as memory:
        assert dense(memory, text("alice", 2))[0].record.content == text("alice", 2)
        assert memory.upkeep.verify().problems == ()


class Paused(Pairs):
    """Waits, once it has embedded `after` texts, until it is told to go on."""

    def __init__(self, after):
        super().__init__()
        self.after = after
        self.reached, self.go_on = threading.Event(), threading.Event()

    def embed_documents(self, texts):
        if len(self.seen) >= self.after:
            self.reached.set()
            assert self.go_on.wait(60)
        return super().embed_documents(texts)


def test_the_old_model_serves_until_the_switch(tmp_path):
    """While it runs recall answers with the old model, writes go on, and none of them is left behind."""
    new = Paused(after=20)
    with Memory.open(tmp_path / "m.db", embedder=Letters(), config=Config(embed_batch=10)) as memory:
        filled(memory)
        changed, gone = memory.list_records(scope=ALICE, order="created_at", limit=100).records[:2]
        run = threading.Thread(target=memory.upkeep.reembed, args=(new,))
        run.start()
        assert new.reached.wait(60)
        memory.add("yyy yyy yyy", scope=ALICE)
        memory.update(changed.id, scope=ALICE, content="zzz zzz zzz")
        first = memory.list_records(scope=BOB, limit=100).records[-1]
        memory.update(first.id, scope=BOB, content="xxx xxx xxx")
        memory.delete(gone.id, scope=ALICE)
        memory.add_many(["w" * n for n in range(1, 40)], scope=BOB)
        for words, scope in (("yyy yyy yyy", ALICE), ("zzz zzz zzz", ALICE), ("xxx xxx xxx", BOB)):
            result = dense(memory, words, scope)
            assert result.missing == frozenset()
            assert result[0].record.content == words
            assert result[0].signals.similarity == pytest.approx(1.0, abs=1e-3)
        assert memory.capabilities.embedding_model == "letters"
        new.go_on.set()
        run.join(60)
        assert memory.capabilities.embedding_model == "pairs"
        assert memory.flush()
        for words, scope in (("yyy yyy yyy", ALICE), ("zzz zzz zzz", ALICE), ("xxx xxx xxx", BOB)):
            result = dense(memory, words, scope)
            assert result.missing == frozenset()
            assert result[0].record.content == words
        assert gone.id not in [hit.record.id for hit in dense(memory, gone.content)]
        assert memory.upkeep.verify().problems == ()
        assert max(new.calls) <= 10


def test_recall_never_stops_nor_mixes(tmp_path):
    """Threads that recall all the while always get the record itself first, with the cosine of one model."""
    wrong, asked, ended = [], [], threading.Event()

    def ask(memory):
        i = 0
        while not ended.is_set():
            i = (i + 1) % 24
            result = dense(memory, text("alice", i))
            hit = result[0] if result else None
            asked.append(i)
            if (
                "dense" in result.missing
                or hit.record.content != text("alice", i)
                or hit.signals.similarity < 0.999
            ):
                wrong.append((i, result.missing, hit))

    with Memory.open(tmp_path / "m.db", embedder=Letters(), config=Config(embed_batch=5)) as memory:
        filled(memory)
        threads = [threading.Thread(target=ask, args=(memory,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for new in (Reversed(), Letters(), Pairs(), Reversed()):
            memory.upkeep.reembed(new)
        ended.set()
        for thread in threads:
            thread.join(60)
        assert asked
        assert wrong == []


def test_a_run_that_failed_goes_on_where_it_stopped(tmp_path):
    """A model that fails half-way leaves the old one in use; the same call again embeds only the rest."""
    path = tmp_path / "m.db"
    with Memory.open(path, embedder=Letters(), config=Config(embed_batch=8)) as memory:
        filled(memory)
        half = Pairs()
        half.fails = lambda _: len(half.seen) > 24
        with pytest.raises(ModelError, match="down"):
            memory.upkeep.reembed(half)
        assert memory.capabilities.embedding_model == "letters"
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
        assert memory.upkeep.verify().problems == ()
    with Memory.open(path, embedder="none", config=Config(embed_batch=8)) as memory:
        rest = Pairs()
        assert memory.upkeep.reembed(rest).embedded == 24
        assert len(rest.seen) == len(set(rest.seen)) == 24
        assert dense(memory, text("alice", 3))[0].record.content == text("alice", 3)
        # Done already: nothing is embedded again.
        assert memory.upkeep.reembed(rest).embedded == 0
        assert len(rest.seen) == 24


def test_a_run_is_given_up_for_another_model(tmp_path):
    """Another model, or the one in use, ends what another run had begun, and nothing of it is left."""
    with Memory.open(tmp_path / "m.db", embedder=Letters(), config=Config(embed_batch=8)) as memory:
        filled(memory)
        for other in (Letters(), Reversed()):
            half = Pairs()
            half.fails = lambda _, half=half: len(half.seen) > 24
            with pytest.raises(ModelError):
                memory.upkeep.reembed(half)
            memory.upkeep.reembed(other)
            assert memory.capabilities.embedding_model == other.model
            assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
            assert _stored(memory) == (48, 1)


def _stored(memory):
    """How many vectors the file holds, and of how many spaces."""
    with memory._store._store._database.connection() as connection:
        (vectors,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
        (spaces,) = connection.execute("SELECT count(*) FROM vector_spaces").fetchone()
    return vectors, spaces


def test_nothing_of_the_old_model_is_left(tmp_path):
    """After the switch the vectors and the index of the old model are deleted, also after a kill in between."""
    path = tmp_path / "m.db"
    home = tmp_path / "m.db.index"
    with Memory.open(path, embedder=Letters()) as memory:
        filled(memory)
        old = memory._store.vectors.space()
        assert (home / space_name(old)).is_dir()
        memory.upkeep.reembed(Pairs())
        new = memory._store.vectors.space()
        assert _stored(memory) == (48, 1)
        assert sorted(one.name for one in home.iterdir()) == [space_name(new), f"{space_name(new)}.json"]
    store = SQLiteStore(path)
    again = VectorSpace(model="reversed", revision="", dimension=26)
    store.spaces.begin(again)
    rows = store.spaces.waiting(again, after=0, limit=100)
    store.spaces.keep(again, rows, np.ones((len(rows), 26), np.float32))
    store.spaces.switch(again)
    store.close()
    with Memory.open(path, embedder="none") as memory:
        assert memory.upkeep.verify().problems == ()
        memory.flush()
        assert _stored(memory) == (48, 1)
        assert not (home / space_name(new)).exists()


@pytest.mark.parametrize("new", [Pairs, Reversed])
def test_a_memory_with_the_old_model_answers_by_words(tmp_path, new):
    """Who has it open with the old model gets words and is told so, never wrong vectors; its writes wait."""
    path = tmp_path / "m.db"
    with (
        Memory.open(path, embedder=Letters()) as memory,
        Memory.open(path, embedder=Letters(), config=Config(candidates=99, outbox_seconds=60)) as other,
    ):
        filled(memory)
        documents = other.documents("notes", scope=ALICE)
        documents.put(["aaa bbb"])
        for _ in range(3):
            assert other.recall("alice likes ccccccccc", scope=ALICE)[0].signals.similarity > 0.99
        memory.upkeep.reembed(new())
        for where in (None, {"importance": {"gte": 0.0}}):
            result = other.recall(text("alice", 2), scope=ALICE, filters=where)
            assert "dense" in result.missing
            assert result[0].record.content == text("alice", 2)
            assert all(hit.signals.similarity is None for hit in result)
            assert dense(other, text("alice", 2)).hits == ()
        found = documents.search("aaa")
        assert "dense" in found.missing
        assert [hit.record.content for hit in found] == ["aaa bbb"]
        assert not other.capabilities.dense
        other.add("qqq qqq", scope=ALICE)
        other.add_many(["qqq rrr"] * 2, scope=BOB)
        assert other.recall("qqq", scope=ALICE)[0].record.content == "qqq qqq"
        other.flush()
        assert memory.flush()
        assert dense(memory, "qqq qqq")[0].record.content == "qqq qqq"
        assert memory.upkeep.verify().problems == ()


def test_those_who_share_it_go_on(tmp_path):
    """A memory of this process with the same settings goes on with the new model, its collections too."""
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="wordllama") as memory, Memory.open(path, embedder="wordllama") as other:
        memory.add("The cat sleeps on the mat.", scope=ALICE)
        notes = other.documents("notes", scope=ALICE)
        notes.put(["A dog barks at night."])
        memory.upkeep.reembed(Letters())
        for one in (memory, other):
            assert one.capabilities.embedding_model == "letters"
            assert dense(one, "cat")[0].record.content == "The cat sleeps on the mat."
        assert notes.search("dog").missing == frozenset()
        assert notes.search("dog")[0].signals.similarity is not None
        with Memory.open(path, embedder=Letters()) as third:
            assert third.capabilities.index
        memory.upkeep.reembed("wordllama")
        assert dense(other, "cat")[0].record.content == "The cat sleeps on the mat."
        assert memory.upkeep.verify().problems == ()
        assert dense(pickle.loads(pickle.dumps(memory)), "cat")


def test_given_vectors_are_not_touched(tmp_path):
    """A collection whose texts came with vectors keeps these, bit for bit, and is searched with them."""
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        filled(memory)
        own = memory.documents("own", scope=ALICE)
        own.put([NewDocument(content="aaa bbb", id="1")])
        given = memory.documents("given", scope=ALICE, embedding_model="theirs")
        given.put([NewDocument(content="a text", id="1")], vectors=[[1.0, 2.0, 3.0]])
        embedded = memory.documents("embedded", scope=ALICE, embedder=Reversed())
        embedded.put([NewDocument(content="ccc ddd", id="1")])
        before = embedded.vectors(["1"])["1"].tolist()
        memory.upkeep.reembed(Pairs())
        assert given.vectors(["1"])["1"].tolist() == [1.0, 2.0, 3.0]
        assert embedded.vectors(["1"])["1"].tolist() == before
        assert given.search(vector=[1.0, 2.0, 3.0])[0].score == pytest.approx(1.0)
        assert embedded.search("ccc ddd")[0].score == pytest.approx(1.0)
        assert own.search("aaa bbb")[0].score == pytest.approx(1.0)
        assert len(own.vectors(["1"])["1"]) == Pairs.size
        assert memory.upkeep.verify().problems == ()


def test_a_text_that_cannot_be_embedded_holds_nothing_up(tmp_path):
    """A text that the new model refuses waits in the outbox like any other; the rest is switched."""
    new = Pairs()
    new.fails = lambda words: "#" in words
    with Memory.open(tmp_path / "m.db", embedder=Letters(), config=Config(embed_batch=8)) as memory:
        filled(memory)
        memory.add("# qqq qqq", scope=ALICE)
        report = memory.upkeep.reembed(new)
        assert (report.embedded, report.waiting) == (48, 1)
        by_words = memory.recall("qqq", scope=ALICE, ranking=Ranking(dense=0.0, related=0.0))
        assert [hit.record.content for hit in by_words] == ["# qqq qqq"]
        assert "dense" in memory.recall("qqq", scope=ALICE).missing
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
        new.fails = lambda _: False
        assert memory.flush()
        assert dense(memory, "# qqq qqq")[0].record.content == "# qqq qqq"


@pytest.mark.parametrize("path", [":memory:", "m.db"])
def test_a_memory_without_records_changes_too(tmp_path, path):
    """An empty memory, and one that keeps no file, take another model as well."""
    place = path if path == ":memory:" else tmp_path / path
    with Memory.open(place, embedder=Letters()) as memory:
        assert memory.upkeep.reembed(Pairs()).records == 0
        filled(memory)
        assert memory.upkeep.reembed(Reversed()).embedded == 48
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
        assert memory.flush()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"embedder": "none"}, ConfigError),
        ({"embedder": "no-such:model"}, ConfigError),
        ({"embedder": 7}, ConfigError),
        ({"embedder": Pairs(), "progress": 7}, InvalidInputError),
        ({"embedder": "wordllama", "embedding_model": "x"}, ConfigError),
    ],
)
def test_bad_input_changes_nothing(tmp_path, call, error):
    """What is no model to embed with is refused, and nothing is begun."""
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        filled(memory)
        with pytest.raises(error):
            memory.upkeep.reembed(**call)
        assert _stored(memory) == (48, 1)
        assert memory.capabilities.embedding_model == "letters"


def test_in_the_background(tmp_path):
    """With `Config(reembed="background")` another model is opened at once and takes over when it is complete."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        filled(memory)
    new, config = Paused(after=10), Config(reembed="background", embed_batch=10)
    with Memory.open(path, embedder=new, config=config) as memory:
        assert new.reached.wait(60)
        # The built-in model is known by its name, and serves.
        assert memory.capabilities.embedding_model.startswith("wordllama")
        assert dense(memory, text("alice", 2)).missing == frozenset()
        memory.add("zzz zzz", scope=ALICE)
        with Memory.open(path, embedder=Pairs(), config=config) as other:
            assert dense(other, "zzz zzz")[0].record.content == "zzz zzz"
            new.go_on.set()
            _wait_for(lambda: memory.capabilities.embedding_model == "pairs")
            for one in (memory, other):
                assert dense(one, "zzz zzz")[0].record.content == "zzz zzz"
                assert dense(one, text("alice", 2)).missing == frozenset()
        assert memory.flush()
        assert memory.upkeep.verify().problems == ()
    # A model that only its owner can make: words serve until then.
    with Memory.open(path, embedder=Reversed(), config=config) as memory:
        assert memory.recall(text("bob", 3), scope=BOB)[0].record.content == text("bob", 3)
        _wait_for(lambda: memory.capabilities.embedding_model == "reversed")
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
    with pytest.raises(ConfigError, match="reembed must be"):
        Config(reembed="sometimes")


def test_a_memory_that_is_closed_meanwhile(tmp_path):
    """Closing ends a change in the background; the next opening goes on with it."""
    path, config = tmp_path / "m.db", Config(reembed="background", embed_batch=10)
    with Memory.open(path, embedder=Letters()) as memory:
        filled(memory)
    half = Paused(after=20)
    with Memory.open(path, embedder=half, config=config):
        assert half.reached.wait(60)
    half.go_on.set()
    with Memory.open(path, embedder=Letters()) as memory:
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)
    new = Pairs()
    with Memory.open(path, embedder=new, config=config) as memory:
        _wait_for(lambda: memory.capabilities.embedding_model == "pairs")
        assert memory.flush()
        assert len([one for one in new.seen if " " in one]) <= 28
        assert dense(memory, text("bob", 3), BOB)[0].record.content == text("bob", 3)


def _wait_for(condition):
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_writes_while_the_index_is_built(tmp_path, monkeypatch):
    """What is written and deleted once the new index is built comes into it by the outbox, without a rebuild."""
    prepare, build, builds = Indexer.prepare, StoredKeeper._built, []

    def meanwhile(self, source):
        built = prepare(self, source)
        memory.add("zzz zzz", scope=ALICE)
        memory.delete(gone.id, scope=ALICE)
        memory.flush()
        return built

    def counted(self, space, source):
        builds.append(space.model)
        return build(self, space, source)

    monkeypatch.setattr(Indexer, "prepare", meanwhile)
    monkeypatch.setattr(StoredKeeper, "_built", counted)
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        filled(memory)
        gone = memory.list_records(scope=ALICE).records[0]
        memory.upkeep.reembed(Pairs())
        assert memory.flush()
        assert memory.upkeep.verify().problems == ()
        assert dense(memory, "zzz zzz")[0].record.content == "zzz zzz"
    assert builds == ["letters", "pairs"]


def test_a_change_that_no_index_sees_is_caught_up_with(tmp_path, caplog):
    """A record that changes while its vector is made, even in what no index knows, is in the new index too."""

    class Meddling(Pairs):
        def embed_documents(self, texts):
            vectors = super().embed_documents(texts)
            if text("alice", 2) in texts and self.seen.count(text("alice", 2)) < 3:
                memory.update(changed, scope=ALICE, metadata={"n": len(self.seen)})
            return vectors

    new = Meddling()
    with Memory.open(tmp_path / "m.db", embedder=Letters(), config=Config(embedding_cache=0)) as memory:
        filled(memory)
        changed = next(r.id for r in memory.list_records(scope=ALICE) if r.content == text("alice", 2))
        assert memory.upkeep.reembed(new).waiting == 0
        assert new.seen.count(text("alice", 2)) == 3
        assert memory.flush()
        assert memory.upkeep.verify().problems == ()
        assert dense(memory, text("alice", 2))[0].record.id == changed
    assert "rebuilt" not in caplog.text


def test_saying_it_again_meanwhile(tmp_path):
    """B58: the same fact said again before, while and after the model changes is one record that counts them."""

    class Repeating(Pairs):
        def embed_documents(self, texts):
            memory.add("mia lives in  DENVER", scope=ALICE)
            return super().embed_documents(texts)

    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        memory.add("Mia lives in Denver.", scope=ALICE)
        memory.add("Mia lives in Denver.", scope=BOB)
        memory.upkeep.reembed(Repeating())
        memory.add("Mia lives in Denver!", scope=ALICE)
        (record,) = memory.list_records(scope=ALICE)
        assert record.content == "Mia lives in Denver."
        assert record.mentions > 2
        assert memory.list_records(scope=BOB).records[0].mentions == 1
        assert [hit.record.id for hit in dense(memory, "Mia lives in Denver.")] == [record.id]
        assert memory.flush()
        assert memory.upkeep.verify().problems == ()


def test_moving_between_models(tmp_path):
    """B72: an export of the old model comes into the changed store, and back, with all but the vectors as it was."""
    old_file, new_file = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as memory:
        filled(memory)
        memory.sessions.append([Message(role="user", text="ooo ppp")], scope=Scope.session("s", user=ALICE))
        memory.flush()
        memory.export_jsonl(old_file, everything=True)
        memory.upkeep.reembed(Pairs())
        # The same rows again: nothing is added, and no old vector comes in.
        assert not memory.import_jsonl(old_file).changed
        memory.export_jsonl(new_file, everything=True)
        assert memory.upkeep.verify().problems == ()
    embedder = Pairs()
    with Memory.open(tmp_path / "other.db", embedder=embedder) as other:
        other.import_jsonl(new_file)
        assert other.flush()
        assert not any("likes" in one for one in embedder.seen)
        assert dense(other, text("bob", 3), BOB)[0].record.content == text("bob", 3)
    with Memory.open(tmp_path / "third.db", embedder=Pairs()) as third:
        # What the old model made is embedded anew.
        assert third.import_jsonl(old_file).reembedded == 49
        assert third.flush()
        assert dense(third, text("bob", 3), BOB)[0].record.content == text("bob", 3)


def test_from_the_command_line(tmp_path):
    """`memkit reembed` changes a file whose model it does not know, and says what is no model."""
    path = tmp_path / "m.db"
    with Memory.open(path, embedder=Letters()) as memory:
        filled(memory)

    def memkit(*arguments):
        home = str(Path(memkit_core.__file__).parents[1])
        return subprocess.run(
            [sys.executable, "-m", "memkit_core.cli", *arguments, "--db", str(path)],
            env=os.environ | {"PYTHONPATH": home},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    wrong = memkit("reembed", "--embedder", "none")
    assert wrong.returncode == 1
    assert "name the new model" in wrong.stderr
    done = memkit("reembed", "--embedder", "wordllama", "--json")
    assert json.loads(done.stdout) == {
        "report": {
            "model": "wordllama/l2_supercat_256",
            "dimension": 256,
            "records": 48,
            "embedded": 48,
            "waiting": 0,
        },
        "outbox": 0,
        "without_vectors": 0,
        "no_index": None,
    }
    again = memkit("reembed", "--embedder", "wordllama")
    assert again.returncode == 0
    assert "48 records have vectors of wordllama" in again.stderr
    with Memory.open(path) as memory:
        assert dense(memory, "alice likes")
        assert memory.upkeep.verify().problems == ()


async def test_awaited(tmp_path):
    """`AsyncMemory.upkeep.reembed` is the same, awaited."""
    memory = await AsyncMemory.open(tmp_path / "m.db", embedder=Letters())
    await memory.add("aaa bbb", scope=ALICE)
    report = await memory.upkeep.reembed(Pairs())
    assert (report.model, report.embedded) == ("pairs", 1)
    assert (await memory.recall("aaa bbb", scope=ALICE))[0].record.content == "aaa bbb"
    await memory.close()
