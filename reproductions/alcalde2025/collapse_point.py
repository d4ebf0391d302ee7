"""In the end tokens collapse, but not to the origin."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from metastable.core.figure import Axis, Lines, Series
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import Points
from metastable.observe import hull, hull_contains
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._softmax_steps import steps

ENTRY = Entry(
    title="In the end tokens collapse, but not to the origin",
    places=["arXiv:2508.09628, abstract of the first version"],
    claim="At finite β with B > 0 the tokens end, after their metastable state, at the origin.",
    method=(
        "Steps x ← x + γ(A(x) − x) of softmax attention at small β, where the end comes soon, from "
        "random tokens and from symmetric ones: the diameter, the place of the cluster, and "
        "whether it lies in the first hull."
    ),
    known="disagree",
    correction=(
        "Any single cluster is at rest, wherever it stands: the end is a point of the first hull, "
        "as the later version of the abstract says. Symmetric sets end at the origin."
    ),
    subject="clusters",
    basis="abstract",
    limits=(
        "Means in the place of the paper's Markov chain, and small β only: at large β the end is "
        "exponentially far. The text was not read."
    ),
    planted="SelfAttention.value * 0.9",
    settings={"tokens": 14, "beta": 0.5, "seeds": 12, "size": 0.3, "count": 400},
    fast={"seeds": 4, "count": 250},
)


def collapse_point(*, tokens: int, beta: float, seeds: int, size: float, count: int) -> Finding:
    """Where tokens collapse at finite β."""
    # V = I as a number: the mean itself.
    field = SelfAttention(beta, query=np.diag([1.0, 0.6]), value=1.0)
    widths, centres, even, inside, ends, starts = [], [], [], [], [], []
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        x = random.standard_normal((tokens, 2))
        path = steps(field, x, [size] * count)
        widths.append(pdist(path[-1]).max() / pdist(x).max())
        end = path[-1].mean(axis=0)
        centres.append(np.linalg.norm(end) / pdist(x).max())
        inside.append(bool(np.all(hull_contains(hull(Points(x, on_sphere=False)), end[None]))))
        pair = steps(field, np.concatenate([x[: tokens // 2], -x[: tokens // 2]]), [size] * count)
        even.append(np.linalg.norm(pair[-1], axis=1).max())
        ends.append(end)
        starts.append(x)
    rows = [
        judge("distance of the end from the origin over the first diameter, median",
              "abstract of v1", 0.0, float(np.median(centres)), absolute=1e-3),
        judge("diameter at the end over the first, worst", "abstract", 0.0, float(max(widths)),
              absolute=1e-3),
        holds("the end lies in the hull of the start", "abstract of the later version",
              all(inside), f"{seeds} of {seeds}", f"{sum(inside)} of {seeds}"),
        holds("symmetric sets end at the origin: largest |x|", "derived", max(even) < 1e-3,
              "< 1e-3", f"{max(even):.1e}"),
    ]  # fmt: skip
    series = []
    for k in range(min(seeds, 4)):
        series.append(Series(f"set {k + 1}", *starts[k].T, style="points", group=k))
        x, y = ([value] for value in ends[k])
        series.append(Series(f"its end {k + 1}", x, y, style="points", group=k, marker="cross",
                             sizes=[90.0]))  # fmt: skip
    figure = Lines(
        Axis("$x_1$"), Axis("$x_2$"), series, equal=True,
        caption=f"Sets of tokens, one color each, and the point where each ends, β = {beta:g}.",
    )  # fmt: skip
    return Finding(rows, {"ends": figure})
