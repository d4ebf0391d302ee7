"""The scale of β grows like n^{2/(d−1)}."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.measures import uniform
from metastable.observe.context import attention_rows
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.context import row_law
from reproductions._slopes import fitted_slope

ENTRY = Entry(
    title="The critical β grows like n^(2/(d−1))",
    places=["arXiv:2605.08505, abstract"],
    claim=(
        "For uniform keys on S^(d−1) the β at which attention turns from an average into a "
        "choice grows like n^(2/(d−1)): n² on the circle, n on S², n^(2/3) on S³."
    ),
    method=(
        "Sampled rows without the token itself; β at which half of Σw² = 1 is reached, by "
        "bisection in log β on the same rows, for growing n; its slope in log n."
    ),
    subject="long context",
    basis="abstract",
    limits=(
        "The level 1/2 is a convention; dimensions 2 to 6. In higher dimensions the exponent is "
        "reached late, which the tolerance allows for."
    ),
    implies=("critical_window",),
    planted="uniform.dim + 1",
    settings={"dims": [2, 3, 4, 6], "sizes": [1000, 4000, 16000, 64000], "rows": 1000},
    fast={"dims": [2, 3], "sizes": [500, 4000], "rows": 250},
)


def critical_exponent(*, dims: list[int], sizes: list[int], rows: int) -> Finding:
    """Slopes of log β at half participation."""
    verdicts, curves, laws = [], {}, {}
    for dim in dims:
        found = []
        for n in sizes:
            measure = uniform(n, dim, seed=n + dim)
            low, high = 0.0, math.log(1e3 * n ** (2 / (dim - 1)))
            for _ in range(10):
                middle = (low + high) / 2
                sample = attention_rows(measure, math.exp(middle), rows=rows, own=False)
                reached = sample.mean["participation"] > 0.5
                low, high = (low, middle) if reached else (middle, high)
            found.append((low + high) / 2)
        slope = fitted_slope(np.log(sizes), found)
        # Σw² of a row spreads by at most 1/2, and changes by some 0.2 for a unit of log β.
        error = 0.5 / math.sqrt(rows) / 0.2 / (np.std(np.log(sizes)) * math.sqrt(len(sizes)))
        allowed = float(2 * error + 0.04)
        claim = f"exponent of the critical β in n, d = {dim}"
        verdicts.append(judge(claim, "bruno2026scaling", 2 / (dim - 1), slope, absolute=allowed))
        scale = math.exp(found[-1]) / sizes[-1] ** (2 / (dim - 1))
        claim = f"β n^(−2/(d−1)) at half participation is of order one, d = {dim}, log"
        verdicts.append(judge(claim, "bruno2026scaling", 0.0, math.log(scale), absolute=4.0))
        curves[f"d = {dim}"] = (sizes, np.exp(found))
        across = np.array([sizes[0], sizes[-1]], float)
        laws[f"n^(2/{dim - 1})"] = (across, scale * across ** (2 / (dim - 1)))
    # The exact law of a row with itself, for the same question at one size.
    measure = uniform(sizes[0], 3, seed=1)
    beta = 2.0 * sizes[0]
    sample = attention_rows(measure, beta, rows=rows)
    verdicts.append(
        judge("Σw² with the token itself on S² at β = 2n", "derived",
              row_law(beta, 3, sizes[0]).participation, float(sample.mean["participation"]),
              absolute=4 * float(sample.error["participation"]))
    )  # fmt: skip
    figure = plot_lines(
        curves, "tokens n", "β at which Σw² = 1/2 in the mean",
        f"{rows} rows among uniform tokens, without the token itself.", theory=laws, log="xy",
    )  # fmt: skip
    return Finding(verdicts, {"scales": figure})
