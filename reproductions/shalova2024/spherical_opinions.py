"""Opinions on a sphere: order by degrees, at κ = d."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ive

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import Geodesic, flow
from metastable.measures import uniform
from metastable.observe import order_parameter
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Opinions on a sphere: order by degrees, at κ = d",
    places=["arXiv:2412.14813, application to opinion dynamics"],
    claim=(
        "For W = ⟨x,y⟩, which is attention at β = 0, order sets in continuously at κ = d with "
        "density ∝ e^{κm⟨x,e⟩}, m = I_{d/2}(κm)/I_{d/2−1}(κm)."
    ),
    method=(
        "Noisy tokens at several κ in several dimensions; their squared alignment at late times "
        "against the root of the equation, and against 1/(n(1 − κ/d)) below the threshold."
    ),
    subject="noise",
    basis="report",
    limits="Tokens in the hundreds; κ within 40 % of d was not tried.",
    planted="Noise.kappa * 1.3",
    settings={"dims": [2, 3, 8], "factors": [0.5, 1.5, 2.5, 4.0], "tokens": 400, "seeds": 12},
    fast={"dims": [8], "factors": [0.5, 2.5], "tokens": 150, "seeds": 5},
)


def spherical_opinions(
    *, dims: list[int], factors: list[float], tokens: int, seeds: int
) -> Finding:
    """Squared alignment of noisy tokens without softmax weights."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        found, errors = [], []
        for factor in factors:
            kappa = factor * dim
            field, late = SelfAttention(0.0) + Noise(kappa), []
            # Fourteen times the slowest time of linear theory.
            horizon = 14 * dim / (dim - 1) / abs(1 - 1 / factor)
            for seed in range(seeds):
                run = flow(uniform(tokens, dim, seed), field, horizon, frames=41, seed=seed,
                           stepper=Geodesic(0.04))  # fmt: skip
                late.append(np.mean([float(order_parameter(x)) ** 2 for x in run.frames[20:]]))
            exact = _alignment(kappa, dim) ** 2 if factor > 1 else 1 / tokens / (1 - factor)
            error = float(np.std(late, ddof=1) / np.sqrt(seeds))
            found.append(np.sqrt(np.mean(late)))
            errors.append(error / (2 * found[-1]))
            # Four standard errors; 1/n corrections; weak order one of steps of 0.04, of the order
            # of (d − 1)·0.04/κ times the variance 1 − m².
            ordered = 4 / tokens + 0.04 / factor * (1 - exact)
            bias = ordered if factor > 1 else 16 / tokens**2
            rows.append(judge(f"d = {dim}, κ = {factor:g} d: mean squared alignment", "equation",
                              exact, float(np.mean(late)),
                              absolute=4 * error + bias))  # fmt: skip
        curves[f"d = {dim}"] = (factors, found, errors)
        line = np.linspace(1.01, max(factors), 60)
        theory[f"m, d = {dim}"] = (line, [_alignment(x * dim, dim) for x in line])
    figure = plot_lines(
        curves, "κ/d", "root mean square alignment", f"{tokens} tokens, β = 0.", theory=theory,
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"alignment": figure})


def _alignment(kappa: float, dim: int) -> float:
    excess = lambda m: ive(dim / 2, kappa * m) / ive(dim / 2 - 1, kappa * m) - m
    root: Any = brentq(excess, 1e-6, 1 - 1e-12)
    return root
