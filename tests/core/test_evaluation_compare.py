"""Comparing configurations: their form, one memory for all of them, intervals and tables."""

import dataclasses
import io
import json
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from rich.console import Console

from memkit_core import ConfigError, InvalidInputError, MissingDependencyError, Ranking
from memkit_core.evaluation import (
    Configuration,
    evaluate,
    parse_configuration,
    read_dataset,
    save_plot,
    summary,
    tables,
)
from memkit_core.evaluation.bootstrap import bootstrap
from memkit_core.evaluation.configurations import knobs
from memkit_core.evaluation.plot import check_plot

TURNS = [
    "I keep three beehives on the roof of the bakery.",
    "The canoe on the lake is red.",
    "My dentist is called Okafor.",
    "The lighthouse has green stripes.",
    "Tea is at five, as ever.",
    "The shed behind the bakery is locked.",
]
QUESTIONS = [
    ("Where are the beehives?", "t0", "places"),
    ("What colour is the canoe?", "t1", "colours"),
    ("Who is the dentist?", "t2", "people"),
    ("What colour are the stripes?", "t3", "colours"),
    ("When is tea?", "t4", "times"),
    ("Can one get into the hut?", "t5", "places"),
]


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "tiny"
    home.mkdir()
    said = [
        {"conversation_id": "c", "session_id": "s", "turn_id": f"t{n}", "role": "user", "text": text}
        for n, text in enumerate(TURNS)
    ]
    asked = [
        {
            "question_id": f"q{n}", "conversation_id": "c", "question": text, "category": kind,
            "evidence_turn_ids": [turn], "stale_turn_ids": ["t4"] if turn == "t0" else [],
        }
        for n, (text, turn, kind) in enumerate(QUESTIONS)
    ]  # fmt: skip
    for name, lines in (("conversations", said), ("questions", asked)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return home


@pytest.fixture
def memkit(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-m", "memkit_core.cli", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60, check=False
        )

    return run


class Counting:
    """An embedder that counts what it embeds."""

    def __init__(self, name):
        self.model, self.texts = name, []

    def embed_documents(self, texts):
        self.texts += texts
        return [[1.0, float(len(text)), float(text.count("e"))] for text in texts]

    def embed_query(self, text):
        return [1.0, float(len(text)), float(text.count("e"))]


# ------------------------------------------------------------------ the form


def test_every_field_of_the_ranking_is_a_knob():
    """A configuration can set each weight of recall to its own default, whatever weights there are."""
    assert list(knobs()) == [one.name for one in dataclasses.fields(Ranking)]
    for name, value in knobs().items():
        text = "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert parse_configuration(f"x:{name}={text}").ranking == Ranking(), name


def test_a_configuration_is_read():
    """Knobs are set as numbers, words and tuples; spaces do not matter; a model's name keeps its colon."""
    read = parse_configuration("mine: dense = 0.25,passage_radius=1, fusion=rrf,sum_weights=0.5/0.25/0.25")
    assert read == Configuration(
        name="mine",
        ranking=Ranking(dense=0.25, passage_radius=1, fusion="rrf", sum_weights=(0.5, 0.25, 0.25)),
    )
    named = parse_configuration("other model:embedder=openai:text-embedding-3-small")
    assert (named.embedder, named.ranking) == ("openai:text-embedding-3-small", Ranking())


def test_an_unknown_knob_is_told_with_those_there_are():
    """The error names the knob and lists every known one."""
    with pytest.raises(InvalidInputError, match="unknown knob 'neighbor'") as caught:
        parse_configuration("x:neighbor=0")
    assert all(name in str(caught.value) for name in [*knobs(), "embedder"])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dense=0", InvalidInputError),
        (":dense=0", InvalidInputError),
        ("x:dense=much", InvalidInputError),
        ("x:passage_radius=1.5", InvalidInputError),
        ("x:sum_weights=a/b", InvalidInputError),
        ("x:dense=0,dense=1", InvalidInputError),
        ("x:dense", InvalidInputError),
        ("x:dense=", InvalidInputError),
        ("hybrid:dense=0", InvalidInputError),
        ("x:dense=-1", ConfigError),
        ("x:dense=nan", ConfigError),
        ("x:fusion=magic", ConfigError),
        ("x:sum_weights=1/2", ConfigError),
    ],
)
def test_what_is_no_configuration_is_refused(text, error):
    """A text without name, colon or value, a value that cannot be, and a taken name are typed errors."""
    with pytest.raises(error):
        parse_configuration(text)


