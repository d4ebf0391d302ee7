"""What is copied runs, and gives the same numbers."""

import numpy as np
import pytest

from metastable.explorer.export import to_python
from metastable.explorer.limits import Limits, read_experiment
from metastable.explorer.presets import presets
from metastable.flows.build import run_experiment
from metastable.spec import Experiment

FLOW = {"horizon": 1.0, "frames": 3}
START = {"tokens": 12, "dim": 2, "seed": 4}
CASES = [
    {"measure": START, "field": {"beta": 3.0, "value": -1.0}, "flow": FLOW},
    {
        "measure": START,
        "field": [{"kind": "self_attention", "causal": True}, {"kind": "noise", "kappa": 9.0}],
        "flow": FLOW | {"seed": 5},
    },
    {"measure": START, "field": {"query": {"draw": "gaussian", "seed": 1}}, "flow": FLOW},
    {
        "measure": {"kind": "tokens", "points": [[1, 0], [0, 1], [0.6, -0.8]]},
        "flow": FLOW | {"stepper": {"kind": "layers", "step": 0.5}},
    },
    {
        "measure": START,
        "field": {"beta": 20.0},
        "flow": {"horizon": "end", "stepper": {"kind": "merging"}, "frames": 9},
    },
]


@pytest.mark.parametrize("spec", CASES)
def test_python_gives_the_bits_of_the_spec(spec, capsys):
    experiment = read_experiment(spec, Limits())
    names: dict = {}
    exec(to_python(experiment), names)
    expected = run_experiment(experiment, progress=False)
    np.testing.assert_array_equal(names["run"].frames[-1].points, expected.frames[-1].points)
    assert "verdict" in capsys.readouterr().out


def test_every_preset_survives_toml_and_compiles():
    import tomllib

    for preset in presets():
        experiment = read_experiment(preset["spec"], Limits())
        again = Experiment.model_validate(tomllib.loads(experiment.to_toml()))
        assert again.digest == experiment.digest
        compile(to_python(experiment), preset["name"], "exec")
