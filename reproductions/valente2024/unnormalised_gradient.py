"""USA is a gradient flow."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.geometry.sphere import project
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="USA is a gradient flow",
    places=["Proposition 4.2", "equations 36 and 37"],
    claim=(
        "The velocity of unnormalised attention is the gradient of the energy's first "
        "variation; for n tokens, n times the gradient of the energy."
    ),
    method="Automatic differentiation of the energy against the field's velocity.",
    subject="existence",
    basis="text",
    limits="20 tokens in d = 4 at three β, Q = K = V = I, at one start: an identity, no flow.",
    planted="SelfAttention.beta * 1.01",
    settings={"tokens": 20, "dim": 4, "betas": [0.5, 2.0, 6.0]},
)


def unnormalised_gradient(*, tokens: int, dim: int, betas: list[float]) -> Finding:
    """The USA velocity is n times the gradient of the energy in the tokens."""
    start = uniform(tokens, dim, seed=6)
    differences = {"USA": [], "SA": []}
    for beta in betas:
        slope = jax.grad(lambda x, b=beta: energy(Points(x), b))(start.points)
        gradient = tokens * np.asarray(project(start.points, slope))
        for name, series in differences.items():
            speed = SelfAttention(beta, normalized=name == "SA")
            v = np.asarray(speed.velocity(start))
            series.append(float(np.abs(v - gradient).max() / np.abs(v).max()))
    rows = [
        judge("USA velocity minus n times the gradient, relative", "Proposition 4.2, equation 36",
              0.0, max(differences["USA"]), absolute=1e-12),
        holds("SA velocity is no such gradient", "remark after equation 34",
              min(differences["SA"]) > 0.01, "differs", min(differences["SA"])),
    ]  # fmt: skip
    figure = plot_bars(
        [f"β = {beta:g}" for beta in betas],
        {name: [max(v, 1e-17) for v in series] for name, series in differences.items()},
        "inverse temperature",
        "relative difference",
        f"Velocity against n times the gradient of E_β, {tokens} tokens, d = {dim}.",
        log=True,
    )
    return Finding(rows, {"difference": figure})
