"""The recall log: off by default, bounded, redacted, deleted with what it tells of, and marked by feedback."""

import contextlib
import io
import json
import sqlite3
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from memkit_core import (
    AsyncMemory,
    BackendError,
    Config,
    ConfigError,
    InvalidInputError,
    Memory,
    Message,
    RecallLog,
    RecordNotFoundError,
    RecordType,
    Role,
    Scope,
    ScopeError,
    SecretRedactor,
    Status,
)
from memkit_core.recall import noting

ALICE, BOB, TEAM = Scope.user("alice"), Scope.user("bob"), Scope.workspace("team")
TALK = Scope.session("s", user="alice")
SECRET = "sk-proj-Ab3dEf6hIj9kLmN0pQrStUvWxYz12345"
START = datetime(2026, 1, 1, tzinfo=UTC)


def opened(path, clock, **settings):
    return Memory.open(path, config=Config(recall_log=RecallLog(**settings), disk_reserve=1), clock=clock)


@pytest.fixture
def logging(tmp_path, clock):
    """A memory that logs, with two memories of Alice and one of Bob."""
    with opened(tmp_path / "logging.db", clock) as memory:
        memory.add("I like green tea.", scope=ALICE, id="tea")
        memory.add("The tea house opens at nine.", scope=ALICE, id="house")
        memory.add("Bob likes tea, too.", scope=BOB, id="tea")
        yield memory


def kept(memory):
    return memory.upkeep.recall_log()


# ------------------------------------------------------------------ what is logged


def test_nothing_is_logged_unless_it_is_asked_for(memory, tmp_path):
    """Without `Config.recall_log` a recall has no id, and nothing of it is stored."""
    memory.add("I like green tea.", scope=ALICE)
    result = memory.recall("tea", scope=ALICE)
    assert result
    assert result.recall_id is None
    assert memory.flush()
    assert kept(memory) == []
    with contextlib.closing(sqlite3.connect(tmp_path / "memory.db")) as file:
        assert file.execute("SELECT count(*) FROM recalls").fetchone() == (0,)


def test_a_recall_is_logged_with_what_decided_it(logging):
    """The log has the query, time, scopes, hits in their order and each hit's signals."""
    result = logging.recall("tea", scope=[ALICE, TEAM], top_k=5, types=["fact"])

    (found,) = kept(logging)

    assert found.id == result.recall_id
    assert (found.at, found.query, found.scopes) == (START, "tea", (ALICE, TEAM))
    assert (found.top_k, found.types, found.include_messages) == (5, (RecordType.FACT,), False)
    assert found.repeatable
    assert [(hit.record_id, hit.score, hit.signals, hit.useful) for hit in found.hits] == [
        (hit.record.id, hit.score, hit.signals, None) for hit in result
    ]


def test_recalls_that_the_log_cannot_repeat_are_told_apart(logging):
    """What the log has no place for makes a recall one that cannot be asked again."""
    for asked in (
        {"filters": {"type": "fact"}},
        {"status": list(Status)},
        {"as_of": START},
        {"now": "2025-06-01"},
        {"token_budget": 1000},
        {"reranker": lambda _query, texts: [1.0] * len(texts)},
    ):
        logging.recall("tea", scope=ALICE, **asked)
        assert not kept(logging)[0].repeatable, asked


def test_what_found_nothing_has_no_id(logging):
    """A blank query and one without hits leave nothing that could be useful."""
    assert logging.recall(" ", scope=ALICE).recall_id is None
    assert logging.recall("tea", scope=Scope.user("nobody")).recall_id is None
    assert kept(logging) == []


def test_turns_and_grouped_memories_are_logged_too(logging):
    """A turn is a hit like a memory, and `turn_memories` keeps the id of its recall."""
    logging.sessions.append([Message(role=Role.USER, text="My tea is cold.", id="m1")], scope=TALK)
    result = logging.recall("cold tea", scope=ALICE, include_messages=True, top_k=1)
    logging.feedback(result.recall_id, "m1", scope=ALICE)
    grouped = logging.turn_memories(TALK, "tea")
    logging.feedback(grouped.recall_id, "tea", scope=TALK, useful=False)

    newest, oldest = logging.upkeep.recall_log(judged=True)

    assert (oldest.hits[0].scope, oldest.hits[0].useful) == (TALK, True)
    assert [hit.useful for hit in newest.hits if hit.record_id == "tea"] == [False]


def test_recall_does_not_wait_for_the_log(logging):
    """A recall is written down with what else waits, not while it answers."""
    logging.recall("tea", scope=ALICE)
    assert logging._store.recalls.list(judged=False, limit=10) == []
    assert logging.flush()
    assert len(logging._store.recalls.list(judged=False, limit=10)) == 1


