"""Metastable clusters on the sphere, moving."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Merging, flow
from metastable.measures import uniform
from metastable.observe import clusters, energy
from metastable.report.figures.films import film_on_sphere
from metastable.report.figures.plain import plot_lines
from metastable.report.figures.run import plot_strip
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="Metastable clusters on the sphere, moving",
    places=["moving pictures on the sphere"],
    claim=(
        "Uniform tokens gather into several clusters, which stay for a long time and then "
        "merge one after another into a single one."
    ),
    method=(
        "A run on S² as a moving picture, and the same start carried through all its mergers "
        "to the last cluster; the last wait is compared with a quadrature."
    ),
    subject="metastability",
    basis="text",
    limits="One start of 400 tokens on S² at β = 20; the wait of the last two clusters only.",
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 400, "beta": 20.0, "horizon": 40.0, "seed": 1},
    fast={"tokens": 80, "beta": 12.0, "horizon": 20.0},
)


def sphere_movie(*, tokens: int, beta: float, horizon: float, seed: int) -> Finding:
    """Uniform tokens on S²: clusters that form fast, last long, merge one by one into the last."""
    field = SelfAttention(beta)
    run = flow(uniform(tokens, 3, seed), field, horizon, frames=61)
    whole = flow(uniform(tokens, 3, seed), field, math.inf, stepper=Merging())
    levels = np.array([float(energy(x, beta, scaled=True)) for x in run.frames])
    events = whole.mergers
    assert events is not None
    several = clusters(run.frames[-1], beta)
    # Times between mergers of the last few clusters, and how long those took to form.
    few = events.counts < several.count
    formed, waits = float(events.times[~few][-1]), np.exp(events.log_waits[few])
    two = next(x for x in whole.frames if x.count == 2)
    a, b = np.asarray(two.points)
    angle = 2 * math.asin(float(np.linalg.norm(a - b)) / 2)
    last = events[-1]
    foretold = log_merge_time(
        angle, beta, until=last.angle, masses=tuple(np.asarray(two.weights).tolist())
    )
    rows = [
        holds(f"clusters at t = {horizon:g}: several, each tight", "first moving picture",
              several.count > 1 and several.radii.max() < 0.5 / math.sqrt(beta),
              "more than one, radius below half the kernel's width",
              f"{several.count}, radius {several.radii.max():.1e}"),
        holds("longest wait between two of their mergers, over the time they took to form",
              "kind of fixed on the time scale of this experiment", waits.max() > 5 * formed,
              "above 5", float(waits.max() / formed)),
        holds("in the end one cluster", "clustering theorem", whole.frames[-1].count == 1, 1,
              whole.frames[-1].count),
        judge("logarithm of the wait of the last two (SA clock), from their angle and masses",
              "two clusters, one quadrature", foretold, float(last.log_wait), absolute=1e-4),
        holds("the energy never falls", "gradient flow", bool((np.diff(levels) > -1e-12).all()),
              "grows", f"smallest step {np.diff(levels).min():.1e}"),
    ]  # fmt: skip
    strip = plot_strip(run)
    left = np.array([x.count for x in whole.frames])
    steps = plot_lines(
        {"tokens left": (whole.times[1:], left[1:])}, "time t (SA clock)", "places", log="xy",
        lines=True, caption=f"{tokens} tokens on S², β = {beta:g}, merged where they have met.",
    )  # fmt: skip
    movie = lambda frames: film_on_sphere(run, frames=frames)
    return Finding(rows, {"strip": strip, "staircase": steps}, movies={"sphere": movie})
