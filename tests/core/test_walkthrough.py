"""`docs/walkthrough.md`: the life of a memory, as a newcomer reads it."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "walkthrough.md"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_prints_what_it_says(tmp_path, monkeypatch):
    """Each piece of code runs after those above it, and what stands below it is what it prints."""
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 10
    names = {}
    for code, told in zip(blocks[::2], blocks[1::2], strict=True):
        assert (code[1], told[1]) == ("python", "text")
        printed = io.StringIO()
        # Lines as in the file, so that a traceback points into the page.
        source = "\n" * text.count("\n", 0, code.start(2)) + code[2]
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(PAGE), "exec"), names)
        assert printed.getvalue() == told[2]
    assert names["memory"].closed
