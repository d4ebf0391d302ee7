"""Steering with a neural ODE."""

from __future__ import annotations

import numpy as np

from metastable.learn.control.steering import Plant, steer_tokens
from metastable.learn.control.steering_experiment import random_tokens
from metastable.report.figures.learning import plot_paths
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Steering with a neural ODE",
    places=["equation 6", "equation 7", "neural-ODE control"],
    claim=(
        "A neural ODE with weights that change in time is an effective model of a residual "
        "network; it can carry any tokens to any targets."
    ),
    method=(
        "Find weights, constant in pieces, that carry random tokens of R^d to random targets; "
        "check with an adaptive solver; try again with too few weights."
    ),
    subject="control",
    basis="text",
    limits=(
        "Up to 16 random tokens in R³, one activation (tanh); neither minimal energy nor all "
        "targets."
    ),
    planted="random_tokens * 2.0",
    settings={
        "tokens": [2, 4, 8, 16],
        "dim": 3,
        "neurons": 8,
        "substeps": 8,
        "steps": 60,
        "starved": True,
    },
    fast={"tokens": [3], "dim": 2, "neurons": 3, "substeps": 4, "steps": 25, "starved": False},
)


def neural_control(
    *, tokens: list[int], dim: int, neurons: int, substeps: int, steps: int, starved: bool
) -> Finding:
    """A neural ODE, w tanh(ax + b) with switched weights, steers tokens to targets at will."""
    errors, switches, figures = [], [], {}
    for count in tokens:
        x, y = (random_tokens(count, dim, seed, False) for seed in (1, 2))
        plant = Plant(dim, attention=False, neurons=neurons, pieces=max(2, count // 2),
                      on_sphere=False, substeps=substeps)  # fmt: skip
        found = steer_tokens(x, y, plant, steps=steps, progress=False)
        errors.append(float(found.errors.max()))
        switches.append(plant.switches)
        figures = {"paths": plot_paths(found, x, y)}
    rows = [
        holds(f"largest distance from the target, {', '.join(map(str, tokens))} tokens",
              "equation 6, neural ODE; arXiv:2104.05278", max(errors) < 1e-3, "below 0.001",
              max(errors)),
        holds("switches of the control", "O(n) switches suffice",
              all(s <= n for s, n in zip(switches, tokens, strict=True)), "at most one a token",
              ", ".join(map(str, switches))),
    ]  # fmt: skip
    if starved:
        lone = Plant(dim, attention=False, neurons=1, pieces=1, on_sphere=False, substeps=substeps)
        stuck = float(steer_tokens(x, y, lone, steps=steps, progress=False).errors.max())
        rows.append(
            holds("one neuron without a switch has too few numbers: largest distance",
                  "fewer parameters than coordinates", stuck > 1e-2, "stays away", stuck)
        )  # fmt: skip
    if len(tokens) > 1:
        figures["errors"] = plot_lines(
            {"worst token": (tokens, np.maximum(errors, 1e-16))}, "tokens n",
            "distance from the target", f"Tokens of R^{dim}, {steps} steps of training.", log="y",
        )  # fmt: skip
    return Finding(rows, figures)
