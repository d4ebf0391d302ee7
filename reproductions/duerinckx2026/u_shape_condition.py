"""When the profile is a U, and what comes after."""

from __future__ import annotations

import math

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.retrieval import critical_retrieval_time, least_retrieved, retrieval_law

ENTRY = Entry(
    title="When the retrieval profile is a U",
    places=["Theorem on the U shape and its smallness condition"],
    claim=(
        "If t sup_n a_n ≤ min(3 − √3, 2(1 − e^(−λ))), the profile grows without bound at the "
        "first tokens, rises at the last one, and has one minimum between."
    ),
    method=(
        "Count minima of the closed form on a fine grid over slopes and strengths c = at of one "
        "mode, up to the condition and beyond; second difference at the last token at 3 − √3."
    ),
    subject="long context",
    basis="report",
    limits=(
        "One mode, or two modes of one head; minima nearer than a grid step are not told apart. "
        "What happens beyond the condition is derived here."
    ),
    planted="retrieval_law.strengths * 1.1",
    settings={"slopes": [0.1, 0.3, 1.0, 2.0, 5.0, 10.0], "grid": 20000},
    fast={"slopes": [0.3, 1.0, 5.0], "grid": 4000},
)
CURVED = 3 - math.sqrt(3)


def u_shape_condition(*, slopes: list[float], grid: int) -> Finding:
    """Minima, primacy and recency up to the condition; the end of the U beyond it."""
    s = np.linspace(1 / grid, 1.0, grid)
    wells, rising, primacy, curves = [], [], [], {}
    for slope in slopes:
        edge = min(CURVED, critical_retrieval_time(slope, 1.0))
        for c in edge * np.array([0.1, 0.5, 0.9, 0.999]):
            # Two modes with weights, the second slower: the condition concerns the largest.
            for strengths, weights in ((c, 1.0), ([c, 0.4 * c], [1.0, 0.3])):
                g = retrieval_law(s, slope, strengths, weights)
                wells.append(_wells(g))
                rising.append(bool(g[-1] > g[-2]))
                far = retrieval_law([1e-9, 1e-7, 1e-5], slope, strengths, weights)
                primacy.append(bool(np.all(np.diff(far) < 0)))
    rows = [
        holds("one minimum, within the condition", "report", set(wells) == {1}, "1 in all cases",
              f"{sorted(set(wells))} in {len(wells)} cases"),
        holds("it rises at the last token", "report", all(rising), "all",
              f"{sum(rising)} of {len(rising)}"),
        holds("it grows towards the first tokens", "report", all(primacy), "all",
              f"{sum(primacy)} of {len(primacy)}"),
    ]  # fmt: skip
    # Where the second derivative in y = log(…) changes sign for an end of slope e^(−λ) → 0.
    steep = 40.0
    h = 1e-4
    bend = lambda c: float(np.diff(retrieval_law([1 - 2 * h, 1 - h, 1.0], steep, c), n=2)[0])
    low, high = 1.0, 1.9
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if bend(middle) > 0 else (low, middle)
    rows.append(judge("strength at which a steep profile stops being convex at its end", "derived",
                      CURVED, low, absolute=0.01))  # fmt: skip
    for slope in slopes:
        edge = critical_retrieval_time(slope, 1.0)
        after = retrieval_law(s, slope, 1.02 * edge)
        keeps = edge > CURVED
        claim = f"minima just after recency is lost, λ = {slope:g}"
        rows.append(judge(claim, "derived", float(keeps), float(_wells(after)), absolute=0))
        bottom = float(s[np.argmin(after)])
        rows.append(judge(f"least retrieved source then, λ = {slope:g}", "derived", bottom,
                          least_retrieved(slope, 1.02 * edge), absolute=2e-3))  # fmt: skip
        shown = s > 0.02
        curves[f"λ = {slope:g}"] = (s[shown][:: grid // 200], after[shown][:: grid // 200])
    figure = plot_lines(
        curves, "position s of the source", "retrieval by the last token",
        "Just after recency is lost: a steep slope keeps a minimum inside.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"profiles": figure})


def _wells(g: np.ndarray) -> int:
    """Minima inside."""
    step = np.diff(g)
    return int(((step[:-1] < 0) & (step[1:] > 0)).sum())
