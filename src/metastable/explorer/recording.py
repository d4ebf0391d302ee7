"""Recordings of what already exists: a start, a stored run, the layers of an inspected model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.core.outcome import Outcome
from metastable.explorer.limits import spec_for_page
from metastable.explorer.packet import framed, pack
from metastable.explorer.scene import Scene
from metastable.explorer.theory import DEGREES, explorer_view, predict_experiment
from metastable.fields.sums import choose_sum
from metastable.flows import Frame, Trajectory
from metastable.flows.build import build_start
from metastable.flows.spec import Experiment
from metastable.measures import Points

FRAMES = 400  # of a recording at most


def first_frame(experiment: Experiment) -> bytes:
    """Where tokens stand before play, as one frame."""
    start, field = build_start(experiment)
    assert isinstance(start, Points)  # densities are refused at the door
    return Scene(field, choose_sum(start, field), 8).packet(Frame.at(0.0, start), full=True)


def head_of(
    experiment: Experiment, start: Points, clock: str, play_clock: str, title: str
) -> dict[str, Any]:
    """The header that begins the recording of a run."""
    return {
        "kind": "head",
        "spec": spec_for_page(experiment),
        "prediction": predict_experiment(experiment),
        "clock": clock,
        "view": explorer_view(start),
        "dim": start.dim,
        "axis_label": "time t",
        "play_clock": play_clock,
        "title": title,
    }


def end_packet(outcome: Outcome, verdicts: list[dict[str, Any]], note: str) -> bytes:
    """The packet that ends a recording."""
    told = {"outcome": dataclasses.asdict(outcome), "verdicts": verdicts, "note": note}
    return pack({"kind": "end", **told})


def record_run(experiment: Experiment, run: Trajectory, title: str) -> bytes:
    """A stored run of tokens as a recording."""
    start = run.frames[0]
    head = head_of(
        experiment, start, run.clock, "linear" if run.log_times is None else "log", title
    )
    scene = Scene(run.field, choose_sum(start, run.field) if start.count > 1 else None, DEGREES)
    return _tape(head, scene, run)


def record_layers(run: Trajectory, title: str) -> bytes:
    """The layers of a model: directions on their three main axes, with the words of the text.

    The view is that of the report: directions centred, projected to the three main axes of all
    layers together, and normalised again.
    """
    centred = [np.asarray(f.points) - np.asarray(f.points).mean(axis=0) for f in run.frames]
    some = np.concatenate(centred[:: -(-len(centred) // 32)])
    axes = np.linalg.svd(some, full_matrices=False)[2]
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
    return _tape(head, Scene(None), run, shown=frames)


def _tape(head: dict[str, Any], scene: Scene, run: Trajectory, shown: Any = None) -> bytes:
    """A recording of a finished run, its frames as they would have been watched."""
    parts, count = [pack(head)], len(run.frames)
    for k in sorted({*range(0, count, -(-count // FRAMES)), count - 1}):
        frame = Frame.at(float(run.times[k]), run.frames[k])
        if run.log_times is not None:
            frame = frame._replace(log_time=float(run.log_times[k]))
        if run.mergers is not None:
            frame = frame._replace(names=run.mergers.names(frame.measure.count))
        parts.append(scene.packet(frame, full=True, shown=None if shown is None else shown[k]))
    return b"".join(map(framed, [*parts, end_packet(run.outcome, [], "")]))
