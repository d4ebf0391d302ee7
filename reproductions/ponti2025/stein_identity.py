"""Gaussian integration by parts."""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Gaussian integration by parts",
    places=["Lemma A.3"],
    claim=(
        "For X standard normal, E[X f(X)] = E[f′(X)] when f times the density vanishes at infinity."
    ),
    method=(
        "Both sides for four functions by quadrature and by samples; and a function whose "
        "product with the density does not vanish, where they must differ by that term."
    ),
    subject="Gaussian",
    basis="text",
    limits="Four functions and one counterexample in one dimension.",
    planted="np.cosh * 1.1",
    settings={"samples": 400000, "seed": 0},
    fast={"samples": 100000},
)


def stein_identity(*, samples: int, seed: int) -> Finding:
    """E[X f(X)] = E[f′(X)] by quadrature and by samples; and with a term at infinity."""
    functions = {
        "x³": (lambda x: x**3, lambda x: 3 * x**2),
        "sin 2x": (lambda x: np.sin(2 * x), lambda x: 2 * np.cos(2 * x)),
        "tanh x": (np.tanh, lambda x: 1 / np.cosh(x) ** 2),
        "$e^{0.7x}$": (lambda x: np.exp(0.7 * x), lambda x: 0.7 * np.exp(0.7 * x)),
    }
    drawn = np.random.default_rng(seed).standard_normal(samples)
    exact, scores, sides = [], [], []
    for f, slope in functions.values():
        left, right = (
            quad(lambda x, g=g: g(x) * norm.pdf(x), -12, 12, epsabs=1e-13, limit=200)[0]
            for g in (lambda x, f=f: x * f(x), slope)
        )
        exact.append(abs(left - right))
        sides.append((left, right))
        differences = drawn * f(drawn) - slope(drawn)
        scores.append(abs(differences.mean()) / (differences.std() / math.sqrt(samples)))
    # f = tanh/p: f p tends to ±1, so that the term at infinity is 2 and the identity must fail by
    # it. In terms of h = fp, the two integrands are xh and h′ + xh.
    left = quad(lambda x: x * np.tanh(x), -12, 12)[0]
    right = quad(lambda x: 1 / np.cosh(x) ** 2 + x * np.tanh(x), -12, 12)[0]
    rows = [
        judge("E[X f(X)] − E[f′(X)], four functions: largest, by quadrature", "Lemma A.3", 0.0,
              max(exact), absolute=1e-10),
        holds(f"the same of {samples} samples, in standard errors", "Lemma A.3",
              max(scores) < 3.5, "below 3.5", max(scores)),
        judge("where f p tends to ±1 (f = tanh/p) they differ by the term at infinity",
              "condition of Lemma A.3", -2.0, left - right, absolute=1e-6),
    ]  # fmt: skip
    figure = plot_bars(
        list(functions), {"E[X f(X)]": [a for a, _ in sides], "E[f′(X)]": [b for _, b in sides]},
        "f", "expectation", "Both sides of Gaussian integration by parts, by quadrature.",
    )  # fmt: skip
    return Finding(rows, {"sides": figure})
