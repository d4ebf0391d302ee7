"""The code of docs/densities.md runs from top to bottom and gives what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from metastable import spec
from metastable.flows.build import build_start
from metastable.measures import Density

pytestmark = pytest.mark.claim

PAGE = (Path(__file__).parents[2] / "docs" / "densities.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def test_the_page_of_densities_runs():
    names: dict = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"block {number}", "exec"), names)
        if "handover=" in block:
            kinds = [type(frame).__name__ for frame in names["run"].frames]
            assert {"Density", "Points"} == set(kinds) and kinds == sorted(kinds)
            assert names["run"].outcome.name == "done"
    assert names["gap"] < 1e-7
    series = [names["ms"].observe.free_energy(f, names["noisy"]) for f in names["run"].frames]
    assert (np.diff(series) < 0).all()
    assert names["transition"](2.3, 2, normalized=False).kind == "continuous"
    assert names["transition"](2.6, 2, normalized=False).kind == "discontinuous"


def test_its_spec_builds(tmp_path):
    (block,) = blocks("toml")
    (tmp_path / "density.toml").write_text(block)
    measure, _ = build_start(spec.load_experiment(tmp_path / "density.toml", {}))
    assert isinstance(measure, Density) and measure.degree == 24
