"""Limits have at most half the rank."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.measures import Gaussian
from metastable.report.figures.plain import plot_bars
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Limits have at most half the rank",
    places=["arXiv:2501.18322, histograms of ranks", "public scripts, histograms, softmax"],
    claim=(
        "With a random Q of ⌊d/2⌋ rows, K = −Q and V = I or V = GᵀG, covariances that converge "
        "have a limit of rank at most ⌈d/2⌉."
    ),
    method=(
        "Random matrices and starts as in the scripts, run to a time at which decaying variances "
        "are below the threshold; count variances above it. For V = I the limit itself is compared "
        "with the part of Σ_0 seen through Q: Σ_0 − Σ_0Qᵀ(QΣ_0Qᵀ)⁻¹QΣ_0."
    ),
    subject="Gaussian",
    basis="code",
    limits=(
        "The threshold is 0.1, that of the scripts; adaptive steps in the place of projected Euler "
        "steps. Runs with so small a V or Q that decaying variances are still above it are not "
        "judged: at first they were, and 10 of 360 had a rank above ⌈d/2⌉. Softmax only, "
        "dimensions 3 to 5; ranks for V = GᵀG are bounded, not predicted."
    ),
    planted="SelfAttention.key * -1.0",
    settings={"dims": [3, 4, 5], "draws": 60, "horizon": 2000.0},
    fast={"dims": [3], "draws": 8, "horizon": 1000.0},
)


def limit_ranks(*, dims: list[int], draws: int, horizon: float) -> Finding:
    """Ranks of limit covariances for V = I and V = GᵀG."""
    over, runs, slow, off = 0, 0, 0, 0.0
    bars: dict[str, list] = {}
    for dim in dims:
        half = -(-dim // 2)
        ranks: dict[str, list[int]] = {"V = I": [], "V = GᵀG": []}
        for seed in range(draws):
            random = np.random.default_rng([dim, seed])
            Q = random.standard_normal((dim // 2, dim))
            G, root = random.standard_normal((2, dim, dim))
            cov = root @ root.T
            start = Gaussian(np.zeros(dim), cov)
            for name, value in (("V = I", np.eye(dim)), ("V = GᵀG", G.T @ G)):
                head = SelfAttention(dim**-0.5, query=Q, key=-Q, value=value)
                end = flow(start, head, horizon, frames=2).frames[-1]
                # The decaying variances fall like √d/(2tvq²), v and q² the least of V and QQᵀ.
                least = np.linalg.eigvalsh(value)[0] * np.linalg.eigvalsh(Q @ Q.T)[0]
                if np.sqrt(dim) / (2 * horizon * least) > 0.1:
                    slow += 1
                    continue
                ranks[name].append(int(np.sum(end.eigenvalues > 0.1)))
                if name == "V = I":
                    seen = Q @ cov
                    limit = cov - seen.T @ np.linalg.solve(Q @ seen.T, seen)
                    off = max(off, np.linalg.norm(end.cov - limit) / np.linalg.norm(cov))
        runs += sum(len(found) for found in ranks.values())
        over += sum(rank > half for found in ranks.values() for rank in found)
        for name, found in ranks.items():
            bars[f"d = {dim}, {name}"] = [found.count(k) / max(len(found), 1) for k in range(6)]
    rows = [
        holds("runs whose limit has a rank above ⌈d/2⌉", "histograms", over == 0 < runs,
              f"0 of {runs}", f"{over} of {runs}; {slow} not judged"),
        # What is left decays like √d/(2t) over the squared size of Q: 0.05 leaves room.
        judge("V = I: distance of the last covariance from the limit, relative to Σ_0, worst",
              "derived", 0.0, float(off), absolute=0.05),
    ]  # fmt: skip
    figure = plot_bars(
        range(6), bars, "rank of the limit", "share of runs",
        f"Rank (variances above 0.1) of the covariance at t = {horizon:g} (SA clock).",
    )  # fmt: skip
    return Finding(rows, {"ranks": figure})
