"""Weak noise leaves one cluster, noise beyond ε² of order e^{−β} two."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import RandomValue, SelfAttention
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from reproductions._random_depth import many_runs, mean_with_error, pair_at

ENTRY = Entry(
    title="Weak noise leaves one cluster, noise beyond ε² of order e^{−β} two",
    places=["arXiv:2601.21942, Proposition 1, as a review states it"],
    claim=(
        "With unnormalised attention at fixed values and noise of size ε beside it, two opposite "
        "tokens repel or attract by the side of 2e^{−β} on which ε² lies."
    ),
    method=(
        "Attention at the paper's clock (a sum without 1/n) and a common random matrix that acts "
        "on each token itself; rate of log(1+ρ) near the antipode, 4e^{−β} − 2ε²."
    ),
    subject="random depth",
    basis="derived",
    limits=(
        "A review names the threshold and not the noise; the noise here is the one for which we "
        "derive that threshold. Rates at the antipode only, not shares of ends."
    ),
    planted="RandomValue.scale * 1.5",
    settings={"dim": 4, "beta": 1.5, "factors": [0.25, 0.5, 1.0, 2.0, 4.0], "samples": 4000},
    fast={"factors": [0.5, 2.0], "samples": 1000},
)


def hybrid_threshold(*, dim: int, beta: float, factors: list[float], samples: int) -> Finding:
    """Rate of log(1+ρ) from 1 + ρ = 10⁻⁸, at ε² of some factors times 2e^{−β}."""
    threshold, rows, rates, errors = 2 * math.exp(-beta), [], [], []
    # A mean over two tokens is half the paper's sum, so that values of size 2 keep its clock.
    force = SelfAttention(beta, value=2.0, normalized=False)
    start = pair_at(-1 + 1e-8, dim)
    for factor in factors:
        square = factor * threshold
        field = RandomValue(None, scale=math.sqrt(square))
        horizon, step = 2.0 / (square + threshold), 0.005 / (square + threshold)
        x = many_runs(field, start, [horizon], samples=samples, step=step, force=force)[0]
        off = np.log(np.sum((x[:, 0] + x[:, 1]) ** 2, axis=1) / 2e-8)
        rate, error = (v / horizon for v in mean_with_error(off))
        exact = 2 * threshold - 2 * square
        claim = f"ε² = {factor:g} · 2e^{{−β}}: rate of log(1+ρ) at the antipode"
        # Steps of length h have a bias of relative order h (ε² + 2e^{−β}) = 0.005.
        bias = 0.01 * 2 * (threshold + square)
        rows.append(judge(claim, "derived", exact, rate, absolute=4 * error + bias))
        if factor != 1:
            word = "repel" if factor < 1 else "attract"
            rows.append(holds(f"opposite tokens {word}", "Proposition 1",
                              (rate > 0) == (factor < 1), exact, rate))  # fmt: skip
        rates.append(rate)
        errors.append(error)
    fine = np.linspace(0, max(factors), 50)
    series = [
        Series("runs", factors, rates, errors, style="points"),
        Series("4e^{−β} − 2ε²", fine, 2 * threshold * (1 - fine), role="theory"),
    ]
    axes = Axis("ε² / 2e^{−β}"), Axis("rate of log(1+ρ) (USA clock without 1/n)")
    caption = f"Two tokens, d = {dim}, β = {beta:g}."
    return Finding(rows, {"rates": Lines(*axes, series, caption=caption)})
