"""Formation: from conversations to memories, once each, whatever models answer and whenever they are killed."""

import dataclasses
import json
import re
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from memkit_core import (
    AsyncMemory,
    BackendUnavailableError,
    Budget,
    ChatExtractor,
    ChatJudge,
    Extracted,
    InvalidInputError,
    Judgement,
    Memory,
    Message,
    ModelError,
    NewMemory,
    Origin,
    Role,
    RuleExtractor,
    Scope,
    ScopeError,
    Status,
    ToolCall,
    Verdict,
)
from memkit_core.formation.cursors import Cursors
from memkit_core.prompts import recalled_block, recalled_line

ALICE = Scope.user("alice")
TALK = Scope.session("s", user="alice")


def say(memory, *texts, scope=TALK, role=Role.USER, **fields):
    said = [Message(role=role, text=text, **fields) for text in texts]
    return memory.sessions.append(said, scope=scope)


def active(memory, scope=ALICE):
    return sorted(record.content for record in memory.list_records(scope=scope))


class Sentences:
    """An extractor that takes every message for a fact, and keeps what it saw."""

    def __init__(self):
        self.seen = []

    def __call__(self, messages):
        self.seen.append([message.text for message in messages])
        return [Extracted(content=message.text, sources=(n,)) for n, message in enumerate(messages, 1)]


class Scripted:
    """A chat model that gives these answers, one after the other, and keeps its prompts."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.prompts = []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def facts(*contents, **fields):
    return json.dumps({"facts": [{"content": content, **fields} for content in contents]})


def test_rules_form_memories_without_a_key(memory):
    """With no model at all: type, key, source, session and message of each, in the user's scope."""
    one, two = say(memory, "Hello! My name is Ana.", "I like green tea. How are you?")
    report = memory.formation.run(scope=TALK)
    assert (report.messages, report.errors) == (2, ())
    name, tea = report.records
    assert (name.scope, name.key, name.source, name.created_in_session_id) == (
        ALICE,
        "name",
        "formation",
        "s",
    )
    assert (name.source_message_ids, tea.source_message_ids) == ((one.id,), (two.id,))
    assert (tea.type.value, tea.tags, tea.confidence) == ("preference", ("preference",), 0.8)
    assert memory.recall("green tea", scope=ALICE)[0].record == dataclasses.replace(tea)
    assert [message.text for message in memory.sessions.read(scope=TALK)] == [one.text, two.text]


def test_only_new_messages_are_read(memory, tmp_path, clock):
    """A cursor is kept in the store: no message is read twice, by whatever process."""
    seen = Sentences()
    say(memory, "a", "b")
    memory.formation.run(scope=TALK, extractor=seen)
    assert memory.formation.run(scope=TALK, extractor=seen).messages == 0
    say(memory, "c")
    memory.close()
    with Memory.open(tmp_path / "memory.db", clock=clock) as again:
        assert again.formation.run(scope=TALK, extractor=seen).messages == 1
        assert active(again) == ["a", "b", "c"]
    assert seen.seen == [["a", "b"], ["c"]]


def test_messages_that_wait_are_read(memory):
    """What the queue has not stored yet is stored first."""
    memory.sessions.queue.append([Message(role=Role.USER, text="I like tea")], scope=TALK)
    assert len(memory.formation.run(scope=TALK).records) == 1


def test_only_what_people_say_is_read(memory):
    """User text, and the assistant's if asked for; never what tools and the system say."""

    def fill(scope):
        say(memory, "long system prompt", scope=scope, role=Role.SYSTEM)
        say(memory, "u", scope=scope)
        call = ToolCall(id="c", name="dump")
        say(memory, "a", scope=scope, role=Role.ASSISTANT, tool_calls=(call,))
        say(memory, "tool dump", scope=scope, role=Role.TOOL, tool_call_id="c")

    for assistant, expected in ((False, [["u"]]), (True, [["u", "a"]])):
        seen = Sentences()
        scope = Scope.session(f"s{assistant}", user="alice")
        fill(scope)
        report = memory.formation.run(scope=scope, extractor=seen, assistant=assistant)
        assert seen.seen == expected
    assert [record.origin for record in report.records] == [Origin.USER, Origin.ASSISTANT]


