"""`docs/eval.md` as it stands there: its Python and its commands."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memkit_core import MissingDependencyError
from memkit_core.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "eval.md"
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says(tmp_path, monkeypatch):
    """All Python of the page runs in order, and every command ends well; only the extra it names may be missing."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    names, ran = {}, []
    for kind, code in BLOCK.findall(text):
        if kind:
            exec(compile(code, str(PAGE), "exec"), names)
            continue
        for line in code.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "memkit"
            result = CliRunner().invoke(app, arguments)
            if isinstance(result.exception, MissingDependencyError):
                assert "memkit-llm[plot]" in str(result.exception)
                assert "--plot" in arguments
                continue
            assert result.exit_code == 0, (line, result.output, result.exception)
            assert result.output
            ran.append(line)
    assert len(ran) >= 5


@pytest.mark.parametrize("option", ["--compare", "--seed", "--json-file", "--plot", "--from-log", "--k"])
def test_every_option_of_the_command_is_told(option):
    """Each option of `memkit eval` that this page is about exists and stands in it."""
    assert option in PAGE.read_text(encoding="utf-8")
    help_text = CliRunner().invoke(app, ["eval", "--help"], env={"COLUMNS": "200"}).output
    assert option in help_text
