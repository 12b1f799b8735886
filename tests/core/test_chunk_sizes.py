"""Comparing sizes of chunks on conversations whose answers are known."""

import io
import json

import pytest
from rich.console import Console

from memkit_core.errors import InvalidInputError, ModelError
from memkit_core.evaluation import compare_chunk_sizes, read_dataset

pytest.importorskip("semantic_text_splitter")

LONG = " ".join(f"The lamp room has step {n} of the green lighthouse." for n in range(12))
TURNS = {
    "t1": ("s1", "I keep three beehives on the roof of the bakery."),
    "t2": ("s1", "   "),
    "t3": ("s1", "My dentist is called Okafor."),
    "t4": ("s2", LONG),
    "t5": ("s2", "The beehives moved from the roof to the garden."),
}
QUESTIONS = [
    {"question": "Where are the beehives?", "evidence_turn_ids": ["t5"]},
    {"question": "Who is the dentist?", "evidence_turn_ids": ["t3"]},
    {"question": "lighthouse steps", "evidence_turn_ids": ["t4"]},
    {"question": "beehives", "evidence_turn_ids": ["t1", "t5"], "evidence_groups": [["t1", "t5"]]},
]


@pytest.fixture
def dataset(tmp_path):
    """Writes a data set of these questions and reads it."""

    def write(questions=QUESTIONS, turns=TURNS, speaker="Ann"):
        (tmp_path / "data").mkdir()
        said = [
            {
                "conversation_id": "ann",
                "session_id": session,
                "turn_id": name,
                "speaker": speaker,
                "text": text,
            }
            for name, (session, text) in turns.items()
        ]
        asked = [
            {"question_id": f"q{n}", "conversation_id": "ann", "category": "plain", **question}
            for n, question in enumerate(questions)
        ]
        for name, lines in (("conversations", said), ("questions", asked)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (tmp_path / "data" / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return read_dataset(tmp_path / "data")

    return write


def test_each_size_is_a_row_and_the_best_recall_wins(dataset):
    """Sizes come in ascending order, once; the winner has the highest recall@5, of equal ones the smallest size."""
    compared = compare_chunk_sizes(dataset(), [2000, 100, 1000, 100], ks=[1, 3])
    assert [row.size for row in compared.rows] == [100, 1000, 2000]
    assert compared.ks == (1, 3, 5)
    assert compared.questions == 4
    small, large, larger = compared.rows
    assert small.chunks > large.chunks == larger.chunks == 2
    # A session fits in one chunk, and there are two: all is found. Five chunks of 100 are not half of the long turn.
    assert large.metrics["recall@5"] == 1.0
    assert small.metrics["recall@5"] == 0.75
    assert compared.winner is large
    assert small.tokens[5] < large.tokens[5]
    assert compared.rows[0].degraded == 0


def test_a_turn_is_found_when_half_of_it_is_there(dataset):
    """A long turn is found with the chunk that completes the half of its text, not with the first one."""
    turns = {"t4": TURNS["t4"]}
    questions = [{"question": "lighthouse", "evidence_turn_ids": ["t4"]}]
    compared = compare_chunk_sizes(
        dataset(questions, turns, speaker=None), [210, 400], ks=[1, 2, 9], overlap=0
    )
    small, large = compared.rows
    assert small.chunks == 3
    assert [small.metrics[f"recall@{k}"] for k in (1, 2, 5, 9)] == [0, 1, 1, 1]
    assert small.metrics["mrr"] == 0.5
    assert large.metrics["recall@9"] == 1


def test_only_earlier_turns_may_be_found(dataset):
    """Chunks that reach to the turn that is not said yet, or behind it, are not looked at."""
    later = [{"question": "beehives in the garden", "evidence_turn_ids": ["t5"], "before_turn_id": "t5"}]
    earlier = [{"question": "dentist", "evidence_turn_ids": ["t3"], "before_turn_id": "t4"}]
    within = [{"question": "beehives", "evidence_turn_ids": ["t1"], "before_turn_id": "t2"}]
    rows = compare_chunk_sizes(dataset(later + earlier + within), [60]).rows
    assert rows[0].metrics["recall@5"] == pytest.approx(2 / 3)


def test_what_has_no_turns_as_evidence_is_not_asked(dataset):
    """Questions about whole sessions, of nothing, and adversarial ones are left out; without any nobody wins."""
    compared = compare_chunk_sizes(
        dataset(
            [
                {"question": "beehives", "evidence_turn_ids": ["t1"], "evidence_level": "session"},
                {"question": "beehives", "evidence_turn_ids": ["t1"], "category": "adversarial"},
                {"question": "trombone", "evidence_turn_ids": []},
            ]
        ),
        [256],
    )
    assert (compared.questions, compared.winner, compared.rows[0].metrics) == (0, None, {})
    assert compared.summary()["winner"] is None
    assert "no winner" in printed(compared)


def printed(compared):
    console = Console(file=io.StringIO(), width=80)
    console.print(*compared.tables(), sep="\n")
    return console.file.getvalue()


def test_the_numbers_are_json_and_fit_a_terminal(dataset):
    """`summary` is plain JSON with every metric; the tables are at most 80 columns wide and name the winner."""
    compared = compare_chunk_sizes(dataset(), [100, 1000])
    numbers = json.loads(json.dumps(compared.summary()))
    assert numbers["winner"] == 1000
    assert [row["size"] for row in numbers["sizes"]] == [100, 1000]
    assert {"recall@5", "all@10", "any@20", "mrr", "r@1", "tokens", "chunks"} <= numbers["sizes"][0].keys()
    shown = printed(compared)
    assert "winner by recall@5: 1000 characters (1.000)" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    "wrong", [{"sizes": []}, {"sizes": [0]}, {"sizes": ["256"]}, {"ks": [0]}, {"overlap": 2}]
)
def test_what_cannot_be_compared_is_refused(dataset, wrong):
    """No size, no number, or an overlap that is none."""
    with pytest.raises(InvalidInputError):
        compare_chunk_sizes(dataset(), **{"sizes": [256], **wrong})


def test_an_embedder_that_fails_is_said(dataset):
    """Numbers of words alone do not pass for those of the model."""

    class Down:
        model = "down"

        def embed_documents(self, texts):
            raise RuntimeError("down")

        embed_query = embed_documents

    with pytest.raises(ModelError, match="could not be embedded"):
        compare_chunk_sizes(dataset(), [256], embedder=Down())


def test_the_command(dataset, run_script):
    """`memkit eval --chunk-sizes` prints the table, or with --json one document; a size that is none is refused."""
    dataset()
    run = "import sys; sys.argv[1:] = {!r}; from memkit_core.cli import main; sys.exit(main())"
    arguments = ["eval", "data", "--chunk-sizes", "100,1000", "--k", "1"]
    assert "winner by recall@5: 1000 characters" in run_script(run.format(arguments))
    numbers = json.loads(run_script(run.format([*arguments, "--json"])))
    assert (numbers["winner"], numbers["k"]) == (1000, [1, 5])
    with pytest.raises(AssertionError, match="--chunk-sizes takes whole"):
        run_script(run.format([*arguments, "--chunk-sizes", "0"]))
    with pytest.raises(AssertionError, match="--chunk-sizes stands alone"):
        run_script(run.format([*arguments, "--seed", "0"]))
