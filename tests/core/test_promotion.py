"""Memories go up, from narrow scopes to broad ones, and several become one."""

import asyncio
import dataclasses
import threading

import pytest

from memkit_core import AsyncMemory, Memory, Scope
from memkit_core.errors import (
    CompactionError,
    InvalidInputError,
    InvalidPromotionError,
    InvalidTransitionError,
    MemkitError,
    RecordNotFoundError,
    ScopeError,
)
from memkit_core.models import RecordType, Status

USER = Scope.user("alice")
TALK = Scope.session("s", user="alice")
ORG, SPACE = Scope.org("o"), Scope.workspace("w")
THING = Scope.object("ticket")
INSIDE = Scope.user("alice", workspace=Scope.workspace("w", org="o"))


@pytest.fixture(params=["file", "ram"])
def memory(request, tmp_path, clock):
    """A memory on each kind of store."""
    path = tmp_path / "memory.db" if request.param == "file" else ":memory:"
    with Memory.open(path, clock=clock) as opened:
        yield opened


@pytest.mark.parametrize("source", [TALK, THING, USER, SPACE, ORG], ids=lambda scope: scope.kind)
@pytest.mark.parametrize("target", [TALK, THING, USER, SPACE, ORG], ids=lambda scope: scope.kind)
def test_only_upwards(memory, source, target):
    """A session goes to all but sessions, an object to all above it, a user to workspace and org, that to org."""
    upwards = {
        "session": {"user", "workspace", "org", "object"},
        "object": {"user", "workspace", "org"},
        "user": {"workspace", "org"},
        "workspace": {"org"},
        "org": set(),
    }
    record = memory.add("The tent is green.", scope=source)
    if target.kind in upwards[source.kind]:
        assert memory.promote(record.id, scope=source, to=target).scope == target
        assert memory.get(record.id, scope=source) == record
    else:
        with pytest.raises(InvalidPromotionError, match=f"{source.kind}:"):
            memory.promote(record.id, scope=source, to=target)
        assert len(memory.list_records(scope=target)) == (source == target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (TALK, Scope.user("bob")),
        (TALK, Scope.user("alice", workspace="w")),
        (Scope.object("x", within=USER), Scope.user("bob")),
        (INSIDE, Scope.workspace("v")),
        (INSIDE, Scope.workspace("w")),
        (INSIDE, Scope.org("p")),
        (Scope.session("s", user=INSIDE), Scope.org("p")),
    ],
    ids=str,
)
def test_not_sideways(memory, source, target):
    """What stands under a user, workspace or org is promoted to no other one of that kind."""
    record = memory.add("The tent is green.", scope=source)
    with pytest.raises(InvalidPromotionError, match="stands under"):
        memory.promote(record.id, scope=source, to=target)
    assert len(memory.list_records(scope=target)) == 0


def test_what_is_copied(memory, clock):
    """All that the memory says of itself goes along; id, times and counts are new."""
    old = memory.add(
        "The tent is green.", scope=TALK, type="preference", key="tent", tags=["a"], metadata={"k": [1]},
        importance=0.3, pinned=True, occurred_at=clock.now, expires_at=4e9, valid_from=1e9, agent_id="me",
        source="chat", confidence=0.4, origin="assistant", source_message_ids=["m"],
    )  # fmt: skip
    memory.recall("tent", scope=TALK)
    memory.flush()
    new = memory.promote(old.id, scope=TALK, to=USER)
    assert new == dataclasses.replace(
        old, id=new.id, scope=USER, promoted_from_id=old.id, created_at=clock.now, updated_at=clock.now
    )
    assert new.id != old.id
    assert new.created_in_session_id == "s"
    assert memory.get(new.id, scope=USER) == new
    again = memory.promote(new.id, scope=USER, to=ORG)
    assert (again.promoted_from_id, again.created_in_session_id) == (new.id, "s")
    assert [hit.record.id for hit in memory.recall("tent", scope=ORG)] == [again.id]