def test_what_recall_put_in_is_never_learned_again(memory):
    """Twenty turns that carry the recalled fact in front of the user's words: it stays one, said once."""
    seen = Sentences()
    say(memory, "I like green tea")
    memory.formation.run(scope=TALK, extractor=seen)
    for n in range(20):
        hits = memory.recall("green tea", scope=ALICE)
        block = recalled_block([recalled_line(hit) for hit in hits])
        context = memory.turn_context(TALK, "green tea")
        say(memory, f"{block}\n\nquestion {n}", f"{context.system}\n{block}")
        memory.formation.run(scope=TALK, extractor=seen)
    assert [text for batch in seen.seen for text in batch] == [
        "I like green tea",
        *(f"question {n}" for n in range(20)),
    ]
    (fact,) = [one for one in memory.list_records(scope=ALICE) if "tea" in one.content]
    assert fact.mentions == 1


def test_episodes_keep_the_time_of_their_turn(memory):
    """What happened has the time of the message that tells it, not that of the run."""
    then = memory._clock() - timedelta(days=9)
    say(memory, "hello", "we met at the fair", created_at=then)
    answer = json.dumps({"episodes": [{"content": "They met at the fair", "sources": [2]}]})
    (event,) = memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted(answer))).records
    assert (event.type.value, event.occurred_at) == ("event", then)


def test_a_key_takes_the_place_of_what_was_and_keeps_what_the_user_gave(memory):
    """A new value supersedes the old one, which is kept; tags, metadata and pin stay."""
    given = {"bucket": "b", "nested": {"a": 1}}
    old = memory.add("Lives in Boston", scope=ALICE, key="home", metadata=given, tags=["x"], pinned=True)
    say(memory, "I moved to Denver")
    model = Scripted(facts("Lives in Denver", key="home", why="moved"))
    (new,) = memory.formation.run(scope=TALK, extractor=ChatExtractor(model)).records
    assert (new.supersedes, new.metadata, new.tags, new.pinned) == (old.id, given, ("x", "fact"), True)
    assert active(memory) == ["Lives in Denver"]
    assert memory.get(old.id, scope=ALICE).status is Status.SUPERSEDED


def test_what_was_said_before_held_in_turn(memory, clock):
    """Of several values in an old conversation that is read late, at each moment one held."""
    days = [timedelta(days=one) for one in (400, 300, 200, 100)]
    early = Scope.session("2021", user=ALICE)
    memory.add("I live in Oslo", scope=ALICE, key="home", valid_from=clock.now - days[3])
    for ago, city in zip(days, ("Paris", "Lyon", "Paris"), strict=False):
        say(memory, f"I live in {city}.", scope=early, created_at=clock.now - ago)
    cities = [
        {"content": f"I live in {city}", "key": "home", "sources": [number]}
        for number, city in enumerate(("Paris", "Lyon", "Paris"), 1)
    ]
    memory.formation.run(scope=early, extractor=ChatExtractor(Scripted(json.dumps({"facts": cities}))))
    held = [
        [one.content for one in memory.list_records(scope=ALICE, as_of=clock.now - ago + timedelta(days=1))]
        for ago in days
    ]
    assert held == [["I live in Paris"], ["I live in Lyon"], ["I live in Paris"], ["I live in Oslo"]]