def test_closing_writes_the_log(tmp_path, clock):
    """What was logged is there after closing and opening again."""
    with opened(tmp_path / "m.db", clock) as memory:
        memory.add("tea", scope=ALICE)
        recall_id = memory.recall("tea", scope=ALICE).recall_id
    with Memory.open(tmp_path / "m.db") as memory:
        assert [one.id for one in kept(memory)] == [recall_id]


def test_the_log_is_bounded(tmp_path, clock):
    """At most `keep` recalls are kept, the newest."""
    with opened(tmp_path / "m.db", clock, keep=3) as memory:
        memory.add("tea", scope=ALICE)
        ids = [memory.recall("tea", scope=ALICE).recall_id for _ in range(5)]
        assert [one.id for one in kept(memory)] == ids[:1:-1]


def test_a_hash_instead_of_the_text(tmp_path, clock):
    """With `query="hash"` no file holds what was asked, and the log has its SHA-256."""
    with opened(tmp_path / "m.db", clock, query="hash") as memory:
        memory.add("green tea", scope=ALICE)
        memory.recall("tea of a zanzibarian", scope=ALICE)
        (found,) = kept(memory)
        assert (found.query, found.digest) == (None, sha256(b"tea of a zanzibarian").hexdigest())
    assert not any(b"zanzibarian" in file.read_bytes() for file in tmp_path.glob("m.db*") if file.is_file())


@pytest.mark.parametrize("settings", [{"query": "both"}, {"keep": 0}, {"keep": 1.5}, {"keep": True}])
def test_settings_that_cannot_be_are_refused(settings):
    """A way to keep queries that there is not, and no room, are typed errors."""
    with pytest.raises(ConfigError):
        RecallLog(**settings)
    with pytest.raises(ConfigError):
        Config(recall_log=True)


# ------------------------------------------------------------------ feedback


def test_feedback_marks_a_hit(logging):
    """A hit is useful or not, what was said last counts, and nothing else of the record moves."""
    result = logging.recall("tea", scope=ALICE)
    before = logging.get("tea", scope=ALICE)
    logging.feedback(result.recall_id, "house", scope=ALICE, useful=True)
    logging.feedback(result.recall_id, "tea", scope=ALICE)
    logging.feedback(result.recall_id, "tea", scope=ALICE, useful=False)

    (found,) = logging.upkeep.recall_log(judged=True)

    assert {hit.record_id: hit.useful for hit in found.hits} == {"house": True, "tea": False}
    after = logging.get("tea", scope=ALICE)
    assert (after.version, after.updated_at, after.importance) == (1, before.updated_at, before.importance)


def test_what_nobody_recalled_cannot_be_marked(logging):
    """An unknown recall, a record it did not return and an unrelated scope are typed errors; nothing changes."""
    recall_id = logging.recall("tea", scope=ALICE).recall_id
    logging.add("Not recalled.", scope=ALICE, id="late")
    for asked in (("no such recall", "tea", ALICE), (recall_id, "late", ALICE), (recall_id, "tea", TEAM)):
        with pytest.raises(RecordNotFoundError, match="the log has no recall"):
            logging.feedback(*asked[:2], scope=asked[2])
    with pytest.raises(InvalidInputError, match="recall_id"):
        logging.feedback(None, "tea", scope=ALICE)
    with pytest.raises(InvalidInputError, match="useful"):
        logging.feedback(recall_id, "tea", scope=ALICE, useful=1)
    with pytest.raises(ScopeError):
        logging.feedback(recall_id, "tea", scope="alice")
    assert logging.upkeep.recall_log(judged=True) == []


def test_another_tenants_log_is_not_there(logging):
    """Bob can neither mark what Alice recalled nor tell that she recalled it, whatever ids he knows."""
    recall_id = logging.recall("tea", scope=ALICE).recall_id
    told = []
    for asked in (recall_id, "never there"):
        with pytest.raises(RecordNotFoundError) as caught:
            logging.feedback(asked, "tea", scope=BOB)
        told.append(str(caught.value).replace(asked, ""))
    assert told[0] == told[1]
    assert logging.upkeep.recall_log(judged=True) == []


async def test_the_awaited_form(tmp_path):
    """`AsyncMemory` logs, takes feedback and lists the log alike."""
    config = Config(recall_log=RecallLog())
    async with await AsyncMemory.open(tmp_path / "m.db", config=config) as memory:
        await memory.add("tea", scope=ALICE, id="tea")
        result = await memory.recall("tea", scope=ALICE)
        await memory.feedback(result.recall_id, "tea", scope=ALICE)
        (found,) = await memory.upkeep.recall_log(judged=True)
        assert found.hits[0].useful is True