def test_promotion_is_a_write(memory):
    """What the broader scope says already is said again; what holds for the key there is superseded."""
    known = memory.add("the tent is green", scope=USER)
    one = memory.add("The tent is green!", scope=TALK, tags=["t"])
    merged = memory.promote(one.id, scope=TALK, to=USER)
    assert (merged.id, merged.mentions, merged.tags) == (known.id, 2, ("t",))
    old = memory.add("dark", scope=USER, key="theme")
    new = memory.promote(memory.add("light", scope=TALK, key="theme").id, scope=TALK, to=USER)
    assert new.supersedes == old.id
    assert memory.get(old.id, scope=USER).superseded_by == new.id
    assert memory.undo(new.id, scope=USER).status is Status.ARCHIVED
    assert memory.get(old.id, scope=USER).status is Status.ACTIVE


def test_the_original_stays_unless_it_is_moved(memory):
    """A move deletes the original with its history in the same transaction."""
    one = memory.add("one", scope=TALK)
    new = memory.promote(one.id, scope=TALK, to=USER, move=True)
    assert memory.get(one.id, scope=TALK) is None
    assert memory.history(one.id, scope=TALK) == []
    assert new.promoted_from_id == one.id
    with pytest.raises(RecordNotFoundError):
        memory.promote(one.id, scope=TALK, to=USER, move=True)
    archived = memory.add("two", scope=TALK)
    memory.archive(archived.id, scope=TALK)
    with pytest.raises(InvalidTransitionError, match="archived"):
        memory.promote(archived.id, scope=TALK, to=USER, move=True)
    assert memory.get(archived.id, scope=TALK).status is Status.ARCHIVED
    for wrong in (None, "alice"):
        with pytest.raises(ScopeError):
            memory.promote(new.id, scope=USER, to=wrong)


def test_the_latest_with_its_tags(memory, clock):
    """The newest active memory of the session that carries all tags; None when there is none."""
    first = memory.add("one", scope=TALK, tags=["a", "b"])
    for text, tags in (("two", ["a"]), ("three", ["a", "B"])):
        clock.now = clock.now.replace(hour=clock.now.hour + 1)
        memory.add(text, scope=TALK, tags=tags)
    assert memory.promote_latest(scope=TALK, tags=["none"]) is None
    latest = memory.promote_latest(scope=TALK, tags=["A", "b"], move=True)
    assert (latest.content, latest.scope) == ("three", USER)
    assert memory.promote_latest(scope=TALK, tags=["b"], to=SPACE).promoted_from_id == first.id
    with pytest.raises(InvalidPromotionError, match="session"):
        memory.promote_latest(scope=USER, tags=[])


def test_a_line_of_promotions_is_shown_once(memory):
    """Of a memory and its promoted copies the narrowest is recalled, also when their words differ by now."""
    one = memory.add("The tent is green.", scope=TALK)
    user = memory.promote(one.id, scope=TALK, to=USER)
    wide = memory.promote(user.id, scope=USER, to=SPACE)
    memory.update(user.id, scope=USER, content="The big tent is dark green.")
    memory.update(wide.id, scope=SPACE, content="Somebody's tent has the colour green.")
    other = memory.add("The tent of Bob is green.", scope=SPACE)
    for scopes in ([TALK, USER, SPACE], [SPACE, USER, TALK]):
        hits = memory.recall("green tent", scope=scopes)
        assert {hit.record.id for hit in hits} == {one.id, other.id}
        assert {hit.scope for hit in hits} == {TALK, SPACE}
    assert {hit.record.id for hit in memory.recall("green tent", scope=[USER, SPACE])} == {user.id, other.id}
    same = memory.add("the big tent is dark green", scope=SPACE)
    assert same.id not in {hit.record.id for hit in memory.recall("green tent", scope=[USER, SPACE])}
    twins = [memory.add(f"{scope.kind} tent", scope=scope, id="twin") for scope in (USER, SPACE)]
    found = {(hit.scope, hit.record.id) for hit in memory.recall("tent", scope=[USER, SPACE])}
    assert {(one.scope, one.id) for one in twins} <= found


