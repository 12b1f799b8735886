"""Several memories of one process on one file: they share one store and one index."""

import gc
import shutil
import threading

import pytest

from memkit_core import BackendUnavailableError, ClosedError, Config, Memory, Ranking, RecallLog, Scope

ALICE = Scope.user("alice")
DENSE = Ranking(keyword=0.0)


def found(memory, query="tent"):
    hits = memory.recall(query, scope=ALICE, ranking=DENSE)
    return [hit.record.content for hit in hits], hits.missing


def test_both_have_the_index(tmp_path):
    """Two objects on one path both write and both search the index; neither answer is degraded."""
    with Memory.open(tmp_path / "m.db") as one, Memory.open(tmp_path / "m.db") as two:
        one.add("The tent is green.", scope=ALICE)
        two.add("The canoe is blue.", scope=ALICE)
        assert one.capabilities.index
        assert two.capabilities.index
        for memory in (one, two):
            contents, missing = found(memory)
            assert contents[0] == "The tent is green."
            assert len(contents) == 2
            assert not missing


def test_closing_one_leaves_the_other(tmp_path):
    """A closed memory raises on every verb; the other on the same file goes on, and closes for good."""
    one, two = Memory.open(tmp_path / "m.db"), Memory.open(tmp_path / "m.db")
    notes = one.documents(scope=ALICE)
    one.add("The tent is green.", scope=ALICE)
    one.close()
    one.close()
    for verb in (
        lambda: one.add("x", scope=ALICE),
        lambda: one.recall("x", scope=ALICE),
        lambda: one.sessions.list(scope=ALICE),
        lambda: notes.put(["x"]),
        lambda: one.documents(scope=ALICE),
        one.flush,
        lambda: one.capabilities,
    ):
        with pytest.raises(ClosedError):
            verb()
    assert found(two) == (["The tent is green."], set())
    two.close()
    with Memory.open(tmp_path / "m.db") as three:
        assert three.capabilities.index
        assert found(three) == (["The tent is green."], set())


def test_dropped_without_close(tmp_path):
    """A memory that was lost without `close` neither keeps the index from the next nor closes it under it."""
    Memory.open(tmp_path / "m.db").add("The tent is green.", scope=ALICE)
    gc.collect()
    two = Memory.open(tmp_path / "m.db")
    three = Memory.open(tmp_path / "m.db")
    assert found(two) == (["The tent is green."], set())
    del two
    gc.collect()
    assert found(three) == (["The tent is green."], set())
    three.close()


def test_other_settings_are_not_shared(tmp_path):
    """Settings of recall are each memory's own; with another disk setting it stands alone."""
    with Memory.open(tmp_path / "m.db") as one:
        one.add("The tent is green.", scope=ALICE)
        with Memory.open(tmp_path / "m.db", config=Config(max_top_k=7, ranking=DENSE)) as same:
            assert same.capabilities.index
            assert same.config.max_top_k == 7
        with Memory.open(tmp_path / "m.db", config=Config(busy_timeout=1.0)) as apart:
            assert not apart.capabilities.index
            contents, missing = found(apart)
            assert (contents, missing) == (["The tent is green."], {"index"})
        assert found(one) == (["The tent is green."], set())


class Letters:
    """An embedder object; `seen` are the texts that this very object embedded."""

    model = "letters"

    def __init__(self):
        self.seen = []

    def embed_documents(self, texts):
        self.seen += texts
        return [[1.0, float(len(text))] for text in texts]

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def test_two_objects_of_one_model(tmp_path):
    """Two embedder objects of one model share the index; each asks with its own, the last one embeds texts."""
    first, last = Letters(), Letters()
    with Memory.open(tmp_path / "m.db", embedder=first) as one:
        one.add("The tent is green.", scope=ALICE)
        with Memory.open(tmp_path / "m.db", embedder=last) as two:
            assert two.capabilities.index
            assert found(two, "canoe") == (["The tent is green."], set())
            one.add("The canoe is blue.", scope=ALICE)
            assert found(one, "boat")[1] == set()
            assert (first.seen[0], first.seen[-1]) == ("The tent is green.", "boat")
            assert last.seen == ["canoe", "The canoe is blue."]
        assert one.upkeep.reindex() == 2
    with Memory.open(tmp_path / "m.db", embedder=Letters()) as again:
        assert again.capabilities.index


