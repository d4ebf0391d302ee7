"""How fast the energy climbs, between two bounds."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, uniform
from metastable.observe import energy
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="How fast the energy climbs, between two bounds",
    places=["eq. (3.6)", "Lemma 3.7"],
    claim=(
        "Along softmax attention the energy climbs at a rate between e^{−β} and e^{β} times the "
        "mean square speed ∫‖v‖² dμ, and along unnormalised attention at exactly that."
    ),
    method=(
        "Random starts: finite differences of the energy along the run over the mean square "
        "speed; the ends of the range at a light token opposite a heavy one, in closed form, and "
        "at a cluster."
    ),
    subject="rates",
    basis="report",
    limits="Q = K = V = I. The bound e^{−β} is only approached, by a token of vanishing mass.",
    planted="energy.beta * 1.05",
    settings={"tokens": 12, "dim": 3, "beta": 1.5, "draws": 8},
    fast={"draws": 2},
)


def energy_sandwich(*, tokens: int, dim: int, beta: float, draws: int) -> Finding:
    """dE/dt over ∫‖v‖² dμ: inside the range, near both of its ends, and 1 for USA."""
    low, high, series, unnormalised = np.inf, 0.0, [], []
    for seed in range(draws):
        run = flow(uniform(tokens, dim, seed), SelfAttention(beta), 12.0, frames=121)
        quotient = np.array([climb(f, SelfAttention(beta), beta) for f in run.frames[:-20]])
        low, high = min(low, quotient.min()), max(high, quotient.max())
        unnormalised.append(climb(run.frames[10], SelfAttention(beta, normalized=False), beta))
        series.append(Series(f"start {seed + 1}", run.times[:-20], quotient))
    up, down = np.exp(beta), np.exp(-beta)
    worst = max(unnormalised, key=lambda q: abs(q - 1))
    inside = down * (1 - 1e-6) <= low and high <= up * (1 + 1e-6)
    rows = [
        holds("the quotient stays inside", "eq. (3.6)", inside,
              f"{down:.3g} to {up:.3g}", f"{low:.4g} to {high:.4g}"),
        judge("quotient of unnormalised attention", "Lemma 3.7", 1.0, worst, relative=1e-5),
        # Within 10⁻³ of one point Z is e^β up to β times the square of the distance.
        judge("quotient at a cluster", "derived", up,
              climb(uniform_cap(tokens, 1e-3), SelfAttention(beta), beta), relative=1e-4),
    ]  # fmt: skip
    for mass in (0.1, 1e-3):
        angle = np.pi - 0.05
        x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
        pair = Points(x, np.array([1 - mass, mass]))
        heavy, light = mass * np.exp(beta * x[1, 0]), (1 - mass) * np.exp(beta * x[1, 0])
        z = np.array([(1 - mass) * up + heavy, mass * up + light])
        v = np.array([heavy, light]) / z
        w = np.array([1 - mass, mass])
        expected = float((w * v**2 * z).sum() / (w * v**2).sum())
        rows.append(judge(f"a token of mass {mass:g} nearly opposite the rest", "derived",
                          expected, climb(pair, SelfAttention(beta), beta),
                          relative=1e-4))  # fmt: skip
    figure = Lines(
        Axis("time t", clock="SA"), Axis("(dE/dt) / ∫‖v‖² dμ", scale="log"), series,
        levels={"e^β": up, "e^−β": down},
        caption=f"{tokens} uniform tokens on S^{dim - 1}, β = {beta:g}.",
    )  # fmt: skip
    return Finding(rows, {"quotient": figure})


def climb(measure: Points, field: SelfAttention, beta: float) -> float:
    """The energy's derivative along the field, by a central difference, over ∫‖v‖² dμ."""
    x, v = np.asarray(measure.points), np.asarray(field.velocity(measure))
    square = float(np.asarray(measure.weights) @ (v * v).sum(axis=1))
    h = 1e-4 / np.sqrt((v * v).sum(axis=1).max())
    ends = [x + s * h * v for s in (-1, 1)]
    ends = [e / np.linalg.norm(e, axis=1, keepdims=True) for e in ends]
    below, above = (float(energy(measure.at(e), beta)) for e in ends)
    return (above - below) / (2 * h) / square


def uniform_cap(tokens: int, size: float) -> Points:
    """Tokens within a small angle of one point of the circle."""
    angles = size * np.linspace(-1, 1, tokens)
    return Points(np.column_stack([np.cos(angles), np.sin(angles)]))
