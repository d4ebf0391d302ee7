"""Below −2/3 three groups can stay apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from metastable.core.numerics import jax
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, polygon
from metastable.observe.equilibria import Share, equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.ring import ring_rates

ENTRY = Entry(
    title="Below −2/3 three groups can stay apart",
    places=["arXiv:2507.22857, abstract"],
    claim=(
        "For β < −2/3 not almost every start on the circle ends in one cluster: three equal "
        "groups at the corners of a triangle are stable."
    ),
    method=(
        "Rate of the triangle by its Jacobian, its zero against −2/3, its value against the sum "
        "over corners; random starts of three tokens on both sides of −2/3."
    ),
    subject="clusters",
    basis="report",
    limits="Three tokens, or three equal groups; other numbers of tokens are not counted here.",
    planted="SelfAttention.beta * 1.1",
    settings={"betas": [-1.5, -1.0, -0.7, -0.6, -0.3], "starts": 4000, "apart": -1.5},
    fast={"betas": [-1.0, -0.5], "starts": 300},
)


def triangle_below(*, betas: list[float], starts: int, apart: float) -> Finding:
    """The triangle changes its stability at −2/3, and random starts below it end there."""
    rate = lambda b: equilibrium(polygon(3), attention(b)).rate
    edge: Any = brentq(rate, -0.9, -0.4, xtol=1e-10, rtol=np.float64(1e-12))
    field = attention(apart)

    def end(x):
        run = flow(Points(x), field, 200.0, frames=2, progress=False)
        return run.frames[-1].points

    angles = np.random.default_rng(5).uniform(0, 2 * np.pi, (starts, 3))
    ends = np.asarray(jax.jit(jax.vmap(end))(np.stack([np.cos(angles), np.sin(angles)], -1)))
    size = np.linalg.norm(ends.mean(axis=1), axis=1)
    share = Share(int((size < 1e-3).sum()), starts)
    rows = [
        holds(f"β = {apart:g}: some random starts of three tokens stay apart", "abstract",
              share.hits > 0, "some", f"{share!r}"),
        judge("β at which the triangle changes its stability", "abstract", -2 / 3, edge,
              absolute=1e-8),
        holds("all others end together", "derived",
              ((size < 1e-3) | (size > 1 - 1e-6)).all(), "all",
              f"{((size < 1e-3) | (size > 1 - 1e-6)).mean():.4f}"),
    ]  # fmt: skip
    for beta in betas:
        expected = float(ring_rates(beta, 3, normalized=False).max())
        rows.append(judge(f"β = {beta:g}: rate of the triangle", "derived", expected, rate(beta),
                          relative=1e-8))  # fmt: skip
    wide = np.linspace(-2.0, 0.5, 101)
    figure = plot_lines(
        {f"{n} groups": (wide, [ring_rates(b, n, normalized=False).max() for b in wide])
         for n in (2, 3, 4, 5)},
        "β", "largest growth rate (USA clock)",
        "Equal groups at the corners of regular polygons: the triangle is stable below −2/3.",
        lines=True, levels={"stable below": 0.0}, marks={"−2/3": -2 / 3},
    )  # fmt: skip
    return Finding(rows, {"rates": figure})


def attention(beta: float) -> SelfAttention:
    """Unnormalised attention; β may be negative."""
    return SelfAttention(abs(beta), query=-1 if beta < 0 else None, normalized=False)
