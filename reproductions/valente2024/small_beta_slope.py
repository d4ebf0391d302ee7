"""Small β: distance from the flow at β = 0."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope

ENTRY = Entry(
    title="Small β: distance from the flow at β = 0",
    places=["section on small β, eq. (49)"],
    claim=(
        "For small β attention is the flow at β = 0 plus O(β), so that tokens do not feel it "
        "at times much smaller than 1/β."
    ),
    method=(
        "Run one start at several β and at 0, fit the slope of the distance against β, and "
        "compare its constant with independent Runge–Kutta steps."
    ),
    subject="rates",
    basis="text",
    limits="One start of 16 tokens in d = 3, β from 0.003 to 1, up to t = 10.",
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 16, "dim": 3, "betas": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0], "horizon": 10.0},
)


def small_beta_slope(*, tokens: int, dim: int, betas: list[float], horizon: float) -> Finding:
    """Distance of the flow at small β from the flow at β = 0, against β."""
    start = uniform(tokens, dim, seed=2)
    still = flow(start, SelfAttention(0.0), horizon, frames=41)
    runs = [flow(start, SelfAttention(beta), horizon, frames=41) for beta in betas]
    apart = np.array([np.abs(run.points - still.points).max(axis=(1, 2)) for run in runs])
    at = np.argmin(np.abs(still.times - 1.0))
    small = np.array(betas) <= 0.1
    x0 = np.asarray(start.points)
    tiny = 1e-4
    linear = stepped(x0, tiny, still.times[at]) - stepped(x0, 0.0, still.times[at])
    felt = max(
        float(gap[still.times <= 0.1 / beta].max() / beta)
        for gap, beta in zip(apart[small], np.array(betas)[small], strict=True)
    )
    rows = [
        judge(
            "the velocity is that of β = 0 up to O(β): slope of log distance against log β at "
            "t = 1",
            "section on small β, eq. (49)",
            1.0,
            fitted_slope(np.log(betas)[small], np.log(apart[small, at])),
            absolute=0.05,
        ),
        judge(
            "its constant: distance/β at t = 1 for the smallest β, against independent "
            "Runge–Kutta steps",
            "derived here",
            float(np.abs(linear).max() / tiny),
            float(apart[0, at] / betas[0]),
            relative=0.03,
        ),
        holds(
            "for t ≪ 1/β tokens do not feel it: largest distance up to t = 0.1/β, over β",
            "section on small β",
            felt < 1,
            "below 1",
            f"{felt:.2f}",
        ),
    ]
    figure = plot_lines(
        {
            "distance at t = 1": (betas, apart[:, at]),
            "largest distance": (betas, apart.max(axis=1)),
        },
        "β",
        "distance from the flow at β = 0",
        f"How far {tokens} tokens on S^{dim - 1} are from where β = 0 would have them (SA clock).",
        theory={"slope 1": (betas, apart[0, at] * np.array(betas) / betas[0])},
        log="xy",
    )
    return Finding(rows, {"slope": figure})


def stepped(x: np.ndarray, beta: float, time: float, steps: int = 200) -> np.ndarray:
    """Plain SA by classical Runge–Kutta steps in NumPy: a witness that shares no code."""

    def drift(x: np.ndarray) -> np.ndarray:
        weight = np.exp(beta * (x @ x.T))
        pull = weight @ x / weight.sum(axis=1, keepdims=True)
        return pull - np.sum(pull * x, axis=1, keepdims=True) * x

    h = time / steps
    for _ in range(steps):
        k1 = drift(x)
        k2 = drift(x + h / 2 * k1)
        k3 = drift(x + h / 2 * k2)
        k4 = drift(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x