def test_what_was_said_before_is_not_what_holds(memory, clock):
    """A value of a key holds from when it was said: an old conversation that is read late does not overrule."""
    late, early = Scope.session("2025", user=ALICE), Scope.session("2021", user=ALICE)
    say(memory, "I live in Oslo.", scope=late, created_at=clock.now - timedelta(days=200))
    (oslo,) = memory.formation.run(scope=late).records
    clock.now += timedelta(days=1)
    say(
        memory,
        "I live in Paris.",
        "I live in Lyon.",
        scope=early,
        created_at=clock.now - timedelta(days=1600),
    )
    say(memory, "I live in Oslo!", scope=early, created_at=clock.now - timedelta(days=1500))
    _, lyon, again = memory.formation.run(scope=early).records
    assert active(memory) == ["I live in Oslo"]
    assert (lyon.status, lyon.superseded_by, lyon.valid_until) == (
        Status.SUPERSEDED,
        oslo.id,
        oslo.valid_from,
    )
    assert (again.id, again.mentions, again.valid_from) == (oslo.id, 2, clock.now - timedelta(days=201))
    explicit = memory.add("Lives in Bergen", scope=ALICE, key="home")
    say(memory, "I live in Rome.", scope=late, created_at=clock.now - timedelta(hours=1))
    memory.formation.run(scope=late)
    assert active(memory) == [explicit.content]
    say(memory, "I live in Rome.", scope=late, created_at=clock.now + timedelta(days=9))
    (rome,) = memory.formation.run(scope=late).records
    assert (rome.valid_from, active(memory)) == (clock.now, ["I live in Rome"])


