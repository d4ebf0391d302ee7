"""Keller–Segel beside attention."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._slopes import fitted_slope

ENTRY = Entry(
    title="Keller–Segel beside attention",
    places=["section on what can be expected, similarities to Patlak–Keller–Segel"],
    claim=(
        "The mean-field equation of attention resembles the Patlak–Keller–Segel equation with "
        "a logarithmic potential, whose solutions are one point mass, at the mean, from a "
        "finite time on."
    ),
    method=(
        "Run logarithmically attracted particles on the line through their mergers to the "
        "last one, with the second moment as a check, and attention from the same places on "
        "an arc."
    ),
    subject="rates",
    basis="text",
    limits=(
        "One start of twelve tokens, on the line and on an arc at β = 1: a likeness shown on "
        "one example."
    ),
    planted="SelfAttention.value = -1.0",
    settings={"tokens": 12, "beta": 1.0, "seed": 4},
)


def keller_segel(*, tokens: int, beta: float, seed: int) -> Finding:
    """Log-attracted particles on the line collapse in finite time; attention takes for ever."""
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
    figure = plot_lines(
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
