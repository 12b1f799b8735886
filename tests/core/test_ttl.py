"""What has expired is on no read path, from the very instant on, whether or not a sweeper ran."""

from datetime import timedelta

import pytest

import langchain_memkit
import llamaindex_memkit
from memkit_core import Config, Memory, Ranking, Scope
from memkit_core.errors import CompactionError, RecordNotFoundError
from memkit_core.models import Status

ALICE = Scope.user("alice")
TALK = Scope.session("s", user="alice")
TEXT = "The tent is green."
DENSE, KEYWORD = Ranking(keyword=0.0), Ranking(dense=0.0)
ANY = list(Status)


def texts(records):
    return [one.content for one in records]


def hits(result):
    return texts(hit.record for hit in result)


def refused(call, *errors):
    """What a verb returns, nothing when it does not find the memory."""
    try:
        made = call()
    except errors:
        return []
    return texts(made if isinstance(made, list) else [made])


def llamaindex_put(memory):
    chat = llamaindex_memkit.MemkitMemory.from_defaults(memory=memory, session_id="s", user_id="alice")
    return [TEXT for message in chat.get(input="green tent") if TEXT in str(message.content)]


PATHS = {
    "get": lambda m, i: texts(one for one in [m.get(i, scope=TALK)] if one is not None),
    "list": lambda m, _: texts(m.list_records(scope=TALK)),
    "list by status": lambda m, _: texts(m.list_records(scope=TALK, status=ANY)),
    "list by tag": lambda m, _: texts(m.list_records(scope=TALK, tags=["t"])),
    "list by order": lambda m, _: texts(m.list_records(scope=TALK, order="importance")),
    "list by filter": lambda m, _: texts(m.list_records(scope=TALK, filters={"metadata.k": 1})),
    "list as of": lambda m, _: texts(m.list_records(scope=TALK, as_of=m._clock() - timedelta(days=1))),
    "history": lambda m, i: [TEXT for _ in m.history(i, scope=TALK)],
    "recall": lambda m, _: hits(m.recall("green tent", scope=TALK)),
    "recall by vector": lambda m, _: hits(m.recall("green tent", scope=TALK, ranking=DENSE)),
    "recall by words": lambda m, _: hits(m.recall("green tent", scope=TALK, ranking=KEYWORD)),
    "recall by metadata": lambda m, _: hits(m.recall("green tent", scope=TALK, filters={"metadata.k": 1})),
    "recall by status": lambda m, _: hits(m.recall("green tent", scope=TALK, status=ANY)),
    "recall of scopes": lambda m, _: hits(m.recall("green tent", scope=[TALK, ALICE])),
    "recall with turns": lambda m, _: hits(m.recall("green tent", scope=TALK, include_messages=True)),
    "recall as of": lambda m, _: hits(
        m.recall("green tent", scope=TALK, as_of=m._clock() - timedelta(days=1))
    ),
    "recall counted back": lambda m, _: hits(
        m.recall("green tent", scope=TALK, now=m._clock() - timedelta(days=1))
    ),
    "turn memories": lambda m, _: hits(m.turn_memories(TALK, "green tent")),
    "turn context": lambda m, _: [TEXT for _ in [0] if TEXT in m.turn_context(TALK, "green tent").prompt],
    "update": lambda m, i: refused(lambda: m.update(i, scope=TALK, importance=0.1), RecordNotFoundError),
    "archive": lambda m, i: refused(lambda: m.archive(i, scope=TALK), RecordNotFoundError),
    "undo": lambda m, i: refused(lambda: m.undo(i, scope=TALK), RecordNotFoundError),
    "supersede": lambda m, i: refused(lambda: m.supersede(i, TEXT, scope=TALK), RecordNotFoundError),
    "promote": lambda m, i: refused(lambda: m.promote(i, scope=TALK, to=ALICE), RecordNotFoundError),
    "promote the latest": lambda m, _: texts(
        one for one in [m.promote_latest(scope=TALK, tags=["t"])] if one is not None
    ),
    "compact": lambda m, i: refused(
        lambda: m.compact([i], scope=TALK, summarize=lambda records: records[0].content), CompactionError
    ),
    "langchain retriever": lambda m, _: [
        found.page_content
        for found in langchain_memkit.MemkitRetriever(memory=m, scope=TALK).invoke("green tent")
    ],
    "llamaindex retriever": lambda m, _: [
        found.node.text
        for found in llamaindex_memkit.MemkitRetriever(memory=m, scope=TALK).retrieve("green tent")
    ],
    "llamaindex memory": lambda m, _: llamaindex_put(m),
}


