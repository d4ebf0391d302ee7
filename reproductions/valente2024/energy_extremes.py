"""Uniform has the least energy, a point mass the most."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jnp
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.geometry.sphere import retract
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.configurations import energy_lower_bound

ENTRY = Entry(
    title="Uniform has the least energy, a point mass the most",
    places=["Proposition 4.1"],
    claim=(
        "Among all measures on the sphere the uniform one is the only minimiser of the "
        "energy, and exactly the point masses maximise it."
    ),
    method=(
        "Energies of many random weighted measures against the two extremes in closed form; "
        "repelling tokens come down to the uniform value."
    ),
    subject="existence",
    basis="text",
    limits=(
        "d = 3, β from 0.5 to 10, 400 random measures of 48 tokens; uniqueness of the two "
        "extremes was not tested."
    ),
    planted="SelfAttention.value = 1.0",
    settings={"dim": 3, "betas": [0.5, 1.0, 2.0, 5.0, 10.0], "tokens": 48, "draws": 400},
    fast={"draws": 60, "tokens": 32},
)


def energy_extremes(*, dim: int, betas: list[float], tokens: int, draws: int) -> Finding:
    """Uniform is least, a point mass most: no random measure lies outside the two."""
    random = np.random.default_rng(4)
    lowest, highest, floor = [], [], []
    points = np.asarray(retract(jnp.asarray(random.normal(size=(draws, tokens, dim)))))
    # Concentrated and spread weights alike.
    weights = random.dirichlet(np.full(tokens, 0.3), size=draws)
    for beta in betas:
        seen = [
            float(energy(Points(x, w), beta, scaled=True))
            for x, w in zip(points, weights, strict=True)
        ]
        lowest.append(min(seen))
        highest.append(max(seen))
        floor.append(float(energy_lower_bound(beta, dim)) * 2 * beta * np.exp(-beta))
    even = flow(uniform(tokens, dim, 5), SelfAttention(betas[0], value=-1.0), 200.0, frames=2)
    reached = float(energy(even.frames[-1], betas[0], scaled=True))
    rows = [
        holds("no random measure below the uniform one", "Proposition 4.1",
              all(a >= b for a, b in zip(lowest, floor, strict=True)), "energy ≥ uniform's",
              f"least excess {min(a - b for a, b in zip(lowest, floor, strict=True)):.2g}"),
        holds("no random measure above a point mass", "Proposition 4.1", max(highest) <= 1 + 1e-12,
              "scaled energy ≤ 1", max(highest)),
        judge(f"{tokens} repelling tokens against the uniform measure, β = {betas[0]:g}",
              "Proposition 4.1", floor[0], reached, relative=0.02),
    ]  # fmt: skip
    figure = plot_lines(
        {"highest of the random measures": (betas, highest), "lowest": (betas, lowest)},
        "β",
        "2βe^(−β) E_β",
        f"{draws} random measures on S^{dim - 1}, between the uniform measure and a point mass.",
        theory={"point mass": (betas, np.ones(len(betas))), "uniform": (betas, floor)},
        log="y",
    )
    return Finding(rows, {"extremes": figure})
