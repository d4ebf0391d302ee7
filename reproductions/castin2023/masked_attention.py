"""Masked attention: the first token can move all others."""

from __future__ import annotations

import numpy as np

from metastable.core.figure import Axis
from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.measures import uniform
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._jacobian import adversarial, lipschitz

ENTRY = Entry(
    title="Masked attention: the first token can move all others",
    places=["arXiv:2312.14820, abstract", "public scripts, adversarial data for GPT-2"],
    claim=(
        "For masked attention the Lipschitz constant grows like √n too on adversarial prompts, "
        "while other prompts of the same ball are far smoother."
    ),
    method=(
        "The adversarial prompt with its distinguished token first, and last, under causal "
        "attention, and uniform random tokens of the sphere: exponents of n of the largest "
        "singular value."
    ),
    subject="causal",
    basis="code",
    limits=(
        "Q = K = V = I in the plane. The row on the order of tokens is ours: it first asked for an "
        "exponent 0, which a constant that grows to 2 has only at larger n. The n^{1/4} on real "
        "text, which the paper reports, was not tested."
    ),
    implies=("root_n_growth",),
    planted="SelfAttention.causal = False",
    settings={"sizes": [8, 16, 32, 64, 128], "beta": 40.0, "seeds": 4},
    fast={"sizes": [8, 32, 96], "seeds": 2},
)  # fmt: skip


def masked_attention(*, sizes: list[int], beta: float, seeds: int) -> Finding:
    """Exponents of n under a causal mask."""
    field = SelfAttention(beta, causal=True)
    first = [lipschitz(field, adversarial(n, 1.0, 0.5)) for n in sizes]
    last = [lipschitz(field, adversarial(n, 1.0, 0.5)[::-1]) for n in sizes]
    drawn = [
        np.mean([lipschitz(field, np.asarray(uniform(n, 2, s).points)) for s in range(seeds)])
        for n in sizes
    ]
    slope = lambda values: float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
    rows = [
        judge("distinguished token first: exponent of n", "abstract; scripts", 0.5, slope(first),
              absolute=0.05),
        # Equal tokens under a mask are averaged by the matrix of Cesàro, of norm below 2 (Hardy).
        holds("the same token last: largest singular value of all n", "derived", max(last) < 2.5,
              "below 2.5", f"{max(last):.3f}"),
        holds("random tokens: exponent of n", "abstract", slope(drawn) < 0.4, "below 0.4",
              f"{slope(drawn):.3f}"),
    ]  # fmt: skip
    figure = plot_lines(
        {"token first": (sizes, first), "token last": (sizes, last), "random": (sizes, drawn)},
        Axis("tokens n", scale="log"), Axis("Lipschitz constant", scale="log"),
        f"Derivative of causal attention, β = {beta:g}, R = 1.",
        theory={"√n": (sizes, np.sqrt(sizes))},
    )  # fmt: skip
    return Finding(rows, {"growth": figure})
