"""Memories with a shape: profiles, episodes, skills."""

from datetime import UTC, datetime, timedelta

import pytest

from memkit_core import AsyncMemory, Episode, Memory, Profile, Scope, Skill
from memkit_core.errors import InvalidInputError, ScopeError
from memkit_core.models import RecordType, Status

ALICE, BOB = Scope.user("alice"), Scope.user("bob")
DAY = datetime(2025, 7, 1, 9, 30, tzinfo=UTC)
HOME = {"name": "Rose", "address": {"city": "Oslo", "zip": 150}, "likes": ["tea", "rowing"], "pets": []}


@pytest.fixture(params=["file", "ram"])
def memory(request, tmp_path, clock):
    """A memory on each kind of store."""
    path = tmp_path / "memory.db" if request.param == "file" else ":memory:"
    with Memory.open(path, clock=clock) as opened:
        yield opened


def test_one_profile_a_key_in_versions(memory, clock):
    """The newest document is the profile; earlier ones are kept and told as of their time."""
    first = memory.profiles.add(Profile(key="person", document=HOME), scope=ALICE)
    began = clock.now
    clock.now += timedelta(days=1)
    changed = HOME | {"address": {"city": "Lima"}}
    second = memory.profiles.add(Profile(key="person", document=changed), scope=ALICE)
    other = memory.profiles.add(Profile(key="work", document={"role": "cook"}), scope=ALICE)
    assert memory.profiles.get("person", scope=ALICE) == second
    assert memory.profiles.get("person", scope=ALICE).value.document == changed
    then = memory.profiles.get("person", scope=ALICE, as_of=began)
    assert (then.record.id, then.value.document) == (first.record.id, HOME)
    assert (second.record.supersedes, then.record.superseded_by) == (first.record.id, second.record.id)
    assert memory.profiles.get("work", scope=ALICE).record.id == other.record.id
    assert memory.profiles.get("person", scope=BOB) is None
    assert len(memory.list_records(scope=ALICE, types=["profile"])) == 2
    memory.undo(second.record.id, scope=ALICE)
    assert memory.profiles.get("person", scope=ALICE).value.document == HOME


def test_a_profile_that_differs_in_case_is_another_version(memory):
    """Documents are compared exactly; the very same one again changes nothing."""
    one = memory.profiles.add(Profile(key="person", document={"name": "Rose"}), scope=ALICE)
    assert memory.profiles.add(Profile(key="person", document={"name": "Rose"}), scope=ALICE) == one
    two = memory.profiles.add(Profile(key="person", document={"name": "rose"}), scope=ALICE)
    assert two.record.supersedes == one.record.id
    assert memory.profiles.get("person", scope=ALICE).value.document == {"name": "rose"}


def test_the_renderings(memory, clock):
    """Each becomes text as documented, with its type, key and time."""
    profile = memory.profiles.add(Profile(key="person", document=HOME), scope=ALICE).record
    assert profile.content == (
        "person\nname: Rose\naddress.city: Oslo\naddress.zip: 150\nlikes: tea, rowing\npets: "
    )
    assert (profile.type, profile.key) == (RecordType.PROFILE, "person")
    episode = memory.episodes.add(
        Episode(
            summary="Sold the boat.",
            occurred_at=DAY,
            outcome="paid",
            key_insights=["ask early"],
            topic="boat",
        ),
        scope=ALICE,
    ).record
    assert episode.content == "Sold the boat.\nTopic: boat\nOutcome: paid\nInsight: ask early"
    assert (episode.type, episode.occurred_at) == (RecordType.EVENT, DAY)
    skill = memory.skills.add(
        Skill(task_type="Make tea", steps=["boil", "pour"], examples=["green tea"]), scope=ALICE
    ).record
    assert skill.content == "Make tea\n1. boil\n2. pour\nExample: green tea"
    assert skill.type is RecordType.SKILL
    plain = memory.episodes.add(Episode(summary="It rained."), scope=ALICE)
    assert (plain.record.content, plain.record.occurred_at) == ("It rained.", None)


def test_what_is_added_is_got(memory):
    """Values come back as they went in, by id in their own room only."""
    episode = Episode(
        summary="Sold the boat.", occurred_at=DAY, outcome="paid", key_insights=("ask early",), topic="boat"
    )
    skill = Skill(task_type="Make tea", steps=("boil", "pour"), examples=("green tea",))
    sold = memory.episodes.add(
        episode, scope=ALICE, tags=["T"], metadata={"k": 1}, importance=0.2, source="s", confidence=0.5,
        source_message_ids=["m"],
    )  # fmt: skip
    made = memory.skills.add(skill, scope=ALICE)
    assert memory.episodes.get(sold.record.id, scope=ALICE) == sold
    assert (sold.value, made.value) == (episode, skill)
    assert memory.skills.get(made.record.id, scope=ALICE).value == skill
    assert memory.skills.get(sold.record.id, scope=ALICE) is None
    assert memory.episodes.get(sold.record.id, scope=BOB) is None
    assert memory.episodes.get("unknown", scope=ALICE) is None
    record = sold.record
    assert (record.tags, record.metadata["k"], record.importance) == (("t",), 1, 0.2)
    assert (record.source, record.confidence, record.source_message_ids) == ("s", 0.5, ("m",))
    event = memory.add("something", scope=ALICE, type="event")
    assert memory.episodes.get(event.id, scope=ALICE) is None
    assert memory.episodes.add(Episode(summary="sold the boat"), scope=ALICE).record.id != record.id
    assert memory.episodes.add(episode, scope=ALICE).record.mentions == 2


