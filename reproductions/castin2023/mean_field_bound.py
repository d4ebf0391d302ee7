"""Beyond √n: a bound without n, exponential in β, and reached."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.smoothness import mean_field_lipschitz

from ._jacobian import adversarial, lipschitz

ENTRY = Entry(
    title="Beyond √n: a bound without n, exponential in β, and reached",
    places=["arXiv:2312.14820, abstract", "public scripts, adversarial data"],
    claim=(
        "As a map of measures on a ball attention is Lipschitz in W₂ with a constant that does "
        "not depend on the number of tokens and grows exponentially in b = β‖QᵀK‖R²; prompts of "
        "two opposite places have a constant of the same order."
    ),
    method=(
        "Masses at −Ru and Ru with QᵀK = −I, as in the scripts: largest singular value in the "
        "norm of L²(μ), maximised over the share of the first place, against the library's bound, "
        "for growing b; then n tokens of equal mass for growing n at one b."
    ),
    subject="long context",
    basis="code",
    limits=(
        "Q = −I, K = V = I on a line. That the bound is matched up to a factor 2 was expected from "
        "our expansion at large b, 0.65 b e^b against b e^b."
    ),
    planted="SelfAttention.beta * 0.7",
    settings={
        "bs": [2.0, 3.0, 4.0, 6.0, 8.0, 10.0],
        "sizes": [4, 16, 64, 160, 320, 640],
        "one": 2.0,
    },
    fast={"bs": [2.0, 4.0, 8.0], "sizes": [4, 64, 160, 320]},
)


def mean_field_bound(*, bs: list[float], sizes: list[int], one: float) -> Finding:
    """The best two places against the bound, and tokens against the best two places."""
    best = {}
    for b in sorted({*bs, one}):
        field = SelfAttention(b, query=-1.0)
        pair = np.array([[1.0], [-1.0]])
        cost = lambda s, f=field, x=pair: -lipschitz(f, x, _masses(s))
        # The share is e^{s}; the best is near e^{−2b}/3.
        found: Any = minimize_scalar(cost, bounds=(-2 * b - 4, 0.0), method="bounded",
                                     options={"xatol": 1e-4})  # fmt: skip
        best[b] = -float(found.fun)
    top = [best[b] for b in bs]
    bound = [mean_field_lipschitz(1.0, b) for b in bs]
    ratio = np.array(bound) / top
    field = SelfAttention(one, query=-1.0)
    tokens = [lipschitz(field, -adversarial(n, 1.0, -1.0, dim=1)) for n in sizes]
    last = float(np.log(top[-1] / top[-2]) / (bs[-1] - bs[-2]))
    rows = [
        holds("the best two places stay below the bound and within a factor of 2 for b >= 4",
              "abstract", bool(np.all(ratio >= 1) and np.all(ratio[np.array(bs) >= 4] <= 2)),
              "1 to 2", f"{ratio.min():.2f} to {ratio[np.array(bs) >= 4].max():.2f}"),
        # d log(b e^b)/db between the last two.
        judge(f"growth of its logarithm with b, from {bs[-2]:g} to {bs[-1]:g}", "abstract; derived",
              1 + np.log(bs[-1] / bs[-2]) / (bs[-1] - bs[-2]), last, absolute=0.05),
        holds(f"b = {one:g}: tokens of equal mass never pass the best two places",
              "abstract", max(tokens) <= best[one] * (1 + 1e-6), f"<= {best[one]:.3f}",
              f"{max(tokens):.3f}"),
        holds("and come within 2 % of them", "abstract", max(tokens) >= 0.98 * best[one],
              f">= {0.98 * best[one]:.3f}", f"{max(tokens):.3f}"),
    ]  # fmt: skip
    figure = plot_lines(
        {"best two places": (bs, top)},
        "b",
        Axis("Lipschitz constant in $W_2$", scale="log"),
        "Largest derivative of attention over masses at two opposite places; dashed: the bound.",
        theory={"bound": (bs, bound)},
    )
    return Finding(rows, {"constants": figure})


def _masses(s: float) -> np.ndarray:
    """Shares e^s/(1 + e^s) and the rest."""
    return np.array([np.exp(s), 1.0]) / (1 + np.exp(s))