def test_the_memories_of_a_turn(memory):
    """The session's come first, then the user's, then the workspace's where it is named; no repeats."""
    for scope in (SPACE, USER, TALK):
        memory.add("The tent is green.", scope=scope)
        memory.add(f"A tent of the {scope.kind}.", scope=scope)
    hits = memory.turn_memories(TALK, "green tent", scopes=[SPACE, USER, TALK])
    assert [hit.scope.kind.value for hit in hits] == ["session", "session", "user", "workspace"]
    assert {hit.scope for hit in memory.turn_memories(TALK, "tent")} == {TALK, USER}
    assert len(memory.turn_memories(TALK, "tent", top_k=1)) == 1
    with pytest.raises(ScopeError):
        memory.turn_memories(None, "tent")


# ------------------------------------------------------------------------------- compaction


def three(memory, **fields):
    return [memory.add(f"Point {n}.", scope=TALK, **fields) for n in range(3)]


def joined(records):
    return " ".join(record.content for record in records)


def test_several_become_one(memory, clock):
    """A summary with the tags, in the place of its sources, which are kept; all in one step to undo."""
    sources = three(memory, source_message_ids=["m"])
    clock.now = clock.now.replace(hour=5)
    ids = [one.id for one in sources]
    summary = memory.compact([ids[1], *ids], scope=TALK, summarize=joined, tags=["Sum"], into=TALK)
    assert (summary.content, summary.type, summary.tags) == (
        "Point 1. Point 0. Point 2.",
        "summary",
        ("sum",),
    )
    assert summary.compacted_from_ids == (ids[1], ids[0], ids[2])
    assert (summary.source_message_ids, summary.created_in_session_id) == (("m",), "s")
    assert [one.id for one in memory.list_records(scope=TALK)] == [summary.id]
    gone = [memory.get(i, scope=TALK) for i in ids]
    assert {(one.status, one.superseded_by, one.valid_until) for one in gone} == {
        ("superseded", summary.id, clock.now)
    }
    for named in (summary.id, ids[0]):
        memory.undo(named, scope=TALK)
        assert {one.id for one in memory.list_records(scope=TALK)} == set(ids)
        assert memory.get(summary.id, scope=TALK).status is Status.ARCHIVED
        memory.undo(named, scope=TALK)
        assert [one.id for one in memory.list_records(scope=TALK)] == [summary.id]
    assert memory.restore(ids[2], scope=TALK).content == "Point 2."
    wide = memory.promote(summary.id, scope=TALK, to=USER)
    assert wide.compacted_from_ids == summary.compacted_from_ids


def test_a_summary_lives_as_long_as_its_sources(memory, clock):
    """It expires with the last of them if all expire, and is pinned if one is."""
    moments = [clock.now.replace(year=year) for year in (2028, 2029)]
    dated = [memory.add(f"{at}", scope=TALK, expires_at=at) for at in moments]
    summary = memory.compact([one.id for one in dated], scope=TALK, summarize=joined)
    assert (summary.expires_at, summary.pinned) == (moments[1], False)
    lasting = memory.add("always", scope=TALK, pinned=True)
    both = memory.compact([lasting.id, summary.id], scope=TALK, summarize=joined)
    assert (both.expires_at, both.pinned) == (None, True)


def refused(memory, ids, summarize=joined, **options):
    before = memory.list_records(scope=TALK, status=list(Status)).records
    with pytest.raises(MemkitError) as error:
        memory.compact(ids, scope=TALK, summarize=summarize, **options)
    assert memory.list_records(scope=TALK, status=list(Status)).records == before
    return error


def raising(_):
    raise ZeroDivisionError("the model is down")


