"""Random tokens in one hemisphere."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.measures import Points
from metastable.observe import hemisphere
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.hemisphere import wendel_probability

from ._starts import uniform_starts

ENTRY = Entry(
    title="Random tokens in one hemisphere",
    places=["Theorem 6"],
    claim=(
        "n uniform tokens on the sphere lie in one open hemisphere, and so form one cluster, "
        "with probability 2^−(n−1) Σ C(n−1, k), the sum over k = 1 to d − 1."
    ),
    method=(
        "Draw random starts, decide by nonnegative least squares whether a hemisphere holds "
        "them, and compare the share with both sums."
    ),
    known="disagree",
    correction=(
        "The sum starts at k = 0 (Wendel 1962): without its first term the probability for n "
        "≤ d would be below 1."
    ),
    subject="existence",
    basis="text",
    limits=(
        "Seven sizes up to 16 tokens in d = 8, 2000 starts each; that tokens of a hemisphere "
        "end as one cluster is not run here."
    ),
    planted="uniform_starts.dim + 1",
    settings={"sizes": [[3, 2], [4, 2], [6, 2], [6, 3], [10, 3], [12, 4], [16, 8]], "draws": 2000},
    fast={"draws": 400},
)


def wendel(*, sizes: list[list[int]], draws: int) -> Finding:
    """How often random tokens share a hemisphere, against the formula as printed and as proved."""
    seen, proved = [], []
    for tokens, dim in sizes:
        starts = uniform_starts(draws, tokens, dim)
        seen.append(np.mean([bool(hemisphere(Points(start))) for start in starts]))
        proved.append(wendel_probability(dim=dim, tokens=tokens))
    # The printed sum starts at k = 1 and so loses its first term, 2^{−(n−1)}.
    printed = np.array(proved) - [0.5 ** (tokens - 1) for tokens, _ in sizes]
    error = np.sqrt(np.array(proved) * (1 - np.array(proved)) / draws)
    off = [np.abs((np.array(seen) - law) / error).max() for law in (printed, np.array(proved))]
    rows = [
        holds(
            f"share of random starts in one hemisphere, the sum from k = {first}",
            source,
            distance < 4,
            "within 4 standard errors",
            f"{distance:.1f} standard errors off",
        )
        for first, source, distance in zip(
            (1, 0), ("Theorem 6", "wendel1962problem"), off, strict=True
        )
    ]
    order = np.arange(len(sizes))
    figure = plot_lines(
        {"random starts": (order, seen, error)},
        Axis("size (n, d)", places=order.tolist(), names=[f"({n}, {d})" for n, d in sizes]),
        "share in one hemisphere",
        f"Share of {draws} random starts that lie in one open hemisphere.",
        theory={"sum from k = 0": (order, proved), "as printed, from k = 1": (order, printed)},
    )
    return Finding(rows, {"shares": figure})
