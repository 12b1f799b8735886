"""What `Memory` does when a part fails: nothing is lost, nothing blocks, and the answer says so."""

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import Config, Memory, Message, Ranking, Role, Scope, ToolCall
from memkit_core.conversation.tokens import tokens_of
from memkit_core.errors import ClosedError
from memkit_core.indexes.keeper import stored as keeper
from memkit_core.locks import ProcessLock

ALICE = Scope.user("alice")
DENSE = Ranking(keyword=0.0)


class LetterEmbedder:
    """Vectors are letter counts; can be told to fail or to hang."""

    model = "letters"

    def __init__(self):
        self.down = False
        self.hanging = threading.Event()
        self.hanging.set()
        self.seen = []

    def embed_documents(self, texts):
        self.hanging.wait(30)
        self.seen.extend(texts)
        if self.down:
            raise RuntimeError("down")
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [float(text.lower().count(chr(97 + i))) for i in range(26)]


def _until_closed(verb, text, call):
    """Call a verb that ends after the memory was closed."""
    with contextlib.suppress(ClosedError):
        verb(text, **call)


def texts(hits):
    return [hit.record.content for hit in hits]


@pytest.mark.parametrize("fast", [False, True])
def test_only_an_embedder_that_makes_no_one_wait_comes_before_the_commit(tmp_path, fast):
    """A record is stored before it is embedded; with an embedder that says it is fast, both at once."""
    stored = []

    class Looking(LetterEmbedder):
        def embed_documents(self, texts):
            with sqlite3.connect(tmp_path / "m.db") as connection:
                stored.extend(connection.execute("SELECT count(*) FROM records").fetchone())
            connection.close()
            return super().embed_documents(texts)

    embedder = Looking()
    embedder.revision, embedder.fast = "1", fast
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        memory.add("Mia lives in Denver.", scope=ALICE)
        assert stored == [0 if fast else 1]
        assert memory.recall("Mia", scope=ALICE)[0].signals.similarity is not None


def test_a_fast_embedder_that_fails_costs_no_record(tmp_path):
    """A fast embedder that fails before the commit is told of afterwards, like any other; nothing is lost."""
    embedder = LetterEmbedder()
    embedder.revision = "1"
    embedder.fast = embedder.down = True
    with Memory.open(tmp_path / "m.db", embedder=embedder, config=Config(outbox_seconds=60)) as memory:
        record = memory.add("Mia lives in Denver.", scope=ALICE)
        assert memory.get(record.id, scope=ALICE) == record
        assert "down" in memory.capabilities.outbox.last_error
        embedder.down = False
        memory.flush()
        assert memory.capabilities.outbox.length == 0
        assert memory.recall("Mia", scope=ALICE)[0].signals.similarity is not None


def test_unapplied_deletes_do_not_starve_the_dense_leg(tmp_path):
    """Rows that another process deleted are left out without pushing living ones out of the answer."""
    script = """
        from memkit_core import Memory, Scope
        with Memory.open("m.db") as memory:
            for n in range(300):
                memory.delete(f"near {n}", scope=Scope.user("alice"))
    """
    from memkit_core import NewMemory

    with Memory.open(tmp_path / "m.db") as memory:
        near = [NewMemory(content=f"The cat sat on mat {n}.", id=f"near {n}") for n in range(300)]
        memory.add_many(near, scope=ALICE)
        memory.add("A boat sails to the harbour.", scope=ALICE)
        assert memory.flush()
        subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True)
        hits = memory.recall("cat on mat", scope=ALICE, ranking=DENSE)
        assert texts(hits) == ["A boat sails to the harbour."]


def test_add_does_not_raise_for_what_is_stored(tmp_path):
    """When the store is busy after the commit, add returns the record; it is indexed later, once."""
    path = tmp_path / "m.db"
    lock = ProcessLock(tmp_path / "m.db.lock")

    class Locking(LetterEmbedder):
        def embed_documents(self, texts):
            lock.acquire(0)
            return super().embed_documents(texts)

    with Memory.open(path, embedder=Locking(), config=Config(busy_timeout=0.2)) as memory:
        record = memory.add("kept", scope=ALICE)
        lock.close()
        assert memory.get(record.id, scope=ALICE) == record
        assert [r.content for r in memory.list_records(scope=ALICE)] == ["kept"]


