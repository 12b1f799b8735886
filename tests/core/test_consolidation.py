"""Consolidation: near duplicates become one, contradictions are resolved, nothing vanishes silently."""

import dataclasses
import json
import threading
from datetime import timedelta

import pytest

from memkit_core import (
    ChangeKind,
    ChatJudge,
    InvalidInputError,
    Judgement,
    Memory,
    NewMemory,
    RuleJudge,
    Scope,
    ScopeError,
    Status,
    Verdict,
)
from memkit_core.formation.consolidating import JUDGED

ALICE = Scope.user("alice")
TALK = Scope.session("s", user="alice")
OLD, NEW = "She parks the car on level 3", "She parks the car on level 5 now"


def active(memory, scope=ALICE):
    return {record.content for record in memory.list_records(scope=scope)}


class Scripted:
    """A judge that says what it is told of pairs of texts, and counts what it was asked."""

    name = "scripted"

    def __init__(self, **verdicts):
        self.verdicts = verdicts
        self.asked = []

    def __call__(self, new, olds):
        self.asked += [(new.content, old.content) for old in olds]
        return [
            Judgement(self.verdicts.get(new.metadata.get("v"), Verdict.UNRELATED), "so it is") for _ in olds
        ]


@pytest.fixture
def parked(memory, clock):
    """What was so, and a day later what is so."""
    old = memory.add(OLD, scope=ALICE)
    clock.now += timedelta(days=1)
    return old, memory.add(NEW, scope=ALICE, metadata={"v": "r"})


REPLACES = {"r": Verdict.REPLACES}


def test_near_duplicates_become_the_older_one(memory, clock):
    """The first keeps its id and wording and takes tags, metadata and mentions; the second is archived."""
    first = memory.add("I like the green tea", scope=ALICE, tags=["a"], source_message_ids=["m1"])
    clock.now += timedelta(days=1)
    second = memory.add(
        "I really like green tea!", scope=ALICE, tags=["b"], metadata={"n": 1}, source_message_ids=["m2"]
    )
    report = memory.upkeep.consolidate(scope=ALICE, dry_run=False)
    assert [(d.new, d.old, d.verdict, d.applied) for d in report.decisions] == [
        (second.id, first.id, Verdict.SAME, True)
    ]
    kept = memory.get(first.id, scope=ALICE)
    assert (kept.content, kept.mentions, kept.tags, kept.metadata) == (first.content, 2, ("a", "b"), {"n": 1})
    assert kept.source_message_ids == ("m1", "m2")
    assert memory.get(second.id, scope=ALICE).status is Status.ARCHIVED
    change = memory.history(second.id, scope=ALICE)[-1]
    assert (change.kind, change.others) == (ChangeKind.MERGED, (first.id,))
    assert change.reason == "the same words in the same order"
    assert [hit.record.id for hit in memory.recall("green tea", scope=ALICE)] == [first.id]


@pytest.mark.parametrize("named", [0, 1])
def test_a_merge_can_be_undone(memory, clock, named):
    """`undo` brings both back as they were, whichever is named; a pair that was undone is not merged again."""
    pair = [
        memory.add("I like the green tea", scope=ALICE, tags=["a"]),
        memory.add("I really like green tea", scope=ALICE, tags=["b"]),
    ]
    memory.upkeep.consolidate(scope=ALICE, dry_run=False)
    memory.undo(pair[named].id, scope=ALICE)
    for _ in range(2):
        for one in pair:
            now = memory.get(one.id, scope=ALICE)
            assert (now.tags, now.status, now.mentions) == (one.tags, Status.ACTIVE, 1)
        clock.now += timedelta(days=1)
        assert memory.upkeep.consolidate(scope=ALICE, dry_run=False).decisions == ()


def test_rules_retire_nothing_that_differs(memory):
    """Without a model a contradiction stays: both are there."""
    memory.add_many([OLD, NEW, "I eat meat", "I do not eat meat"], scope=ALICE)
    report = memory.upkeep.consolidate(scope=ALICE, dry_run=False)
    assert len(active(memory)) == 4
    assert report.count(Verdict.UNRELATED) == len(report.decisions) >= 2


def test_what_replaces_supersedes_with_a_reason(memory, parked):
    """The old value is superseded with its reason, `as_of` still gives it, and `undo` brings it back."""
    old, new = parked
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    assert active(memory) == {NEW}
    gone, now = memory.get(old.id, scope=ALICE), memory.get(new.id, scope=ALICE)
    assert (gone.status, gone.superseded_by, gone.valid_until) == (Status.SUPERSEDED, new.id, new.created_at)
    assert (now.supersedes, now.metadata) == (old.id, {"v": "r"})
    assert memory.history(old.id, scope=ALICE)[-1].reason == "so it is"
    then = memory.list_records(scope=ALICE, as_of=old.created_at + timedelta(hours=1))
    assert [record.content for record in then] == [OLD]
    memory.undo(new.id, scope=ALICE)
    assert active(memory) == {OLD, NEW}
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    assert active(memory) == {OLD, NEW}


