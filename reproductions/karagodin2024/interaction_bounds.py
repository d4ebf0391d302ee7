"""Gaussian bounds on the pull of one token, and where they stop."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Gaussian bounds on the pull of one token",
    places=["Appendix B, bounds (4) and (5) of the lemma on the interaction"],
    claim=(
        "For all x > 0 and β > 0 the pull h(x) = e^(β(cos x − 1)) sin x lies above "
        "e^(−βx²/2)(x − x³/6), and its slope above −βx² e^(−βx²/2 + βx⁴/24)."
    ),
    method=(
        "Take h from the velocity of a pair of tokens under the causal field, its slope by "
        "central differences, and look for violations on grids in x and β."
    ),
    known="disagree",
    correction=(
        "The bound on h needs x ≤ π: beyond, sin x < 0 is much larger than the other side. The "
        "bound on the slope needs β ≥ 1, say: at β = 0.05 it fails beyond x = 1.7."
    ),
    subject="causal",
    basis="report",
    limits=(
        "Grids of x and β; the printed hypotheses are quoted from a formal transcription, which "
        "found both gaps. The paper uses the bounds where they hold."
    ),
    planted="SelfAttention.beta * 1.3",
    settings={"betas": [1.0, 2.0, 5.0, 14.0, 64.0], "small": 0.05, "grid": 400},
    fast={"betas": [1.0, 5.0, 64.0], "grid": 60},
)


def interaction_bounds(*, betas: list[float], small: float, grid: int) -> Finding:
    """Signed pull at all distances, against both bounds."""
    inside = np.linspace(0.02, math.pi - 0.02, grid)
    beyond = np.linspace(math.pi + 0.05, 2 * math.pi - 0.05, grid)
    low, error, slopes = np.inf, 0.0, np.inf
    for beta in betas:
        h = _pull(beta, inside)
        error = max(
            error, float(np.abs(h - np.exp(beta * (np.cos(inside) - 1)) * np.sin(inside)).max())
        )
        # Ratios: both sides are far below rounding of 1 at large β.
        low = min(low, float(_above(h, beta, inside).min()))
        slopes = min(slopes, float(_steeper(beta, inside).min()))
    outside = float(_above(_pull(5.0, beyond), 5.0, beyond).min())
    flat = float(_steeper(small, inside).min())
    rows = [
        holds("lower bound on h at β = 5 for π < x < 2π", "Appendix B", outside > 0,
              "h above the bound", f"below it by up to {-outside:.3g}"),
        holds("lower bound on h for 0 < x < π, all β", "Appendix B", low > -1e-14,
              "h above the bound", f"least difference {low:.2g}"),
        holds("bound on the slope for β ≥ 1, 0 < x < π", "Appendix B", slopes > -1e-8,
              "slope above the bound", f"least difference {slopes:.2g}"),
        holds(f"bound on the slope fails at β = {small:g}", "derived", flat < 0,
              "a negative difference", f"{flat:.3g}"),
        judge("pull of the field against e^(β(cos x − 1)) sin x, largest difference", "derived",
              0.0, error, absolute=1e-12),
    ]  # fmt: skip
    x = np.linspace(0.05, 2 * math.pi - 0.05, 200)
    figure = plot_lines(
        {"pull of the field": (x, _pull(1.0, x))}, "distance x (radians)", "h(x)",
        "Pull between two tokens at β = 1.",
        theory={"lower bound as printed": (x, np.exp(-x * x / 2) * (x - x**3 / 6))}, lines=True,
    )  # fmt: skip
    return Finding(rows, {"pull": figure})


def _pull(beta: float, x: np.ndarray) -> np.ndarray:
    """h at each distance: speed of the second token to the first, in units of e^β."""
    field = SelfAttention(beta, normalized=False, causal=True)
    found = []
    for angle in x:
        c, s = math.cos(angle), math.sin(angle)
        speed = np.asarray(field.velocity(Points([[1.0, 0.0], [c, s]])))[1] @ [s, -c]
        found.append(2 * math.exp(-beta) * speed)  # each token has mass 1/2
    return np.array(found)


def _above(h: np.ndarray, beta: float, x: np.ndarray) -> np.ndarray:
    return h - np.exp(-beta * x * x / 2) * (x - x**3 / 6)


def _steeper(beta: float, x: np.ndarray) -> np.ndarray:
    step = 1e-5
    slope = (_pull(beta, x + step) - _pull(beta, x - step)) / (2 * step)
    return slope + np.exp(-beta * x * x / 2 + beta * x**4 / 24) * beta * x * x