def test_a_model_is_told_when_a_message_was_said(memory):
    """With day, time and zone: half past midnight in Copenhagen is still the day before in UTC (B65)."""
    said = datetime(2025, 7, 25, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    say(memory, "I went there yesterday", created_at=said)
    model = Scripted(facts("Went there on 2025-07-24"))
    memory.formation.run(scope=TALK, extractor=ChatExtractor(model, instructions="They live in Copenhagen."))
    assert 'said="2025-07-24 22:30 UTC">I went there yesterday<' in model.prompts[0]
    assert "They live in Copenhagen." in model.prompts[0]


def test_a_key_in_one_spelling(memory):
    """However a model spells a key, it is the same one."""
    for number, key in enumerate(["home.city", "Home.City", " home city ", "home/city"]):
        say(memory, f"city {number}")
        model = Scripted(facts(f"Lives in city {number}", key=key))
        memory.formation.run(scope=TALK, extractor=ChatExtractor(model))
    assert active(memory) == ["Lives in city 3"]


def test_the_judge_compares_what_is_new_with_what_is_there(memory, clock):
    """What is said in other words becomes one; what is no longer so is superseded; both with the reason."""
    old = memory.add("She parks on level 3", scope=ALICE)
    same = memory.add("She likes the green tea", scope=ALICE)
    clock.now += timedelta(days=1)
    say(memory, "I park on level 5 now, and I like green tea")
    model = Scripted(facts("She parks on level 5 now"))

    def judge(new, olds):
        return [
            Judgement(
                Verdict.REPLACES if "level" in new.content and "level" in one.content else Verdict.UNRELATED,
                "r",
            )
            for one in olds
        ]

    report = memory.formation.run(scope=TALK, extractor=ChatExtractor(model), judge=judge)
    assert memory.get(old.id, scope=ALICE).status is Status.SUPERSEDED
    assert [d.verdict for d in report.decisions if d.applied] == [Verdict.REPLACES]
    say(memory, "I do like it")
    model = Scripted(facts("She likes green tea!"))
    memory.formation.run(scope=TALK, extractor=ChatExtractor(model))
    assert memory.get(same.id, scope=ALICE).mentions == 2


@pytest.mark.parametrize(
    "answer",
    [
        '{"decisions": [{"id": 1, "verdict": "DELETE"}]}',
        '{"decisions": [{"id": 1, "verdict": "UPDATE", "text": "She parks on level 3"}]}',
        '{"decisions": [{"id": 1, "verdict": "ADD"}]}',
        "",
        '{"decisions": [{"id": 12, "verdict": "replaces"}]}',
    ],
)
def test_no_answer_of_a_judge_loses_what_is_new(memory, answer):
    """The new fact is written first: an answer that means nothing leaves both."""
    memory.add("She parks on level 3", scope=ALICE)
    say(memory, "I park on level 5 now")
    model = Scripted(facts("She parks on level 5 now"))
    memory.formation.run(scope=TALK, extractor=ChatExtractor(model), judge=ChatJudge(lambda prompt: answer))
    assert active(memory) == ["She parks on level 3", "She parks on level 5 now"]


def test_the_same_fact_is_one_record(memory):
    """Said in three sessions it is one memory with three mentions; another user's is theirs."""
    for n in range(3):
        scope = Scope.session(f"s{n}", user="alice")
        say(memory, "I LIKE green  tea." if n else "I like green tea", scope=scope)
        memory.formation.run(scope=scope)
    bob = Scope.session("s", user="bob")
    say(memory, "I like green tea", scope=bob)
    memory.formation.run(scope=bob)
    assert [record.mentions for record in memory.list_records(scope=ALICE)] == [3]
    assert [record.mentions for record in memory.list_records(scope=Scope.user("bob"))] == [1]


def test_eight_threads_form_one_row(memory):
    """Eight sessions of a user that say the same at once, with a slow model: one memory, nothing lost."""
    barrier = threading.Barrier(8)

    def extract(messages):
        barrier.wait(60)
        return [Extracted(content="Likes green tea")]

    scopes = [Scope.session(f"s{n}", user="alice") for n in range(8)]
    for scope in scopes:
        say(memory, "I like green tea", scope=scope)
    threads = [
        threading.Thread(target=memory.formation.run, kwargs={"scope": scope, "extractor": extract})
        for scope in scopes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(one.content, one.mentions) for one in memory.list_records(scope=ALICE)] == [
        ("Likes green tea", 8)
    ]


def test_two_runs_over_one_session_keep_one_answer(memory):
    """Of two runs that read the same messages at once one is kept, the other says so."""
    say(memory, "hello")
    barrier, numbers, reports = threading.Barrier(2), iter("ab"), []

    def extract(messages):
        barrier.wait(60)
        return [Extracted(content=f"answer {next(numbers)}")]

    def run():
        reports.append(memory.formation.run(scope=TALK, extractor=extract))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(active(memory)) == 1
    assert sorted(len(report.errors) for report in reports) == [0, 1]


# --------------------------------------------------------------------------- answers that are none

BROKEN = [
    "no JSON",
    "",
    facts("x")[:-5],
    '{"facts": ["\\uD8"]}',
    facts("x") + facts("y"),
    ModelError("down", model="m"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_a_broken_answer_is_asked_for_again(memory, broken):
    """Two answers that cannot be read and a right one: what is right is kept, the turn never raises."""
    say(memory, "hello")
    model = Scripted(broken, broken, facts("right"))
    report = memory.formation.run(scope=TALK, extractor=ChatExtractor(model))
    assert (active(memory), report.errors, len(model.prompts)) == (["right"], (), 3)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_what_no_try_could_read_is_set_aside(memory, broken):
    """After three tries the messages are set aside and told, later ones go on, and `again` reads them."""
    one, two = say(memory, "first", "second")
    extractor = ChatExtractor(Scripted(broken, broken, broken))
    report = memory.formation.run(scope=TALK, extractor=extractor)
    assert (report.set_aside, report.records, len(report.errors)) == (2, (), 1)
    (aside,) = memory.formation.set_aside(scope=TALK)
    assert (aside.first, aside.last) == (one.position, two.position)
    assert len(memory.sessions.read(scope=TALK)) == 2
    say(memory, "third")
    memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted(facts("of the third"))))
    assert active(memory) == ["of the third"]
    still = memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted("", "", "")), again=True)
    assert (still.records, len(memory.formation.set_aside(scope=TALK))) == ((), 1)
    memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted(facts("of the first"))), again=True)
    assert active(memory) == ["of the first", "of the third"]
    assert memory.formation.set_aside(scope=TALK) == []