def test_names_are_unique(folder):
    """Two configurations of one name could not be told apart, so they are refused."""
    with pytest.raises(InvalidInputError, match="two configurations"):
        evaluate(read_dataset(folder), configurations=[Configuration(name="x"), Configuration(name="x")])


# ------------------------------------------------------------------ running


def test_all_are_asked_of_one_memory(folder):
    """Configurations with one embedder share one memory: each turn is embedded once for each embedder."""
    first, second = Counting("first"), Counting("second")
    outcome = evaluate(
        read_dataset(folder),
        ks=(1, 3),
        embedder=first,
        configurations=[
            Configuration(name="no dense", ranking=Ranking(dense=0.0)),
            Configuration(name="half", ranking=Ranking(dense=0.25)),
            Configuration(name="other", embedder=second),
        ],
    )

    assert len(first.texts) == len(second.texts) == len(TURNS)
    order = ["hybrid", "no dense", "half", "other", "bm25", "dense"]
    assert [one.name for one in outcome.configurations] == order
    assert [one.embedder for one in outcome.configurations] == ["first"] * 3 + ["second"] + ["first"] * 2
    assert all(list(asked.legs) == order for asked in outcome.asked)
    numbers = summary(outcome)
    assert numbers["configurations"]["half"]["ranking"] == {"dense": 0.25}
    assert numbers["embedder"] == "first"
    assert json.loads(json.dumps(numbers)) == numbers


def test_a_configuration_is_what_it_says(folder):
    """The default under another name differs in nothing; BM25 alone as a configuration is the baseline."""
    alone = "keyword=1,dense=0,neighbour=0,passage=0,session=0,recency=0,newer=0,importance=0,date=0"
    configurations = [parse_configuration("same:"), parse_configuration(f"words:{alone},question=0")]
    numbers = summary(evaluate(read_dataset(folder), ks=(1, 3), configurations=configurations))

    assert numbers["overall"]["same"] == numbers["overall"]["hybrid"]
    assert set(map(tuple, numbers["differences"]["overall"]["same"].values())) == {(0.0, 0.0, 0.0)}
    assert numbers["overall"]["words"] == numbers["overall"]["bm25"]
    assert "hybrid" not in numbers["differences"]["overall"]
    for part in ("overall", "session", "stale"):
        assert set(numbers["differences"][part]) == {"same", "words", "bm25", "dense"}
    assert set(numbers["differences"]["categories"]) == {"colours", "people", "places", "times"}


def test_differences_are_those_of_the_means(folder):
    """Each difference is the mean of one configuration less that of the first, inside its interval."""
    numbers = summary(
        evaluate(read_dataset(folder), ks=(1,), configurations=[parse_configuration("vectors:keyword=0")])
    )

    for name, metrics in numbers["differences"]["overall"].items():
        for metric, (mean, low, high) in metrics.items():
            expected = numbers["overall"][name][metric] - numbers["overall"]["hybrid"][metric]
            assert mean == pytest.approx(expected, abs=2e-4)
            assert low <= mean <= high
    assert numbers["differences"]["session"]["bm25"]["recall@1"][1] < 0
    for name, metrics in numbers["intervals"]["overall"].items():
        assert metrics["recall@1"][0] == numbers["overall"][name]["recall@1"]


def test_the_data_are_named_by_their_content(folder):
    """The digests are those of the files, byte for byte."""
    numbers = summary(evaluate(read_dataset(folder), ks=(1,)))

    assert numbers["sha256"] == {
        name: sha256((folder / name).read_bytes()).hexdigest()
        for name in ("conversations.jsonl", "questions.jsonl")
    }


# ------------------------------------------------------------------ intervals


def test_the_same_seed_gives_the_same_interval():
    """Intervals depend on the values and the seed alone."""
    values = np.random.default_rng(3).normal(size=(50, 2))

    assert bootstrap(values, seed=7) == bootstrap(values, seed=7)
    assert bootstrap(values, seed=7) != bootstrap(values, seed=8)


def test_an_interval_is_as_wide_as_theory_says():
    """For many values the interval of a mean comes near mean +- 1.96 standard errors."""
    values = np.random.default_rng(1).normal(2.0, 3.0, size=(400, 1))
    error = values.std() / np.sqrt(len(values))

    (interval,) = bootstrap(values)

    assert interval.mean == pytest.approx(values.mean())
    assert interval.low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert interval.high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_pairs_stay_together():
    """What differs by the same amount in every question differs by that amount, however much values vary."""
    scores = np.random.default_rng(2).normal(size=(30, 1))

    assert bootstrap((scores + 0.5) - scores)[0] == pytest.approx((0.5, 0.5, 0.5))


