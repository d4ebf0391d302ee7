"""Strong centres stop growing in number with the length of the sequence."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.causal import separation, strong_centres
from reproductions._slopes import fitted_slope
from reproductions.karagodin2024._centres import count_strong

ENTRY = Entry(
    title="Strong centres stop growing in number",
    places=["Lemma C.1", "§5.1"],
    claim=(
        "The mean number of tokens farther than δ from all earlier ones tends to one over the "
        "measure of a cap of radius δ, however long the sequence, so that with δ of order "
        "β^(−1/2) it is of order β^((d−1)/2)."
    ),
    method=(
        "Count such tokens in random sequences by brute force and compare with "
        "(1−(1−p)^n)/p, the sum of the chances (1−p)^(k−1); fit the growth with β."
    ),
    subject="causal",
    basis="report",
    limits="Uniform independent tokens only; the exponent is fitted over one decade of β.",
    planted="count_strong.angle * 1.1",
    settings={
        "dims": [2, 3, 4],
        "lengths": [10, 40, 160, 640],
        "betas": [32.0, 64.0, 128.0, 256.0],
        "samples": 2000,
    },
    fast={"dims": [2, 3], "lengths": [10, 40, 160], "samples": 300},
)


def strong_centre_counts(
    *, dims: list[int], lengths: list[int], betas: list[float], samples: int
) -> Finding:
    """Counts against the sum of chances, and against a power of β."""
    rows, curves, laws = [], {}, {}
    for dim in dims:
        angle = separation(64.0)
        found = [count_strong(samples, n, dim, angle, seed=n) for n in lengths]
        for n, (mean, error) in zip(lengths, found, strict=True):
            claim = f"strong centres among {n} tokens, d = {dim}, δ = {angle:g}"
            rows.append(judge(claim, "Lemma C.1", strong_centres(angle, dim, n), mean,
                              absolute=4 * error))  # fmt: skip
        curves[f"d = {dim}"] = (lengths, *np.array(found).T)
        across = np.geomspace(min(lengths), 4 * max(lengths), 60)
        laws[f"law, d = {dim}"] = (across, [strong_centres(angle, dim, n) for n in across])
    # Sequences long enough for the last β: chance below 1e−3 that one more token is a centre.
    for dim in dims[:2]:
        counts = np.array([
            count_strong(max(20, samples // 5), 100 * dim * (dim - 1), dim, separation(b), seed=7)
            for b in betas
        ])  # fmt: skip
        slope = fitted_slope(np.log(betas), np.log(counts[:, 0]))
        error = float(np.max(counts[:, 1] / counts[:, 0])) / np.std(np.log(betas))
        claim = f"exponent of the count in β, d = {dim}"
        rows.append(judge(claim, "§5.1", (dim - 1) / 2, slope, absolute=float(0.05 + 2 * error)))
    figure = plot_lines(
        curves, "tokens n", "strong centres", f"Mean over {samples} sequences at β = 64, c = 4.",
        theory=laws, log="xy",
    )  # fmt: skip
    return Finding(rows, {"counts": figure})
