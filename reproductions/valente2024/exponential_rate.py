"""The rate of Theorem 5."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.regimes import single_cluster_theorem

from .._slopes import fitted_slope

ENTRY = Entry(
    title="The rate of Theorem 5",
    places=["Theorem 5"],
    claim=(
        "If d ≥ n, almost every start converges to one point with ‖x_i - x*‖ ≤ C exp(-λt), "
        "for SA and USA, and for any Q and K with V = I."
    ),
    method=(
        "Fit the late decay of the farthest token over random starts, and compare with the "
        "linearisation at the final point: λ = 1 for SA whatever Q and K, λ = exp(β) for USA."
    ),
    subject="rates",
    basis="text",
    limits=(
        "Eight tokens in d = 10 at β = 1.5, ten starts, V = I; neither other d ≥ n nor large β."
    ),
    implies=("high_dimension",),
    planted="SelfAttention.beta * 1.3",
    settings={"tokens": 8, "dim": 10, "beta": 1.5, "draws": 10},
    fast={"draws": 3},
)


def exponential_rate(*, tokens: int, dim: int, beta: float, draws: int) -> Finding:
    """d ≥ n: tokens reach one point exponentially; the rate for SA, USA, and random Q, K."""
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.normal(size=(dim, dim)))[0]  # QᵀK = I, kept as a matrix
    free = random.normal(size=(dim, dim)) / np.sqrt(dim)
    law = lambda normalized: single_cluster_theorem(beta, dim, tokens=tokens, normalized=normalized)
    cases = {
        "SA": (SelfAttention(beta, turn, turn), 12.0),
        "SA, random Q and K": (SelfAttention(beta, free, turn), 12.0),
        "USA": (SelfAttention(beta, turn, turn, normalized=False), 9.0 * np.exp(-beta) + 2.0),
    }
    curves, rates, below = {}, {}, True
    for name, (field, horizon) in cases.items():
        rates[name] = []
        want = float(np.exp(beta)) if name == "USA" else 1.0
        for seed in range(draws):
            run = flow(uniform(tokens, dim, seed), field, horizon * 2, frames=81)
            centre = run.points[-1].mean(axis=0)
            apart = np.linalg.norm(run.points - centre / np.linalg.norm(centre), axis=2).max(axis=1)
            # The end of the run stands for x*, and the start may take its time: fit in between.
            early = apart > 1e-7
            late = early & (apart < 1e-3)
            rate = -fitted_slope(run.times[late], np.log(apart[late]))
            rates[name].append(rate)
            # A straight line on a logarithmic scale, down to 1e−7 of x*.
            line = np.log(apart[late]) + rate * run.times[late]
            below &= bool(rate > 0 and apart.min() < 1e-7 and np.ptp(line) < 0.1)
        curves[name] = (run.times[early] * want, apart[early])
    far = lambda name, want: max(rates[name], key=lambda rate: abs(rate - want))
    rows = [
        holds(
            "‖x_i − x*‖ ≤ C e^{−λt} with some C, λ > 0",
            "Theorem 5",
            below,
            "λ > 0, a straight line in log scale to 1e−7",
            f"λ from {min(map(min, rates.values())):.3f}",
            f"{3 * draws} random starts with d ≥ n",
        )
    ]
    for name, normalized in (("SA", True), ("SA, random Q and K", True), ("USA", False)):
        theorem = law(normalized)
        want = theorem.rate if theorem is not None and theorem.rate is not None else np.nan
        rows.append(
            judge(f"the rate λ, {name}", "derived here; geshkovski2023mathematical, §6.1", want,
                  far(name, want), relative=0.03)
        )  # fmt: skip
    figure = plot_lines(
        curves,
        "time λt (own clock of each)",
        "largest ‖x_i − x*‖",
        f"{tokens} random tokens in dimension {dim}, β = {beta:g}, on their way to one point.",
        theory={"$e^{-\\lambda t}$": (np.linspace(0, 16, 50), np.exp(-np.linspace(0, 16, 50)))},
        log="y",
        lines=True,
    )
    return Finding(rows, {"rates": figure})
