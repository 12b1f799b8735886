"""`EdgeKeeper`: an index is compared with its store before it is believed, and rebuilt without embedding."""

import json
import shutil

import numpy as np
import pytest

from faults.damages import (
    ALICE,
    DAMAGES,
    DENSE,
    WORDS,
    CountingEmbedder,
    answers,
    exact,
    folder_of,
    home_of,
    manifest_of,
    mended,
    written,
)
from memkit_core import Memory
from memkit_core.errors import BackendError, BackendUnavailableError
from memkit_core.indexes.edge_keeper import EdgeKeeper
from memkit_core.indexes.keeper import FlatKeeper
from memkit_core.models import Target
from memkit_core.stores.memory import InMemoryStore
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import SPACE, confirm_all, due, embed_all, record

MINE = Target(scope=ALICE)
QUERY = np.ones(8, np.float32)


@pytest.fixture(scope="module")
def embedder():
    return CountingEmbedder()


@pytest.fixture
def path(tmp_path, embedder):
    """The file of a closed memory with thirty indexed facts."""
    return written(tmp_path / "m.db", embedder)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_index_is_rebuilt_without_embedding(path, embedder, damage):
    """Whatever happened to the folder: no embedding call, no error, and recall as if nothing had.

    Damage that shows only in use is answered by the exact scan, flagged, and gone with the next recall.
    """
    assert mended(path, embedder, damage).problems == []


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
