"""Theorems that promise one cluster."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.measures import uniform
from metastable.observe import hemisphere
from metastable.reproduce.finding import Finding, holds
from metastable.theory.hemisphere import wendel_probability

__all__ = ["wendel"]


def wendel(*, sizes: list[list[int]], draws: int) -> Finding:
    """How often random tokens share a hemisphere, against the formula as printed and as proved."""
    from metastable.report.plots import draw_lines

    seen, proved, printed = [], [], []
    for tokens, dim in sizes:
        found = [bool(hemisphere(uniform(tokens, dim, seed))) for seed in range(draws)]
        seen.append(np.mean(found))
        proved.append(wendel_probability(tokens, dim))
        # The printed sum starts at k = 1 and so loses its first term, 2^{−(n−1)}.
        printed.append(proved[-1] - 0.5 ** (tokens - 1))
    error = np.sqrt(np.array(proved) * (1 - np.array(proved)) / draws)
    sigmas = lambda law: float(np.abs((np.array(seen) - law) / np.maximum(error, 1e-3)).max())
    rows = [
        holds(
            "the probability, its sum started at k = 1",
            "Theorem 6",
            sigmas(np.array(printed)) < 4,
            "within 4 standard errors",
            f"{sigmas(np.array(printed)):.1f}",
        ),
        judge("the same, started at k = 0: standard errors off", "wendel1962problem", 0.0,
              sigmas(np.array(proved)), absolute=4.0),
    ]  # fmt: skip
    order = np.arange(len(sizes))
    figure = draw_lines(
        {"random starts": (order, seen, error)},
        "size (n, d)",
        "share in one hemisphere",
        f"Share of {draws} random starts that lie in one open hemisphere.",
        theory={"from k = 0": (order, proved), "from k = 1": (order, printed)},
    )
    figure.axes[0].set_xticks(order, [f"({n}, {d})" for n, d in sizes])
    return Finding(rows, {"shares": figure})
