"""Clusters stay in their caps for a time exponential in β."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.metastability import cross_alignment
from metastable.theory.pairs import log_merge_time

ENTRY = Entry(
    title="Clusters stay in their caps for a time exponential in β",
    places=["Section 2, main theorem, lower bound on T_2"],
    claim=(
        "Tokens stay in caps twice as high as those they started in for a time of at least "
        "(ε/n)e^{(1−α)β}, so that its logarithm grows like β."
    ),
    method=(
        "Two clusters of unequal mass: the time at which the light one leaves its doubled cap, in "
        "the flow for small β and by quadrature for large, against the bound and its exponent."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Two point clusters at one angle. The bound is not sharp: the true exponent 1 − cos φ is "
        "larger than 1 − α, because α is taken between the doubled caps (derived here)."
    ),
    planted="SelfAttention.beta * 1.15",
    settings={
        "angle": 2.0, "epsilon": 0.02, "masses": [0.4, 0.6],
        "betas": [2.0, 4.0, 6.0, 8.0], "far": [50.0, 100.0, 200.0, 400.0],
    },
    fast={"betas": [2.0, 4.0]},
)  # fmt: skip


def cap_escape(
    *, angle: float, epsilon: float, masses: list[float], betas: list[float], far: list[float]
) -> Finding:
    """Times are logarithms, in the SA clock."""
    pair = (masses[0], masses[1])
    turn = math.acos(1 - 2 * epsilon)
    rows, seen = [], []
    for beta in betas:
        exact = _log_escape(angle, turn, beta, pair)
        points = [[1.0, 0.0], [math.cos(angle), math.sin(angle)]]
        times = math.exp(exact) * np.linspace(0.0, 1.2, 241)
        run = flow(Points(np.array(points), masses), SelfAttention(beta), times[-1], frames=times)
        moved = np.arccos(np.clip(run.points[:, 0, 0], -1, 1))
        seen.append(math.log(np.interp(turn, moved, run.times)))
        rows.append(judge(f"β = {beta:g}: log T of the flow is the quadrature's", "derived", exact,
                          seen[-1], absolute=1e-3))  # fmt: skip
    alpha = cross_alignment(angle, epsilon)
    bound = lambda beta: math.log(epsilon / 2) + (1 - alpha) * beta
    exact = [_log_escape(angle, turn, beta, pair) for beta in far]
    margin = min(time - bound(beta) for beta, time in zip(far, exact, strict=True))
    first = holds("clusters stay longer than the bound at every β", "main theorem",
                  margin > 0 and min(np.array(seen) - [bound(b) for b in betas]) > 0,
                  "positive margin of log T", f"{margin:.4g}")  # fmt: skip
    # T ~ e^{β(1−cos φ)}/(C β): adding log β leaves a line, up to O(1/β).
    slope = float(np.polyfit(far, np.array(exact) + np.log(far), 1)[0])
    law = 1 - math.cos(angle)
    rows.append(judge("log T + log β grows with β at the rate 1 − cos φ", "derived", law, slope,
                      relative=0.002))  # fmt: skip
    curve = {"quadrature": (betas + far, [_log_escape(angle, turn, b, pair) for b in betas + far]),
             "published lower bound": (betas + far, [bound(b) for b in betas + far])}  # fmt: skip
    figure = plot_lines(
        {"flow": (betas, seen)}, "β", "log of the time in the doubled cap (SA clock)",
        f"Two clusters {angle:g} rad apart, masses {masses[0]:g} and {masses[1]:g}.", theory=curve,
    )  # fmt: skip
    return Finding([first, *rows], {"escape": figure})


def _log_escape(angle: float, turn: float, beta: float, masses: tuple[float, float]) -> float:
    """The first cluster has turned by `turn` when the angle has closed to a known value."""
    # Cluster 1 makes the share dθ_1/dφ of each bit of closing; solve for the angle left over.
    a, b = masses
    phi = np.linspace(angle, max(angle - 4 * turn, 1e-3), 20001)
    far = np.exp(-beta * (1 - np.cos(phi)))
    own, other = b * (b + a * far), a * (a + b * far)
    share = own / (own + other)
    done = np.concatenate([[0.0], np.cumsum((share[1:] + share[:-1]) / 2 * -np.diff(phi))])
    return log_merge_time(angle, beta, until=float(np.interp(turn, done, phi)), masses=masses)
