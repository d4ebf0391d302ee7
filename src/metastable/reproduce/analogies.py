"""Attention beside its relatives: Keller–Segel particles, and attention in another clock."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import i0

from metastable.comparison.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points, orthogonal, uniform
from metastable.reproduce.finding import Finding, holds
from metastable.reproduce.rescaled_runs import fitted_slope

__all__ = ["collapse", "keller_segel", "partition_clock"]


def keller_segel(*, tokens: int, beta: float, seed: int) -> Finding:
    """Log-attracted particles on the line collapse in finite time; attention takes for ever."""
    from metastable.report.plots import draw_lines

    start = np.sort(np.random.default_rng(seed).uniform(-1, 1, tokens))
    times, spread, released = collapse(start)
    end, place = times[-1], released[1]
    arc = Points(np.column_stack([np.cos(start), np.sin(start)]))
    run = flow(arc, SelfAttention(beta), 10.0, frames=81)
    angles = np.array([np.asarray(frame.angles) for frame in run.frames])
    width = angles.std(axis=1)
    late = run.times >= 5
    rows = [
        holds(
            "log-attracted particles are one point, their mean, from a finite time T* on",
            "section on what can be expected (Patlak–Keller–Segel)",
            np.isfinite(end) and abs(place - start.mean()) < 1e-6,
            "one point at the mean",
            f"T* = {end:.4f}, off the mean by {abs(place - start.mean()):.1e}",
        ),
        judge(
            "the variance falls at the rate 1 − Σ m_k² (m_k the merged masses), so it is spent at "
            "T*: ∫(1 − Σ m_k²)dt",
            "derived here from the second moment",
            float(start.var()),
            released[0],
            relative=0.01,
        ),
        holds(
            "attention from the same places on an arc is not collapsed at T*",
            "same section, \"similarities\"",
            np.interp(end, run.times, width) > 0.01 * width[0],
            "spread > 0",
            f"{np.interp(end, run.times, width) / width[0]:.3f} of the first",
        ),
        judge(
            "its spread falls exponentially, at rate 1, and never reaches 0",
            "theory of one cluster; geshkovski2023mathematical, §6.1",
            1.0,
            -fitted_slope(run.times[late], np.log(width[late])),
            absolute=0.03,
        ),
    ]  # fmt: skip
    figure = draw_lines(
        {
            "Keller–Segel on the line": (times[:-1], np.sqrt(spread[:-1] / spread[0])),
            "attention on an arc": (run.times, width / width[0]),
        },
        "time t (own clock of each)",
        "standard deviation, first = 1",
        f"Spread of {tokens} tokens: finite-time collapse beside exponential decay (β = {beta:g}).",
        marks={"T*": end},
        log="y",
        lines=True,
    )
    note = "The equation as printed lacks the divergence in front of its second term."
    return Finding(rows, {"spread": figure}, [note])


def partition_clock(*, tokens: int, many: int, beta: float, horizon: float) -> Finding:
    """Where Z is the same for all tokens it only sets the clock; where it is not, it does more."""
    from metastable.report.plots import draw_lines

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
    figure = draw_lines(
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


def collapse(start: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """ẋ_i = −Σ_j m_j/(x_i − x_j), particles that meet go on as one, until one is left.

    Times, variances, and (∫(1 − Σm²)dt, place of the end). The gap of a pair falls like the root
    of the time left, so steps are a share of the square of the smallest gap.
    """
    x, m = start.copy(), np.full(len(start), 1 / len(start))
    t = released = 0.0
    times, spread = [0.0], [float(start.var())]

    def drift(x: np.ndarray) -> np.ndarray:
        apart = x[:, None] - x
        np.fill_diagonal(apart, np.inf)
        return -(m / apart).sum(axis=1)

    smallest = 1e-5 * np.ptp(start)
    while len(x) > 1:
        gaps = np.diff(x)
        if gaps.min() < smallest:
            k = int(gaps.argmin())
            mass = m[k] + m[k + 1]
            x[k] = (m[k] * x[k] + m[k + 1] * x[k + 1]) / mass
            m[k] = mass
            x, m = np.delete(x, k + 1), np.delete(m, k + 1)
        else:
            pull = (m[:-1] + m[1:]) / gaps
            h = 0.05 * float((gaps / pull).min())
            k1 = drift(x)
            k2 = drift(x + h / 2 * k1)
            x = x + h * k2
            t += h
            released += h * (1 - np.sum(m**2))
        times.append(t)
        spread.append(float(m @ (x - m @ x) ** 2))
    return np.array(times), np.array(spread), (released, float(x[0]))


def partition(measure: Points, beta: float) -> np.ndarray:
    """Z_i = Σ_j w_j e^{β⟨x_i,x_j⟩}."""
    x = np.asarray(measure.points)
    return np.exp(beta * x @ x.T) @ np.asarray(measure.weights)
