"""A run watched while it is computed, and what remains of it: verdicts, and a result folder.

It is driven at the pace of the one who watches; the folder is as `metastable run --out` makes it.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from metastable.comparison import compare
from metastable.comparison.run import result_of_run
from metastable.core.folder import SPEC
from metastable.core.result import write_result
from metastable.fields.build import build_field
from metastable.flows import Trajectory
from metastable.flows.build import drive_experiment
from metastable.flows.driving import SPACING, Drive
from metastable.flows.spec import Experiment

GAP = 0.06  # in log t between the frames of a merging run
DECADES = 4  # of time, below the horizon, that a logarithmic clock shows
EVEN = {None, "adaptive", "fixed", "geodesic"}  # kinds of stepper whose frames may be at any times
JUDGED, MOST = 4e8, 101  # tokens² · frames, and frames, that are compared with theory
KEPT = 4e5  # tokens · frames kept of a run
STARTED, FRAMES = "started", "frames.part"  # when it began, and the frames before the result


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


def verdicts(run: Trajectory) -> tuple[list[dict[str, Any]], str]:
    """Rows of `compare`, numbers as text; or none, and a sentence that says why."""
    if run.outcome.name == "interrupted":
        return [], "Stopped early: only a run that ends by itself is compared with theory."
    run = _thinned(run, MOST)
    if run.frames[0].count ** 2 * len(run.frames) > JUDGED:
        return [], "Too many tokens to compare here: download the run, then `metastable compare`."
    rows = [dataclasses.asdict(row) for row in compare(run).rows]
    return [row | {k: _text(row[k]) for k in ("expected", "observed")} for row in rows], ""


def _text(value: Any) -> str | None:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_text(v)}" for k, v in value.items())
    if isinstance(value, float):
        return f"{value:.5g}"
    return None if value is None else str(value)


def store(folder: Path, experiment: Experiment, run: Trajectory, started: datetime) -> None:
    """The spec and frames of a result folder; of a large run every k-th frame."""
    run = _thinned(run, max(2, int(KEPT / run.frames[0].count)))
    folder.mkdir()
    (folder / SPEC).write_text(experiment.to_toml(), encoding="utf-8")
    run.save(folder / FRAMES)
    (folder.parent / STARTED).write_text(started.isoformat())


def complete(folder: Path) -> None:
    """Make a result of what `store` wrote, which is slow: verdicts, facts and the manifest."""
    experiment = Experiment.load(folder / SPEC)
    run = Trajectory.load(folder / FRAMES)
    run = dataclasses.replace(run, field=build_field(experiment.field, run.frames[0].dim))
    started = datetime.fromisoformat((folder.parent / STARTED).read_text())
    judged = None if verdicts(run)[1] else compare(run)
    write_result(result_of_run(experiment, run, judged), folder, started)
    shutil.rmtree(folder / FRAMES)


def _thinned(run: Trajectory, most: int) -> Trajectory:
    """Every k-th frame and the last, hardly more than `most`."""
    count = len(run.frames)
    kept = sorted({*range(0, count, max(1, -(-(count - 1) // (most - 1)))), count - 1})
    frames = tuple(run.frames[k] for k in kept)
    logs = None if run.log_times is None else run.log_times[kept]
    return dataclasses.replace(run, times=run.times[kept], frames=frames, log_times=logs)
