"""Imports into a store that knows better: one value of a key, and summaries of what was said."""

import io
from datetime import timedelta

import pytest

from memkit_core import Memory, Message, Role, Scope
from memkit_core.conversation.summarizers import ExtractiveSummarizer
from memkit_core.stores.sqlite.database import Database
from memkit_core.transfer import importing

ALICE = Scope.user("alice")
TALK = Scope.session("s1", user=ALICE)


@pytest.fixture(params=["file", "memory"])
def two(request, tmp_path, clock):
    """Two memories, in files or without any."""
    places = [":memory:" if request.param == "memory" else tmp_path / f"{n}.db" for n in range(2)]
    first, second = (Memory.open(place, clock=clock, embedder="none") for place in places)
    yield first, second
    first.close()
    second.close()


def exported(memory, **options):
    out = io.StringIO()
    memory.export_jsonl(out, **({"everything": True} | options))
    return out.getvalue()


def lines(memory):
    """All lines but the header, in an order that does not depend on when they came."""
    return sorted(exported(memory).split("\n")[1:])


def take(memory, text):
    return memory.import_jsonl(io.StringIO(text))


def themes(memory, **options):
    return [record.content for record in memory.list_records(scope=ALICE, **options)]


def test_one_value_of_a_key_holds_after_an_import(two, clock):
    """The newer value holds wherever it comes from, the other is superseded, and both stores agree."""
    one, two = two
    one.add("dark", scope=ALICE, key="ui.theme", id="dark")
    clock.now += timedelta(days=1)
    two.add("light", scope=ALICE, key="ui.theme", id="light")
    clock.now += timedelta(days=1)
    first, second = exported(one), exported(two)
    assert take(one, second).superseded == 1
    report = take(two, first)
    assert (report.inserted, report.superseded) == ({"records": 1}, 1)
    for memory in (one, two):
        assert themes(memory) == ["light"]
        dark = memory.get("dark", scope=ALICE)
        assert (dark.status, dark.superseded_by, dark.valid_until) == (
            "superseded",
            "light",
            memory.get("light", scope=ALICE).created_at,
        )
        assert [hit.record.id for hit in memory.recall("dark light", scope=ALICE)] == ["light"]
        assert themes(memory, as_of=dark.created_at) == ["dark"]
        assert memory.upkeep.verify().whole
    assert lines(one) == lines(two)


def test_importing_twice_settles_once(two, clock):
    """The same files again change nothing, in any order, and what was settled moves as it is."""
    one, two = two
    one.add("dark", scope=ALICE, key="ui.theme")
    clock.now += timedelta(days=1)
    two.add("light", scope=ALICE, key="ui.theme")
    files = [exported(one), exported(two)]
    for text in files:
        take(two, text)
    after = exported(two)
    for text in (*files, after):
        assert not take(two, text).changed
    assert exported(two).split("\n")[1:] == after.split("\n")[1:]
    with Memory.open(":memory:", clock=clock, embedder="none") as third:
        assert take(third, after).superseded == 0
        assert exported(third).split("\n")[1:] == after.split("\n")[1:]


def test_a_later_line_decides_first(two, clock):
    """Values that gave way on one another in the exporting store do so here, however their lines stand."""
    one, two = two
    one.add("dark", scope=ALICE, key="ui.theme", id="dark")
    clock.now += timedelta(days=1)
    one.add("light", scope=ALICE, key="ui.theme", id="light")
    take(two, exported(one))
    clock.now += timedelta(days=1)
    # "dark" holds again, though it is older, and its line stands first.
    one.undo("light", scope=ALICE)
    report = take(two, exported(one))
    assert report.superseded == 0
    assert themes(two) == themes(one) == ["dark"]
    assert lines(one) == lines(two)


def test_what_an_import_settled_can_be_undone(two, clock):
    """The value that gave way holds again, and the one that came is archived."""
    one, two = two
    one.add("dark", scope=ALICE, key="ui.theme", id="dark")
    clock.now += timedelta(days=1)
    two.add("light", scope=ALICE, key="ui.theme", id="light")
    take(one, exported(two))
    one.undo("dark", scope=ALICE)
    assert themes(one) == ["dark"]
    assert one.get("light", scope=ALICE).status == "archived"
    one.undo("dark", scope=ALICE)
    assert themes(one) == ["light"]


def test_what_has_expired_holds_no_key(two, clock):
    """A value that has expired here, swept or not, does not stand in the way of one that comes."""
    one, two = two
    one.add(
        "dark", scope=ALICE, key="ui.theme", valid_from="2027-01-01", expires_at=clock.now + timedelta(days=1)
    )
    two.add("light", scope=ALICE, key="ui.theme")
    clock.now += timedelta(days=2)
    assert take(one, exported(two)).superseded == 0
    assert themes(one) == ["light"]


