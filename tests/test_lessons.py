"""The lessons: pages that name presets which build, notebooks that run, a checker that judges."""

import importlib
import json
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import comb, iv

from metastable.flows.build import build_start
from metastable.flows.spec import Experiment

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "lessons").glob("[0-9]*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks" / "lessons").glob("*.ipynb"))


@pytest.fixture(scope="module")
def checker():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "notebooks" / "lessons")
        yield importlib.import_module("checker")


def equiangular(until):
    """γ of two orthogonal tokens at β = 1: their equation by an integrator of SciPy."""
    speed = lambda _, g: 2 * (1 - g) * (g + 1) / (np.exp(1 - g) + 1)
    return solve_ivp(speed, (0, until), [0.0], rtol=1e-10, atol=1e-12).y[0, -1]


def meeting(beta, until=math.pi / 180):
    """Time for two equal clusters at a right angle to come within `until`: by quadrature."""
    slowness = lambda a: (math.exp(beta * (1 - math.cos(a))) + 1) / (2 * math.sin(a))
    return quad(slowness, until, math.pi / 2, limit=200)[0]


def hemisphere(dim):
    """Wendel's sum in whole numbers: the largest n of probability at least one half."""
    chance = lambda n: sum(comb(n - 1, k, exact=True) for k in range(dim)) / 2 ** (n - 1)
    return max(n for n in range(1, 100) if chance(n) >= 0.5)


def rate(beta, mode):
    return mode**2 * iv(mode, beta) / (beta * iv(0, beta))


def tricritical():
    """Where I_2/I_1 = 1/2, by halving: the order of the transition of USA on the circle."""
    low, high = 2.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if iv(2, middle) / iv(1, middle) < 0.5 else (low, middle)
    return low


# Right answers by SciPy alone; wrong ones are slips that learners make.
ANSWERS = {
    "usa_units": (lambda: iv(0, 4.0), [1.0, math.exp(4.0), 1 / iv(0, 4.0)]),
    "pair_cosine": (lambda: equiangular(1.0), [math.tanh(1.0), 0.0]),
    "most_in_a_hemisphere": (lambda: hemisphere(10), [10, 19, 21]),
    "final_rate": (lambda: 2.0, [1.0, -2.0, 2 * math.e]),
    "fastest_mode": (lambda: 1 + np.argmax([rate(16.0, k) for k in range(1, 20)]), [5, 4, 7]),
    "leaving_time": (
        lambda: math.log(2000) / 2 / max(rate(9.0, k) for k in range(1, 20)),
        [math.log(2000) / max(rate(9.0, k) for k in range(1, 20)), 1.0],
    ),
    "meeting_time": (lambda: meeting(6.0), [1.0, meeting(6.0) / 2]),
    "longer_by": (lambda: meeting(13.0) / meeting(12.0), [math.e, math.e**2, 1.0]),
    "critical_noise": (lambda: 2 * iv(0, 2.0) / iv(1, 2.0), [2 / iv(1, 2.0), 0.35]),
    "jump_begins": (tricritical, [2.0, 2.6]),
    "late_power": (lambda: 2.0, [1.0, -2.0]),
    "head_start": (
        lambda: (math.e + 63) / math.sqrt(math.e**2 + 63),
        [1.0, math.sqrt(math.e**2 + 63) / (math.e + 63)],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_right_answers_pass_and_wrong_ones_get_a_hint(name, checker):
    right, wrong = ANSWERS[name]
    check = getattr(checker, name)
    assert check(right()), check(right())
    for answer in (*wrong, None, "many", math.nan):
        judged = check(answer)
        assert not judged and len(repr(judged)) > 10 and "right:" not in repr(judged)


def test_every_lesson_has_a_page_a_notebook_and_two_exercises(checker):
    assert [page.name[:2] for page in PAGES] == [n.stem for n in NOTEBOOKS]
    assert len(PAGES) == 6
    exercises = []
    for page, notebook in zip(PAGES, NOTEBOOKS, strict=True):
        listed = re.findall(r"^\d\. `(\w+)`", page.read_text(), re.M)
        cells = json.loads(notebook.read_text())["cells"]
        code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
        assert len(cells) <= 8 and re.findall(r"checker\.(\w+)\(", code) == listed
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
        exercises += listed
    assert set(exercises) == set(ANSWERS) and len(exercises) == 12


@pytest.mark.parametrize("page", [*PAGES, ROOT / "docs" / "index.md"], ids=lambda p: p.stem)
def test_the_presets_of_the_pages_build(page):
    """The box that moves is a spec that `run` takes, of a size that a browser can compute."""
    blocks = re.findall(r"^```\{live\}\n(.*?)^```", page.read_text(), re.M | re.S)
    assert len(blocks) == 1
    measure, _ = build_start(Experiment.from_tree(tomllib.loads(blocks[0])))
    assert measure.dim in (2, 3) and measure.count <= 1500


@pytest.mark.document
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(path, 4)
    where = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs, cell.source
            assert not [out for out in cell.outputs if out.get("name") == "stderr"], cell.outputs
