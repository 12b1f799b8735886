"""`EdgeIndex` and `EdgeKeeper` between processes: kills, second holders, forks."""

import os
import signal
import time

import numpy as np
import pytest

from memkit_core.errors import BackendUnavailableError
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.edge_keeper import EdgeKeeper
from memkit_core.indexes.keeper import stored as keeping
from memkit_core.indexes.points import index_point
from memkit_core.models import Target
from memkit_core.stores.sqlite import SQLiteStore
from memkit_core.testing.samples import ALICE, SPACE, embed_all, record

MINE = Target(scope=ALICE)
QUERY = np.ones(8, np.float32)

KEEP = """
    import sys
    from pathlib import Path
    from memkit_core.indexes.edge_keeper import EdgeKeeper
    from memkit_core.stores.sqlite import SQLiteStore
    store = SQLiteStore("memory.db")
    keeper = EdgeKeeper(store, Path("memory.db.index").absolute(), batch=250, disk_reserve=1)
    print(keeper.index() is not None, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path):
    """A store with twenty vectors."""
    store = SQLiteStore(tmp_path / "memory.db")
    store.records.put(ALICE, [record(ALICE, str(i), f"text {i}") for i in range(20)])
    embed_all(store)
    yield store
    store.close()


@pytest.fixture
def keeper(store):
    keeper = new_keeper(store)
    yield keeper
    keeper.close()


def new_keeper(store):
    home = store.path.with_name("memory.db.index")
    return EdgeKeeper(store, home, batch=250, disk_reserve=1)


def found(index):
    return len(index.search(MINE, QUERY, where=None, limit=99))


@pytest.mark.parametrize("acknowledged", [1, 30, 120])
def test_what_was_acknowledged_survives_a_kill(tmp_path, start_script, acknowledged):
    """After SIGKILL between unflushed writes every acknowledged point is there and finds itself."""
    writer = start_script(
        """
        from pathlib import Path
        import numpy as np
        from memkit_core.indexes.edge import EdgeIndex
        from memkit_core.indexes.points import index_point
        from memkit_core.testing.samples import ALICE, record
        index = EdgeIndex(Path("index"), 8)
        vectors = np.random.default_rng(3).normal(size=(5000, 8)).astype(np.float32)
        for i in range(5000):
            index.upsert([index_point(record(ALICE, str(i)), vectors[i])])
            print(i, flush=True)
        """
    )
    for i in range(acknowledged):
        assert writer.stdout.readline() == f"{i}\n"
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += len(writer.stdout.read().split())
    writer.wait()
    index = EdgeIndex(tmp_path / "index", 8)
    vectors = np.random.default_rng(3).normal(size=(5000, 8)).astype(np.float32)
    assert acknowledged - 1 <= index.count() <= acknowledged + 1
    for i in range(0, acknowledged - 1, max(acknowledged // 20, 1)):
        (best, *_) = index.search(MINE, vectors[i], where=None, limit=1)
        assert best.point_id == record(ALICE, str(i)).point_id
        assert best.cosine == pytest.approx(1, abs=1e-5)
    index.close()


def test_an_exit_without_close_loses_nothing(tmp_path, run_script):
    """A process that ends without closing its index leaves everything it wrote."""
    run_script(
        """
        import os
        from pathlib import Path
        import numpy as np
        from memkit_core.indexes.edge import EdgeIndex
        from memkit_core.indexes.points import index_point
        from memkit_core.testing.samples import ALICE, record
        index = EdgeIndex(Path("index"), 8)
        index.upsert([index_point(record(ALICE, str(i)), np.ones(8, np.float32)) for i in range(10)])
        os._exit(0)
        """
    )
    index = EdgeIndex(tmp_path / "index", 8)
    assert found(index) == 10
    index.close()


def test_a_forked_child_is_told_at_once(tmp_path, in_child):
    """In a forked child every call raises at once instead of never returning; closing harms nobody."""
    index = EdgeIndex(tmp_path / "index", 8)
    index.upsert([index_point(record(ALICE, "a"), QUERY)])

    def child():
        refused = 0
        for call in (
            index.count,
            index.flush,
            index.clear,
            lambda: index.search(MINE, QUERY, where=None, limit=1),
            lambda: index.upsert([index_point(record(ALICE, "b"), QUERY)]),
            lambda: index.delete([record(ALICE, "a").point_id]),
            lambda: index.get([record(ALICE, "a").point_id]),
        ):
            try:
                call()
            except BackendUnavailableError:
                refused += 1
        index.close()
        return refused

    assert in_child(child) == 7
    assert found(index) == 1
    index.upsert([index_point(record(ALICE, "b"), QUERY)])
    assert found(index) == 2
    index.close()


def test_one_holder_at_a_time(store, keeper, start_script):
    """A second process cannot have the index while the first lives; when that is killed, it takes over."""
    first = start_script(KEEP)
    assert first.stdout.readline() == "True\n"
    assert keeper.index() is None
    other = start_script(KEEP)
    assert other.stdout.readline() == "False\n"
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    taken = new_keeper(store)
    index = taken.index()
    assert index is not None
    assert found(index) == 20
    taken.close()


def test_a_waiting_keeper_takes_over(keeper, start_script, monkeypatch):
    """A keeper that was refused asks again later by itself."""
    monkeypatch.setattr(keeping, "_RETRY_SECONDS", 0.05)
    first = start_script(KEEP)
    assert first.stdout.readline() == "True\n"
    assert keeper.index() is None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    time.sleep(0.06)
    index = keeper.index()
    assert index is not None
    assert found(index) == 20


def test_two_keepers_in_one_process(store, keeper):
    """A second keeper in the same process cannot have the folder either, until the first lets go."""
    assert keeper.index() is not None
    second = new_keeper(store)
    assert second.index() is None
    second.close()
    assert found(keeper.index()) == 20
    keeper.close()
    third = new_keeper(store)
    assert found(third.index()) == 20
    third.close()


def test_a_forked_child_has_no_index(keeper, in_child):
    """A child does not hold its parent's index, and its closing takes nothing from the parent."""
    assert found(keeper.index()) == 20
    assert in_child(lambda: [keeper.index() is None, keeper.close()]) == [True, None]
    assert found(keeper.index()) == 20
    keeper.index().upsert([index_point(record(ALICE, "new"), QUERY)])
    assert found(keeper.index()) == 21


def test_a_fork_before_the_index_was_opened(keeper, in_child):
    """A child forked before the parent opened the index may have it when nobody else does."""
    assert in_child(lambda: found(keeper.index())) == 20
    assert found(keeper.index()) == 20


def test_a_living_child_is_in_nobodys_way(store, keeper, idle_child):
    """While a forked child lives, the parent can close the index and open it again, with every point."""
    assert found(keeper.index()) == 20
    idle_child()
    keeper.close()
    again = new_keeper(store)
    index = again.index()
    assert index is not None
    assert found(index) == 20
    again.close()


def test_the_space_names_the_folder(store, keeper):
    """Vectors of one model live in a folder of their own under the index's home."""
    assert keeper.index().dimension == SPACE.dimension
    assert len([path for path in store.path.with_name("memory.db.index").iterdir() if path.is_dir()]) == 1
