"""The notebooks print again what they have stored."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "cases").glob("*.ipynb"))


def printed(notebook):
    """What each cell prints to its output; warnings of the machine go elsewhere."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    streams = [[one for one in cell.outputs if one.output_type == "stream"] for cell in cells]
    return ["".join(one.text for one in some if one.name == "stdout") for some in streams]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_prints_what_it_has_stored(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    stored = printed(notebook)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    assert printed(notebook) == stored


def test_notebooks_begin_with_a_question_and_end_with_a_decision():
    assert len(NOTEBOOKS) >= 6
    for path in NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        words = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        assert words[0].splitlines()[0].endswith("?"), path
        assert words[-1].startswith("**The decision.**"), path
        assert all(cell.outputs or not cell.source.count("print") for cell in notebook.cells
                   if cell.cell_type == "code"), path  # fmt: skip
