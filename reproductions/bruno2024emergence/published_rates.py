"""The growth rates drawn beside the particles."""

from __future__ import annotations

import numpy as np
from scipy.special import iv

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The growth rates drawn beside the particles",
    places=["authors' notebook: coefficients of the particle simulation"],
    claim="Mode k of the particles grows at the rate γ_k = k²I_k(β)/(πβ).",
    method=(
        "The notebook's particle system from evenly spaced tokens with one mode at a time "
        "displaced by 1e−5: growth of that mode over one e-folding."
    ),
    known="disagree",
    correction=(
        "The particles grow π times faster, at k²I_k(β)/β. The largest γ_k is at the same k, so "
        "that the numbers of clusters drawn from it (3 at β = 5, 4 at β = 7) stand."
    ),
    subject="rates",
    basis="code",
    limits=(
        "The notebook calls the numbers γ_k and does not say that they are rates of its particles; "
        "a factor π may belong to another convention of the text, which was not read."
    ),
    planted="flow.horizon * 1.1",
    settings={"betas": [5.0, 7.0], "modes": 8, "tokens": 960},
    fast={"modes": 5, "tokens": 240},
)


def published_rates(*, betas: list[float], modes: int, tokens: int) -> Finding:
    """The tokens are even but for the mode: no other mode is in the start."""
    rows, curves, theory, first = [], {}, {}, None
    degree = np.arange(1, modes + 1)
    for beta in betas:
        right = degree**2 * iv(degree, beta) / beta
        seen = []
        for k, rate in zip(degree, right, strict=True):
            even = 2 * np.pi * np.arange(tokens) / tokens
            theta = even + 1e-5 * np.sin(k * even)
            start = Points(np.stack([np.cos(theta), np.sin(theta)], axis=1))
            run = flow(start, SelfAttention(beta, normalized=False), 1 / rate, frames=2)
            moved = np.arctan2(run.points[..., 1], run.points[..., 0])
            size = [abs(np.mean(np.exp(-1j * k * row))) for row in moved]
            seen.append(float(np.log(size[1] / size[0]) * rate))
        worst = float(np.max(np.abs(np.array(seen) / right - 1)))
        factor = float(np.median(np.array(seen) / (right / np.pi)))
        if first is None:
            first = judge(f"β = {beta:g}: measured rates over the published γ_k",
                          "notebook", 1.0, factor, relative=0.01)  # fmt: skip
        rows.append(judge(f"β = {beta:g}: rates are k²I_k(β)/β, largest relative error", "derived",
                          0.0, worst, absolute=1e-3))  # fmt: skip
        best = int(degree[np.argmax(seen)])
        rows.append(holds(f"β = {beta:g}: the fastest mode", "notebook",
                          best == {5.0: 3, 7.0: 4}.get(beta, best), {5.0: 3, 7.0: 4}.get(beta),
                          best))  # fmt: skip
        curves[f"particles, β = {beta:g}"] = (degree, seen)
        theory[f"published γ_k, β = {beta:g}"] = (degree, right / np.pi)
        theory[f"k²I_k(β)/β, β = {beta:g}"] = (degree, right)
    figure = plot_lines(curves, "mode k", "growth rate (per USA time)",
                        "One mode at a time, from evenly spaced tokens.", theory=theory,
                        log="y")  # fmt: skip
    assert first is not None
    return Finding([first, *rows], {"rates": figure})