@pytest.mark.parametrize(
    "summarize",
    [
        raising,
        lambda _: "",
        lambda _: " \n",
        lambda _: None,
        lambda _: b"x",
        lambda _: ["x"],
        lambda _: "x" * 10**7,
    ],
)
def test_a_callback_that_fails_changes_nothing(memory, summarize):
    """It raises, or returns what is blank, no text, or too long: `CompactionError` with the cause."""
    error = refused(memory, [one.id for one in three(memory)], summarize)
    assert error.type is CompactionError
    assert isinstance(error.value.__cause__, ZeroDivisionError if summarize is raising else InvalidInputError)


def test_sources_that_cannot_be_compacted(memory, clock):
    """Missing, expired, archived, of another scope, none at all, another target scope: nothing is called."""
    one, two, three_ = three(memory)
    memory.archive(two.id, scope=TALK)
    expired = memory.add("expired", scope=TALK, expires_at=clock.now)
    bobs = memory.add("bob's", scope=Scope.session("s", user="bob"))
    users = memory.add("the user's", scope=USER)
    for wrong in ("unknown", two.id, expired.id, bobs.id, users.id):
        assert refused(memory, [one.id, wrong], raising).type is CompactionError
    assert refused(memory, [], raising).type is CompactionError
    assert refused(memory, [one.id, three_.id], raising, into=USER).type is CompactionError
    assert refused(memory, [one.id, 7], raising).type is InvalidInputError
    assert refused(memory, [one.id], raising, tags="t").type is InvalidInputError


def test_a_source_that_changes_meanwhile_is_not_lost(memory):
    """What is written while the model thinks is not thrown away: nothing is compacted."""
    one, two, _ = three(memory)

    def slow(records):
        memory.update(two.id, scope=TALK, content="Point 1, corrected.")
        return joined(records)

    with pytest.raises(CompactionError, match="was changed"):
        memory.compact([one.id, two.id], scope=TALK, summarize=slow)
    assert len(memory.list_records(scope=TALK)) == 3

    def deleting(records):
        memory.delete(one.id, scope=TALK)
        return joined(records)

    with pytest.raises(CompactionError, match="no active record"):
        memory.compact([one.id, two.id], scope=TALK, summarize=deleting)
    assert len(memory.list_records(scope=TALK)) == 2


async def test_the_awaited_form_takes_both_kinds_of_callback(tmp_path):
    """A coroutine function is awaited in the caller's loop, a plain function runs beside it; both may fail."""
    loop = asyncio.get_running_loop()

    async def summarize(records):
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        return joined(records)

    async def failing(_):
        raise ZeroDivisionError

    def beside(records):
        assert threading.current_thread() is not threading.main_thread()
        return joined(records)

    async with await AsyncMemory.open(tmp_path / "m.db") as memory:
        one, two = [await memory.add(text, scope=TALK, key=text) for text in ("one", "two")]
        with pytest.raises(CompactionError, match="ZeroDivisionError"):
            await memory.compact([one.id, two.id], scope=TALK, summarize=failing)
        summary = await memory.compact([one.id, two.id], scope=TALK, summarize=summarize)
        assert (await memory.undo(one.id, scope=TALK)).status is Status.ACTIVE
        summary = await memory.compact([one.id, two.id], scope=TALK, summarize=beside)
        assert summary.type is RecordType.SUMMARY
        assert (await memory.promote(summary.id, scope=TALK, to=USER)).scope == USER
        assert await memory.promote_latest(scope=TALK, tags=["x"]) is None
        assert len(await memory.turn_memories(TALK, "one")) == 1
        pending = await memory.add("maybe", scope=USER, pending=True)
        assert (await memory.confirm(pending.id, scope=USER)).status is Status.ACTIVE
        assert (await memory.archive(pending.id, scope=USER)).status is Status.ARCHIVED
        assert (await memory.restore(pending.id, scope=USER)).status is Status.ACTIVE
        assert (await memory.supersede(pending.id, "surely", scope=USER)).supersedes == pending.id
        never = await memory.add("never", scope=USER, pending=True)
        assert (await memory.reject(never.id, scope=USER)).status is Status.ARCHIVED
        assert (await memory.upkeep.sweep()).nothing
        assert (await memory.upkeep.purge()).nothing
