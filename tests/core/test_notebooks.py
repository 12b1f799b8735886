"""How the notebooks are stored; that they run is tested by running them (`pytest notebooks`)."""

import json
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
NOTEBOOKS = sorted((HOME / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_found_in_the_readme(path):
    """It holds no output, which would be of one machine and one day and is made anew by every run."""
    book = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
    assert {cell["execution_count"] for cell in code} == {None}
    assert book["metadata"].keys() == {"kernelspec", "language_info"}
    assert f"(notebooks/{path.name})" in (HOME / "README.md").read_text(encoding="utf-8")
