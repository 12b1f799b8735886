"""Comparing configurations on a recall log: asked again as of then, honest about what it cannot tell."""

import contextlib
import dataclasses
import io
import json
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from memkit_core import (
    BackendError,
    Config,
    ConfigError,
    InvalidInputError,
    Memory,
    Ranking,
    RecallLog,
    Scope,
)
from memkit_core.evaluation import Configuration, evaluate_log, log_summary, log_tables, parse_configuration
from memkit_core.evaluation import from_log as looking
from memkit_core.evaluation.from_log import TIME_AND_FUSION
from memkit_core.stores.sqlite import schema

ALICE, TEAM = Scope.user("alice"), Scope.workspace("team")
START = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {
    "bees": "Three beehives stand on the roof of the bakery.",
    "canoe": "The canoe on the lake is red.",
    "dentist": "The dentist is called Okafor.",
    "tea": "Tea is at five.",
}
CONFIG = Config(recall_log=RecallLog(), disk_reserve=1)


@pytest.fixture
def store(tmp_path, clock):
    """A memory with four facts, and what it is opened with."""
    path = tmp_path / "own.db"
    with Memory.open(path, config=CONFIG, clock=clock) as memory:
        for name, text in FACTS.items():
            memory.add(text, scope=ALICE, id=name)
        yield memory


def ask(memory, query, useful, useless=(), **more):
    result = memory.recall(query, scope=ALICE, **more)
    for name in useful:
        memory.feedback(result.recall_id, name, scope=ALICE)
    for name in useless:
        memory.feedback(result.recall_id, name, scope=ALICE, useful=False)
    return result


def compared(memory, *configurations, **more):
    chosen = [parse_configuration(text) for text in configurations]
    return log_summary(
        evaluate_log(memory.path, ks=(1, 3), configurations=chosen, clock=lambda: START, **more)
    )


def printed(numbers):
    paper = io.StringIO()
    console = Console(width=80, file=paper)
    for part in log_tables(numbers):
        console.print(part)
    return paper.getvalue()


def test_what_was_useful_is_the_evidence(store):
    """A configuration is as good as the ranks it gives to what was marked useful, over the same recalls."""
    ask(store, "Where are the beehives?", ["bees"], ["tea"])
    ask(store, "Who is the dentist?", ["dentist"])
    ask(store, "Okafor beehives", ["bees", "dentist"])
    store.recall("tea", scope=ALICE)  # nobody said anything of it

    numbers = compared(store, "words:dense=0")

    assert numbers["counts"] == {"judged": 3, "questions": 3, "left_out": {}, "degraded": 0}
    assert list(numbers["overall"]) == ["hybrid", "words", "bm25", "dense"]
    assert numbers["overall"]["words"]["recall@3"] == 1.0
    assert numbers["overall"]["words"]["mrr"] == 1.0
    assert numbers["overall"]["words"]["questions"] == 3
    assert numbers["forbidden"]["words"] == {
        "questions": 1, "in_top@1": 0.0, "in_top@3": 0.0, "above_evidence": 0.0,
    }  # fmt: skip
    assert set(numbers["differences"]["overall"]) == {"words", "bm25", "dense"}
    assert json.loads(json.dumps(numbers)) == numbers


def test_time_constants_are_compared_unless_others_are_named(store):
    """Without configurations, recency and the fusion are compared with the default."""
    ask(store, "Who is the dentist?", ["dentist"])

    numbers = log_summary(evaluate_log(store.path, ks=(1,)))

    names = [one.name for one in TIME_AND_FUSION]
    assert list(numbers["overall"]) == ["hybrid", *names, "bm25", "dense"]
    assert numbers["configurations"]["recency 7 d"]["ranking"] == {"recency_days": 7.0}
    assert all(one.ranking != Ranking() for one in TIME_AND_FUSION)


def test_recency_counts_from_when_it_was_asked(store, clock):
    """A recall is asked again as of its own time: recency is that of then, however late it is compared."""
    clock.now = START + timedelta(days=60)
    store.add("The canoe on the lake is red.", scope=ALICE, id="again", occurred_at=clock.now)
    result = ask(store, "What colour is the canoe on the lake?", ["again"])
    assert result[0].record.id == "again"
    clock.now = START + timedelta(days=900)

    numbers = compared(store, "strong:recency=1,newer=0", "none:recency=0,newer=0")

    assert numbers["overall"]["strong"]["r@1"] == 1.0
    assert numbers["overall"]["none"]["r@1"] == 0.0


def test_what_came_later_is_not_there(store, clock):
    """What was remembered after the recall is not ranked, and what was overruled since is."""
    store.add("The lamp is green.", scope=ALICE, id="old lamp", key="lamp")
    ask(store, "What colour is the lamp?", ["old lamp"])
    clock.now = START + timedelta(days=1)
    for n in range(3):
        store.add(f"The lamp is blue, said {n}.", scope=ALICE, key="lamp")

    numbers = compared(store)

    assert numbers["overall"]["hybrid"]["r@1"] == 1.0
    assert numbers["overall"]["bm25"]["r@1"] == 1.0


