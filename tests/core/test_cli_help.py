"""What `--help` says, to somebody who knows a shell and not Python."""

import pytest

from memkit_core import Memory, Scope

COMMANDS = [
    "demo",
    "chat",
    "recall",
    "list",
    "show",
    "eval",
    "stats",
    "doctor",
    "repair",
    "reindex",
    "reembed",
    "upkeep",
    "forget",
    "export",
    "import",
    "backup",
]


def test_all_commands_in_whole_sentences(memkit_here):
    """The help lists every command in one line of 80 columns, with nothing cut off."""
    code, out, _ = memkit_here("--help")
    lines = out.split("Commands:\n")[1].splitlines()
    assert (code, [line.split()[0] for line in lines]) == (0, COMMANDS)
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(memkit_here, command):
    """It names no Python: neither a call nor a type of a list, and it fits into 80 columns."""
    code, out, _ = memkit_here(command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: memkit {command} [OPTIONS]")
    assert "]...]" not in out
    options = out.split("\nOptions:\n")[1].replace("MEMKIT_", "")
    assert [python for python in ("Memory.", "list[", "_") if python in options] == []
    assert max(map(len, out.splitlines())) <= 80


def test_an_export_says_whose(memkit_here, tmp_path, monkeypatch):
    """MEMKIT_USER narrows an export down: the output says to whom."""
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.add("I like tea.", scope=Scope.user("ann"))
    assert "1 record of everybody: " in memkit_here("export", "all.jsonl", "--db", "memory.db")[2]
    monkeypatch.setenv("MEMKIT_USER", "bob")
    assert "nothing of user:bob: " in memkit_here("export", "bob.jsonl", "--db", "memory.db")[2]


def test_what_forget_did_is_told_as_done(memkit_here, tmp_path):
    """With `--apply` the summary speaks of what was archived, not of what is to be."""
    Memory.open(tmp_path / "memory.db").close()
    # Where nothing is to be done, nothing is asked for.
    assert memkit_here("forget", "--db", "memory.db")[2].endswith("0 to archive, 0 to delete\n")
    assert memkit_here("forget", "--db", "memory.db", "--apply")[2].endswith("0 archived, 0 deleted\n")