# ------------------------------------------------------------------ deleting and leaving out


def test_deleting_a_user_leaves_no_trace_of_what_was_asked(tmp_path, clock):
    """After delete and purge no file holds the query or the user's id, also of what was not yet written."""
    user = Scope.user("quetzalcoatl")
    with opened(tmp_path / "m.db", clock) as memory:
        memory.add("The team drinks tea.", scope=TEAM)
        memory.add("I drink tea.", scope=user)
        memory.recall("tea for xylophonists", scope=user)
        memory.recall("tea for xylophonists", scope=[user, TEAM])
        assert len(kept(memory)) == 2
        memory.recall("more tea for xylophonists", scope=[user, TEAM])
        memory.delete(scope=user)
        assert kept(memory) == []
        memory.flush()
        memory.upkeep.purge()
    for file in tmp_path.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert b"xylophonists" not in content, file
        assert b"quetzalcoatl" not in content, file


def test_who_comes_back_has_asked_nothing(tmp_path, clock, monkeypatch):
    """What a deleted user asked is gone also when the user remembers something anew at once."""
    with opened(tmp_path / "m.db", clock) as memory:
        monkeypatch.setattr(memory._worker, "soon", lambda: None)
        memory.add("The team drinks tea.", scope=TEAM)
        memory.add("I drink tea.", scope=ALICE)
        memory.recall("team", scope=[ALICE, TEAM])
        memory.delete(scope=ALICE)
        memory.add("I drink milk.", scope=ALICE)
        assert kept(memory) == []


def test_another_memory_with_the_same_id_was_not_recalled(logging):
    """A recall that found only a deleted memory is forgotten, also when its id is given anew at once."""
    found = logging.recall("opens at nine", scope=ALICE, top_k=1)
    assert logging.delete("house", scope=ALICE).records == 1
    logging.add("Alice has a house by the sea.", scope=ALICE, id="house")
    assert kept(logging) == []
    with pytest.raises(RecordNotFoundError):
        logging.feedback(found.recall_id, "house", scope=ALICE)


def test_a_cleared_session_has_asked_nothing(tmp_path, clock, monkeypatch):
    """What was asked in it, written down yet or not, does not outlive it, also when it goes on at once."""
    with opened(tmp_path / "m.db", clock) as memory:
        monkeypatch.setattr(memory._worker, "soon", lambda: None)
        memory.add("I drink tea.", scope=ALICE)
        memory.recall("my tea", scope=ALICE)
        memory.sessions.append([Message(role=Role.USER, text="Hello.")], scope=TALK)
        memory.recall("tea for xylophonists", scope=[TALK, ALICE])
        memory.sessions.clear(scope=TALK)
        memory.sessions.append([Message(role=Role.USER, text="Hello again.")], scope=TALK)
        assert [one.query for one in kept(memory)] == ["my tea"]


def test_another_process_brings_nothing_back(tmp_path, clock):
    """What another memory still has to write of a deleted user is not written."""
    with opened(tmp_path / "m.db", clock) as memory, opened(tmp_path / "m.db", clock, keep=99) as other:
        memory.add("The team drinks tea.", scope=TEAM)
        memory.add("I drink tea.", scope=ALICE)
        other.recall("tea", scope=ALICE)
        other.recall("team", scope=[ALICE, TEAM], top_k=1)
        memory.delete(scope=ALICE)
        assert other.flush(10) is not None
        assert kept(memory) == []


def test_what_expires_leaves_the_log(logging, clock):
    """Sweeping an expired memory takes its hits along, and a recall that found nothing else."""
    logging.add("Tea tomorrow?", scope=TEAM, id="soon", expires_at="2026-01-02")
    logging.recall("tea", scope=TEAM)
    logging.recall("tea", scope=[ALICE, TEAM])
    assert len(kept(logging)) == 2
    clock.now = datetime(2026, 1, 3, tzinfo=UTC)
    logging.upkeep.sweep()
    (found,) = kept(logging)
    assert {hit.record_id for hit in found.hits} == {"tea", "house"}


def test_exports_leave_the_log_out(logging):
    """No line of an export tells of a recall."""
    recall_id = logging.recall("xylophonists drink tea", scope=ALICE).recall_id
    logging.feedback(recall_id, "tea", scope=ALICE)
    file = io.StringIO()
    logging.export_jsonl(file, everything=True)
    text = file.getvalue()
    assert "green tea" in text
    assert "xylophonists" not in text
    assert recall_id not in text
    assert all(json.loads(line) for line in text.splitlines())


