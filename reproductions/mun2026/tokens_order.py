"""Noisy tokens order above the threshold and not below it."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import Noise, SelfAttention
from metastable.flows import Geodesic, flow
from metastable.measures import uniform
from metastable.observe import order_parameter
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.noise import critical_kappa

from ._gibbs import Functional

ENTRY = Entry(
    title="Noisy tokens order above the threshold and not below it",
    places=["arXiv:2606.05140, abstract: K_#"],
    claim=(
        "For β ≤ β_* tokens of unnormalised attention with noise stay disordered for κ below "
        "κ_# = β^{d/2}/(2^ν Γ(d/2) I_{d/2}(β)) and align above it."
    ),
    method=(
        "Tokens as a stochastic equation from a uniform start, on both sides of κ_#; their squared "
        "alignment, averaged over late times and seeds, against the fluctuations of linear theory "
        "below and the minimiser of the free energy above."
    ),
    subject="noise",
    basis="report",
    limits=(
        "One β, two dimensions, n in the hundreds; κ within 40 % of κ_# was not tried, where "
        "fluctuations grow and the time to settle with them."
    ),
    planted="Noise.kappa * 1.25",
    settings={"beta": 1.0, "dims": [2, 3], "tokens": 400, "seeds": 24},
    fast={"dims": [3], "tokens": 120, "seeds": 6},
)


def tokens_order(*, beta: float, dims: list[int], tokens: int, seeds: int) -> Finding:
    """Squared alignment of n tokens below and above κ_#."""
    rows, curves, theory = [], {}, {}
    for dim in dims:
        threshold = float(critical_kappa(beta, dim, normalized=False))
        space = Functional.of(beta, dim)
        for factor in (0.5, 1.8):
            kappa = factor * threshold
            field = SelfAttention(beta, normalized=False) + Noise(kappa)
            horizon, runs = 17.5 * kappa / (dim - 1), []
            for seed in range(seeds):
                run = flow(uniform(tokens, dim, seed), field, horizon, frames=81, seed=seed,
                           stepper=Geodesic(0.025 * kappa / dim))  # fmt: skip
                runs.append([float(order_parameter(frame)) ** 2 for frame in run.frames])
            runs = np.array(runs)
            late = runs[:, 40:].mean(axis=1)
            error = late.std(ddof=1) / np.sqrt(seeds)
            if factor < 1:
                # Linear theory: E|m|² = (1/n)/(1 − κ/κ_#).
                exact, bias = 1 / tokens / (1 - factor), 4 / tokens**2
            else:
                tilt = np.exp(5 * space.nodes)
                end = space.settle(tilt / (space.weights @ tilt), kappa)
                exact, bias = float(space.moments(end)[1]) ** 2, 4 / tokens
            claim = f"d = {dim}, κ = {factor:g} κ_#: mean squared alignment of {tokens} tokens"
            # Four standard errors, and corrections of the next order in 1/n.
            rows.append(judge(claim, "threshold", exact, float(late.mean()),
                              absolute=4 * error + bias))  # fmt: skip
            name = f"d = {dim}, κ = {factor:g} κ_#"
            curves[name] = (run.times * dim / kappa, runs.mean(axis=0))
            theory[f"limit, {name}"] = ([0, horizon * dim / kappa], [exact, exact])
    figure = plot_lines(
        curves, "time t d/κ (USA clock)", "mean squared alignment",
        f"{tokens} tokens from a uniform start, {seeds} seeds, β = {beta:g}.", theory=theory,
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"order": figure})