def test_one_new_memory_may_replace_several(memory, clock):
    """All that is no longer so goes; each can be brought back by itself."""
    olds = [memory.add(f"The car is parked on level {n}", scope=ALICE) for n in (1, 2, 3)]
    clock.now += timedelta(days=1)
    memory.add("The car is parked on level 4", scope=ALICE, metadata={"v": "r"})
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    assert active(memory) == {"The car is parked on level 4"}
    memory.restore(olds[1].id, scope=ALICE)
    assert "The car is parked on level 2" in active(memory)


def test_a_dry_run_changes_nothing(memory, parked):
    """It says what would be done, and writes nothing, not even what was judged."""
    judge = Scripted(**REPLACES)
    report = memory.upkeep.consolidate(scope=ALICE, judge=judge)
    assert report.dry_run
    assert [(d.verdict, d.applied) for d in report.decisions] == [(Verdict.REPLACES, False)]
    assert [memory.get(one.id, scope=ALICE) for one in parked] == list(parked)
    assert memory._store.values.list(ALICE, JUDGED) == []
    done = memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False)
    assert [dataclasses.replace(d, applied=False) for d in done.decisions] == list(report.decisions)


def test_it_is_idempotent_within_a_day(memory, clock):
    """What was judged today is not judged again, until it changes, another judge comes, or the day ends."""
    memory.add_many([OLD, NEW], scope=ALICE)
    judge = Scripted()
    memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False)
    asked = len(judge.asked)
    before = {record.id: record for record in memory.list_records(scope=ALICE)}
    again = memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False)
    assert (len(judge.asked), again.decisions) == (asked, ())
    assert {record.id: record for record in memory.list_records(scope=ALICE)} == before
    assert memory.upkeep.consolidate(scope=ALICE, judge=RuleJudge(), dry_run=False).decisions
    clock.now += timedelta(days=1)
    assert memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False).decisions
    one = next(iter(before))
    memory.update(one, scope=ALICE, importance=0.123)
    assert memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False).decisions


def test_pinned_keyed_and_summaries_are_left_alone(memory):
    """A pinned memory is never archived or superseded; what has a key, and summaries, are not judged."""
    same = {"s": Verdict.SAME, "r": Verdict.REPLACES}
    items = [
        NewMemory(content="I like the green tea", pinned=True),
        NewMemory(content="I really like green tea", pinned=True, metadata={"v": "s"}),
        NewMemory(content="I like green tea no more", metadata={"v": "r"}),
        NewMemory(content="I like the green tea so much", key="tea", metadata={"v": "s"}),
        NewMemory(content="Oh, I like the green tea so much", type="summary", metadata={"v": "s"}),
    ]
    memory.add_many(items, scope=ALICE)
    judge = Scripted(**same)
    memory.upkeep.consolidate(scope=ALICE, judge=judge, dry_run=False)
    assert active(memory) == {item.content for item in items}
    assert not [pair for pair in judge.asked if "so much" in pair[0] + pair[1]]


def test_scopes_are_never_mixed(memory):
    """With `everything` each scope is consolidated by itself; what one user says is nothing to another."""
    scopes = [ALICE, Scope.user("bob"), TALK, Scope.workspace("w")]
    for scope in scopes:
        memory.add_many(["I like the green tea", "I really like green tea"], scope=scope)
    judge = Scripted()
    report = memory.upkeep.consolidate(everything=True, judge=judge)
    assert len(judge.asked) == len(report.decisions) == 4
    memory.upkeep.consolidate(everything=True, dry_run=False)
    assert [len(active(memory, scope)) for scope in scopes] == [1, 1, 1, 1]


def quoting(new, olds):
    raise ValueError(f"cannot judge {new.content}")


@pytest.mark.parametrize(
    "bad",
    [
        quoting,
        lambda new, olds: [new.content, "and", new.content],
        ChatJudge(lambda prompt: None),
    ],
)
def test_no_log_quotes_a_memory(memory, parked, caplog, bad):
    """What a failing judge said stands in the report alone: an error may quote what a user said."""
    report = memory.upkeep.consolidate(scope=ALICE, judge=bad, dry_run=False)
    assert report.errors
    assert "nothing was decided" in caplog.text
    assert not any(text in caplog.text for text in (OLD, NEW))


@pytest.mark.parametrize(
    "bad",
    [
        lambda new, olds: [],
        lambda new, olds: None,
        lambda new, olds: ["same"] * len(olds),
        lambda new, olds: 1 / 0,
        ChatJudge(lambda prompt: '{"decisions": [{"id": 1, "verdict": "repl'),
        ChatJudge(lambda prompt: None),
    ],
)
def test_a_judge_that_fails_changes_nothing_and_loses_nothing(memory, parked, bad):
    """Errors and answers of the wrong form are told; both memories stay; the next judge may decide."""
    report = memory.upkeep.consolidate(scope=ALICE, judge=bad, dry_run=False)
    assert (report.decisions, report.undecided, len(report.errors)) == ((), 1, 1)
    assert active(memory) == {OLD, NEW}
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    assert active(memory) == {NEW}


