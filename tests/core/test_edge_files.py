"""`EdgeIndex` and its folder: what the engine may know, and what is done about its manners."""

import time

import numpy as np
import pytest

from memkit_core.errors import BackendError, ClosedError
from memkit_core.indexes.edge import EdgeIndex
from memkit_core.indexes.points import index_point
from memkit_core.models import Target
from memkit_core.scope import Scope
from memkit_core.testing.samples import record

SECRET = "Xylophone-Quasar-7731"
QUERY = np.ones(8, np.float32)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def index(folder):
    index = EdgeIndex(folder, 8)
    yield index
    index.close()


def point(scope, name, vector=QUERY, **fields):
    return index_point(record(scope, name, **fields), vector)


def held_in(folder, text):
    """The files in which these bytes stand."""
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_no_text_reaches_the_engines_files(index, folder):
    """Deleted payloads stay in the engine's files, so no id, text, tag, key or metadata ever gets there."""
    scope = Scope.user(SECRET)
    one = point(
        scope,
        SECRET,
        content=SECRET,
        tags=(SECRET.lower(),),
        key=SECRET,
        source=SECRET,
        metadata={SECRET: SECRET},
    )
    index.upsert([one])
    index.flush()
    index.close()
    assert held_in(folder, scope.digest.hex()), "the files hold the payload in another form: look again"
    for text in (SECRET, SECRET.lower(), SECRET.encode().hex()):
        assert held_in(folder, text) == []


def test_deleted_points_leave_digests_only(index, folder):
    """After delete and clear the files hold nothing readable of what was there."""
    index.upsert([point(Scope.user(SECRET), str(i), content=SECRET) for i in range(5)])
    index.delete([point(Scope.user(SECRET), "0").point_id])
    index.clear()
    index.flush()
    index.close()
    assert held_in(folder, SECRET) == []


@pytest.mark.parametrize("damage", ["empty", "garbage", "file"])
def test_a_folder_that_is_no_index_is_a_typed_error(folder, damage):
    """What is no index raises `BackendError`, also where the engine panics."""
    if damage == "file":
        folder.write_text("no folder")
    else:
        folder.mkdir()
        (folder / "edge_config.json").write_text("" if damage == "empty" else "{]")
        (folder / "segments").mkdir()
    with pytest.raises((BackendError, OSError)):
        EdgeIndex(folder, 8)


def test_errors_of_the_engine_never_leave(index):
    """A closed index says so; the engine's own exceptions never reach a caller."""
    index.close()
    with pytest.raises(ClosedError):
        index.flush()
    with pytest.raises(ClosedError):
        index.get([point(Scope.user("u"), "x").point_id])


def test_other_threads_run_while_it_writes(folder, monkeypatch):
    """The engine holds the GIL in every call, so a large write goes in parts, and others run between any two."""
    index = EdgeIndex(folder, 64, batch=100)
    vectors = np.random.default_rng(1).normal(size=(4000, 64)).astype(np.float32)
    scope = Scope.user("u")
    batch = [point(scope, str(i), vector) for i, vector in enumerate(vectors)]
    events = []
    called, paused = EdgeIndex._open, time.sleep

    def noted(self, verb):
        events.append(verb)
        return called(self, verb)

    def noted_pause(seconds):
        events.append("others")
        paused(seconds)

    monkeypatch.setattr(EdgeIndex, "_open", noted)
    monkeypatch.setattr(time, "sleep", noted_pause)
    index.upsert(batch)
    assert events == ["upsert", *["others", "upsert"] * 39]
    index.delete([one.point_id for one in batch])
    assert events[79:] == ["delete", *["others", "delete"] * 39]
    index.close()


def test_a_large_batch_is_found_whole(folder):
    """Points beyond one part of a write, and queries beyond one page, are all there."""
    index = EdgeIndex(folder, 8, batch=50)
    scope = Scope.user("u")
    vectors = np.random.default_rng(1).normal(size=(420, 8)).astype(np.float32)
    batch = [point(scope, str(i), vector) for i, vector in enumerate(vectors)]
    index.upsert(batch)
    assert len(index.search(Target(scope=scope), QUERY, where=None, limit=1000)) == 420
    assert len(index.get([one.point_id for one in batch])) == 420
    index.delete([one.point_id for one in batch[:210]])
    assert index.count() == 210
    index.close()
