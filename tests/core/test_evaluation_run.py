"""Running evaluations on a tiny data set that uses every special key."""

import dataclasses
import io
import json
import threading
from datetime import UTC, datetime

import pytest
from rich.console import Console

from memkit_core import ConfigError, InvalidInputError, Memory, ModelError, Ranking, Scope
from memkit_core.evaluation import evaluate, read_dataset, summary, tables
from memkit_core.evaluation import run as running
from memkit_core.evaluation.asking import ask
from memkit_core.evaluation.filling import said_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RANKINGS = {"hybrid": Ranking(), "bm25": running._KEYWORD_ONLY}


def turn(turn_id, text, *, conversation="ann", session="s1", day=1, **more):
    stamp = None if day is None else f"2025-03-{day:02}T10:00:00"
    return {
        "conversation_id": conversation,
        "session_id": session,
        "turn_id": turn_id,
        "speaker": conversation.title(),
        "role": None,
        "text": text,
        "timestamp": stamp,
        **more,
    }


def question(question_id, text, evidence, *, conversation="ann", category="single-hop", **more):
    return {
        "question_id": question_id,
        "conversation_id": conversation,
        "question": text,
        "answer": None,
        "category": category,
        "evidence_turn_ids": evidence,
        **more,
    }


TURNS = [
    turn("t1", "I keep three beehives on the roof of the bakery."),
    turn("t2", "", caption="a red canoe on a lake"),
    turn("t3", "   "),
    turn("t4", "The beehives moved from the roof to the garden.", session="s2", day=9),
    turn("t5", "My dentist is called Okafor.", session="s2", day=9),
    turn("t6", "The lighthouse is painted in green stripes.", session="s3", day=20),
    # The same ids again: another conversation is another user.
    turn("t1", "I keep three beehives on the roof of the bakery.", conversation="bob", day=None),
    turn("t2", "Okafor plays the trombone.", conversation="bob", day=None),
]
QUESTIONS = [
    question("now", "Where are the beehives?", ["t4"], stale_turn_ids=["t1"]),
    question("then", "Where are the beehives?", ["t1"], before_turn_id="t4"),
    question("canoe", "What colour is the canoe?", ["t2"], category="pictures"),
    question("either", "beehives", ["t1", "t4"], evidence_groups=[["t1", "t4"]], asked_at="2025-04"),
    question("session", "Okafor the dentist", ["t4", "t5"], evidence_level="session"),
    question("hostile", "Does Ann own a trombone?", ["t5"], category="adversarial"),
    question("leak", "Who plays the trombone?", [], forbidden_turn_ids=["t5", "bob-t2"]),
    question("nothing", "What was never said?", []),
    question("timeless", "Who plays the trombone?", ["t2"], conversation="bob"),
]


@pytest.fixture
def dataset(tmp_path):
    return written(tmp_path / "tiny", TURNS, QUESTIONS)


