"""Tokens of one cap fall together in a time of order β."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import caps
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.metastability import cross_alignment, metastability_bounds

ENTRY = Entry(
    title="Tokens of one cap fall together in a time of order β",
    places=["Section 2, main theorem, upper bound on T_1"],
    claim=(
        "From a separated start all tokens of one cap are within a squared distance 2e^{−λβ} "
        "after a time that grows like β, at most 2n e^{8εβ} + e n λβ²/(β−1)."
    ),
    method=(
        "Three orthogonal caps on the sphere, several β: the first time at which the widest cap "
        "is that narrow, against the bound and against λβ/2 plus a constant."
    ),
    subject="metastability",
    basis="report",
    limits=(
        "Three caps at right angles in d = 3 with λ = 0.3; caps shrink with β (8εβ = 1), so that "
        "the exponential in the bound stays a constant. The slope λ/2 is derived here."
    ),
    planted="SelfAttention.value = 1.3",
    settings={"betas": [60.0, 80.0, 100.0, 140.0, 200.0], "each": 12, "rate": 0.3},
    fast={"betas": [60.0, 100.0, 160.0], "each": 6},
)


def collapse_in_caps(*, betas: list[float], each: int, rate: float) -> Finding:
    """Near its mean a token approaches it like e^{−t} (SA clock), whatever β."""
    tokens, took, bounds, widths = 3 * each, [], [], {}
    for beta in betas:
        epsilon = 1 / (8 * beta)
        alpha = cross_alignment(math.pi / 2, epsilon)
        bound = metastability_bounds(beta, tokens, epsilon, alpha, rate=rate)
        # A cap of height ε has the angular radius arccos(1 − ε).
        start = caps(each, np.eye(3), math.acos(1 - epsilon), seed=3)
        run = flow(start, SelfAttention(beta), 0.6 * rate * beta + 6, frames=600)
        groups = run.points.reshape(len(run.times), 3, each, 3)
        apart = groups[:, :, :, None] - groups[:, :, None]
        width = np.maximum(np.square(apart).sum(-1).max((1, 2, 3)), 1e-30)
        took.append(float(np.interp(rate * beta - math.log(2), -np.log(width), run.times)))
        bounds.append(math.exp(bound.log_collapse) if bound else math.nan)
        widths[f"β = {beta:g}"] = (run.times, width)
    slope = float(np.polyfit(betas, took, 1)[0])
    rows = [
        holds(
            f"β = {beta:g}: narrow before the bound on T_1", "main theorem", seen < bound,
            f"below {bound:.4g}", f"{seen:.4g}",
        )
        for beta, seen, bound in zip(betas, took, bounds, strict=True)
    ]  # fmt: skip
    # Widths start at about 4ε = 1/(2β): the offset −log(β)/2 has the slope −1/(2β) in β.
    offset = -float(np.polyfit(betas, 0.5 * np.log(betas), 1)[0])
    rows.append(
        judge("T_1 grows like λβ/2 − log(β)/2 in β: slope", "derived", rate / 2 + offset, slope,
              relative=0.05)
    )  # fmt: skip
    figure = plot_lines(
        widths, "time t (SA clock)", "largest squared distance in a cap",
        f"Three caps of {each} tokens each; straight lines fall like e^(−2t).",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"widths": figure})