@pytest.mark.parametrize("verb", ["DELETE", "UPDATE", "ADD", "NONE"])
def test_actions_that_there_are_not_lose_nothing(memory, parked, verb):
    """An answer in another library's words (delete, update with the old text) leaves the new and the old."""
    answer = {"decisions": [{"id": 1, "verdict": verb, "text": OLD}, {"id": 12, "verdict": "replaces"}]}
    memory.upkeep.consolidate(scope=ALICE, judge=ChatJudge(lambda prompt: json.dumps(answer)), dry_run=False)
    assert active(memory) == {OLD, NEW}


def test_a_wrong_retirement_can_be_seen_and_taken_back(memory, clock):
    """Two facts that merely name one place: what a model retires is listed with its reason and restored."""
    old = memory.add("He cooks at Cafe Nord", scope=ALICE)
    clock.now += timedelta(days=1)
    memory.add("He keeps the web page of Cafe Nord", scope=ALICE)
    answer = json.dumps({"decisions": [{"id": 1, "verdict": "replaces", "reason": "another job"}]})
    memory.upkeep.consolidate(scope=ALICE, judge=ChatJudge(lambda prompt: answer), dry_run=False)
    (gone,) = memory.list_records(scope=ALICE, status="superseded")
    assert (gone.id, memory.history(gone.id, scope=ALICE)[-1].reason) == (old.id, "another job")
    memory.undo(old.id, scope=ALICE)
    assert len(active(memory)) == 2


def test_what_changed_while_it_was_judged_stays(memory, parked):
    """A judge may take minutes: a memory that was changed meanwhile is not touched."""
    old, _ = parked

    def slow(new, olds):
        memory.update(old.id, scope=ALICE, content="She parks the car on level 2")
        return [Judgement(Verdict.REPLACES, "x") for _ in olds]

    report = memory.upkeep.consolidate(scope=ALICE, judge=slow, dry_run=False)
    assert not report.decisions[0].applied
    assert active(memory) == {"She parks the car on level 2", NEW}


def test_two_at_once_merge_once(memory):
    """Two threads that consolidate one scope never count anything twice, nor lose both."""
    first = memory.add("I like the green tea", scope=ALICE)
    memory.add("I really like green tea", scope=ALICE)
    barrier = threading.Barrier(4)

    def judge(new, olds):
        barrier.wait(10)
        return RuleJudge()(new, olds)

    threads = [
        threading.Thread(
            target=memory.upkeep.consolidate, kwargs={"scope": ALICE, "judge": judge, "dry_run": False}
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (kept,) = memory.list_records(scope=ALICE)
    assert (kept.id, kept.mentions) == (first.id, 2)


def test_events_are_compared_with_events(memory):
    """What happened once is no value of something that may change."""
    memory.add(OLD, scope=ALICE)
    memory.add(NEW, scope=ALICE, type="event", metadata={"v": "r"})
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    assert active(memory) == {OLD, NEW}


def test_reasons_are_moved_and_deleted_with_the_record(memory, parked, tmp_path):
    """An export keeps them; deleting the memory takes them along."""
    old, new = parked
    memory.upkeep.consolidate(scope=ALICE, judge=Scripted(**REPLACES), dry_run=False)
    memory.export_jsonl(tmp_path / "a.jsonl", everything=True)
    with Memory.open(tmp_path / "other.db") as other:
        other.import_jsonl(tmp_path / "a.jsonl")
        assert other.history(old.id, scope=ALICE)[-1].reason == "so it is"
        other.export_jsonl(tmp_path / "b.jsonl", everything=True)
        for record_id in (old.id, new.id):
            other.delete(record_id, scope=ALICE)
        other.export_jsonl(tmp_path / "c.jsonl", everything=True)
    assert b"so it is" in (tmp_path / "b.jsonl").read_bytes()
    assert b"so it is" not in (tmp_path / "c.jsonl").read_bytes()


def test_without_vectors_rare_terms_propose(tmp_path):
    """With no embedder what shares a rare word is judged."""
    with Memory.open(tmp_path / "m.db", embedder="none") as memory:
        memory.add_many(["I like the green tea", "I really like green tea"], scope=ALICE)
        memory.upkeep.consolidate(scope=ALICE, dry_run=False)
        assert active(memory) == {"I like the green tea"}


def test_bad_arguments_are_refused(memory):
    """A scope or `everything=True` is required, and the judge must be one."""
    for call in ({}, {"scope": ALICE, "everything": True}, {"scope": "alice"}):
        with pytest.raises(ScopeError):
            memory.upkeep.consolidate(**call)
    for call in ({"judge": "rules"}, {"judge": RuleJudge}, {"dry_run": 1}):
        with pytest.raises(InvalidInputError):
            memory.upkeep.consolidate(scope=ALICE, **call)


def test_of_many_alike_a_judge_sees_the_nearest_few(memory):
    """However many memories are near, a judge gets at most eight with a new one, and every pair of one run once."""
    memory.add_many([f"fact number {n}" for n in range(60)], scope=ALICE)
    sizes = []

    def judge(new, olds):
        sizes.append(len(olds))
        return [None] * len(olds)

    memory.upkeep.consolidate(scope=ALICE, judge=judge)
    assert max(sizes) == 8
    assert len(sizes) == 59
