"""What recall returned is counted once a call, in batches, behind the caller's back."""

import contextlib
import gc
import io
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import BackendError, Config, Memory, Message, Role, Scope
from memkit_core.models import MEMORIES, MESSAGES, point_id
from memkit_core.ports import Access
from memkit_core.recall import access
from memkit_core.recall.access import AccessCounts
from memkit_core.stores.memory import InMemoryStore
from memkit_core.testing.samples import NOW, later, record

ALICE = Scope.user("alice")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store():
    store = InMemoryStore()
    yield store
    store.close()


def told(memory, record):
    found = memory.get(record.id, scope=record.scope, space=record.space)
    return found.access_count, found.last_accessed_at


def in_file(path, record_id):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT access_count FROM records WHERE id = ?", (record_id,)).fetchone()[0]


def test_recall_counts_each_hit_once_a_call(memory, clock):
    """Returned records count one access a call; nothing else of them moves, and `get` does not count."""
    tea = memory.add("I like green tea.", scope=ALICE)
    other = memory.add("My bicycle is blue.", scope=ALICE)
    for day in (1, 2):
        clock.now = START + timedelta(days=day)
        (hit,) = memory.recall("tea", scope=ALICE, top_k=1)
        assert hit.record.id == tea.id
    assert memory.flush()
    assert told(memory, tea) == (2, START + timedelta(days=2))
    assert told(memory, other) == (0, None)
    assert told(memory, tea) == (2, START + timedelta(days=2))
    found = memory.get(tea.id, scope=ALICE)
    assert (found.version, found.updated_at) == (1, START)
    assert len(memory.history(tea.id, scope=ALICE)) == 1
    listed = memory.list_records(scope=ALICE, order="access_count")
    assert [one.id for one in listed] == [tea.id, other.id]


def test_as_of_an_earlier_time_it_was_still_accessed_now(memory):
    """`now=` asks as of another time; the access happened by the clock."""
    tea = memory.add("I like green tea.", scope=ALICE)
    memory.recall("tea", scope=ALICE, now="2020-01-01")
    memory.flush()
    assert told(memory, tea) == (1, START)


def test_turns_count_too(memory):
    """A conversation turn that recall returned counts like a memory; replaced, it keeps its count."""
    session = Scope.session("s", user="alice")
    (said,) = memory.sessions.append([Message(role=Role.USER, text="My canoe is green.")], scope=session)
    assert len(memory.recall("canoe", scope=ALICE, include_messages=True)) == 1
    memory.flush()
    assert memory.get(said.id, scope=session, space=MESSAGES).access_count == 1
    memory.sessions.append([Message(id=said.id, role=Role.USER, text="My canoe is red.")], scope=session)
    assert memory.get(said.id, scope=session, space=MESSAGES).access_count == 1


def test_recall_writes_nothing_itself(memory, tmp_path):
    """A recall starts no write: the counts wait in memory until a flush or the worker's next round."""
    tea = memory.add("I like green tea.", scope=ALICE)
    for _ in range(50):
        memory.recall("tea", scope=ALICE)
    assert in_file(tmp_path / "memory.db", tea.id) == 0
    memory.flush()
    assert in_file(tmp_path / "memory.db", tea.id) == 50


def test_the_counts_are_written_on_close(tmp_path):
    """Closing writes what was counted, also for a memory that was only read."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        tea = memory.add("I like green tea.", scope=ALICE)
    with Memory.open(path) as memory:
        memory.recall("tea", scope=ALICE)
    assert in_file(path, tea.id) == 1


def test_closing_writes_them_without_the_worker(tmp_path):
    """Closing writes what was counted after the worker had ended."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        tea = memory.add("I like green tea.", scope=ALICE)
        assert memory._worker.stop(30)
        memory.recall("tea", scope=ALICE)
        assert in_file(path, tea.id) == 0
    assert in_file(path, tea.id) == 1


def test_a_dropped_memory_writes_its_counts(tmp_path):
    """A memory that is dropped without `close` writes what it counted."""
    path = tmp_path / "m.db"
    memory = Memory.open(path)
    tea = memory.add("I like green tea.", scope=ALICE)
    memory.recall("tea", scope=ALICE)
    del memory
    gc.collect()
    assert in_file(path, tea.id) == 1


