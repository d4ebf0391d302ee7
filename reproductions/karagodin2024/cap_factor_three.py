"""The number of strong centres on S² carries a factor 3 too many."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding
from metastable.theory.causal import cap_measure
from reproductions.karagodin2024._centres import count_strong

ENTRY = Entry(
    title="Strong centres on S²: a factor 3",
    places=["Lemma C.1, case d = 3"],
    claim="On S² the mean number of strong centres at separation δ tends to 1/(3 sin²(δ/2)).",
    method=(
        "Count strong centres of long random sequences on S², and compare with the printed value "
        "and with one over the measure of the cap."
    ),
    known="disagree",
    correction=(
        "The cap of radius δ has measure (1 − cos δ)/2 = sin²(δ/2), so that the limit is "
        "1/sin²(δ/2): at δ = π the cap is the whole sphere and one token remains, not a third."
    ),
    subject="causal",
    basis="report",
    limits=(
        "The printed value is quoted from two independent public readings of version 2, which "
        "both have the factor; the paper itself was not at hand."
    ),
    implies=("strong_centre_counts",),
    planted="count_strong.angle * 1.1",
    settings={"angles": [0.4, 0.5, 0.8, 1.2, 2.0], "tokens": 400, "samples": 2000},
    fast={"angles": [0.5, 0.8, 1.2], "tokens": 250, "samples": 200},
)


def cap_factor_three(*, angles: list[float], tokens: int, samples: int) -> Finding:
    """Counts against both values; the smallest angle needs (1−p)^n to be small."""
    found = np.array([count_strong(samples, tokens, 3, angle, seed=3) for angle in angles])
    printed = [1 / (3 * math.sin(angle / 2) ** 2) for angle in angles]
    right = [1 / math.sin(angle / 2) ** 2 for angle in angles]
    rows = [
        judge(f"strong centres on S² at δ = {angles[0]:g}, as printed", "Lemma C.1", printed[0],
              float(found[0, 0]), absolute=4 * float(found[0, 1]))
    ]  # fmt: skip
    for angle, (mean, error), limit in zip(angles, found, right, strict=True):
        missed = limit * math.exp(tokens * math.log1p(-1 / limit))  # centres still to come
        rows.append(judge(f"one over the cap's measure, δ = {angle:g}", "derived", limit,
                          float(mean), absolute=4 * float(error) + missed))  # fmt: skip
    rows.append(judge("measure of the cap of radius π", "derived", 1.0, cap_measure(math.pi, 3),
                      absolute=1e-12))  # fmt: skip
    across = np.linspace(min(angles), max(angles), 80)
    laws = {
        "1/sin²(δ/2)": (across, np.sin(across / 2) ** -2.0),
        "printed": (across, np.sin(across / 2) ** -2.0 / 3),
    }
    figure = plot_lines(
        {"counted": (angles, *found.T)}, "separation δ (radians)", "strong centres on S²",
        f"Mean over {samples} sequences of {tokens} tokens.", theory=laws, log="y",
    )  # fmt: skip
    return Finding(rows, {"counts": figure})
