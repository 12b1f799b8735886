"""What is no longer so is superseded, not overwritten; what was so can be asked for."""

from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import Config, Memory, Message, NewMemory, Ranking, Role, Scope
from memkit_core.errors import ConflictError, InvalidInputError, InvalidTransitionError
from memkit_core.models import RecordType, Status

ALICE = Scope.user("alice")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["file", "ram"])
def memory(request, tmp_path, clock):
    """A memory on each kind of store."""
    path = tmp_path / "memory.db" if request.param == "file" else ":memory:"
    with Memory.open(path, clock=clock) as opened:
        yield opened


def day(number):
    return NEW_YEAR + timedelta(days=number)


def moved(memory, clock):
    """Alice lives in Rome from day 0, in Oslo from day 10 and in Lima from day 20."""
    made = []
    for number, city in ((0, "Rome"), (10, "Oslo"), (20, "Lima")):
        clock.now = day(number)
        made.append(memory.add(f"Alice lives in {city}.", scope=ALICE, key="home"))
    clock.now = day(30)
    return made


def cities(records):
    return [one.content.split()[-1].strip(".") for one in records]


def test_a_key_supersedes_without_a_model(memory, clock):
    """Reads give the current value; the earlier ones are kept, linked, and told by the history."""
    rome, oslo, lima = moved(memory, clock)
    assert cities(memory.list_records(scope=ALICE)) == ["Lima"]
    assert cities(hit.record for hit in memory.recall("where does Alice live", scope=ALICE)) == ["Lima"]
    kept = [memory.get(one.id, scope=ALICE) for one in (rome, oslo, lima)]
    assert [one.status for one in kept] == ["superseded", "superseded", "active"]
    assert [one.supersedes for one in kept] == [None, rome.id, oslo.id]
    assert [one.superseded_by for one in kept] == [oslo.id, lima.id, None]
    assert [one.valid_until for one in kept] == [day(10), day(20), None]
    history = memory.history(oslo.id, scope=ALICE)
    assert [change.kind.value for change in history] == ["created", "superseded"]
    told = memory.recall("Rome", scope=ALICE, status="superseded")
    assert sorted(cities(hit.record for hit in told)) == ["Oslo", "Rome"]


def test_saying_the_value_again_is_no_new_value(memory):
    """The same value of the same key is one record that was said twice; without a key it is another."""
    first = memory.add("dark", scope=ALICE, key="ui.theme")
    again = memory.add("Dark!", scope=ALICE, key="ui.theme")
    assert (again.id, again.mentions) == (first.id, 2)
    assert memory.add("dark", scope=ALICE).id != first.id
    many = memory.add_many(
        [NewMemory(content=text, key="ui.theme") for text in ("light", "blue")], scope=ALICE
    )
    assert [one.status for one in many] == ["superseded", "active"]


def test_supersede_by_id(memory, clock):
    """The new memory takes over what the old one was about, and says itself where it came from."""
    old = memory.add(
        "Alice is vegetarian.", scope=ALICE, type="preference", tags=["food"], metadata={"a": 1},
        importance=0.9, pinned=True, source="chat", confidence=0.5, agent_id="one",
    )  # fmt: skip
    clock.now = day(5)
    new = memory.supersede(
        old.id, "Alice eats fish.", scope=ALICE, valid_from=day(3), source="mail", confidence=0.9,
        agent_id="two", origin="assistant", source_message_ids=["m"],
    )  # fmt: skip
    assert (new.type, new.tags, new.metadata, new.importance, new.pinned) == (
        RecordType.PREFERENCE, ("food",), {"a": 1}, 0.9, True,
    )  # fmt: skip
    assert (new.source, new.confidence, new.agent_id, new.origin, new.source_message_ids) == (
        "mail", 0.9, "two", "assistant", ("m",),
    )  # fmt: skip
    assert (new.supersedes, new.valid_from, new.created_at, new.version) == (old.id, day(3), day(5), 1)
    gone = memory.get(old.id, scope=ALICE)
    assert (gone.status, gone.valid_until, gone.content) == ("superseded", day(3), old.content)
    assert memory.get(new.id, scope=ALICE) == new


