"""A run that is watched while it is computed: `drive`, at the pace of the one who watches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metastable.flows.build import drive_experiment
from metastable.flows.drive import SPACING, Drive
from metastable.spec.experiment import Experiment

GAP = 0.06  # in log t between the frames of a merging run
DECADES = 4  # of time, below the horizon, that a logarithmic clock shows
EVEN = {None, "adaptive", "fixed", "geodesic"}  # kinds of stepper whose frames may be at any times


def log_frames(horizon: float, frames: int) -> np.ndarray:
    """Frame times for a logarithmic clock: 0, then evenly spaced in log t to the horizon."""
    return np.append(0.0, np.geomspace(horizon * 10.0**-DECADES, horizon, frames - 1))


def live(
    experiment: Experiment, *, log_clock: bool = False, stopped: Callable[[], bool] = lambda: False
) -> Drive:
    """The run of an experiment, ready to be watched; `stopped` ends it as interrupted."""
    how = experiment.flow
    kind = None if how.stepper is None else how.stepper.kind
    even = log_clock and kind in EVEN
    frames = log_frames(float(how.horizon), how.frames) if even else None
    spacing = GAP if kind == "merging" else SPACING
    return drive_experiment(experiment, frames=frames, stopped=stopped, spacing=spacing)
