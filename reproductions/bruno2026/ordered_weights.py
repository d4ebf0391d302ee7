"""The largest weights in the critical window are those of a Poisson process."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from metastable.core.verdict import judge
from metastable.measures import uniform
from metastable.report.figures.plain import plot_histograms
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.context import cap_constant, critical_beta, window_law

ENTRY = Entry(
    title="Ordered weights in the critical window",
    places=["arXiv:2605.08505, abstract: laws of ordered weights"],
    claim=(
        "At β = λ n^(2/(d−1)) the ordered weights of a fixed query converge in law to those of "
        "finitely many nearest keys: w_i ∝ exp(−(λ/2)(Γ_i/K_d)^(2/(d−1))) with Γ_i the arrivals "
        "of a unit Poisson process; no single key takes all."
    ),
    method=(
        "Softmax weights of random keys against draws of the limit: two-sample tests of the "
        "first and second weight, and their means; the mean of the first also by quadrature."
    ),
    subject="long context",
    basis="report",
    limits=(
        "The form of the limit is derived here (abstract and a review were read); two "
        "dimensions, one λ each, one n large enough that its error is below the sampling error. A "
        "first bound on the median second weight was replaced by the last row after it failed on "
        "the circle, where weights are more unequal."
    ),
    implies=("critical_window",),
    planted="critical_beta * 1.3",
    settings={"dims": [2, 3, 4], "keys": 20000, "queries": 4000, "scale": 0.6},
    fast={"dims": [2, 3], "keys": 4000, "queries": 1500},
)


def ordered_weights(*, dims: list[int], keys: int, queries: int, scale: float) -> Finding:
    """First and second weights of rows and of the limit."""
    rows, samples = [], {}
    for dim in dims:
        beta = critical_beta(dim, keys, scale)
        seen = _sampled(dim, keys, queries, beta)
        limit = _limit(dim, queries, scale)
        for k, name in enumerate(("largest", "second")):
            test: Any = ks_2samp(seen[:, k], limit[:, k])
            p = float(test.pvalue)
            claim = f"{name} weight, d = {dim}: two-sample test against the limit"
            rows.append(holds(claim, "bruno2026scaling", p > 1e-3, "p > 0.001", f"p = {p:.3f}"))
        law = window_law(scale, dim, own=False).largest
        error = float(seen[:, 0].std() / math.sqrt(queries))
        rows.append(judge(f"mean of the largest weight, d = {dim}", "derived", law,
                          float(seen[:, 0].mean()), absolute=4 * error))  # fmt: skip
        shares = [float((w[:, 1] > 0.05).mean()) for w in (limit, seen)]
        error = math.sqrt(2 * shares[0] * (1 - shares[0]) / queries)
        claim = f"share of queries whose second key has 5 % or more, d = {dim}"
        rows.append(judge(claim, "bruno2026scaling", shares[0], shares[1], absolute=4 * error))
        samples[f"rows, d = {dim}"] = seen[:, 0]
        samples[f"limit, d = {dim}"] = limit[:, 0]
    figure = plot_histograms(
        samples, "largest weight", f"{queries} queries, {keys} keys, λ = {scale:g}.", bins=24
    )
    return Finding(rows, {"weights": figure})


def _sampled(dim: int, keys: int, queries: int, beta: float) -> np.ndarray:
    """Two largest weights; keys are drawn anew for each query, by their cosines with it alone."""
    found = []
    for seed in range(queries // 100):
        cosines = np.asarray(uniform(100 * keys, dim, seed=seed).points[:, 0]).reshape(100, keys)
        logit = beta * (cosines - cosines.max(axis=1, keepdims=True))
        weight = np.exp(logit)
        top = -np.partition(-weight, 1, axis=1)[:, :2]
        found.append(top / weight.sum(axis=1, keepdims=True))
    return np.concatenate(found)


def _limit(dim: int, queries: int, scale: float, arrivals: int = 600) -> np.ndarray:
    """Two largest weights of the limit, of so many arrivals."""
    gaps = np.random.default_rng(dim).exponential(size=(queries, arrivals))
    far = (gaps.cumsum(axis=1) / cap_constant(dim)) ** (2 / (dim - 1))
    weight = np.exp(-scale / 2 * (far - far[:, :1]))
    return weight[:, :2] / weight.sum(axis=1, keepdims=True)
