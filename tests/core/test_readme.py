"""The code of the README, as it stands there."""

import re
from pathlib import Path

from memkit_core import Memory, MissingDependencyError

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_readme_code_runs(tmp_path, monkeypatch):
    """All Python of the README runs from top to bottom in one program; only an extra it names may be missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("QDRANT_API_KEY", "none")
    names = {}
    text = README.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) > 10
    opened = []
    real = Memory.open.__func__

    def open_and_note(kind, *given, **named):
        opened.append(real(kind, *given, **named))
        return opened[-1]

    monkeypatch.setattr(Memory, "open", classmethod(open_and_note))
    try:
        for block in blocks:
            # Lines as in the file, so that a traceback points into the README.
            code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
            try:
                exec(compile(code, str(README), "exec"), names)
            except MissingDependencyError as error:
                named = re.search(r"memkit-llm\[(.*?)\]", str(error))
                assert named is not None
                assert f"extra: {named[1]}" in block[1]
        assert names["retriever"].invoke("Where does she live?")
        assert names["memory"].recall("tea", scope=names["alice"])
    finally:
        for memory in opened:
            memory.close()