@pytest.mark.parametrize("found", [None, "text", 7, [1], ["text"], {"facts": []}])
def test_an_extractor_of_ones_own_that_gives_nonsense(memory, found):
    """It is told and nothing is stored; the session goes on."""
    say(memory, "hello")
    report = memory.formation.run(scope=TALK, extractor=lambda messages: found)
    assert report.records == ()
    assert report.errors


def test_what_cannot_be_stored_is_left_out_and_told(memory):
    """Blank texts, ids that no key can be, and too many items: the rest is kept."""
    say(memory, "hello")
    bad = [
        Extracted(content=" "),
        Extracted(content="x", key="k" * 5000),
        Extracted(content="y", confidence=7),
    ]
    good = [Extracted(content="kept", sources=(1, 12, -3))]
    report = memory.formation.run(scope=TALK, extractor=lambda messages: [*bad, *good])
    assert (active(memory), len(report.errors)) == (["kept"], 3)
    say(memory, "more")
    many = [Extracted(content=f"fact {n}") for n in range(50_000)]
    report = memory.formation.run(
        scope=TALK, extractor=lambda messages: many, judge=lambda new, olds: [None] * len(olds)
    )
    assert len(report.records) == 500
    assert "50000" in report.errors[0]


# --------------------------------------------------------------------------- killed, deleted, overtaken


def test_what_was_found_survives_a_kill_before_it_was_written(memory, monkeypatch):
    """The next run writes what the killed one had found, without asking the model again, and once."""
    say(memory, "hello")

    def killed(self, *given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("memkit_core.formation.running.Run._written", killed)
        with pytest.raises(KeyboardInterrupt):
            memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted(facts("found"))))
    assert active(memory) == []
    assert memory.formation.due(idle_seconds=0) == [TALK]
    report = memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted()))
    assert [record.content for record in report.records] == active(memory) == ["found"]
    assert memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted())).records == ()


def test_what_was_deleted_meanwhile_does_not_come_back(memory):
    """A user who is deleted while a model thinks about their words leaves nothing."""
    say(memory, "I like tea")

    def extract(messages):
        memory.delete(scope=ALICE)
        return [Extracted(content="Likes tea")]

    assert memory.formation.run(scope=TALK, extractor=extract).records == ()
    assert active(memory) == []
    assert Cursors(memory._store).get(TALK).position == -1


def test_a_newer_turn_cancels_and_the_wait_begins_anew(memory, clock):
    """A session is due after five idle minutes; a turn that comes meanwhile drops the run and is read with the rest."""
    say(memory, "one")
    assert memory.formation.due() == []
    clock.now += timedelta(minutes=4)
    say(memory, "two")
    clock.now += timedelta(minutes=4)
    assert memory.formation.due() == []
    clock.now += timedelta(minutes=1)
    assert memory.formation.due() == [TALK]
    seen = Sentences()

    def interrupted(messages):
        say(memory, "three")
        return seen(messages)

    (report,) = memory.formation.run_due(extractor=interrupted)
    assert report.cancelled
    assert active(memory) == []
    assert memory.formation.run_due(extractor=seen) == []
    clock.now += timedelta(minutes=5)
    (report,) = memory.formation.run_due(extractor=seen)
    assert not report.cancelled
    assert active(memory) == ["one", "three", "two"]
    assert memory.formation.due() == []


def test_due_sessions_of_all_users_are_found_after_a_restart(memory, tmp_path, clock):
    """Nothing is remembered in the process: what is idle is read from the store, the longest idle first."""
    scopes = [Scope.session("s", user=name) for name in ("alice", "bob", "carol")]
    for scope in scopes:
        say(memory, "I like tea", scope=scope)
        clock.now += timedelta(minutes=1)
    memory.close()
    clock.now += timedelta(minutes=4)
    with Memory.open(tmp_path / "memory.db", clock=clock) as again:
        assert again.formation.due() == scopes
        assert [report.session for report in again.formation.run_due()] == scopes
        assert active(again, Scope.user("bob")) == ["I like tea"]


