"""Two classes that flow apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from metastable.core.figure import Film
from metastable.core.verdict import judge
from metastable.learn.neural.classification import learn_classes
from metastable.learn.spec import Classification, Descent, FlowNet, Spirals
from metastable.report.figures.learning import film_frames, plot_curves, plot_frames
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Two classes that flow apart",
    places=["section on residual networks: classes in state space, neural collapse"],
    claim=(
        "A trained flow pushes the two classes to different regions, each gathered near one "
        "point, so that a single vector tells them apart."
    ),
    method=(
        "A neural ODE trained on two spirals; variance inside classes over that between them, "
        "in training and through depth; held-out accuracy."
    ),
    subject="networks",
    basis="text",
    limits=(
        "One data set of two spirals in the plane, one seed, 24 neurons; collapse by ratios of "
        "variances only."
    ),
    planted="Descent.steps = 1",
    settings={
        "points": 300,
        "turns": 0.75,
        "neurons": 24,
        "horizon": 4.0,
        "layers": 0,
        "steps": 1000,
        "decay": 0.01,
    },
    fast={
        "points": 80,
        "turns": 0.5,
        "neurons": 16,
        "horizon": 4.0,
        "layers": 16,
        "steps": 400,
        "decay": 0.01,
    },
)


def two_classes(
    *, points: int, turns: float, neurons: int, horizon: float, layers: int, steps: int,
    decay: float,
) -> Finding:  # fmt: skip
    """A neural ODE trained on two spirals: its flow parts the classes and collapses each.

    With `layers` its Euler steps are trained instead, which compiles faster; 0 is the flow itself.
    """
    spec = Classification(
        data=Spirals(points=points, turns=turns),
        network=FlowNet(
            widths=(3,), neurons=neurons, horizon=horizon, layers=layers or None, tolerance=1e-3
        ),
        training=Descent(steps=steps, rate=0.02, decay=decay),
    )
    lesson = learn_classes(spec)
    facts, seen = lesson.facts, lesson.figures["depth"].lines["NC1"][1]
    rows = [
        holds("held-out points of two classes told apart by one vector after the flow",
              "two classes flow to different regions", facts["held-out accuracy"] >= 0.97,
              "at least 0.97", facts["held-out accuracy"]),
        holds("each class shrinks to a point: variance inside over between, training",
              "neural collapse; arXiv:2008.08186", facts["NC1 fell by"] > 30,
              "falls by more than 30", facts["NC1 fell by"]),
        holds("the same through the depth of the trained flow", "flow separates and clusters",
              seen[-1] < seen[0] / 30, "last below a thirtieth of the first",
              f"{seen[0]:.3g} to {seen[-1]:.2g}"),
        judge("answers other than the nearest class mean", "neural collapse, NC4", 0.0,
              facts["NC4, answers that are not the nearest mean"], absolute=0.01),
    ]  # fmt: skip
    picture: Any = lesson.figures["flow"]

    def movie(frames: int) -> Film:
        kept = np.unique(np.linspace(0, len(picture.times) - 1, frames).round().astype(int))
        some = dataclasses.replace(picture, times=picture.times[kept], places=picture.places[kept])
        return film_frames(some)

    figures = {
        "flow": plot_frames(picture),
        "collapse": plot_curves(lesson.figures["collapse"]),
        "depth": plot_curves(lesson.figures["depth"]),
    }
    return Finding(rows, figures, movies={"flow": movie})
