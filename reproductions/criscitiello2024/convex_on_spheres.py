"""On spheres, increasing and convex is enough."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import Potential
from metastable.flows import flow
from metastable.measures import Points, polygon
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.criscitiello2024._potentials import polygon_rates, ramp, starts_on_sphere

ENTRY = Entry(
    title="On spheres, increasing and convex is enough",
    places=["arXiv:2405.18273, abstract"],
    claim=(
        "In three dimensions and more, tokens that attract by an increasing convex φ end in one "
        "cluster from almost every start."
    ),
    method=(
        "The ramp that holds a pentagon on the circle: in R³ the same pentagon leaves its plane "
        "at the rate (1/n)Σφ′(c)(1 − c), and random starts all end together."
    ),
    subject="existence",
    basis="report",
    limits="Complete graph and equal weights only; the theorem allows any connected graph.",
    planted="polygon.tokens + 1",
    settings={"sharp": 40.0, "sizes": [[5, 3], [12, 3], [12, 5]], "starts": 200},
    fast={"sizes": [[5, 3]], "starts": 60},
)


def convex_on_spheres(*, sharp: float, sizes: list, starts: int) -> Finding:
    """What is stable on the circle falls over on the sphere."""
    slopes = ramp(sharp)
    field = Potential(slopes[0])
    rows = []
    for tokens, dim in sizes:

        def end(x):
            run = flow(Points(x), field, 400.0, frames=2, progress=False)
            return run.frames[-1].points

        ends = np.asarray(jax.jit(jax.vmap(end))(starts_on_sphere(starts, tokens, dim)))
        share = float((np.linalg.norm(ends.mean(axis=1), axis=1) > 1 - 1e-6).mean())
        rows.append(judge(f"share of {starts} starts that end together, n = {tokens}, d = {dim}",
                          "abstract", 1.0, share, absolute=0.0))  # fmt: skip
    cosine = np.cos(2 * np.pi * np.arange(5) / 5)
    leaving = float((slopes[1](cosine) * (1 - cosine)).mean())
    rows.append(judge("rate at which a pentagon leaves its plane", "derived", leaving,
                      equilibrium(polygon(5, 3), field).rate, relative=1e-8))  # fmt: skip
    rows.append(judge("its slowest rate on the circle", "derived",
                      float(polygon_rates(slopes, 5).max()),
                      equilibrium(polygon(5, 2), field).rate, relative=1e-8))  # fmt: skip
    tilted = np.asarray(polygon(5, 3).points) + 1e-6 * np.array([0, 0, 1.0])
    run = flow(Points(tilted / np.linalg.norm(tilted, axis=1)[:, None]), field, 60.0)
    height = np.array([frame.points[:, 2].mean() for frame in run.frames])
    early = run.times < 20
    figure = plot_lines(
        {"mean height": (run.times, height)}, "time t (clock of the potential)",
        "mean height above the plane",
        f"A pentagon lifted by 10⁻⁶, ramp of sharpness {sharp:g}; dashed: exp({leaving:.3f} t).",
        theory={"linear": (run.times[early], 1e-6 * np.exp(leaving * run.times[early]))},
        log="y",
    )  # fmt: skip
    return Finding(rows, {"height": figure})