@pytest.fixture(params=["indexed", "not indexed yet", "no index", "ram"])
def memory(request, tmp_path, clock):
    """A memory whose vectors are found in each of the ways there are."""
    path = ":memory:" if request.param == "ram" else tmp_path / "memory.db"
    # Where the disk is as good as full nothing is indexed, and vectors are scanned.
    config = Config(disk_reserve=2**53) if request.param == "no index" else Config()
    with Memory.open(path, clock=clock, config=config) as opened:
        opened.flushes = request.param in ("indexed", "ram")
        if request.param == "not indexed yet":
            opened._worker.stop(1)
        yield opened


@pytest.mark.parametrize("path", PATHS)
def test_it_is_gone_from_the_instant_it_expires(memory, clock, path):
    """A millisecond before it is there; at the instant it is not."""
    ends = clock.now + timedelta(hours=1)
    record = memory.add(
        TEXT, scope=TALK, tags=["t"], metadata={"k": 1}, expires_at=ends, valid_from=clock.now - timedelta(days=9)
    )  # fmt: skip
    if memory.flushes:
        memory.flush()
    clock.now = ends - timedelta(milliseconds=1)
    if path not in ("archive", "undo", "supersede", "compact"):
        # Those would hide it themselves.
        assert TEXT in PATHS[path](memory, record.id)
    clock.now = ends
    assert PATHS[path](memory, record.id) == []


def test_a_pinned_memory_never_expires(memory, clock):
    """Its expiry waits until it is pinned no longer."""
    record = memory.add(TEXT, scope=TALK, expires_at=clock.now, pinned=True)
    clock.now += timedelta(days=999)
    assert PATHS["get"](memory, record.id) == PATHS["recall"](memory, record.id) == [TEXT]
    assert memory.upkeep.sweep().nothing
    memory.update(record.id, scope=TALK, pinned=False)
    assert PATHS["get"](memory, record.id) == PATHS["recall"](memory, record.id) == []
    assert memory.upkeep.sweep().records == 1


def test_it_is_neither_said_again_nor_superseded(memory, clock):
    """What is said after it expired is a memory of its own, with or without a key."""
    first = [memory.add(TEXT, scope=TALK, key=key, expires_at=clock.now) for key in (None, "k")]
    again = [memory.add(TEXT, scope=TALK, key=key) for key in (None, "k")]
    assert {one.id for one in first}.isdisjoint(one.id for one in again)
    assert [(one.version, one.supersedes) for one in again] == [(1, None), (1, None)]


def test_the_sweeper_frees_the_space(memory, clock):
    """In batches, of all scopes, with all that hangs on a record; what it counts is what was there."""
    for number in range(7):
        scope = Scope.user(f"u{number % 2}")
        record = memory.add(f"tent {number}", scope=scope, expires_at=clock.now + timedelta(hours=1 + number))
        memory.update(record.id, scope=scope, importance=0.1)
    memory.add("stays", scope=ALICE)
    clock.now += timedelta(hours=5)
    memory.flush()
    swept = memory.upkeep.sweep(batch=2)
    assert (swept.records, swept.vectors, swept.history) == (5, 5, 5)
    assert memory.upkeep.sweep().nothing
    memory.flush()
    assert memory.upkeep.verify().whole
    left = [one.content for name in ("u0", "u1") for one in memory.list_records(scope=Scope.user(name))]
    assert sorted(left) == ["tent 5", "tent 6"]
    assert texts(memory.list_records(scope=ALICE)) == ["stays"]
    assert [indexer.points() for indexer in memory._indexers.all()] == [3]