def test_a_kill_while_the_judge_thinks_counts_nothing_twice(memory):
    """What was written is noted before a judge is asked: the next run neither writes nor counts it again."""
    memory.add("Likes green tea", scope=ALICE)
    say(memory, "hello")

    def killed(new, olds):
        raise KeyboardInterrupt

    found = [Extracted(content="Likes green tea"), Extracted(content="Likes the green tea")]
    with pytest.raises(KeyboardInterrupt):
        memory.formation.run(scope=TALK, extractor=lambda messages: found, judge=killed)
    assert memory.formation.run(scope=TALK, extractor=lambda messages: found).records == ()
    assert sorted(record.mentions for record in memory.list_records(scope=ALICE)) == [1, 2]


# --------------------------------------------------------------------------- budgets


def test_a_budget_limits_what_is_spent_in_a_period(memory, clock):
    """Without room nothing is sent and nothing is lost: the next period reads on. Spent can be read."""
    model = Scripted(facts("one"), facts("two"))
    extractor = ChatExtractor(model)
    assert memory.formation.budget(scope=ALICE) == Budget()
    memory.formation.set_budget(10, scope=ALICE, seconds=3600)
    say(memory, "hello")
    report = memory.formation.run(scope=TALK, extractor=extractor)
    assert (report.postponed, report.messages, model.prompts) == (True, 0, [])
    memory.formation.set_budget(10_000, scope=ALICE, seconds=3600)
    assert memory.formation.run(scope=TALK, extractor=extractor).records
    budget = memory.formation.budget(scope=ALICE)
    assert 0 < budget.spent <= 10_000
    assert budget.ends_at == clock.now + timedelta(hours=1)
    memory.formation.set_budget(budget.spent, scope=ALICE, seconds=3600)
    say(memory, "again")
    assert memory.formation.run(scope=TALK, extractor=extractor).postponed
    clock.now += timedelta(hours=1)
    assert memory.formation.budget(scope=ALICE).spent == 0
    memory.formation.set_budget(None, scope=ALICE)
    assert memory.formation.run(scope=TALK, extractor=extractor).records


def test_budgets_of_all_scopes_above_count(memory):
    """A team's budget stops its users; what has no room in one is spent in none."""
    team = Scope.workspace("team")
    member = Scope.user("ana", workspace=team)
    scope = Scope.session("s", user=member)
    memory.formation.set_budget(0, scope=team)
    memory.formation.set_budget(10_000, scope=member)
    say(memory, "hello", scope=scope)
    assert memory.formation.run(scope=scope, extractor=ChatExtractor(Scripted())).postponed
    assert memory.formation.budget(scope=member).spent == 0
    assert not memory.formation.run(scope=scope, extractor=RuleExtractor()).postponed


# --------------------------------------------------------------------------- where to, and bad input


def test_where_memories_go(memory):
    """To the user unless told otherwise: the session itself, or what is above; never elsewhere."""
    say(memory, "I like tea")
    memory.formation.run(scope=TALK, into=TALK)
    assert (active(memory, TALK), active(memory)) == (["I like tea"], [])
    for into in (Scope.user("bob"), Scope.session("other", user="alice"), "alice"):
        with pytest.raises(ScopeError):
            memory.formation.run(scope=TALK, into=into)


def test_bad_arguments_are_refused(memory):
    """Sessions alone have messages; extractors, judges and numbers are checked."""
    with pytest.raises(ScopeError):
        memory.formation.run(scope=ALICE)
    with pytest.raises(ScopeError):
        memory.formation.set_aside(scope=ALICE)
    for bad in (
        {"extractor": "x"},
        {"extractor": RuleExtractor},
        {"judge": 7},
        {"assistant": 1},
        {"again": None},
    ):
        with pytest.raises(InvalidInputError):
            memory.formation.run(scope=TALK, **bad)
    for tokens, seconds in ((-1, 1.0), (1.5, 1.0), (True, 1.0), (1, 0), (1, -1.0), (1, None)):
        with pytest.raises(InvalidInputError):
            memory.formation.set_budget(tokens, scope=ALICE, seconds=seconds)
    with pytest.raises(InvalidInputError):
        memory.formation.due(idle_seconds=-1)


