"""Every example runs, says what it should, and leaves its figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[0-9][0-9]_*.py"))
SAID = {
    "01_first_clusters": "first clusters predicted near",
    "02_sphere": "sum of squared masses",
    "03_causal": "first token moved by ",
    "04_polytope": "every hull inside the one before: True",
    "05_noise": "discontinuous above β_*",
    "06_gaussian": "blow-up at t =",
    "07_teacher_student": "after one Newton step",
    "08_universality": "uniform error certified",
    "09_albert": "clusters of the trained one",
    "10_long_memory": "chance is 0.125",
    "11_two_spirals": "held-out accuracy",
    "12_steering": "no neural ODE comes below",
    "14_density": "of a density, then",
    "15_phase_diagram": "half-way contour off",
    "16_staircase": "it never falls: True",
}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_example(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", script, tmp_path],
        env=os.environ | {"METASTABLE_FAST": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert SAID.get(script.stem, "") in done.stdout
    files = {path.name for path in tmp_path.iterdir()}
    assert files and all(name.startswith(script.stem) for name in files)
    assert all(str(tmp_path / name) in done.stdout for name in files)


def test_examples_are_short():
    assert len(EXAMPLES) >= 16
    for script in EXAMPLES:
        assert len(script.read_text().splitlines()) < 100, script.name
