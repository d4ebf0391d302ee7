"""Why the theorems say almost every start."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.observe.equilibria import equilibrium
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="Why the theorems say almost every start",
    places=["Theorem 6.3, the exceptional set"],
    claim=(
        "Two opposite tokens rest for ever at every β, so that no theorem of one cluster can "
        "speak of every start; but they are a saddle."
    ),
    method=(
        "Speed at the antipode; the growth rate 2/(e^{2β} + 1) from the Jacobian, for unequal "
        "groups too; the time from an angle ε off the antipode to a right angle by quadrature."
    ),
    subject="existence",
    basis="report",
    limits="Softmax attention with Q = K = V = I; two antipodal groups only, no other saddles.",
    planted="SelfAttention.beta * 1.2",
    settings={"beta": 1.0, "offsets": [0.1, 0.03, 0.01, 0.003, 0.001], "groups": [[1, 3], [2, 2]]},
    fast={"offsets": [0.1, 0.01, 0.001], "groups": [[1, 3]]},
)


def antipodal_saddle(*, beta: float, offsets: list[float], groups: list) -> Finding:
    """Opposite tokens rest; slightly turned they leave at the rate of the linearisation."""
    field = SelfAttention(beta)
    pair = lambda angle: Points(np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]]))
    speed = float(np.abs(np.asarray(field.velocity(Points(np.array([[1.0, 0], [-1.0, 0]]))))).max())
    rows = [judge("speed of two opposite tokens", "Theorem 6.3", 0.0, speed, absolute=1e-14)]
    for first, second in [[1, 1], *groups]:
        a, b = first / (first + second), second / (first + second)
        up, down = np.exp(beta), np.exp(-beta)
        rate = b * down / (a * up + b * down) + a * down / (b * up + a * down)
        points = np.array([[1.0, 0.0]] * first + [[-1.0, 0.0]] * second)
        found = equilibrium(Points(points), field).rate
        rows.append(judge(f"growth rate at the antipode, groups of {first} and {second}",
                          "derived", rate, found, relative=1e-9))  # fmt: skip
    expected, measured = [], []
    for offset in offsets:
        # φ̇ = −2 sin φ/(1 + e^{β(1 − cos φ)}).
        slowness = lambda x: (1 + np.exp(beta * (1 - np.cos(x)))) / (2 * np.sin(x))
        expected.append(quad(slowness, np.pi / 2, np.pi - offset, epsabs=1e-10, limit=200)[0])
        run = flow(pair(np.pi - offset), field, 8.0 * np.exp(2 * beta), frames=2001)
        cosine = np.array([frame.points[0] @ frame.points[1] for frame in run.frames])
        measured.append(float(np.interp(0.0, cosine, run.times)))
        # Frames lie horizon/2000 apart; between them the cosine is nearly straight.
        rows.append(judge(f"time from {offset:g} off the antipode to a right angle", "derived",
                          expected[-1], measured[-1], relative=1e-3))  # fmt: skip
    figure = plot_lines(
        {"tokens": (offsets, measured)}, "angle ε off the antipode",
        "time to a right angle (SA clock)",
        f"Two tokens, β = {beta:g}: they wait ½(exp 2β + 1) log(1/ε). Dashed: quadrature.",
        theory={"quadrature": (offsets, expected)}, log="x",
    )  # fmt: skip
    return Finding(rows, {"waiting": figure})