@pytest.mark.parametrize(
    "setting", [{"recall_log": RecallLog()}, {"queue_size": 7}, {"summary_keep": 2}, {"max_note_chars": 10}]
)
def test_settings_of_a_memory_alone_part_no_two(tmp_path, setting):
    """What each memory does for itself, such as logging recalls, costs no other one the index."""
    with (
        Memory.open(tmp_path / "m.db", config=Config(**setting)) as one,
        Memory.open(tmp_path / "m.db") as two,
    ):
        one.add("The tent is green.", scope=ALICE)
        for memory in (one, two):
            assert found(memory) == (["The tent is green."], set())
            assert memory.capabilities.index


def test_who_holds_the_index_is_said_rightly(tmp_path):
    """A memory of other settings is refused the index with a message that does not blame another process alone."""
    with Memory.open(tmp_path / "m.db") as one:
        one.add("The tent is green.", scope=ALICE)
        one.flush()
        with (
            Memory.open(tmp_path / "m.db", config=Config(busy_timeout=1.0)) as apart,
            pytest.raises(BackendUnavailableError, match="a memory of this one with other settings"),
        ):
            apart.upkeep.reindex()


def gone(path):
    for own in path.parent.glob(f"{path.name}*"):
        shutil.rmtree(own) if own.is_dir() else own.unlink()


def moved(path):
    path.rename(path.with_name("elsewhere.db"))


def replaced(path):
    with Memory.open(path.with_name("other.db")) as other:
        other.add("Of another file.", scope=ALICE)
    path.with_name("other.db").replace(path)


@pytest.mark.parametrize("lost", [gone, moved, replaced])
def test_a_file_that_is_lost_while_open(tmp_path, lost):
    """Nothing is written into a file that was deleted, moved or replaced, and the doctor says so."""
    with Memory.open(tmp_path / "m.db") as old:
        old.add("The tent is green.", scope=ALICE)
        old.flush()
        lost(tmp_path / "m.db")
        with pytest.raises(BackendUnavailableError, match="deleted, moved or replaced"):
            old.add("The canoe is blue.", scope=ALICE)
        assert "not-writable" in [one.code for one in old.upkeep.doctor()]


def test_a_deleted_file_is_made_anew(tmp_path):
    """Who opens the path of a file that was deleted while open gets a new one, not what is open; both can close."""
    path = tmp_path / "m.db"
    old = Memory.open(path)
    old.add("The tent is green.", scope=ALICE)
    old.flush()
    gone(path)
    with Memory.open(path) as new:
        assert list(new.list_records(scope=ALICE)) == []
        new.add("The canoe is red.", scope=ALICE)
        old.close()
        new.add("The kayak is red.", scope=ALICE)
    with Memory.open(path) as again:
        assert len(list(again.list_records(scope=ALICE))) == 2


@pytest.mark.parametrize("lost", [moved, replaced])
def test_a_path_whose_log_is_in_use(tmp_path, lost):
    """What takes the place of a file can be opened once that one is closed, and the one that was moved is whole."""
    path = tmp_path / "m.db"
    with Memory.open(path) as old:
        old.add("The tent is green.", scope=ALICE)
        old.flush()
        lost(path)
        with pytest.raises(BackendUnavailableError, match="close that memory first"):
            Memory.open(path)
    there = ["Of another file."] if lost is replaced else []
    for _ in range(2):
        with Memory.open(path) as new:
            assert sorted(one.content for one in new.list_records(scope=ALICE)) == sorted(there)
            new.add("The canoe is red.", scope=ALICE, id="c")
            there = [*({*there, "The canoe is red."})]
    if lost is moved:
        with Memory.open(tmp_path / "elsewhere.db") as away:
            assert [one.content for one in away.list_records(scope=ALICE)] == ["The tent is green."]


def test_eight_threads_open_and_close(tmp_path):
    """Threads that open, write and close the same file at once lose nothing and never go without the index."""
    barrier, problems = threading.Barrier(8), []

    def work(number):
        barrier.wait()
        for i in range(5):
            with Memory.open(tmp_path / "m.db") as memory:
                memory.add(f"Fact {number} {i}", scope=ALICE)
                if memory.recall(f"Fact {number} {i}", scope=ALICE)[0] is None:
                    problems.append((number, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Memory.open(tmp_path / "m.db") as memory:
        assert memory.flush()
        assert len(memory.list_records(scope=ALICE)) == 40
        assert memory.capabilities.index
    assert not problems