@pytest.mark.parametrize("blocked", [".index", ".index.lock"])
def test_an_unusable_index_folder_costs_the_index_only(tmp_path, blocked):
    """A file where the index folder should be, or a folder where its lock should be, breaks no verb."""
    path = tmp_path / f"m.db{blocked}"
    path.write_text("in the way") if blocked == ".index" else path.mkdir()
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("kept all the same", scope=ALICE)
        hits = memory.recall("kept", scope=ALICE)
        assert texts(hits) == ["kept all the same"]
        assert hits.missing == {"index"}
        assert hits[0].signals.similarity is not None
        assert not memory.capabilities.index
        assert not memory.flush()


def test_a_symbolic_link_is_the_same_memory(tmp_path):
    """One file under two names has one lock and one index."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add("kept", scope=ALICE)
        (tmp_path / "link.db").symlink_to(tmp_path / "m.db")
        with Memory.open(tmp_path / "link.db") as linked:
            assert linked.path == memory.path
            assert texts(linked.recall("kept", scope=ALICE)) == ["kept"]
    assert not list(tmp_path.glob("link.db?*"))


@pytest.mark.parametrize("background", [True, False])
def test_a_hanging_embedder_holds_up_neither_close_nor_keyword_recall(tmp_path, background):
    """While the embedder hangs, recall answers by keyword and close returns; the record waits."""
    embedder = LetterEmbedder()
    memory = Memory.open(tmp_path / "m.db", embedder=embedder)
    memory.add("first", scope=ALICE)
    embedder.hanging.clear()
    call = {"scope": ALICE, "id": "second", "background": background}
    threading.Thread(target=_until_closed, args=(memory.add, "second zebra", call), daemon=True).start()
    began = time.monotonic()
    while memory.get("second", scope=ALICE) is None:
        time.sleep(0.002)
    hits = memory.recall("zebra", scope=ALICE)
    assert "second zebra" in texts(hits)
    assert "dense" in hits.missing
    memory.close()
    assert time.monotonic() - began < 15
    embedder.hanging.set()
    with Memory.open(tmp_path / "m.db", embedder=LetterEmbedder()) as again:
        assert again.flush()
        assert texts(again.recall("zebra", scope=ALICE, ranking=DENSE))[0] == "second zebra"


def test_a_model_that_is_down_is_not_asked_for_every_text(tmp_path):
    """A batch that fails is tried text by text only until the model is surely down."""
    embedder = LetterEmbedder()
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        memory.add("first", scope=ALICE)
        embedder.down = True
        embedder.seen.clear()
        memory.add_many([f"text {n}" for n in range(200)], scope=ALICE)
        assert len(embedder.seen) <= 2 * (100 + 3)
        embedder.down = False
        assert memory.flush()


def test_why_a_query_was_not_embedded_is_logged(tmp_path, caplog):
    """Who answers by words alone says why, but not where the memory was opened without its model."""
    embedder = LetterEmbedder()
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        memory.add("tea", scope=ALICE)
        embedder.embed_query = lambda text: [[0.0] * 26]
        assert memory.recall("tea", scope=ALICE).missing == {"dense"}
    assert "not embedded" in caplog.text
    assert "shape (1, 1, 26)" in caplog.text
    caplog.clear()
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        assert memory.recall("tea", scope=ALICE).missing == {"dense"}
        memory.documents("d", scope=ALICE).put(["tea"])
        assert memory.documents("d", scope=ALICE).search("tea").missing == {"dense"}
    assert "not embedded" not in caplog.text


def test_no_text_is_embedded_twice(tmp_path):
    """A background add and a flush at the same time embed each text once."""
    embedder = LetterEmbedder()
    with Memory.open(tmp_path / "m.db", embedder=embedder, config=Config(embedding_cache=0)) as memory:
        memory.add_many([f"text {n}" for n in range(300)], scope=ALICE, background=True)
        assert memory.flush()
        assert sorted(t for t in embedder.seen if t != "dimension") == sorted(f"text {n}" for n in range(300))


def test_what_used_up_its_tries_is_tried_again_when_reopened(tmp_path):
    """A record that could not be embedded for long gets its vector once the store is opened again."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    embedder = LetterEmbedder()
    config = Config(outbox_attempts=2)
    with Memory.open(tmp_path / "m.db", embedder=embedder, config=config, clock=lambda: now) as memory:
        memory.add("first", scope=ALICE)
        embedder.down = True
        memory.add("second", scope=ALICE)
        now += timedelta(minutes=5)
        memory._indexers.sync()
        assert memory.capabilities.outbox.failed == 1
    embedder.down = False
    with Memory.open(tmp_path / "m.db", embedder=embedder, config=config) as memory:
        deadline = time.monotonic() + 60
        while "dense" in memory.recall("second", scope=ALICE).missing and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "dense" not in memory.recall("second", scope=ALICE).missing


