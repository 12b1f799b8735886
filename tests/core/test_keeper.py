"""`EdgeKeeper`: an index is compared with its store before it is believed, and rebuilt without embedding."""

import json
import os
import random
import shutil

import numpy as np
import pytest

from memkit_core import Config, Memory, NewMemory, Ranking, Scope
from memkit_core.embedders.wordllama import WordLlamaEmbedder
from memkit_core.errors import BackendError, BackendUnavailableError
from memkit_core.indexes.edge_keeper import EdgeKeeper
from memkit_core.indexes.keeper import FlatKeeper
from memkit_core.models import Target
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import NOW, SPACE, confirm_all, due, embed_all, record

ALICE = Scope.user("alice")
MINE = Target(scope=ALICE)
QUERY = np.ones(8, np.float32)
WORDS = (
    *("garden", "bicycle", "vegetarian", "piano", "ocean"),
    *("contract", "keyboard", "mountain", "winter", "river"),
)
QUESTIONS = ("music", "cold season", "something to ride")
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
    """The file of a closed memory with thirty indexed facts."""
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        facts = [f"Alice likes the {a} and the {b}" for a, b in zip(WORDS * 3, WORDS[1:] * 3, strict=False)]
        memory.add_many([NewMemory(content=text, id=str(i)) for i, text in enumerate(facts)], scope=ALICE)
        assert memory.flush()
        assert memory.capabilities.index
    return tmp_path / "m.db"


def answers(memory, *, missing=frozenset()):
    """What dense recall finds, with its similarities; no leg but `missing` may have been missing."""
    found = []
    for question in QUESTIONS:
        hits = memory.recall(question, scope=ALICE, ranking=DENSE, now=NOW)
        assert hits.missing <= missing
        found += [(hit.record.content, round(hit.signals.similarity, 5)) for hit in hits]
    return found


def exact(path, embedder):
    """What dense recall finds with no index at all: the exact scan of the stored vectors."""
    with Memory.open(path, embedder=embedder, config=Config(disk_reserve=2**62)) as memory:
        found = []
        for question in QUESTIONS:
            hits = memory.recall(question, scope=ALICE, ranking=DENSE, now=NOW)
            assert hits.missing == {"index"}
            found += [(hit.record.content, round(hit.signals.similarity, 5)) for hit in hits]
        return found


def home_of(path):
    return path.with_name(path.name + ".index")


def folder_of(path):
    (folder,) = [one for one in home_of(path).iterdir() if one.is_dir()]
    return folder


def manifest_of(path):
    return folder_of(path).with_suffix(".json")


def every(path, pattern):
    files = [one for one in folder_of(path).rglob(pattern) if one.is_file()]
    assert files, f"the engine keeps no file {pattern} any more"
    return files


def overwrite(file, size=200_000):
    """Noise over the beginning of a file, in place."""
    with file.open("r+b") as opened:
        opened.write(random.Random(file.name).randbytes(min(size, file.stat().st_size)))


def truncated(pattern, part):
    return lambda path: [os.truncate(one, int(one.stat().st_size * part)) for one in every(path, pattern)]


def noise(pattern):
    return lambda path: [overwrite(one) for one in every(path, pattern)]


def deleted(pattern):
    return lambda path: [one.unlink() for one in every(path, pattern)]


def emptied(path):
    folder = folder_of(path)
    shutil.rmtree(folder)
    folder.mkdir()


def replaced_by_a_file(path):
    folder = folder_of(path)
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def edited_manifest(**changes):
    def edit(path):
        manifest = manifest_of(path)
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))

    return edit