def test_the_store_stays_as_it_is(store):
    """Comparing counts no recall, logs none and leaves no file."""
    ask(store, "Who is the dentist?", ["dentist"])
    store.flush()
    before = store.list_records(scope=ALICE).records, store.upkeep.recall_log()

    compared(store, "words:dense=0")

    assert (store.list_records(scope=ALICE).records, store.upkeep.recall_log()) == before


def test_any_number_of_hits_can_be_looked_at(store):
    """Also more than `Config.max_top_k` lets an ordinary recall give, as in `evaluate`."""
    ask(store, "Who is the dentist?", ["dentist"])
    assert evaluate_log(store.path, ks=(2000,), configurations=()).outcome.ks == (2000,)


def test_what_cannot_be_asked_again_is_told(store, tmp_path, clock):
    """Recalls without text, with filters, with nothing useful or with what is gone are counted apart."""
    ask(store, "Who is the dentist?", ["dentist"], filters={"type": "fact"})
    ask(store, "Where are the beehives?", [], ["bees"])
    ask(store, "What colour is the canoe?", ["canoe"])
    store.archive("canoe", scope=ALICE)
    hashed = dataclasses.replace(CONFIG, recall_log=RecallLog(query="hash"))
    with Memory.open(tmp_path / "own.db", config=hashed, clock=clock) as other:
        ask(other, "When is tea?", ["tea"])

    numbers = compared(store)

    assert numbers["counts"]["questions"] == 0
    assert numbers["counts"]["left_out"] == {
        "kept as a hash": 1,
        "asked with more than the log keeps": 1,
        "nothing marked useful": 1,
        "what was useful is gone": 1,
    }
    assert "nothing can be compared yet" in printed(numbers)


def test_it_says_when_there_is_too_little(store, monkeypatch):
    """Without feedback it says how to give some; with little that nothing should be chosen by it."""
    nothing = printed(compared(store))
    assert "memory.feedback" in nothing
    assert "recall@" not in nothing
    ask(store, "Who is the dentist?", ["dentist"])
    little = " ".join(printed(compared(store)).split())
    assert "Too little feedback to choose by: 1 recall, of at least 30" in little
    assert "the intervals of the differences are too narrow" in little
    assert "records, n=1" in little
    monkeypatch.setattr(looking, "FEW", 1)
    enough = " ".join(printed(compared(store)).split())
    assert "Too little" not in enough
    assert "Only what was shown could be marked" in enough


def test_equal_ids_of_two_scopes_are_told_apart(store):
    """A record of another scope with the id of the useful one does not count as found."""
    store.add("The dentist moved.", scope=TEAM, id="dentist")
    result = store.recall("dentist Okafor", scope=[ALICE, TEAM])
    store.feedback(result.recall_id, "dentist", scope=ALICE)
    store.feedback(result.recall_id, "dentist", scope=TEAM, useful=False)

    numbers = compared(store)

    assert numbers["overall"]["bm25"]["recall@1"] == 1.0
    assert numbers["forbidden"]["bm25"]["in_top@1"] == 0.0
    assert numbers["forbidden"]["bm25"]["in_top@3"] == 1.0


def test_what_cannot_be_compared_is_refused(store, tmp_path):
    """A configuration with an embedder, no file and no k are typed errors, and no file is made."""
    with pytest.raises(InvalidInputError, match="embedders cannot be compared on a log"):
        evaluate_log(store.path, configurations=[Configuration(name="x", embedder="e5")])
    with pytest.raises(InvalidInputError):
        evaluate_log(store.path, ks=())
    with pytest.raises(ConfigError, match="there is no memory"):
        evaluate_log(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


def test_the_command(store, tmp_path):
    """`memkit eval --from-log` prints the table and its caution; it takes no folders of data beside it."""
    ask(store, "Who is the dentist?", ["dentist"])

    def memkit(*arguments):
        command = [sys.executable, "-m", "memkit_core.cli", "eval", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60, check=False
        )

    told = memkit("--from-log", "own.db", "--k", "1", "--compare", "words:dense=0")
    assert told.returncode == 0, told.stderr
    assert "the recall log of own.db" in told.stdout
    assert "words" in told.stdout
    numbers = json.loads(memkit("--from-log", "own.db", "--json").stdout)
    assert numbers["counts"]["judged"] == 1
    for wrong in ((), (".", "--from-log", "own.db")):
        process = memkit(*wrong)
        assert (process.returncode, process.stdout) == (2, "")
        assert "--from-log" in process.stderr


@pytest.mark.parametrize("steps", [len(schema.MIGRATIONS) - 1, len(schema.MIGRATIONS)])
def test_the_file_is_only_read(tmp_path, steps):
    """Not a byte of the file changes, also when it is of an earlier version."""
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as file:
        for step in schema.MIGRATIONS[:steps]:
            file.executescript(step)
        file.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {steps}")
        file.execute("INSERT INTO meta VALUES ('store_id', 'theirs')")
    before = path.read_bytes()
    assert evaluate_log(path, ks=(1,), clock=lambda: START).judged == 0
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["old.db"]
    (tmp_path / "no.db").write_text("this is no database, but a text that is long enough " * 99)
    with pytest.raises(BackendError):
        evaluate_log(tmp_path / "no.db")
