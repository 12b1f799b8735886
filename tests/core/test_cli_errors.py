"""What the command line refuses: in its own words, before any work, and leaving nothing behind."""

import json
import shutil
import subprocess
import sys

import pytest

from memkit_core import ConfigError, MemkitError, Memory, Scope
from memkit_core.cli.wording import as_command_line
from memkit_core.indexes.keeper.disk import check_disk
from memkit_core.locks import ProcessLock
from memkit_core.ports import VectorSpace
from memkit_core.stores.checks import other_model
from memkit_core.stores.sqlite import SQLiteStore

ANN = Scope.user("ann")
THERE = ("--db", "memory.db")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The path of a memory with one record."""
    file = tmp_path_factory.mktemp("written") / "memory.db"
    with Memory.open(file) as memory:
        memory.add("I moved to Denver in May.", scope=ANN, id="m1")
    return file


@pytest.fixture
def db(written, tmp_path):
    """A copy of it in `tmp_path`."""
    return shutil.copy(written, tmp_path)


@pytest.fixture
def refused(memkit_here):
    """Runs a command that memkit refuses; returns the one line that it says."""

    def run(*arguments):
        code, out, told = memkit_here(*arguments)
        assert (code, out, told.count("\n")) == (1, "", 1), told
        return told.removeprefix("memkit: ").rstrip("\n")

    return run


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("recall", "x", "--user", "ann", "-k", "0"), "recall: --top-k must be a whole number from 1 to 1000, got 0"),
        (("list", "--user", "ann", "--limit", "0"), "list: --limit must be a whole number from 1 to 10000, got 0"),
        (("list", "--user", "ann", "--tag", ""), "--tag must not be empty"),
        (("list", "--user", "ann", "--cursor", "z"), "list: --cursor 'z' was not made by a listing ordered by created_at"),
        (("export", "o", "--watermark", "z"), "export: --watermark must be the one that an export gave, got 'z'"),
        (
            ("export", "o", "--since", "May"),
            "--since must be a date or a time in ISO 8601, such as 2025-03-01 or 2025-03-01T10:00:00Z, got 'May'",
        ),
        (
            ("forget", "--delete-after-days", "0"),
            "forget: --delete-after-days must be a number of days above 0, got 0.0",
        ),
        (("upkeep", "--forget-hour", "24"), "--forget-hour must be a whole number from 0 to 23, got 24"),
        (
            ("recall", "x", "--user", "ann", "--embedder", "typo"),
            ("unknown embedder 'typo'; the provider is one of none, e5, fastembed, openai, sentence-transformers, "
             "wordllama, as in 'openai:text-embedding-3-small'"),
        ),
        (("reembed", "--embedder", "none"), "reembed: --embedder none embeds nothing; name the new model"),
        (
            ("recall", "x", "--user", "ann", "--embedder", "openai:m"),
            "the openai embedder needs a key: set OPENAI_API_KEY; for a server that needs none any text will do",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
@pytest.mark.usefixtures("db")
def test_an_error_names_the_option_that_was_typed(refused, arguments, told):
    """An option is called as it is typed, never as the argument of Python that it becomes."""
    assert refused(*arguments, *THERE) == told


def test_only_arguments_become_options():
    """The same words in a path or in a value stay as they are."""
    options = ["--type", "--top-k", "--overwrite"]
    assert (
        as_command_line("types must be one of a, got 'types'", options)
        == "--type must be one of a, got 'types'"
    )
    assert as_command_line("/types/top_k must be there", options) == "/types/top_k must be there"
    assert as_command_line("the types must differ", options) == "the types must differ"
    assert (
        as_command_line("give another path, or overwrite=True", options)
        == "give another path, or --overwrite"
    )
    assert as_command_line("overwrite=True", ["--force"]) == "overwrite=True"


def held_lock(tmp_path):
    lock = ProcessLock(tmp_path / "m.db.lock")
    assert lock.acquire(1)
    try:
        SQLiteStore(tmp_path / "m.db", busy_timeout=0.01)
    finally:
        lock.release()


def full_disk(tmp_path):
    check_disk(tmp_path, 2**62, backend="edge")


def another_model(_):
    raise ConfigError(other_model(VectorSpace(model="a", revision="1", dimension=2), model="b", revision="2"))


@pytest.mark.parametrize(
    ("refuse", "left_out", "told"),
    [
        (held_lock, "Config.busy_timeout", "try again"),
        (full_disk, "Config.disk_reserve", "free some space"),
        (
            another_model,
            "memory.upkeep.reembed",
            "or have it embedded anew: memkit reembed --embedder provider:model",
        ),
    ],
)
def test_what_only_python_can_do_is_not_offered(tmp_path, refuse, left_out, told):
    """A setting or a call that the command line does not have is left out of what memkit says."""
    with pytest.raises(MemkitError) as refused:
        refuse(tmp_path)
    assert left_out in str(refused.value)
    assert as_command_line(str(refused.value), ["--embedder"]).endswith(told)


@pytest.mark.usefixtures("db")
def test_a_missing_file_or_folder_is_named(refused, tmp_path):
    """The path that was given is told, no number of an error and no name of a temporary file."""
    assert refused("import", "none.jsonl", *THERE) == (
        f"No such file or directory: '{tmp_path / 'none.jsonl'}'"
    )
    for command in ("export", "backup"):
        assert refused(command, "nowhere/file", *THERE) == (
            f"the folder does not exist; create it first: '{tmp_path / 'nowhere'}'"
        )


@pytest.mark.usefixtures("db")
@pytest.mark.parametrize("name", ["none.jsonl", "empty.jsonl", "no-export.jsonl", "cut.jsonl", "newer.jsonl"])
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_refused_import_makes_no_memory(memkit_here, refused, tmp_path, name, on_error):
    """Where there was no memory a file that cannot be imported leaves none, and nothing beside it."""
    assert memkit_here("export", "all.jsonl", *THERE)[0] == 0
    header, *rows = (tmp_path / "all.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "no-export.jsonl").write_text("hello\n")
    (tmp_path / "cut.jsonl").write_text(header + rows[0])
    (tmp_path / "newer.jsonl").write_text(header.replace('"version":1', '"version":99') + "".join(rows))
    before = sorted(tmp_path.iterdir())
    arguments = ("import", name, "--db", "new.db", "--on-error", on_error)
    if (name, on_error) == ("cut.jsonl", "skip"):
        assert memkit_here(*arguments)[0] == 1
        with Memory.open(tmp_path / "new.db") as memory:
            assert memory.get("m1", scope=ANN) is not None
        return
    told = refused(*arguments)
    assert name in told
    assert ("--on-error skip" in told) is (name == "cut.jsonl")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("db")
def test_a_refused_stream_makes_no_memory(memkit_here, tmp_path):
    """From a pipe too nothing is made of what is refused, and what is not is taken whole."""
    assert memkit_here("export", "all.jsonl", *THERE)[0] == 0
    export = (tmp_path / "all.jsonl").read_bytes()
    before = sorted(tmp_path.iterdir())

    def piped(text):
        return subprocess.run(
            [sys.executable, "-m", "memkit_core.cli", "import", "-", "--db", "new.db"],
            cwd=tmp_path,
            input=text,
            capture_output=True,
            timeout=60,
            check=False,
        )

    assert piped(export[:-9]).returncode == 1
    assert sorted(tmp_path.iterdir()) == before
    assert piped(export).returncode == 0
    with Memory.open(tmp_path / "new.db") as memory:
        assert memory.get("m1", scope=ANN) is not None


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (("--compare", "a:embedder=typo"), "unknown embedder 'typo'", 1),
        (("--compare", "a:embedder=openai:m"), "the openai embedder needs a key", 1),
        (("--compare", "a:embedder=none"), "--embedder none embeds nothing", 1),
        (("--embedder", "none"), "--embedder none embeds nothing", 1),
        (("--chunk-sizes", "100", "--embedder", "typo"), "unknown embedder 'typo'", 1),
        (("--json-file", "."), "--json-file . is a folder", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_evaluation_is_refused_before_it_begins(memkit_here, tmp_path, arguments, told, code):
    """What cannot be measured, or not be written, is told before the default configuration has run."""
    turn = {"conversation_id": "c", "session_id": "s", "turn_id": "t", "text": "The boat is green."}
    asked = {"question_id": "q", "conversation_id": "c", "question": "What is green?"}
    (tmp_path / "conversations.jsonl").write_text(json.dumps(turn) + "\n")
    (tmp_path / "questions.jsonl").write_text(json.dumps(asked | {"evidence_turn_ids": ["t"]}) + "\n")
    ended, out, said = memkit_here("eval", ".", *arguments)
    assert (ended, out, said.count("\n")) == (code, "", 1), said
    assert said.startswith(f"memkit: {told}")


def test_an_import_into_no_file(memkit_here):
    """A memory that forgets when the command ends is wrong usage."""
    code, _, told = memkit_here("import", "all.jsonl", "--db", ":memory:")
    assert (code, told.endswith("give a file (see memkit import --help)\n")) == (2, True)
