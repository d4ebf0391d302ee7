"""Tokens first move onto the leading eigenspace of V."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.linalg import expm

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Tokens first move onto the leading eigenspace of V",
    places=["arXiv:2509.25040, abstract and Section 3: the alignment phase"],
    claim=(
        "For large β and many tokens the first phase is that of single tokens under V, "
        "x(t) ∝ e^{tV}x(0): they gather on the leading eigenspace of V in a time of order 1."
    ),
    method=(
        "Evenly spread tokens on S² under a symmetric V with a double top eigenvalue, several β: "
        "the largest distance from e^{tV}x/|e^{tV}x|, and the decay of the part off the eigenspace."
    ),
    subject="long context",
    basis="report",
    limits=(
        "One V, Q = K = I, n/β large at every β; later the density itself grows steep. The order "
        "1/β of the difference is ours: the velocity at x is Vx up to how the density varies over "
        "β^{−1/2}."
    ),
    planted="flow.horizon * 1.15",
    settings={"tokens": 4000, "betas": [20.0, 40.0, 80.0, 160.0], "values": [1.0, 1.0, -0.5],
              "horizon": 0.8, "seed": 1},
    fast={"tokens": 700, "betas": [20.0, 40.0]},
)  # fmt: skip


def alignment_phase(
    *, tokens: int, betas: list[float], values: list[float], horizon: float, seed: int
) -> Finding:
    """V is turned, so that no axis is special."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    V = turn @ np.diag(values) @ turn.T
    start, low = _even(tokens), turn[:, 2]
    alone = np.asarray(start.points) @ expm(horizon * V)
    alone /= np.linalg.norm(alone, axis=1, keepdims=True)
    # Points next to the two poles of the low direction, where e^{tV} tears, are left out.
    away = np.abs(np.asarray(start.points) @ low) < 0.8
    off, curves = [], {}
    for beta in betas:
        run = flow(start, SelfAttention(beta, value=V), horizon, frames=5)
        end = run.points[-1]
        off.append(float(np.sqrt(np.mean(np.sum((end - alone)[away] ** 2, axis=1)))))
        part = run.points @ low
        slope = np.abs(part) / np.sqrt(1 - part**2)
        curves[f"β = {beta:g}"] = (run.times, np.exp(np.log(slope[:, away]).mean(1)))
    order = -float(np.polyfit(np.log(betas), np.log(off), 1)[0])
    gap = values[0] - values[2]
    rate = -float(np.log(curves[f"β = {betas[-1]:g}"][1][-1] / curves[f"β = {betas[-1]:g}"][1][0]))
    rows = [
        holds("the difference from e^{tV}x falls with β at every step", "Section 3",
              all(a > b for a, b in itertools.pairwise(off)), "falls",
              " > ".join(f"{x:.3g}" for x in off)),
        holds("and is small at the largest β", "Section 3", off[-1] < 0.1, "below 0.1",
              f"{off[-1]:.3g}"),
        judge("its order in 1/β", "derived", 1.0, order, absolute=0.35),
        judge("the part off the eigenspace falls like e^{−(λ_1−λ_3)t}, exponent", "derived",
              gap * horizon, rate, relative=0.08),
    ]  # fmt: skip
    figure = plot_lines(
        curves, "time t (SA clock)", "tangent of the angle to the eigenspace",
        f"Geometric mean over {tokens} tokens; dashed: single tokens under V.", log="y",
        theory={"e^(−(λ_1−λ_3)t)": (run.times, curves[f"β = {betas[-1]:g}"][1][0]
                                    * np.exp(-gap * run.times))},
    )  # fmt: skip
    return Finding(rows, {"angle": figure})


def _even(tokens: int) -> Points:
    """A golden spiral: as uniform as so many tokens can be, without the noise of a sample."""
    k = np.arange(tokens)
    z, phi = 1 - (2 * k + 1) / tokens, np.pi * (1 + 5**0.5) * k
    r = np.sqrt(1 - z * z)
    return Points(np.stack([r * np.cos(phi), r * np.sin(phi), z], axis=1))