def test_two_users_become_one(two, clock):
    """Under one owner the values of both meet, and the newer holds."""
    one, two = two
    one.add("dark", scope=Scope.user("al"), key="ui.theme")
    clock.now += timedelta(days=1)
    one.add("light", scope=ALICE, key="ui.theme")
    report = two.import_jsonl(io.StringIO(exported(one)), scopes={Scope.user("al"): ALICE})
    assert report.superseded == 1
    assert themes(two) == ["light"]


# ------------------------------------------------------------------------------- summaries


def say(memory, *said, scope=TALK):
    memory.sessions.append([Message(role=Role.USER, text=text, id=i) for i, text in said], scope=scope)


@pytest.fixture
def summarised(two):
    """Two memories with one conversation, summarised in the first."""
    one, two = two
    say(one, *((f"m{n}", f"The code {n} is secret.") for n in range(40)))
    take(two, exported(one))
    one.summaries.update(scope=TALK, summarizer=ExtractiveSummarizer(), threshold=100)
    assert one.summaries.get(scope=TALK) is not None
    return one, two


def test_a_summary_of_the_same_messages_comes(summarised, clock):
    """Into an empty store, into one that has the messages already, and as an increment."""
    one, two = summarised
    text = exported(one)
    assert take(two, text).inserted == {"summaries": 1}
    assert two.summaries.get(scope=TALK) == one.summaries.get(scope=TALK)
    assert not take(two, text).changed
    two.summaries.clear(scope=TALK)
    say(two, ("more", "The conversation goes on."))
    assert take(two, text).inserted == {"summaries": 1}
    with Memory.open(":memory:", clock=clock, embedder="none") as third:
        assert take(third, text).inserted["summaries"] == 1


def test_an_increment_brings_a_summary(two):
    """Though the messages it covers are not in the file."""
    one, two = two
    say(one, *((f"m{n}", f"The code {n} is secret.") for n in range(40)))
    out = io.StringIO()
    watermark = one.export_jsonl(out, everything=True).watermark
    take(two, out.getvalue())
    one.summaries.update(scope=TALK, threshold=100)
    assert take(two, exported(one, watermark=watermark)).inserted == {"summaries": 1}
    assert lines(one) == lines(two)


@pytest.mark.parametrize("change", ["replaced", "deleted", "elsewhere", "shorter"])
def test_a_summary_of_other_messages_stays_away(summarised, clock, change):
    """What a message said before it was changed here does not come back as part of a summary."""
    one, two = summarised
    text = exported(one)
    clock.now += timedelta(hours=1)
    if change == "replaced":
        say(two, ("m0", "Nothing is secret."))
    elif change == "deleted":
        two.sessions.clear(scope=TALK)
        say(two, ("other", "Something else."))
    elif change == "shorter":
        # It never knew what the session began with, which still stands here.
        one.sessions.delete(["m0", "m1"], scope=TALK)
        one.summaries.update(scope=TALK, threshold=100)
        text = exported(one)
    else:
        one.sessions.clear(scope=TALK)
        say(one, *((f"n{n}", f"The word {n} is secret.") for n in range(40)))
        one.summaries.update(scope=TALK, threshold=100)
        text = exported(one)
    for _ in range(2):
        report = take(two, text)
        assert two.summaries.get(scope=TALK) is None
        assert [line.reason for line in report.skipped_lines] == [
            "it covers other messages than those that are there"
        ]
    assert not report.changed


def test_who_settled_first_stops_nobody(tmp_path, clock, monkeypatch):
    """Where another writer settles what an import was about to, the import goes on with the keys behind it."""
    monkeypatch.setattr(importing, "BATCH", 2)
    path = tmp_path / "one.db"
    with (
        Memory.open(path, clock=clock, embedder="none") as one,
        Memory.open(path, clock=clock, embedder="none") as other,
        Memory.open(tmp_path / "two.db", clock=clock, embedder="none") as two,
    ):
        for name, memory in (("a", one), ("b", two)):
            for number in range(5):
                memory.add(f"{name} {number}", scope=ALICE, key=f"k{number}", id=f"{name}{number}")
        write, ahead = Database.write, [lambda: other._store.portable().settle_keys(now=clock(), limit=2)]

        def contended(database, operation):
            if operation == "settle keys" and ahead:
                ahead.pop()()
            return write(database, operation)

        monkeypatch.setattr(Database, "write", contended)
        assert take(one, exported(two)).superseded == 3
        assert sorted(themes(one)) == [f"b {number}" for number in range(5)]
