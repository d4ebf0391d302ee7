"""Recordings of what already exists: a start, a stored run, the layers of an inspected model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from metastable.explorer.limits import spec_for_page
from metastable.explorer.packet import framed, pack
from metastable.explorer.scene import Scene
from metastable.explorer.theory import DEGREES, predict_experiment, view_of
from metastable.fields.sums import choose_sum
from metastable.flows import Frame, Trajectory
from metastable.flows.build import build_start
from metastable.measures import Points
from metastable.spec.experiment import Experiment

FRAMES = 400  # of a recording at most


def first_frame(experiment: Experiment) -> bytes:
    """Where tokens stand before play, as one frame."""
    start, field = build_start(experiment)
    assert isinstance(start, Points)  # densities are refused at the door
    return Scene(field, choose_sum(start, field), 8).packet(Frame.at(0.0, start), full=True)


def record_run(experiment: Experiment, run: Trajectory, title: str) -> bytes:
    """A stored run of tokens as a recording."""
    start = run.frames[0]
    head = {
        "kind": "head",
        "spec": spec_for_page(experiment),
        "prediction": predict_experiment(experiment),
        "clock": run.clock,
        "view": view_of(start),
        "dim": start.dim,
        "axis_label": "time t",
        "play_clock": "linear" if run.log_times is None else "log",
        "title": title,
    }
    scene = Scene(run.field, choose_sum(start, run.field) if start.count > 1 else None, DEGREES)
    return _tape(head, scene, run, run.outcome)


def record_layers(run: Trajectory, title: str) -> bytes:
    """The layers of a model: directions on their three main axes, with the words of the text.

    The view is that of the report: directions centred, projected to the three main axes of all
    layers together, and normalised again.
    """
    centred = [np.asarray(f.points) - np.asarray(f.points).mean(axis=0) for f in run.frames]
    _, _, axes = np.linalg.svd(
        np.concatenate(centred[:: -(-len(centred) // 32)]), full_matrices=False
    )
    frames = []
    for layer in centred:
        flat = layer @ axes[:3].T
        norms = np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-300)
        frames.append(np.pad(flat / norms, ((0, 0), (0, 3 - flat.shape[1]))))
    head = {
        "kind": "head",
        "spec": None,
        "prediction": None,
        "clock": run.clock,
        "view": "sphere",
        "dim": run.frames[0].dim,
        "axis_label": "layer",
        "title": title,
        "words": run.statistics.get("words"),
    }
    return _tape(head, Scene(None), run, run.outcome, shown=frames)


def _tape(
    head: dict[str, Any], scene: Scene, run: Trajectory, outcome: Any, shown: Any = None
) -> bytes:
    parts = [pack(head)]
    frames = list(_frames(run))
    for k in sorted({*range(0, len(frames), -(-len(frames) // FRAMES)), len(frames) - 1}):
        place = None if shown is None else shown[k]
        parts.append(scene.packet(frames[k], full=True, shown=place))
    end = {"kind": "end", "outcome": dataclasses.asdict(outcome), "verdicts": [], "note": ""}
    return b"".join(framed(part) for part in [*parts, pack(end)])


def _frames(run: Trajectory) -> Iterator[Frame]:
    """The frames of a finished run, as they would have been watched."""
    for k, measure in enumerate(run.frames):
        frame = Frame.at(float(run.times[k]), measure)
        if run.log_times is not None:
            frame = frame._replace(log_time=float(run.log_times[k]))
        if run.mergers is not None:
            frame = frame._replace(names=run.mergers.names(measure.count))
        yield frame