def test_recall_goes_on_while_a_large_index_is_rebuilt(tmp_path, monkeypatch):
    """Above a size the index is rebuilt in the background: recall scans meanwhile, and says so."""
    with Memory.open(tmp_path / "m.db") as memory:
        memory.add_many([f"fact number {n} on rivers" for n in range(600)], scope=ALICE)
    shutil.rmtree(tmp_path / "m.db.index")
    monkeypatch.setattr(keeper, "_REBUILT_AT_ONCE", 100)
    with Memory.open(tmp_path / "m.db") as memory:
        first = memory.recall("fact number 7", scope=ALICE, top_k=1)
        assert first.missing == {"index"}
        assert first[0].signals.similarity is not None
        deadline = time.monotonic() + 60
        while not memory.capabilities.index and time.monotonic() < deadline:
            time.sleep(0.05)
        again = memory.recall("fact number 7", scope=ALICE, top_k=1)
        assert again.missing == frozenset()
        assert texts(again) == texts(first)


def test_an_older_copy_of_the_file_is_not_believed_to_match_a_newer_index(tmp_path):
    """After a kill, an older copy put back gets an index rebuilt from itself: no vector of later text."""
    script = """
        import os
        from memkit_core import Memory, Scope
        memory = Memory.open("m.db")
        memory.add("Something else altogether.", scope=Scope.user("alice"), id="5")
        os.kill(os.getpid(), 9)
    """
    from memkit_core import NewMemory

    with Memory.open(tmp_path / "m.db") as memory:
        memory.add_many(
            [NewMemory(content=f"The {word} is here.", id=str(n)) for n, word in enumerate(WORDS)],
            scope=ALICE,
        )
    shutil.copy(tmp_path / "m.db", tmp_path / "older.db")
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    for leftover in ("m.db-wal", "m.db-shm"):
        (tmp_path / leftover).unlink(missing_ok=True)
    (tmp_path / "older.db").replace(tmp_path / "m.db")
    with Memory.open(tmp_path / "m.db") as memory:
        best = memory.recall(f"The {WORDS[5]} is here.", scope=ALICE, ranking=DENSE)[0]
        assert best.record.id == "5"
        assert best.signals.similarity == pytest.approx(1, abs=1e-4)


WORDS = [
    f"{a} {b}" for a in ("red", "old", "tall", "wet", "loud") for b in ("boat", "horse", "tower", "coat")
]


def test_asking_as_of_the_past_shows_nothing_that_has_expired(tmp_path):
    """`now` moves recency, never expiry: what has expired stays invisible."""
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with Memory.open(tmp_path / "m.db", clock=lambda: now) as memory:
        memory.add("short lived", scope=ALICE, expires_at=now + timedelta(hours=1))
        memory.add("long lived", scope=ALICE)
        now += timedelta(days=1)
        assert texts(memory.recall("lived", scope=ALICE, now=now - timedelta(days=1))) == ["long lived"]