DAMAGES = {
    "vectors truncated": truncated("chunk_0.mmap", 0),
    "vectors halved": truncated("chunk_0.mmap", 0.0001),
    "vectors noise": noise("chunk_0.mmap"),
    "vectors deleted": deleted("chunk_0.mmap"),
    "vector status deleted": deleted("vectors/status.dat"),
    "deleted flags noise": noise("vector_storage-dense/deleted/flags_a.dat"),
    "payloads noise": noise("payload_storage/*.dat"),
    "payload index noise": noise("payload_index/*/*.dat"),
    "payload index deleted": deleted("payload_index/*/*.dat"),
    "ids truncated": truncated("mutable_id_tracker.mappings", 0.5),
    "ids noise": noise("mutable_id_tracker.mappings"),
    "versions deleted": deleted("mutable_id_tracker.versions"),
    "segment noise": noise("segment.json"),
    "log truncated": truncated("wal/*", 0),
    "log noise": noise("wal/*"),
    "configuration truncated": truncated("edge_config.json", 0.5),
    "everything truncated": truncated("*", 0),
    "segments deleted": lambda path: shutil.rmtree(folder_of(path) / "segments"),
    "folder deleted": lambda path: shutil.rmtree(folder_of(path)),
    "folder emptied": emptied,
    "a file in its place": replaced_by_a_file,
    "home deleted": lambda path: shutil.rmtree(home_of(path)),
    "manifest deleted": lambda path: manifest_of(path).unlink(),
    "manifest garbage": lambda path: manifest_of(path).write_bytes(b"\xff{]"),
    "manifest of another store": edited_manifest(store="other"),
    "manifest of another format": edited_manifest(format=99),
    "manifest of another time": edited_manifest(synced_through=1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_index_is_rebuilt_without_embedding(path, embedder, damage):
    """Whatever happened to the folder: no embedding call, no error, and recall as if nothing had.

    Damage that shows only in use is answered by the exact scan, flagged, and gone with the next recall.
    """
    expected = exact(path, embedder)
    texts = embedder.texts
    damage(path)
    for _ in range(2):
        with Memory.open(path, embedder=embedder) as memory:
            assert answers(memory, missing={"index"}) == expected
            assert answers(memory) == expected
            assert memory.capabilities.index
            memory.add("Alice likes the trumpet", scope=ALICE, id="new")
            assert memory.recall("trumpet", scope=ALICE, ranking=DENSE)[0].record.id == "new"
            assert memory.delete("new", scope=ALICE).records == 1
            assert memory.flush()
        assert not [one for one in home_of(path).glob("*.aside") if one.is_dir()]
    assert embedder.texts - texts <= 2


def test_an_untouched_index_is_believed(path, embedder, caplog):
    """A folder that fits its store is opened as it is."""
    inode = folder_of(path).stat().st_ino
    with Memory.open(path, embedder=embedder) as memory:
        assert answers(memory)
    assert folder_of(path).stat().st_ino == inode
    assert caplog.records == []


def test_the_folder_of_another_store_is_not_believed(path, embedder, tmp_path):
    """Another store's index in the folder's place is rebuilt: none of its points is found or counted."""
    other = tmp_path / "other" / "m.db"
    other.parent.mkdir()
    with Memory.open(other, embedder=embedder) as memory:
        memory.add_many([f"Mallory likes the {word}" for word in WORDS * 3], scope=ALICE)
        assert memory.flush()
    expected = exact(path, embedder)
    shutil.rmtree(home_of(path))
    shutil.copytree(home_of(other), home_of(path))
    texts = embedder.texts
    with Memory.open(path, embedder=embedder) as memory:
        assert answers(memory) == expected
    assert embedder.texts == texts


def test_an_older_copy_of_the_folder_is_not_believed(path, embedder, tmp_path):
    """A folder from before the last changes, with its own manifest, is rebuilt to what the store holds."""
    shutil.copytree(home_of(path), tmp_path / "older")
    with Memory.open(path, embedder=embedder) as memory:
        memory.delete("3", scope=ALICE)
        memory.add("Alice likes the trumpet", scope=ALICE, id="new")
        memory.add("Alice likes the cello", scope=ALICE, id="4")
        assert memory.flush()
    expected = exact(path, embedder)
    shutil.rmtree(home_of(path))
    shutil.copytree(tmp_path / "older", home_of(path))
    texts = embedder.texts
    with Memory.open(path, embedder=embedder) as memory:
        assert answers(memory) == expected
        assert memory.recall("trumpet", scope=ALICE, ranking=DENSE)[0].record.id == "new"
    assert embedder.texts == texts


def test_without_room_the_index_waits(path, embedder):
    """Below the reserve nothing is written to the index, since a full disk kills the process inside it."""
    with Memory.open(path, embedder=embedder, config=Config(disk_reserve=2**62)) as memory:
        assert not memory.capabilities.index
        memory.add("Alice likes the trumpet", scope=ALICE, id="new")
        hits = memory.recall("trumpet", scope=ALICE)
        assert hits[0].record.id == "new"
        assert hits.missing == {"index"}
        assert memory.capabilities.outbox.length == 1
    with Memory.open(path, embedder=embedder) as memory:
        assert memory.flush()
        hits = memory.recall("trumpet", scope=ALICE)
        assert (hits[0].record.id, hits.missing) == ("new", frozenset())


def test_a_change_is_confirmed_only_after_a_flush(path, embedder):
    """The outbox keeps an entry until the index has flushed; the manifest then names the highest number."""
    with Memory.open(path, embedder=embedder) as memory:
        before = json.loads(manifest_of(path).read_text())["synced_through"]
        memory.add("Alice likes the trumpet", scope=ALICE)
        assert memory.capabilities.outbox.length == 1
        assert json.loads(manifest_of(path).read_text())["synced_through"] == before
        assert memory.flush()
        assert json.loads(manifest_of(path).read_text())["synced_through"] > before


class TestTheKeeperItself:
    @pytest.fixture
    def store(self, tmp_path):
        store = SQLiteStore(tmp_path / "memory.db")
        yield store
        store.close()

    @pytest.fixture
    def keeper(self, store):
        keeper = EdgeKeeper(store, store.path.with_name("home"), batch=7, disk_reserve=1)
        yield keeper
        keeper.close()

    def fill(self, store):
        store.records.put(ALICE, [record(ALICE, str(i), f"text {i}") for i in range(20)])
        embed_all(store)

    def test_before_the_first_vector_there_is_no_index(self, store, keeper):
        """There is no index before a vector space is known, and then it holds what the store holds."""
        assert keeper.index() is None
        self.fill(store)
        assert keeper.index().count() == 20
        assert keeper.index() is keeper.index()

    def test_distrust_rebuilds(self, store, keeper):
        """An index that failed in use is rebuilt from the store before it is handed out again."""
        self.fill(store)
        first = keeper.index()
        first.clear()
        keeper.distrust(keeper.index(), BackendError("broken", backend="qdrant-edge", operation="search"))
        again = keeper.index()
        assert again is not first
        assert again.count() == 20

    def test_rows_without_vectors_are_no_damage(self, store, keeper):
        """Unconfirmed, unembedded and empty rows do not make an index look out of step."""
        self.fill(store)
        assert keeper.index().count() == 20
        confirm_all(store)
        keeper.confirmed(keeper.index(), store.outbox.synced_through())
        keeper.close()
        store.records.put(ALICE, [record(ALICE, "late"), record(ALICE, "3", "another text")])
        folder = next(one for one in store.path.with_name("home").iterdir() if one.is_dir())
        inode = folder.stat().st_ino
        again = EdgeKeeper(store, store.path.with_name("home"), batch=7, disk_reserve=1)
        assert again.index().count() == 20
        assert folder.stat().st_ino == inode
        again.close()

    def test_equal_texts_are_no_damage(self, store, keeper):
        """Many rows with one and the same vector find each other, and that is in order."""
        store.records.put(ALICE, [record(ALICE, str(i), "the same text") for i in range(40)])
        embed_all(store)
        assert keeper.index().count() == 40
        confirm_all(store)
        keeper.confirmed(keeper.index(), store.outbox.synced_through())
        keeper.close()
        folder = next(one for one in store.path.with_name("home").iterdir() if one.is_dir())
        inode = folder.stat().st_ino
        again = EdgeKeeper(store, store.path.with_name("home"), batch=7, disk_reserve=1)
        assert again.index().count() == 40
        assert folder.stat().st_ino == inode
        again.close()

    def test_too_little_room_is_a_typed_error(self, store):
        """Writing below the reserve raises a retryable error, and opening gives no index."""
        self.fill(store)
        keeper = EdgeKeeper(store, store.path.with_name("home"), batch=7, disk_reserve=2**62)
        with pytest.raises(BackendUnavailableError, match="disk_reserve") as refused:
            keeper.check_room()
        assert refused.value.retryable
        assert keeper.index() is None
        keeper.close()

    def test_a_closed_keeper_has_no_index(self, store, keeper):
        """Closing twice is one close; after it there is no index, and the lock is free."""
        self.fill(store)
        assert keeper.index() is not None
        keeper.close()
        keeper.close()
        assert keeper.index() is None
        second = EdgeKeeper(store, store.path.with_name("home"), batch=7, disk_reserve=1)
        assert second.index() is not None
        second.close()

    def test_a_store_in_memory_has_a_flat_index(self):
        """`FlatKeeper` fills its index from the store when it is first asked, and again after distrust."""
        store = InMemoryStore()
        keeper = FlatKeeper(store)
        assert keeper.index() is None
        self.fill(store)
        assert keeper.index().count() == 20
        keeper.index().clear()
        keeper.distrust(keeper.index(), BackendError("broken", backend="flat", operation="search"))
        assert keeper.index().count() == 20
        assert keeper.index().dimension == SPACE.dimension
        assert len(due(store)) == 20
        assert len(keeper.index().search(MINE, QUERY, where=None, limit=99)) == 20
        keeper.close()
        keeper.close()
        store.close()
