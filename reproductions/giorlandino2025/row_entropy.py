"""Attention at random weights loses its entropy at the freezing point."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from reproductions.giorlandino2025._rows import mean_entropy, random_rows

ENTRY = Entry(
    title="Attention at random weights loses its entropy at the freezing point",
    places=["arXiv:2505.24333, abstract", "public code, Gain-controlled-propagation.ipynb"],
    claim=(
        "Rows of attention behave like a random energy model: beyond logits of variance 2 log n "
        "their entropy is of order one (entropy collapse), below it of the order of log n."
    ),
    method=(
        "Mean entropy of rows: from networks, from a quadrature that is exact at n Gaussian "
        "logits, and the limits log n − a²/2 and ψ(1) − ψ(1−√(2 log n)/a)."
    ),
    subject="random depth",
    basis="code",
    limits=(
        "The critical variance is the one in the public code; entropies are derived here. Close to "
        "the freezing point the limits are far off at any n one can run. "
        "Above it the first run took n = 10²⁴ as it is and was 0.3 off; now it is extrapolated."
    ),
    planted="random_rows.deviation * 1.3",
    settings={"tokens": 512, "width": 512, "ratios": [0.3, 0.6, 1.5, 2.5], "seeds": 8},
    fast={"tokens": 256, "width": 256, "seeds": 4},
)


def row_entropy(*, tokens: int, width: int, ratios: list[float], seeds: int) -> Finding:
    """Entropies at a = κ√(2 log n)."""
    rows, means, errors = [], [], []
    many = 1e24
    for ratio in ratios:
        large = ratio * np.sqrt(2 * np.log(many))
        if ratio < 1:
            limit, found = 1 - ratio**2, mean_entropy(large, many) / np.log(many)
            claim = f"κ = {ratio:g}: entropy over log n at n = 10²⁴"
        else:
            # The approach is like 1/log n, which halves when n is squared.
            limit = digamma(1) - digamma(1 - 1 / ratio)
            further = mean_entropy(ratio * np.sqrt(4 * np.log(many)), many**2)
            found = 2 * further - mean_entropy(large, many)
            claim = f"κ = {ratio:g}: entropy, extrapolated from n = 10²⁴ and 10⁴⁸"
        rows.append(judge(claim, "random energy model", float(limit), found, absolute=0.06))
    for ratio in ratios:
        deviation = ratio * np.sqrt(2 * np.log(tokens))
        found = []
        for seed in range(seeds):
            w = random_rows(tokens, width, deviation, seed)
            found.append(float(-np.sum(w * np.log(w + 1e-300), axis=1).mean()))
        mean, error = float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(seeds))
        exact = mean_entropy(deviation, tokens)
        # Keys and tokens of finite width: relative corrections a²/d of the logits' variance.
        bias = deviation**2 * (3 / width + 1 / tokens)
        rows.append(
            judge(f"κ = {ratio:g}: mean entropy of rows, n = {tokens}", "quadrature, derived",
                  exact, mean, absolute=4 * error + min(bias, 0.3))
        )  # fmt: skip
        means.append(mean / np.log(tokens))
        errors.append(error / np.log(tokens))
    fine = np.linspace(0.1, max(ratios), 25)
    series = [Series(f"networks, n = {tokens}", ratios, means, errors, style="points")]
    for n, name in ((tokens, f"exact, n = {tokens}"), (1e12, "exact, n = 10¹²")):
        exact = [mean_entropy(k * np.sqrt(2 * np.log(n)), n) / np.log(n) for k in fine]
        series.append(Series(name, fine, exact, role="theory"))
    series.append(Series("n = ∞", fine, np.maximum(1 - fine**2, 0), role="theory", dash="dashdot"))
    axes = Axis("κ, deviation of logits over √(2 log n)"), Axis("entropy of a row / log n")
    return Finding(rows, {"entropy": Lines(*axes, series)})
