"""Saying the same thing again keeps one record, whoever says it and however many at once."""

import dataclasses
import threading

import pytest

from memkit_core import AsyncMemory, Memory, Message, NewMemory, Role, Scope
from memkit_core.models import MESSAGES

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
TEXT = "I moved to Denver in May."


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db") as opened:
        yield opened


def listed(memory, scope=ALICE):
    return memory.list_records(scope=scope, limit=9999).records


def test_the_same_fact_again_is_the_first_record(memory):
    """The first keeps id, content, metadata and created_at; what is new joins it; a counter moves."""
    first = memory.add(TEXT, scope=ALICE, tags=["home"], metadata={"who": "ann"}, source="chat")
    again = memory.add(
        " i moved to  denver in may", scope=ALICE, tags=["City"], metadata={"who": "bob", "n": 1}, source="form"
    )  # fmt: skip
    assert again == dataclasses.replace(
        first,
        tags=("home", "city"),
        metadata={"who": "ann", "n": 1},
        mentions=2,
        version=2,
        updated_at=again.updated_at,
        importance=max(first.importance, again.importance),
    )
    assert listed(memory) == (again,)
    assert [hit.record.id for hit in memory.recall("where did she move?", scope=ALICE)] == [first.id]


def test_a_given_id_is_never_merged(memory):
    """A given id means upsert: a new id makes a record of its own, a known one is replaced."""
    memory.add(TEXT, scope=ALICE)
    memory.add(TEXT, scope=ALICE, id="mine")
    replaced = memory.add(TEXT, scope=ALICE, id="mine", tags=["x"])
    assert (replaced.version, replaced.mentions, replaced.tags) == (2, 1, ("x",))
    assert len(listed(memory)) == 2


def test_two_events_are_two_memories(memory):
    """The same text at another time, or at none, is a memory of its own; a time may come in any form."""
    for moment in ("2026-03-02", "2026-03-03", None):
        memory.add("Had a fever", scope=ALICE, type="event", occurred_at=moment)
        memory.add("Lives in Oslo", scope=ALICE, valid_from=moment)
    again = memory.add("had a fever.", scope=ALICE, type="event", occurred_at="2026-03-02T01:00:00+01:00")
    assert again.mentions == 2
    days = sorted(str(one.occurred_at or one.valid_from)[:10] for one in listed(memory))
    assert days == ["2026-03-02", "2026-03-02", "2026-03-03", "2026-03-03", "None", "None"]


def test_what_a_merge_drops_is_kept_in_the_history(memory):
    """The first wins, and what the second said otherwise can still be looked up."""
    first = memory.add(TEXT, scope=ALICE, metadata={"who": "ann"}, source="chat", confidence=0.9)
    memory.add(TEXT, scope=ALICE, metadata={"who": "bob"}, source="form", confidence=0.2)
    change = memory.history(first.id, scope=ALICE)[-1]
    assert change.dropped == {"metadata": {"who": "bob"}, "source": "form", "confidence": 0.2}


def test_other_owners_and_types_have_their_own(memory):
    """Another scope or type, and an expired record, is no duplicate."""
    session = Scope.session("s1", user="alice")
    memory.add(TEXT, scope=ALICE, expires_at="2020-01-01")
    for scope in (ALICE, BOB, session):
        assert memory.add(TEXT, scope=scope).mentions == 1
    assert memory.add(TEXT, scope=ALICE, type="event").mentions == 1
    assert len(listed(memory)) == 2


def test_duplicates_inside_one_call(memory):
    """`add_many` merges as adding one after the other would; each place holds what it became."""
    stored = memory.add_many(
        [TEXT, "I like tea.", NewMemory(content=TEXT.upper(), tags=["x"]), NewMemory(content=TEXT, id="own")],
        scope=ALICE,
    )
    assert stored[0] == stored[2]
    assert (stored[0].content, stored[0].mentions, stored[0].tags) == (TEXT, 2, ("x",))
    assert [one.mentions for one in stored] == [2, 1, 2, 1]
    assert len(listed(memory)) == 3


