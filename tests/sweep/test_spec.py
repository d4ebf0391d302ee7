"""Sweeps as TOML: what is read, what is written back, what is refused."""

import re
import tomllib
from pathlib import Path

import pytest

from metastable.sweep.plan import plan_sweep
from metastable.sweep.spec import Range, Sweep, differences, extended
from tests.sweep.stores import small

ROOT = Path(__file__).parents[2]

WHOLE = """
observables = ["pair_probability"]
samples = 16
same_starts = true
[axes]
field.beta = { from = 0.1, to = 9.0, count = 90 }
"measure.dim" = [2, 3]
[axes.matrices]
plain = {}
random = { field.value = { draw = "gaussian", seed = 1 }, flow.horizon = 3.0 }
[base.measure]
tokens = 32
"""


def test_axes_are_known_by_their_dotted_key_and_come_back_from_toml():
    sweep = Sweep.model_validate(tomllib.loads(WHOLE))
    assert list(sweep.axes) == ["field.beta", "measure.dim", "matrices"]
    assert sweep.values("field.beta")[:3] == [0.1, 0.2, 0.3]  # no 0.30000000000000004
    assert sweep.overrides("matrices", "random") == {
        "field.value": {"draw": "gaussian", "seed": 1},
        "flow.horizon": 3.0,
    }
    assert Sweep.model_validate(tomllib.loads(sweep.to_toml())) == sweep


def test_a_longer_range_of_the_same_spacing_repeats_the_values():
    short = Range.model_validate({"from": 0.1, "to": 9.0, "count": 90}).values
    long = Range.model_validate({"from": 0.1, "to": 18.0, "count": 180}).values
    assert long[:90] == short


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("observables = ['order']\n[axes]\nfield.beta = { from = 1, to = 2 }", "count is required"),
        ("observables = ['order']\n[axes]\nbeta = [1]", "axes.beta must be a key"),
        ("observables = ['order']\n[axes]\nfield.beta = [1, 1.0]", "each value once"),
        ("observables = ['order']\nx = 1\n[axes]\nfield.beta = [1]", "unknown key x"),
        ("observables = ['order']\n[axes]\nfield.beta = {from = 0, to = 1, count = 3, log = true}",
         "> 0 with log"),
        ("[axes]\nfield.beta = [1]", "observables is required"),
    ],
)  # fmt: skip
def test_bad_specs_are_refused_in_one_line(tmp_path, text, complaint):
    (tmp_path / "spec.toml").write_text(text)
    with pytest.raises(ValueError) as refusal:
        Sweep.load(tmp_path / "spec.toml")
    assert complaint in str(refusal.value) and "\n" not in str(refusal.value)


def test_differences_are_told_and_only_growth_may_be_added():
    old = small()
    assert differences(old, old.model_copy(update={"name": "another"})) == []
    longer = small(count=9, repetitions=3)
    assert [line.split(":")[0] for line in differences(old, longer)] == [
        "axes.field.beta",
        "repetitions",
    ]
    grown = extended(old, longer)
    assert grown.values("field.beta")[:5] == old.values("field.beta")
    assert sorted(grown.values("field.beta")) == longer.values("field.beta")
    with pytest.raises(ValueError, match="seed: 0 in the store, 1 now"):
        extended(old, small(count=9, seed=1))


@pytest.mark.parametrize(
    "file", sorted(path.name for path in (ROOT / "experiments").glob("*.toml"))
)
def test_the_ready_figures_can_be_planned(file):
    text = (ROOT / "experiments" / file).read_text()
    if "observables" in text:
        assert plan_sweep(Sweep.load(ROOT / "experiments" / file)).size > 5


def test_the_documented_spec_can_be_planned(tmp_path):
    block = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "sweeps.md").read_text(), re.DOTALL)
    assert block is not None
    (tmp_path / "spec.toml").write_text(block[1])
    plan = plan_sweep(Sweep.load(tmp_path / "spec.toml"))
    assert plan.dims == ("beta", "kappa", "tokens", "start") and plan.shape == (12, 10, 2, 2, 4)
