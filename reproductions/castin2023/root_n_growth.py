"""The Lipschitz constant grows like √n on adversarial prompts."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds
from metastable.theory.smoothness import token_lipschitz

from ._jacobian import adversarial, lipschitz, two_places

ENTRY = Entry(
    title="The Lipschitz constant grows like √n on adversarial prompts",
    places=["arXiv:2312.14820, abstract", "public scripts, adversarial data"],
    claim=(
        "In a ball of tokens the Lipschitz constant of attention is at most of the order of √n, "
        "and one token Ru with all others at Ru/2 reaches it for moderate n; for larger n it "
        "stops growing."
    ),
    method=(
        "Largest singular value of the derivative of attention (automatic differentiation) at the "
        "scripts' prompts, for growing n: exponent of n while n < e^{b/4}, b = βR²; exponent far "
        "beyond; a two by two matrix by hand; the library's bound."
    ),
    subject="long context",
    basis="code",
    limits=(
        "Q = K = V = I in the plane, not the heads of trained models. The constant in the bound "
        "is the library's, not the paper's."
    ),
    planted="SelfAttention.beta * 0.5",
    settings={"sizes": [4, 8, 16, 32, 64, 128, 256], "strong": 40.0, "weak": 6.0},
    fast={"sizes": [8, 32, 128]},
)


def root_n_growth(*, sizes: list[int], strong: float, weak: float) -> Finding:
    """Singular values at adversarial prompts against n."""
    curves, theory, slopes, off, above = {}, {}, {}, 0.0, 0.0
    for b in (strong, weak):
        # Radius 1: b = β.
        seen = [lipschitz(SelfAttention(b), adversarial(n, 1.0, 0.5)) for n in sizes]
        hand = [two_places(b, 1.0, 0.5, 1 / n) for n in sizes]
        bound = [token_lipschitz(1.0, b, tokens=n) for n in sizes]
        off = max(off, float(np.max(np.abs(np.array(seen) / hand - 1))))
        above = max(above, float(np.max(np.array(seen) / bound)))
        slopes[b] = np.diff(np.log(seen)) / np.diff(np.log(sizes))
        curves[f"b = {b:g}"] = (sizes, seen)
        theory[f"by hand, b = {b:g}"] = (sizes, hand)
    theory["√n"] = (sizes, np.sqrt(sizes))
    rows = [
        judge(f"b = {strong:g}: exponent of n, mean", "abstract; scripts", 0.5,
              float(slopes[strong].mean()), absolute=0.05),
        holds(f"b = {weak:g}: exponent between the largest n, past e^{{b/4}} = "
              f"{np.exp(weak / 4):.1f}", "abstract", slopes[weak][-1] < 0.1, "< 0.1",
              f"{slopes[weak][-1]:.3f}"),
        judge("singular value over the two by two matrix − 1, worst", "derived", 0.0, off,
              absolute=1e-6),
        holds("singular value over the library's bound: never above", "theory.smoothness",
              above <= 1, "<= 1", f"{above:.3f}"),
    ]  # fmt: skip
    figure = plot_lines(
        curves, Axis("tokens n", scale="log"), Axis("Lipschitz constant", scale="log"),
        "Derivative of attention at one token Ru and n − 1 at Ru/2, R = 1.", theory=theory,
    )  # fmt: skip
    return Finding(rows, {"growth": figure})