def test_long_conversations_are_read_in_parts(memory):
    """A model never gets more than about 4,000 tokens at once; every message is read once."""
    seen = Sentences()
    memory.sessions.append(
        [Message(role=Role.USER, text=f"{n} " + "word " * 400) for n in range(50)], scope=TALK
    )
    report = memory.formation.run(scope=TALK, extractor=seen, judge=lambda new, olds: [None] * len(olds))
    assert len(seen.seen) > 3
    assert [int(text.split()[0]) for batch in seen.seen for text in batch] == list(range(50))
    assert report.messages == 50


def test_deleting_takes_cursors_and_what_was_set_aside_along(memory):
    """Nothing of formation outlives its session or user."""
    say(memory, "hello")
    memory.formation.run(scope=TALK, extractor=ChatExtractor(Scripted("", "", "")))
    memory.formation.set_budget(5, scope=ALICE)
    memory.delete(scope=ALICE)
    assert memory.formation.set_aside(scope=TALK) == []
    assert memory.formation.budget(scope=ALICE) == Budget()
    assert Cursors(memory._store).get(TALK).position == -1


async def test_it_can_be_awaited(memory):
    """`AsyncMemory.formation` does the same in worker threads."""
    aware = AsyncMemory(memory)
    say(memory, "I like tea")
    assert await aware.formation.due(idle_seconds=0) == [TALK]
    assert len((await aware.formation.run(scope=TALK)).records) == 1
    assert (await aware.formation.set_budget(5, scope=ALICE)).tokens == 5
    assert (await aware.formation.budget(scope=ALICE)).tokens == 5
    assert await aware.formation.run_due() == []
    assert await aware.formation.set_aside(scope=TALK) == []
    assert (await aware.upkeep.consolidate(scope=ALICE)).decisions == ()


def test_an_update_by_a_model_keeps_what_the_user_gave(memory):
    """A near duplicate that a judge makes one with an old memory drops none of its metadata."""
    given = {"bucket": "b", "nested": {"a": 1}}
    old = memory.add_many(
        [NewMemory(content="I like the green tea", type="preference", metadata=given)], scope=ALICE
    )[0]
    say(memory, "I really like green tea")
    memory.formation.run(scope=TALK)
    kept = memory.get(old.id, scope=ALICE)
    assert (kept.metadata, kept.mentions, kept.created_at) == (given, 2, old.created_at)


PAGE = Path(__file__).parents[2] / "docs" / "formation.md"


def test_the_code_of_the_page_runs():
    """The example in `docs/formation.md` does what it says."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})


def test_a_session_whose_store_fails_blocks_no_other(memory, clock, monkeypatch):
    """What fails is told in its report; the sessions behind it are formed, and it is due again."""
    other = Scope.session("s", user="bob")
    say(memory, "I like tea")
    clock.now += timedelta(minutes=1)
    say(memory, "I like coffee", scope=other)
    clock.now += timedelta(minutes=6)
    settle = memory.sessions.queue.settle

    def broken(scope, **named):
        if scope == TALK:
            raise BackendUnavailableError("the disk is full", backend="sqlite", operation="settle")
        return settle(scope, **named)

    monkeypatch.setattr(memory.sessions.queue, "settle", broken)
    failed, formed = memory.formation.run_due(extractor=Sentences())
    assert (failed.session, failed.failed, formed.session, formed.failed) == (TALK, True, other, False)
    assert "the disk is full" in failed.errors[-1]
    assert active(memory, Scope.user("bob")) == ["I like coffee"]
    assert memory.formation.due() == [TALK]
