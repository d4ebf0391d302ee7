"""Where to begin: one preset for each phenomenon, and the choices behind each control."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from metastable.core.spec import Draw
from metastable.explorer.limits import Limits, read_experiment
from metastable.fields import spec as fields
from metastable.flows import spec as flow
from metastable.measures import spec as measures

DENSE = {"gaussian", *(kind for kind in measures.STARTS.kinds if kind.startswith("density"))}
CHOICES = {
    "measure": [kind for kind in measures.STARTS.kinds if kind not in DENSE],
    "field": fields.FIELDS.kinds,
    "placement": list(get_args(fields.BlockSpec.model_fields["placement"].annotation)),
    "stepper": flow.STEPPERS.kinds,
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
