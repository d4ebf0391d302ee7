"""What is copied asks for the same run as the spec."""

import tomllib

import numpy as np
import pytest

import metastable as ms
from metastable.explorer.export import to_python
from metastable.explorer.limits import Limits, read_experiment
from metastable.explorer.presets import presets
from metastable.flows import build
from metastable.flows.spec import Experiment

FLOW = {"horizon": 1.0, "frames": 3}
START = {"tokens": 12, "dim": 2, "seed": 4}
CASES = [
    {"measure": START, "field": {"beta": 3.0, "value": -1.0}, "flow": FLOW},
    {"measure": START, "field": {"value": [[1.0, 2.0], [0.0, 1.0]]}, "flow": FLOW},
    {
        "measure": START,
        "field": [{"kind": "self_attention", "causal": True}, {"kind": "noise", "kappa": 9.0}],
        "flow": FLOW | {"seed": 5},
    },
    {"measure": START, "field": {"query": {"draw": "gaussian", "seed": 1}}, "flow": FLOW},
    {
        "measure": {"kind": "tokens", "points": [[1, 0], [0, 1], [0.6, -0.8]]},
        "flow": FLOW | {"stepper": {"kind": "adaptive", "rtol": 1e-6, "max_steps": 77}},
    },
    {
        "measure": START,
        "field": {"beta": 20.0, "normalized": False},
        "flow": {"horizon": "end", "stepper": {"kind": "merging", "radius": 1e-4}, "frames": 9},
    },
]


class Asked(Exception):
    pass


def test_python_asks_for_the_run_of_the_spec(monkeypatch):
    """Both ways end in one call of `flow`; it must be the same call."""
    asked = []

    def flow(measure, field, horizon, **options):
        asked.append((measure, repr(field), horizon, _told(options)))
        raise Asked

    monkeypatch.setattr(build, "flow", flow)
    monkeypatch.setattr(ms, "flow", flow)
    for spec in CASES:
        experiment = read_experiment(spec, Limits())
        with pytest.raises(Asked):
            exec(to_python(experiment), {})
        with pytest.raises(Asked):
            build.run_experiment(experiment)
        (ours, *our_rest), (theirs, *their_rest) = asked[-2:]
        np.testing.assert_array_equal(ours.points, theirs.points)
        assert our_rest == their_rest


def _told(options):
    """Options that differ from what `flow` assumes; its adaptive stepper is its default."""
    standard = {"stepper": repr(ms.Adaptive()), "seed": 0, "check": False}
    told = {k: repr(v) if k == "stepper" else v for k, v in options.items()}
    ignored = ("progress", "checkpoint", "sum")
    return {
        k: v
        for k, v in told.items()
        if k not in ignored and v not in (None, "None") and v != standard.get(k)
    }


def test_every_preset_survives_toml_and_compiles():
    for preset in presets():
        experiment = read_experiment(preset["spec"], Limits())
        again = Experiment.model_validate(tomllib.loads(experiment.to_toml()))
        assert again.digest == experiment.digest
        compile(to_python(experiment), preset["name"], "exec")