@pytest.mark.parametrize("limit", [{"last": 10}, {"max_tokens": 100}, {"last": 1}])
def test_a_window_is_never_without_the_users_turn(limit):
    """In a long tool loop the window begins with the user's message: whole by number, by tokens in its budget."""
    session = Scope.session("s", user="alice")
    with Memory.open(":memory:") as memory:
        memory.sessions.append([Message(role=Role.USER, text="Do it for all.")], scope=session)
        for n in range(150):
            call = ToolCall(id=f"c{n}", name="work")
            memory.sessions.append(
                [
                    Message(role=Role.ASSISTANT, text="", tool_calls=(call,)),
                    Message(role=Role.TOOL, text="done", tool_call_id=f"c{n}"),
                ],
                scope=session,
            )
        window = memory.sessions.window(scope=session, **limit)
        assert window[0].text == "Do it for all."
        if "last" in limit:
            assert len(window) == 301
        else:
            assert tokens_of(window) <= 100
            assert window[-1].tool_call_id == "c149"
            assert [m.tool_call_id for m in window[2::2]] == [m.tool_calls[0].id for m in window[1::2]]


def test_a_memory_without_its_model(tmp_path):
    """`embedder="none"`: words answer and say what is missing; new texts wait, untried, for the model."""
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder=LetterEmbedder()) as memory:
        memory.add("The boat is green.", scope=ALICE)
    for _ in range(2):
        with Memory.open(path, embedder="none") as memory:
            found = memory.recall("the green boat", scope=ALICE)
            assert (len(found), found.missing) == (1, {"dense"})
            assert (memory.capabilities.dense, memory.capabilities.embedding_model) == (
                False,
                LetterEmbedder.model,
            )
            memory.add("The shed is locked.", scope=ALICE)
            assert not memory.flush()
            state = memory.capabilities.outbox
            assert (state.length, state.failed, state.last_error) == (1, 0, None)
    with Memory.open(path, embedder=LetterEmbedder()) as memory:
        assert memory.flush()
        assert not memory.recall("the locked shed", scope=ALICE).missing
    with Memory.open(tmp_path / "new.db", embedder="none") as memory:
        memory.add("The boat is green.", scope=ALICE)
        assert len(memory.recall("boat", scope=ALICE)) == 1
        assert memory.capabilities.embedding_model == "none"
    with Memory.open(tmp_path / "new.db", embedder=LetterEmbedder()) as memory:
        assert memory.flush()


def test_flush_tries_again_what_fails_while_it_waits(tmp_path):
    """A batch that is being embedded when `flush` begins, and fails, is tried again by that `flush`."""
    embedder, answers = LetterEmbedder(), []
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        flushing = threading.Thread(target=lambda: answers.append(memory.flush()))
        begun, embed, first = threading.Event(), embedder.embed_documents, iter([True])

        def fail_once(texts):
            if next(first, False):
                flushing.start()
                begun.set()
                flushing.join(0.3)  # By then it waits for this batch.
                raise RuntimeError("down")
            return embed(texts)

        embedder.embed_documents = fail_once
        memory.add("green tea", scope=ALICE, background=True)
        assert begun.wait(60)
        flushing.join(60)
    assert answers == [True]


SLOW = """
import sys, time, threading
from memkit_core import Memory, Scope
from memkit_core.embedders.wordllama import WordLlamaEmbedder

begun = threading.Event()

class Slow(WordLlamaEmbedder):
    fast = False

    def embed_documents(self, texts):
        begun.set()
        time.sleep(1.5)
        return super().embed_documents(texts)

memory = Memory.open("m.db", embedder=Slow())
memory.add("Alice has a parrot.", scope=Scope.user("alice"), background=True)
begun.wait()
if sys.argv[1] == "dropped":
    import memkit_core.closing
    memkit_core.closing._DROPPED_SECONDS = 0.01
    del memory
"""


@pytest.mark.parametrize("how", ["open", "dropped"])
def test_the_end_of_a_process_waits_for_what_closes(tmp_path, run_script, how):
    """A process that ends without `close` waits for more than a moment: nothing is torn out of an engine."""
    run_script(SLOW, how)
    with Memory.open(tmp_path / "m.db") as memory:
        assert memory.capabilities.outbox.length == 0
        assert memory.recall("parrot", scope=ALICE)[0].signals.similarity is not None
