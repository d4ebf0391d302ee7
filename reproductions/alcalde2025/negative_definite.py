"""B < 0 contracts to one point, which is not the origin."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._softmax_steps import steps

ENTRY = Entry(
    title="B < 0 contracts to one point, which is not the origin",
    places=["arXiv:2508.09628, abstract of the first version"],
    claim=(
        "At β = ∞ with B negative the steps contract all tokens, linearly, to one cluster at the "
        "origin."
    ),
    method=(
        "Steps x ← x + γ(s(x) − x) of softmax attention with B = −I at a very large β, γ constant, "
        "from random tokens around the origin and from sets symmetric under x → −x: diameter and "
        "place of the cluster."
    ),
    known="disagree",
    correction=(
        "The diameter does contract linearly, but the cluster stands at another point of the hull, "
        "even if the origin is inside; it is the origin for symmetric sets. The later version of "
        "the abstract has no origin in it and a sublinear rate of the energy in its place."
    ),
    subject="clusters",
    basis="abstract",
    limits=(
        "The recursion is a Frank–Wolfe step of constant size over the current hull, as the "
        "abstract describes it; the text was not read. β is 1e6, not infinite. The symmetric row "
        "uses fewer steps, since rounding ends the symmetry of ties."
    ),
    planted="SelfAttention.query * -1.0",
    settings={"tokens": 12, "dims": [2, 3], "sizes": [0.1, 0.3], "seeds": 10, "count": 120},
    fast={"dims": [2], "seeds": 4},
)


def negative_definite(
    *, tokens: int, dims: list[int], sizes: list[float], seeds: int, count: int
) -> Finding:
    """Diameter and centre of tokens under hardmax steps with B = −I."""
    field = SelfAttention(1e6, query=-1.0)
    widths, centres, even, curves = [], [], [], {}
    for dim in dims:
        for size in sizes:
            for seed in range(seeds):
                random = np.random.default_rng([dim, seed])
                x = random.standard_normal((tokens // 2, dim))
                y = random.standard_normal((tokens // 2, dim))
                path = steps(field, np.concatenate([x, y]), [size] * count)
                wide = np.array([pdist(state).max() for state in path])
                widths.append(wide[-1] / wide[0])
                centres.append(np.linalg.norm(path[-1].mean(axis=0)) / wide[0])
                pair = steps(field, np.concatenate([x, -x]), [size] * 40)
                even.append(np.linalg.norm(pair[-1].mean(axis=0)))
                if seed == 0 and dim == dims[0]:
                    n = np.arange(count + 1)
                    curves[f"diameter, γ = {size:g}"] = (n, wide + 1e-17)
                    largest = np.linalg.norm(path, axis=2).max(axis=1)
                    curves[f"largest |x|, γ = {size:g}"] = (n, largest)
    away = float(np.median(centres))
    rows = [
        judge("distance of the cluster from the origin over the first diameter, median",
              "abstract of v1", 0.0, away, absolute=1e-6),
        judge(f"diameter after {count} steps over the first, worst", "abstract of v1", 0.0,
              float(max(widths)), absolute=1e-4),
        holds("symmetric sets stay centred at the origin: largest mean", "derived",
              max(even) < 1e-9, "< 1e-9", f"{max(even):.1e}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("step"), Axis("length", scale="log"),
        f"{tokens} random tokens around the origin under hardmax steps with B = −I.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"contraction": figure})
