"""The closed form solves the Volterra equation of retrieval."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.observe.retrieval import position_bias, position_weights
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.retrieval import retrieval_law, retrieval_row

ENTRY = Entry(
    title="The closed form solves its equation",
    places=["Proposition on the Bessel profile", "public code: profile_value"],
    claim=(
        "The linear equation ∂_t g(σ) = a(k(σ,s) + ∫_s^σ k(σ,σ')g(σ')dσ'), "
        "k(σ,s) = λe^(−λ(σ−s))/(1−e^(−λσ)), started at 0, is solved by "
        "k(σ,s)√(at/Y) I_1(2√(atY)), Y = log((e^(λσ)−1)/(e^(λs)−1)), for every slope λ, also 0."
    ),
    method=(
        "Put the closed form into the equation: central differences in time against "
        "Gauss–Legendre quadrature in position; then the limit of the response of N tokens, a "
        "matrix exponential, extrapolated in 1/N."
    ),
    subject="long context",
    basis="code",
    limits="Slopes λ ≥ 0 only, although the source allows negative ones; uniqueness is not tested.",
    planted="retrieval_law.strengths * 1.02",
    settings={"slopes": [0.0, 0.5, 1.0, 3.0, 8.0], "times": [0.2, 1.0, 4.0], "sizes": [400, 800]},
    fast={"slopes": [0.0, 1.0, 3.0], "times": [1.0], "sizes": [200, 400]},
)
RATE = 0.7


def hardy_equation(*, slopes: list[float], times: list[float], sizes: list[int]) -> Finding:
    """Residuals of the equation, and the response of finite chains."""
    rows, seen, laws = [], {}, {}
    for slope in slopes:
        worst = 0.0
        for time in times:
            for end in (0.4, 1.0):
                for s in (0.02, 0.15, 0.35):
                    worst = max(worst, _residual(slope, time, end, s))
        claim = f"largest relative residual of the equation, λ = {slope:g}"
        rows.append(judge(claim, "public code", 0.0, worst, absolute=1e-5))
    for slope in slopes:
        strength = RATE * times[-1]
        places = np.array([0.25, 0.5, 0.75])
        found = []
        for count in sizes:
            pull = position_weights(position_bias(count, slope, own=False))
            found.append(retrieval_row(pull, strength)[(places * count).astype(int) - 1])
        limit = found[1] + (found[1] - found[0]) * sizes[0] / (sizes[1] - sizes[0])
        law = retrieval_law(places, slope, strength)
        error = float(np.abs(limit / law - 1).max())
        claim = f"response of N tokens, extrapolated: largest relative error, λ = {slope:g}"
        rows.append(judge(claim, "derived", 0.0, error, absolute=0.003))
        seen[f"{sizes[1]} tokens, λ = {slope:g}"] = (places, found[1])
        s = np.linspace(0.03, 1, 100)
        laws[f"closed form, λ = {slope:g}"] = (s, retrieval_law(s, slope, strength))
    figure = plot_lines(
        seen, "position s of the source", "retrieval by the last token",
        f"Linear response at at = {RATE * times[-1]:g}.", theory=laws,
    )  # fmt: skip
    return Finding(rows, {"profiles": figure})


def _residual(slope: float, time: float, end: float, s: float) -> float:
    """|left − right| / right of the equation at σ = end, from the source s."""
    step = 1e-4
    left = (_law(slope, time + step, end, s) - _law(slope, time - step, end, s)) / (2 * step)
    # With x = s + (end − s)u² the nodes gather at s, where g varies fastest.
    u, weight = np.polynomial.legendre.leggauss(60)
    u, weight = (u + 1) / 2, weight / 2
    x = s + (end - s) * u**2
    g = np.array([_law(slope, time, each, s) for each in x])
    integral = float(np.sum(weight * 2 * u * (end - s) * _kernel(slope, end, x) * g))
    right = RATE * (float(_kernel(slope, end, s)) + integral)
    return abs(left - right) / right


def _law(slope: float, time: float, end: float, s: float) -> float:
    """g at σ = end: a chain cut there is a whole chain of slope λσ."""
    return float(retrieval_law([s / end], slope * end, RATE * time)[0]) / end


def _kernel(slope: float, end: float, x: np.ndarray | float) -> np.ndarray:
    if slope == 0:
        return np.full(np.shape(x), 1 / end)
    return slope * np.exp(-slope * (end - np.asarray(x))) / -np.expm1(-slope * end)