def test_each_is_searched_in_its_room(memory):
    """By words and vectors, with filters into the value; never what has no value."""
    memory.add("The boat trip of the plain event.", scope=ALICE, type="event")
    memory.add("The boat.", scope=ALICE)
    for topic, city in (("boat", "Oslo"), ("car", "Lima")):
        memory.episodes.add(Episode(summary=f"Sold the {topic} boat in {city}.", topic=topic), scope=ALICE)
        memory.skills.add(Skill(task_type=f"Sell a {topic} boat", steps=["wash it"]), scope=ALICE)
        memory.profiles.add(Profile(key=topic, document={"boat": {"city": city}}), scope=ALICE)
    found = memory.episodes.search("boat", scope=ALICE)
    assert {one.value.topic for one in found} == {"boat", "car"}
    assert all(0 < one.score <= 1 for one in found)
    found = memory.episodes.search("boat", scope=[ALICE, BOB], filters={"metadata.episode.topic": "car"})
    assert [one.value.topic for one in found] == ["car"]
    assert len(memory.skills.search("how to sell a boat", scope=ALICE, top_k=1)) == 1
    found = memory.profiles.search("boat city", scope=ALICE, filters={"metadata.profile.boat.city": "Lima"})
    assert [one.value.key for one in found] == ["car"]
    memory.profiles.add(Profile(key="car", document={"boat": "none"}), scope=ALICE)
    assert memory.profiles.search("Lima", scope=ALICE, filters={"key": "car"})[0].value.document == {
        "boat": "none"
    }
    assert memory.episodes.search("boat", scope=BOB) == []


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m: m.profiles.add(Profile(key="", document={}), scope=ALICE),
        lambda m: m.profiles.add(Profile(key="k", document=["x"]), scope=ALICE),
        lambda m: m.profiles.add(Profile(key="k", document={"x": {1}}), scope=ALICE),
        lambda m: m.profiles.add({"key": "k"}, scope=ALICE),
        lambda m: m.profiles.add(Profile(key="k", document={}), scope=ALICE, metadata={"profile": 1}),
        lambda m: m.profiles.get("", scope=ALICE),
        lambda m: m.episodes.add(Episode(summary=" "), scope=ALICE),
        lambda m: m.episodes.add(Episode(summary="x", outcome=""), scope=ALICE),
        lambda m: m.episodes.add(Episode(summary="x", key_insights=[1]), scope=ALICE),
        lambda m: m.episodes.add(Episode(summary="x", occurred_at="some day"), scope=ALICE),
        lambda m: m.skills.add(Skill(task_type="x", steps=None), scope=ALICE),
        lambda m: m.skills.add(Episode(summary="x"), scope=ALICE),
    ],
)
def test_what_has_no_shape_is_refused(memory, wrong):
    """A typed error, and nothing is written."""
    with pytest.raises(InvalidInputError):
        wrong(memory)
    assert len(memory.list_records(scope=ALICE, status=list(Status))) == 0


def test_a_scope_is_required(memory):
    """As in every verb."""
    with pytest.raises(ScopeError):
        memory.profiles.add(Profile(key="k", document={}), scope=None)
    with pytest.raises(ScopeError):
        memory.episodes.search("x", scope=None)
    with pytest.raises(ScopeError):
        memory.skills.get("x", scope=None)


def test_a_value_that_was_overwritten_is_no_value(memory):
    """A record whose metadata was changed into something else is still a record, and in no room."""
    sold = memory.episodes.add(Episode(summary="Sold the boat."), scope=ALICE)
    memory.update(sold.record.id, scope=ALICE, metadata={"episode": {"summary": 1}})
    assert memory.episodes.get(sold.record.id, scope=ALICE) is None
    assert memory.episodes.search("boat", scope=ALICE) == []
    assert memory.get(sold.record.id, scope=ALICE) is not None


async def test_awaited(tmp_path):
    """The rooms of `AsyncMemory` do the same."""
    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        profile = await memory.profiles.add(Profile(key="k", document={"a": "boat"}), scope=ALICE)
        assert await memory.profiles.get("k", scope=ALICE) == profile
        assert len(await memory.profiles.search("boat", scope=ALICE)) == 1
        episode = await memory.episodes.add(Episode(summary="A boat."), scope=ALICE)
        assert await memory.episodes.get(episode.record.id, scope=ALICE) == episode
        assert len(await memory.episodes.search("boat", scope=ALICE)) == 1
        skill = await memory.skills.add(Skill(task_type="Row a boat", steps=["row"]), scope=ALICE)
        assert await memory.skills.get(skill.record.id, scope=ALICE) == skill
        assert len(await memory.skills.search("boat", scope=ALICE)) == 1