# ------------------------------------------------------------------ tables


def test_one_table_holds_all_configurations_by_category(folder):
    """Every configuration stands in every section of the table, which fits into 80 columns."""
    configurations = [parse_configuration("no words, only vectors alone:keyword=0")]
    numbers = summary(evaluate(read_dataset(folder), ks=(1, 3), configurations=configurations), seed=5)
    paper = io.StringIO()
    console = Console(width=200, file=paper)
    for part in tables(numbers):
        console.print(part)

    lines = [line.rstrip() for line in paper.getvalue().splitlines()]
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80, text
    for section in ("turns, n=6", "sessions, n=6", "colours, n=2", "people, n=1"):
        assert section in text
    assert text.count("vectors alone") == 8
    assert "recall@3 - hybrid" in text
    assert "seed 5" in text
    assert str(numbers["sha256"]["questions.jsonl"])[:12] in text


# ------------------------------------------------------------------ files


def measured(folder, *configurations):
    chosen = [parse_configuration(text) for text in configurations]
    return summary(evaluate(read_dataset(folder), ks=(1, 3), configurations=chosen))


def test_a_folder_whose_name_is_no_unicode(folder, memkit, tmp_path):
    """What is no UTF-8 in the name of a data set stands in the JSON file as U+FFFD."""
    home = folder.with_name("talk\udcff")
    try:
        folder.rename(home)
    except OSError:
        pytest.skip("the file system has no such names")
    process = memkit("eval", str(home), "--json", "--json-file", "numbers.json")
    assert process.returncode == 0, process.stderr
    written = (tmp_path / "numbers.json").read_text(encoding="utf-8")
    assert json.loads(written) == json.loads(process.stdout)
    assert json.loads(written)["dataset"] == "talk\ufffd"


@pytest.mark.parametrize("name", ["plot.png", "plot.svg", "plot.pdf"])
def test_a_plot_is_a_file_of_its_kind(folder, tmp_path, name):
    """The plot is written in the form of its name, with hostile names as text, and nothing global changes."""
    matplotlib = pytest.importorskip("matplotlib")
    settings = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    numbers = measured(folder, "_$\\frac{\udcff:dense=0")

    save_plot([numbers, numbers], tmp_path / name)

    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[name[-3:]]
    written = (tmp_path / name).read_bytes()
    assert written.startswith(beginning)
    assert dict(matplotlib.rcParams) == settings
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_without_sets_to_score_a_plot_is_empty(tmp_path):
    """A data set without questions makes a plot without points, no error."""
    pytest.importorskip("matplotlib")
    for name in ("conversations", "questions"):
        (tmp_path / f"{name}.jsonl").touch()

    save_plot([measured(tmp_path)], tmp_path / "plot.png")

    assert (tmp_path / "plot.png").stat().st_size > 0


def test_a_plot_that_cannot_be_is_refused_first(tmp_path, monkeypatch):
    """Another kind of file, a folder that is not there and no matplotlib are told before any work."""
    with pytest.raises(InvalidInputError, match=r"\.png"):
        check_plot(tmp_path / "plot.jpeg")
    with pytest.raises(InvalidInputError, match="does not exist"):
        check_plot(tmp_path / "none" / "plot.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError) as caught:
        check_plot(tmp_path / "plot.png")
    assert str(caught.value).endswith("pip install 'memkit-llm[plot]'")


def test_the_command_writes_all_numbers(folder, tmp_path, memkit):
    """`--json-file` writes what `--json` prints, one object a data set; tables still go to the terminal."""
    arguments = ["eval", str(folder), str(folder), "--k", "1", "--compare", "words:dense=0", "--seed", "3"]
    process = memkit(*arguments, "--json-file", "out.json")

    assert process.returncode == 0, process.stderr
    assert "words" in process.stdout
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert [one["dataset"] for one in written] == ["tiny", "tiny"]
    assert written[0]["overall"] == written[1]["overall"]
    assert written[0]["bootstrap"]["seed"] == 3
    assert list(written[0]["overall"]) == ["hybrid", "words", "bm25", "dense"]


def test_the_command_refuses_what_it_does_not_know(folder, memkit):
    """An unknown knob and a plot of an unknown kind are one line each, told before anything is asked."""
    knob = memkit("eval", str(folder), "--compare", "x:neighbor=0")
    assert (knob.returncode, knob.stdout) == (1, "")
    assert "known are keyword, dense," in knob.stderr
    assert "asking" not in knob.stderr
    plot = memkit("eval", str(folder), "--plot", "plot.gif")
    assert plot.returncode == 1
    assert "asking" not in plot.stderr