def test_messages_and_documents_are_never_merged(memory):
    """The same message twice is two messages, the same document twice two documents."""
    session = Scope.session("s1", user="alice")
    said = [Message(role=Role.USER, text=TEXT), Message(role=Role.USER, text=TEXT)]
    memory.sessions.append(said, scope=session)
    assert len(memory.list_records(scope=session, space=MESSAGES).records) == 2
    documents = memory.documents(scope=ALICE)
    documents.put([TEXT])
    documents.put([TEXT])
    assert len(documents.list().records) == 2


def test_how_often_it_was_said_can_be_filtered(memory):
    """`mentions` is a field like any other."""
    memory.add_many([TEXT, TEXT, "I like tea."], scope=ALICE)
    found = memory.list_records(scope=ALICE, filters={"mentions": {"gte": 2}})
    assert [one.content for one in found] == [TEXT]


def test_a_merge_embeds_nothing(tmp_path):
    """What is said again has its vector already."""

    class Counting:
        model = "counting"
        texts = 0

        def embed_documents(self, texts):
            self.texts += len(texts)
            return [[1.0, float(len(text))] for text in texts]

        def embed_query(self, text):
            return [1.0, float(len(text))]

    embedder = Counting()
    with Memory.open(tmp_path / "m.db", embedder=embedder) as memory:
        memory.add(TEXT, scope=ALICE)
        memory.add("“" + TEXT + "”", scope=ALICE, tags=["x"])
        assert memory.flush()
        assert embedder.texts == 1


@pytest.mark.parametrize("kept", [True, False], ids=["file", "memory"])
def test_eight_threads_add_the_same_fact(tmp_path, kept):
    """Of eight threads that add the same fact to one user at once, one record is left (report B61)."""
    together = threading.Barrier(8)
    with Memory.open(tmp_path / "m.db" if kept else ":memory:") as memory:

        def say(number):
            own = Scope.user(f"u{number}")
            together.wait()
            for i in range(5):
                memory.add(TEXT, scope=ALICE, tags=[f"t{number}"])
                memory.add(f"{TEXT} {i}", scope=own)

        threads = [threading.Thread(target=say, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (one,) = listed(memory)
        assert (one.mentions, one.version) == (40, 40)
        assert set(one.tags) == {f"t{number}" for number in range(8)}
        for number in range(8):
            assert len(listed(memory, Scope.user(f"u{number}"))) == 5
        assert memory.flush()
        assert [hit.record.id for hit in memory.recall("Denver", scope=ALICE)] == [one.id]


async def test_gathered_adds_of_the_same_fact(tmp_path):
    """Two awaited adds of the same fact at once leave one record (report B61)."""
    import asyncio

    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        one, other = await asyncio.gather(memory.add(TEXT, scope=ALICE), memory.add(TEXT, scope=ALICE))
        assert one.id == other.id
        assert {one.mentions, other.mentions} == {1, 2}


def test_two_processes_add_the_same_fact(tmp_path, start_script):
    """Two processes that add the same facts to one user at once leave one record each (report B61)."""
    writer = """
        import sys
        from memkit_core import Memory, Scope
        name = sys.argv[1]
        memory = Memory.open("memory.db")
        print("ready", flush=True)
        sys.stdin.readline()
        for i in range(30):
            memory.add(f"Fact number {i}.", scope=Scope.user("alice"), tags=[name], background=True)
            memory.add(f"Own fact number {i}.", scope=Scope.user(name), background=True)
        memory.close()
        print("done", flush=True)
    """
    writers = [start_script(writer, name) for name in ("p", "q")]
    for one in writers:
        assert one.stdout.readline() == "ready\n"
    for one in writers:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in writers:
        assert one.stdout.read() == "done\n"
        assert one.wait(60) == 0
    with Memory.open(tmp_path / "memory.db") as memory:
        kept = listed(memory)
        assert sorted(one.content for one in kept) == sorted(f"Fact number {i}." for i in range(30))
        assert {one.mentions for one in kept} == {2}
        assert {tuple(sorted(one.tags)) for one in kept} == {("p", "q")}
        for name in ("p", "q"):
            assert len(listed(memory, Scope.user(name))) == 30