def test_what_is_refused_changes_nothing(memory):
    """A superseded memory, a version that is not the stored one, a text that cannot be: typed errors."""
    old = memory.add("one", scope=ALICE)
    for wrong in ("", "  ", None):
        with pytest.raises(InvalidInputError):
            memory.supersede(old.id, wrong, scope=ALICE)
    with pytest.raises(ConflictError, match=r"version 1\b.*version 2\b"):
        memory.supersede(old.id, "two", scope=ALICE, expected_version=2)
    assert memory.get(old.id, scope=ALICE) == old
    new = memory.supersede(old.id, "two", scope=ALICE, expected_version=1)
    with pytest.raises(InvalidTransitionError, match="superseded"):
        memory.supersede(old.id, "three", scope=ALICE)
    assert [one.id for one in memory.list_records(scope=ALICE)] == [new.id]
    for wrong in ("", 7):
        with pytest.raises(InvalidInputError, match="key"):
            memory.add("x", scope=ALICE, key=wrong)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (day(0) - timedelta(milliseconds=1), []),
        (day(0), ["Rome"]),
        (day(10) - timedelta(milliseconds=1), ["Rome"]),
        (day(10), ["Oslo"]),
        (day(20), ["Lima"]),
        (day(99), ["Lima"]),
    ],
    ids=str,
)
def test_as_of_gives_what_held_then(memory, clock, moment, expected):
    """From the very instant it holds up to the instant it does not; the same in recall and lists."""
    moved(memory, clock)
    assert cities(memory.list_records(scope=ALICE, as_of=moment)) == expected
    hits = memory.recall("where does Alice live", scope=ALICE, as_of=moment)
    assert cities(hit.record for hit in hits) == expected
    assert not hits.missing


def test_as_of_and_what_else_can_be_asked(memory, clock):
    """Filters, types and tags still hold; archived and pending ones are shown only when asked for."""
    moved(memory, clock)
    old = memory.add("Alice rows.", scope=ALICE, tags=["sport"], valid_from=day(-100))
    memory.add("Alice sings.", scope=ALICE, pending=True, valid_from=day(-100))
    memory.archive(old.id, scope=ALICE)
    assert cities(memory.list_records(scope=ALICE, as_of=day(5))) == ["Rome"]
    everything = memory.list_records(scope=ALICE, as_of=day(5), status=list(Status))
    assert sorted(cities(everything)) == ["Rome", "rows", "sings"]
    assert cities(memory.list_records(scope=ALICE, as_of=day(5), status="archived", tags=["sport"])) == [
        "rows"
    ]
    assert cities(memory.list_records(scope=ALICE, as_of=day(25), filters={"key": "home"})) == ["Lima"]
    assert len(memory.list_records(scope=ALICE, as_of=day(25), types=["event"])) == 0
    with pytest.raises(InvalidInputError):
        memory.recall("x", scope=ALICE, as_of="some day")


def test_as_of_reads_turns_by_their_time(memory, clock):
    """A turn is found as of a time after it was said."""
    talk = Scope.session("s", user="alice")
    memory.sessions.append([Message(role=Role.USER, text="I row", created_at=day(3))], scope=talk)
    for moment, found in ((day(2), 0), (day(3), 1)):
        assert len(memory.recall("row", scope=ALICE, include_messages=True, as_of=moment)) == found


def test_a_year_of_versions_hides_nothing(tmp_path, clock):
    """However many versions of other times stand nearer to the query, what held then is found by vector."""
    with Memory.open(tmp_path / "m.db", clock=clock, config=Config(candidates=5)) as memory:
        for number in range(90):
            clock.now = day(number)
            memory.add(f"theme number {number}", scope=ALICE, key="theme")
        memory.add("zebra", scope=ALICE, valid_from=day(0))
        memory.flush()
        hits = memory.recall("theme number", scope=ALICE, as_of=day(40), top_k=1)
        assert [hit.record.content for hit in hits] == ["theme number 40"]
        dense = memory.recall("theme number", scope=ALICE, as_of=day(40), ranking=Ranking(keyword=0.0))
        assert [hit.record.content for hit in dense] == ["theme number 40", "zebra"]
        assert not dense.missing


def test_deleting_one_version_leaves_the_others(memory, clock):
    """A deleted value leaves a gap in what held when, no error."""
    _, oslo, _ = moved(memory, clock)
    memory.delete(oslo.id, scope=ALICE)
    assert cities(memory.list_records(scope=ALICE, as_of=day(15))) == []
    assert cities(memory.list_records(scope=ALICE)) == ["Lima"]


def test_two_processes_leave_one_value(tmp_path, start_script):
    """Two processes that write values of one key at once: one value holds, the rest is one chain."""
    script = """
        import sys
        from memkit_core import Memory, Scope
        with Memory.open("memory.db") as memory:
            print("ready", flush=True)
            sys.stdin.readline()
            for i in range(30):
                memory.add(f"{sys.argv[1]} {i}", scope=Scope.user("alice"), key="k", background=True)
    """
    writers = [start_script(script, name) for name in ("p", "q")]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with Memory.open(tmp_path / "memory.db") as memory:
        records = memory.list_records(scope=ALICE, status=list(Status), limit=999).records
        assert len(records) == 60
        by_id = {one.id: one for one in records}
        (current,) = [one for one in records if one.status is Status.ACTIVE]
        length = 1
        while current.supersedes is not None:
            current, length = by_id[current.supersedes], length + 1
        assert length == 60
        assert memory.upkeep.verify().whole