def test_a_logged_query_is_redacted(tmp_path, clock):
    """`Config.redact` applies to what is logged: no secret, and no digest of one, is stored."""
    for settings in ({"query": "text"}, {"query": "hash"}):
        path = tmp_path / settings["query"]
        path.mkdir()
        config = Config(recall_log=RecallLog(**settings), redact=SecretRedactor(), disk_reserve=1)
        with Memory.open(path / "m.db", config=config, clock=clock) as memory:
            memory.add("tea", scope=ALICE)
            memory.recall(f"tea with {SECRET}", scope=ALICE)
            (found,) = kept(memory)
            assert found.digest != sha256(f"tea with {SECRET}".encode()).hexdigest()
        assert not any(SECRET.encode() in file.read_bytes() for file in path.rglob("*") if file.is_file())


def test_a_query_that_cannot_be_redacted_is_not_logged(tmp_path, clock):
    """It stands in the way of nothing: other recalls are logged, and the user can be deleted."""

    def redact(text):
        return text if "boom" not in text else 1 / 0

    config = Config(recall_log=RecallLog(), redact=redact, disk_reserve=1)
    with Memory.open(tmp_path / "m.db", config=config, clock=clock) as memory:
        memory.add("I like green tea.", scope=ALICE)
        memory.recall("boom tea", scope=ALICE)
        memory.recall("green tea", scope=ALICE)
        assert [one.query for one in kept(memory)] == ["green tea"]
        memory.recall("boom tea", scope=ALICE)
        assert memory.delete(scope=ALICE).records == 1


# ------------------------------------------------------------------ waiting to be written


class Table:
    """The log of a store, out of order as long as `down`."""

    def __init__(self):
        self.down, self.written = True, []

    def append(self, recalls, *, keep, texts):
        if self.down:
            raise BackendError("down", backend="test", operation="append")
        self.written += [one.query for one in recalls]


def noted(notes, memory, *queries):
    for text in queries:
        result = memory.recall("tea", scope=ALICE)
        notes.note(_Query(text), result, seen=0)


class _Query:
    """What a note reads of a query."""

    def __init__(self, text):
        self.text, self.scopes, self.types, self.statuses = text, (ALICE,), (), (Status.ACTIVE,)
        self.asked_at = self.now = START
        self.finish = self.where = self.as_of = None
        self.top_k, self.include_messages, self.exclude = 10, False, frozenset()


def test_a_store_that_fails_gets_it_later(logging, monkeypatch):
    """What could not be written waits with what comes meanwhile, at most so much, and is written once."""
    monkeypatch.setattr(noting, "_MOST", 3)
    table = Table()
    notes = noting.RecallNotes(table, RecallLog())
    noted(notes, logging, "a", "b")
    with pytest.raises(BackendError):
        notes.write()
    noted(notes, logging, "c", "d")
    assert notes.due
    table.down = False
    notes.write()
    notes.write()
    assert table.written == ["b", "c", "d"]
    assert not notes.due


def test_a_forked_child_does_not_write_what_its_parent_logged(logging, in_child):
    """What was noted before a fork is the parent's to write."""
    logging.recall("tea", scope=ALICE)

    def waiting():
        return len(logging._notes._own())

    assert in_child(waiting) == 0
    assert len(kept(logging)) == 1


def test_a_store_in_memory_alone_logs_too():
    """The store without a file keeps the same log."""
    with Memory.open(":memory:", config=Config(recall_log=RecallLog())) as memory:
        memory.add("tea", scope=ALICE, id="tea")
        memory.feedback(memory.recall("tea", scope=ALICE).recall_id, "tea", scope=ALICE)
        assert len(memory.upkeep.recall_log(judged=True)) == 1


def test_who_was_deleted_and_came_back_is_not_told_of(tmp_path, clock):
    """What another memory had not written yet of a deleted user is not stored when the user is back."""
    path = tmp_path / "shared.db"
    with opened(path, clock) as one, opened(path, clock) as other:
        one.add("The team drinks tea.", scope=TEAM)
        one.add("I like green tea.", scope=ALICE, id="tea")
        assert one.recall("a private question about tea", scope=[ALICE, TEAM])
        other.delete(scope=ALICE)
        other.add("Tea again.", scope=ALICE, id="tea")
        assert one.recall("tea now", scope=[ALICE, TEAM])
        assert one.flush()
        assert [recall.query for recall in kept(other)] == ["tea now"]
