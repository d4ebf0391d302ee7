"""Where to begin: one preset for each phenomenon, and the choices behind each control."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from metastable.core.spec import Draw
from metastable.explorer.limits import Limits, read_experiment
from metastable.spec import experiment as flow
from metastable.spec import fields, measures


def _kinds(union: Any) -> list[str]:
    """Names of the forms of a discriminated union."""
    return [
        get_args(one.model_fields["kind"].annotation)[0] for one in get_args(get_args(union)[0])
    ]


CHOICES = {
    "measure": [kind for kind in _kinds(measures.Measure) if not kind.startswith("density")],
    "field": _kinds(fields.FieldSpec),
    "placement": list(get_args(fields.BlockSpec.model_fields["placement"].annotation)),
    "stepper": _kinds(flow.Stepper),
    "matrix": ["identity", "number", "own", *get_args(Draw.model_fields["draw"].annotation)],
    "clock": ["linear", "log"],
}


@lru_cache(maxsize=1)
def presets() -> list[dict[str, Any]]:
    """Name, title, source, note, clock and spec of each preset, in the order to try them."""
    text = (Path(__file__).parent / "presets.toml").read_text(encoding="utf-8")
    found = []
    for preset in tomllib.loads(text)["preset"]:
        experiment = read_experiment({"name": preset["title"], **preset["spec"]}, Limits())
        spec = experiment.model_dump(mode="json", exclude_none=True)
        found.append({"clock": "linear", **preset, "spec": spec})
    return found
