"""The partition function as a change of clock."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import i0

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, orthogonal, uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The partition function as a change of clock",
    places=["section on the surrogate model USA (19), Z replaced by n"],
    claim=(
        "Replacing the partition function by a constant keeps the motion and changes its clock."
    ),
    method=(
        "Run SA and USA from orthogonal tokens, where Z is the same for all, and compare them "
        "in the clock ds = dt/Z; then measure Z for many uniform tokens, and what no common "
        "clock can remove for few."
    ),
    subject="rates",
    basis="text",
    limits=(
        "Eight orthogonal and eight random tokens, one β = 2; uniform tokens on the circle only."
    ),
    planted="SelfAttention.beta * 1.1",
    settings={"tokens": 8, "many": 4000, "beta": 2.0, "horizon": 6.0},
)


def partition_clock(*, tokens: int, many: int, beta: float, horizon: float) -> Finding:
    """Where Z is the same for all tokens it only sets the clock; where it is not, it does more."""
    start = orthogonal(tokens, tokens)
    softmax, plain = SelfAttention(beta), SelfAttention(beta, normalized=False)
    run = flow(start, softmax, horizon, frames=161)
    Z = np.array([partition(frame, beta) for frame in run.frames])  # (time, token)
    clock = CubicSpline(run.times, 1 / Z.mean(axis=1)).antiderivative()(run.times)
    other = flow(start, plain, float(clock[-1]), frames=clock[1:-1])
    apart = np.abs(run.points - other.points).max()
    pairs = np.triu_indices(tokens, 1)
    cosine = lambda points: np.array([(x @ x.T)[pairs].mean() for x in points])
    naive = np.abs(cosine(run.points) - np.interp(run.times, clock, cosine(other.points))).max()
    crowd = uniform(many, 2, seed=0)
    few = uniform(tokens, 3, seed=1)
    a, b = (np.asarray(field.velocity(few)) for field in (softmax, plain))
    left = np.linalg.norm(a - (np.sum(a * b) / np.sum(b * b)) * b) / np.linalg.norm(a)
    rows = [
        judge(
            "orthogonal tokens: SA is USA in the clock ds = dt/Z (largest difference of the runs)",
            "section on USA: Z replaced by a constant",
            0.0,
            float(apart),
            absolute=1e-6,
        ),
        holds(
            "and without that change of clock it is not",
            "same",
            naive > 0.1,
            "cosines differ by more than 0.1",
            f"by up to {naive:.2f}",
        ),
        judge(
            f"{many} uniform tokens on the circle: Z ≈ c_0(β) = I_0(β), the factor of the clocks",
            "Funk–Hecke formula, derived here",
            float(i0(beta)),
            float(partition(crowd, beta).mean()),
            relative=0.05,
        ),
        holds(
            "a few random tokens: no common clock, best factor leaves a part of the velocity over",
            "derived here: Z differs from token to token",
            left > 0.02,
            "more than 2 %",
            f"{100 * left:.1f} %",
        ),
    ]
    figure = plot_lines(
        {"USA read at s(t)": (run.times[::8], cosine(other.points)[::8])},
        "time (own clock)",
        "cosine of two tokens",
        f"{tokens} orthogonal tokens, β = {beta:g}: the softmax run, the unnormalised run, and the "
        "latter read at s(t) = ∫dt/Z.",
        theory={
            "SA, clock t": (run.times, cosine(run.points)),
            "USA, clock s": (clock, cosine(other.points)),
        },
    )
    return Finding(rows, {"clocks": figure})


def partition(measure: Points, beta: float) -> np.ndarray:
    """Z_i = Σ_j w_j e^{β⟨x_i,x_j⟩}."""
    x = np.asarray(measure.points)
    return np.exp(beta * x @ x.T) @ np.asarray(measure.weights)
