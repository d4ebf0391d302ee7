"""Softmax attention is a gradient flow too, in a metric with a mobility."""

from __future__ import annotations

import numpy as np
from scipy.integrate import simpson

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import Adaptive, flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Softmax attention is a gradient flow too, in a metric with a mobility",
    places=["arXiv:2501.03096, abstract: gradient flow under a special metric"],
    claim=(
        "With QᵀK = V = D symmetric, of any signs, both kinds of attention climb "
        "(1/2β)∬e^{β⟨x,Dy⟩}: unnormalised at the rate ∫|v|²dμ, softmax at ∫Z|v|²dμ, Z the "
        "partition function."
    ),
    method=(
        "Random symmetric D with eigenvalues of both signs; the energy by plain double sums along "
        "runs of both kinds, against the integrated rate by Simpson's rule."
    ),
    subject="existence",
    basis="report",
    limits="Tokens, not measures; D not symmetric has no such energy and was not tried.",
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 40, "dim": 4, "beta": 2.0, "draws": 4, "horizon": 4.0},
    fast={"tokens": 16, "draws": 2, "horizon": 3.0},
)


def matrix_gradient_flow(
    *, tokens: int, dim: int, beta: float, draws: int, horizon: float
) -> Finding:
    """Energy and its integrated rate along both kinds of attention."""
    curves, theory, worst, falls = {}, {}, {}, 0.0
    for normalized, clock in ((True, "SA"), (False, "USA")):
        worst[clock] = 0.0
        for seed in range(draws):
            raw = np.random.default_rng(seed).normal(size=(dim, dim))
            matrix = (raw + raw.T) / 4
            field = SelfAttention(beta, query=matrix, value=matrix, normalized=normalized)
            run = flow(uniform(tokens, dim, seed), field, horizon, frames=401,
                       stepper=Adaptive(rtol=1e-10, atol=1e-11))  # fmt: skip
            level, rate = np.array([_level(x, matrix, beta, normalized) for x in run.points]).T
            gained = np.array([simpson(rate[: k + 1], x=run.times[: k + 1])
                               for k in range(4, 401, 4)])  # fmt: skip
            worst[clock] = max(worst[clock], np.abs(level[4::4] - level[0] - gained).max())
            falls = max(falls, -float(np.diff(level).min()))
            if seed < 2:
                name = f"{clock}, D number {seed + 1}"
                curves[name] = (run.times, level)
                theory[f"integrated rate, {name}"] = (run.times[4::4], level[0] + gained)
    rows = [
        # Simpson's rule over 0.01: an error of 1e−9 times fourth derivatives of some 1e3.
        judge("softmax: energy less its integrated rate", "mobility metric", 0.0, worst["SA"],
              absolute=1e-5),
        judge("unnormalised: energy less its integrated rate", "Wasserstein", 0.0, worst["USA"],
              absolute=1e-5),
        holds("the energy never falls", "gradient flow", falls < 1e-11, "no step down", falls),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (each in its own clock)", "energy", f"d = {dim}, β = {beta:g}.",
        theory=theory, lines=True,
    )  # fmt: skip
    return Finding(rows, {"energy": figure})


def _level(x: np.ndarray, matrix: np.ndarray, beta: float, normalized: bool) -> tuple[float, float]:
    """Energy and its rate by double sums, without the library."""
    x = np.asarray(x)
    kernel = np.exp(beta * x @ matrix @ x.T)
    mass = kernel.mean(axis=1)
    pull = kernel @ (x @ matrix) / len(x)
    pull = pull - (pull * x).sum(axis=1, keepdims=True) * x
    share = 1 / mass if normalized else np.ones(len(x))
    return float(kernel.mean() / (2 * beta)), float(((pull**2).sum(axis=1) * share).mean())