def test_the_worker_writes_them_in_its_next_round(tmp_path):
    """In a memory that is only read, too, the counts are written without a flush."""
    path = tmp_path / "m.db"
    with Memory.open(path) as memory:
        tea = memory.add("I like green tea.", scope=ALICE)
    with Memory.open(path, config=Config(outbox_seconds=0.02)) as memory:
        memory.recall("tea", scope=ALICE)
        worker = memory._worker._thread
        assert worker is not None
        while in_file(path, tea.id) == 0:
            worker.join(0.01)
            assert worker.is_alive()
    assert in_file(path, tea.id) == 1


def test_deleted_records_are_ignored(memory):
    """A record that was deleted after it was recalled is not brought back by its count."""
    tea = memory.add("I like green tea.", scope=ALICE)
    memory.recall("tea", scope=ALICE)
    memory.delete(scope=ALICE)
    assert memory.flush()
    assert memory.get(tea.id, scope=ALICE) is None


def test_documents_are_not_counted(memory):
    """A search of documents is no recall."""
    documents = memory.documents(scope=ALICE)
    (one,) = documents.put(["green tea"])
    assert len(documents.search("tea")) == 1
    memory.flush()
    assert documents.get([one.id])[0].access_count == 0


def test_a_child_does_not_write_its_parents_counts(memory, in_child):
    """After a fork the parent's counts are the parent's; the child writes its own."""
    tea = memory.add("I like green tea.", scope=ALICE)
    memory.add("My bicycle is blue.", scope=ALICE, id="bicycle")
    memory.recall("tea", scope=ALICE, top_k=1)

    def child():
        memory.recall("bicycle", scope=ALICE, top_k=1)
        memory._accesses.write()
        return [memory.get(name, scope=ALICE).access_count for name in (tea.id, "bicycle")]

    assert in_child(child) == [0, 1]
    memory.flush()
    assert [memory.get(name, scope=ALICE).access_count for name in (tea.id, "bicycle")] == [1, 1]


class TestAccessCounts:
    def test_a_failing_store_gets_them_the_next_time(self, store):
        """What could not be written is kept, together with what is counted meanwhile."""
        tea, milk = record(ALICE, "tea"), record(ALICE, "milk")
        store.records.put(ALICE, [tea, milk])

        class Failing:
            """The store's records, out of order at first."""

            down = True

            def touch(self, accesses):
                if self.down:
                    counts.count([tea, milk], now=later(hours=1))
                    raise BackendError("down", backend="test", operation="touch")
                store.records.touch(accesses)

        failing = Failing()
        counts = AccessCounts(failing)
        counts.count([tea], now=later(hours=2))
        with pytest.raises(BackendError):
            counts.write()
        failing.down = False
        counts.write()
        counts.write()
        found = store.records.get(ALICE, MEMORIES, ["tea", "milk"], now=NOW)
        assert [(one.access_count, one.last_accessed_at) for one in found] == [
            (2, later(hours=2)),
            (1, later(hours=1)),
        ]

    def test_nothing_to_write_is_no_write(self):
        """Without counts the store is not asked."""
        AccessCounts(None).write()

    def test_memory_is_bounded(self, monkeypatch):
        """Beyond the limit no further record is taken in; those that are in go on counting."""
        monkeypatch.setattr(access, "_MOST", 2)
        written = []

        class Table:
            def touch(self, accesses):
                written.append(accesses)

        counts = AccessCounts(Table())
        for name in ("a", "b", "c", "a"):
            counts.count([record(ALICE, name)], now=NOW)
        counts.write()
        assert written == [
            {point_id(ALICE, MEMORIES, "a"): Access(2, NOW), point_id(ALICE, MEMORIES, "b"): Access(1, NOW)}
        ]


def test_who_writes_waits_for_who_is_writing(tmp_path, clock, monkeypatch):
    """What is exported has the access that another thread was just writing down."""
    with Memory.open(tmp_path / "m.db", clock=clock, embedder="none") as memory:
        memory.add("tea", scope=ALICE)
        memory.recall("tea", scope=ALICE)
        table = type(memory._store._open.records)
        begun, touch = threading.Event(), table.touch

        def slowly(*given):
            begun.set()
            time.sleep(0.2)
            touch(*given)

        monkeypatch.setattr(table, "touch", slowly)
        writer = threading.Thread(target=memory._noted.write)
        writer.start()
        assert begun.wait(60)
        out = io.StringIO()
        memory.export_jsonl(out, everything=True)
        writer.join()
        assert '"access_count":1' in out.getvalue()