def written(folder, turns, questions):
    folder.mkdir()
    for name, lines in (("conversations", turns), ("questions", questions)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return read_dataset(folder)


def asked(outcome, question_id):
    return next(one for one in outcome.asked if one.question.question_id == question_id)


def test_the_numbers_have_the_documented_shape(dataset):
    """The summary is JSON with the documented parts, every k in every leg, rounded to 4 decimals."""
    numbers = summary(evaluate(dataset, ks=(1, 3), clock=lambda: NOON))

    assert json.loads(json.dumps(numbers)) == numbers
    metrics = {f"{name}@{k}" for name in ("recall", "all", "any") for k in (1, 3)} | {"mrr", "r@1"}
    for part in ("overall", "adversarial", "session"):
        assert list(numbers[part]) == ["hybrid", "bm25", "dense"]
        for leg in numbers[part].values():
            assert set(leg) == metrics | {"questions"}
            assert all(value == round(value, 4) for value in leg.values())
    assert set(numbers["categories"]) == {"single-hop", "pictures"}
    assert numbers["counts"] == {
        "conversations": 2, "turns": 7, "skipped": 1, "questions": 8, "unasked": 1, "degraded": 0,
    }  # fmt: skip
    assert set(numbers["latency_ms"]) == {"p50", "p95"}
    assert numbers["embedder"] == "wordllama/l2_supercat_256"
    assert numbers["date"] == NOON.isoformat()
    assert (numbers["dataset"], numbers["k"]) == ("tiny", [1, 3])


def test_who_is_counted_where(dataset):
    """Adversarial and session-level questions stay out of the turn numbers, as those without evidence."""
    numbers = summary(evaluate(dataset, ks=(5,)))

    assert numbers["overall"]["hybrid"]["questions"] == 5
    assert numbers["adversarial"]["hybrid"]["questions"] == 1
    assert numbers["session"]["hybrid"]["questions"] == 6
    assert numbers["stale"]["hybrid"]["questions"] == 1
    assert numbers["forbidden"]["hybrid"]["questions"] == 1
    assert "above_evidence" not in numbers["forbidden"]["hybrid"]
    assert numbers["overall"]["bm25"]["recall@5"] == 1.0


def test_later_turns_never_leak(dataset):
    """With `before_turn_id`, later turns and their sessions appear in no ranking, however well they match."""
    one = asked(evaluate(dataset, ks=(10,)), "then")

    for leg in one.legs.values():
        assert set(leg.turns) <= {"t1", "t2"}
        assert set(leg.sessions) <= {"s1"}
    assert one.legs["bm25"].turns[0] == "t1"


def test_a_question_sees_only_its_own_conversation(dataset):
    """The same turn and session ids under another user are other turns."""
    outcome = evaluate(dataset, ks=(10,))

    assert "s2" not in asked(outcome, "timeless").legs["hybrid"].sessions
    assert asked(outcome, "timeless").legs["bm25"].turns == ("t2",)
    # Only Bob's turns have this word; Ann's question must not find it.
    assert asked(outcome, "leak").legs["bm25"].turns == ()


def test_captions_are_remembered_and_groups_count_once(dataset):
    """A picture is found by its caption; either turn of a group is all of the evidence."""
    outcome = evaluate(dataset, ks=(1,))
    numbers = summary(outcome)

    assert asked(outcome, "canoe").legs["bm25"].turns == ("t2",)
    assert numbers["categories"]["pictures"]["bm25"]["recall@1"] == 1.0
    assert asked(outcome, "either").question.evidence == (("t1", "t4"),)


def test_each_leg_is_alone():
    """The baselines switch every signal off but their own, whatever `Ranking` learns to weigh."""
    settings = {"fusion", "rrf_k", "blend", "recency_days", "sum_weights"}
    for alone, leg in ((running._KEYWORD_ONLY, "keyword"), (running._DENSE_ONLY, "dense")):
        weights = {field.name: getattr(alone, field.name) for field in dataclasses.fields(Ranking)}
        on = {name for name, weight in weights.items() if name not in settings and weight}
        assert on == {leg}


def test_without_times_recency_counts_nothing(dataset, tmp_path):
    """A conversation without times is asked without recency, one with times with it."""
    seen = []

    class Watched(Memory):
        def recall(self, query, *, ranking, now, **more):
            seen.append((ranking.recency, now))
            return super().recall(query, ranking=ranking, now=now, **more)

    by_id = {one.question_id: one for one in dataset.questions}
    with Watched.open(tmp_path / "watched.db") as memory:
        ask(memory, dataset, by_id["timeless"], (5,), RANKINGS, warm=False)
        timeless, seen[:] = list(seen), []
        ask(memory, dataset, by_id["now"], (5,), RANKINGS, warm=False)
        ask(memory, dataset, by_id["either"], (5,), RANKINGS, warm=False)

    assert set(timeless) == {(0.0, None)}
    assert seen[0] == (Ranking().recency, datetime(2025, 3, 20, 10, tzinfo=UTC))
    assert seen[-1][1] == datetime(2025, 4, 1, tzinfo=UTC)


def test_turns_are_stored_as_an_application_would(dataset, tmp_path):
    """Each turn is a message of its session with its id, speaker and time, in the order of the file."""
    file = tmp_path / "kept.db"
    evaluate(dataset, ks=(5,), path=file)

    with Memory.open(file) as memory:
        log = memory.sessions.read(scope=Scope.session("s1", user="ann"))
    assert [(m.id, m.speaker, m.text) for m in log] == [
        ("t1", "Ann", "I keep three beehives on the roof of the bakery."),
        ("t2", "Ann", "a red canoe on a lake"),
    ]
    assert log[0].created_at == datetime(2025, 3, 1, 10, tzinfo=UTC)


def test_a_turn_without_a_time_takes_the_one_before(tmp_path):
    """In a conversation with times, a turn without one is never taken for said today."""
    turns = [turn("t1", "one", day=None), turn("t2", "two", day=3), turn("t3", "three", day=None)]
    dataset = written(tmp_path / "gaps", turns, [])

    times = said_at(dataset.conversations["ann"])

    assert times == [datetime(2025, 3, 3, 10, tzinfo=UTC)] * 3


def test_what_cannot_be_evaluated_is_refused(dataset, tmp_path):
    """No k, a k that is no count, a file that exists and an unknown embedder are typed errors."""
    with pytest.raises(InvalidInputError):
        evaluate(dataset, ks=())
    with pytest.raises(InvalidInputError):
        evaluate(dataset, ks=(0,))
    taken = tmp_path / "taken.db"
    taken.touch()
    with pytest.raises(ConfigError, match="exists"):
        evaluate(dataset, path=taken)
    with pytest.raises(ConfigError, match="unknown embedder"):
        evaluate(dataset, embedder="nonsense")


@pytest.mark.filterwarnings("default")
def test_an_embedder_that_is_slow_is_waited_for(dataset):
    """A model that needs longer than the first look at it takes to load does not end the evaluation."""
    looked = threading.Event()

    class Slow:
        model = "slow"

        def embed_documents(self, texts):
            assert looked.wait(30)
            return [[1.0, float(len(text))] for text in texts]

        def embed_query(self, text):
            return [1.0, float(len(text))]

    outcome = evaluate(
        dataset,
        embedder=Slow(),
        progress=lambda step, done, _: looked.set() if (step, done) == ("embedding", 0) else None,
    )
    assert outcome.embedder == "slow"


def test_an_embedder_that_fails_ends_the_evaluation(dataset):
    """Numbers of half an index would be wrong, so a failing embedder is an error, not a loop."""

    class Broken:
        def embed_documents(self, _texts):
            raise OSError("no such server")

        def embed_query(self, _text):
            raise OSError("no such server")

    class Named(Broken):
        model = "broken"

    with pytest.raises(ModelError, match="could not be embedded"):
        evaluate(dataset, embedder=Named())


def test_progress_is_told(dataset):
    """Each step reports how far it is, up to its end."""
    told = []
    evaluate(dataset, ks=(5,), progress=lambda *step: told.append(step))

    last = {name: (done, total) for name, done, total in told}
    assert last["remembering"] == (8, 8)
    assert last["asking"] == (8, 8)
    assert "embedding" in last


def test_tables_fit_into_80_columns(dataset):
    """The table shows the same numbers in a terminal of 80 columns."""
    numbers = summary(evaluate(dataset, ks=(5, 10, 20)))
    paper = io.StringIO()
    console = Console(width=200, file=paper)
    for part in tables(numbers):
        console.print(part)

    lines = [line.rstrip() for line in paper.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    recall = next(line.split() for line in lines if line.split()[:1] == ["recall@5"])
    assert recall[1] == f"{numbers['overall']['hybrid']['recall@5']:.3f}"
    assert any("adversarial" in line for line in lines)


def test_an_empty_data_set_gives_empty_numbers(tmp_path):
    """Nothing to ask is no error: parts are empty and the tables still print."""
    numbers = summary(evaluate(written(tmp_path / "empty", [], []), ks=(5,)))

    assert numbers["overall"] == {}
    assert numbers["latency_ms"] == {}
    assert tables(numbers)
