"""What the command line refuses: in its own words, before any work, and leaving nothing behind."""

import pytest

from memkit_core import Memory, Scope
from memkit_core.cli.wording import as_command_line

ANN = Scope.user("ann")
THERE = ("--db", "memory.db")


@pytest.fixture
def db(tmp_path):
    """The path of a memory with one record."""
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add("I moved to Denver in May.", scope=ANN, id="m1")
    return tmp_path / "memory.db"


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
