"""Convergence of measures and of lists of tokens."""

from __future__ import annotations

import numpy as np

from metastable.fields import SelfAttention
from metastable.measures import Points
from metastable.observe.distances import wasserstein
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._attention_checks import largest_difference
from ._in_context_maps import Attention, continuity_bound

ENTRY = Entry(
    title="Convergence of measures and of lists of tokens",
    places=["Definition A.2"],
    claim=(
        "For a fixed number of tokens, weak convergence of the empirical measures is "
        "convergence of the matrices of tokens."
    ),
    method=(
        "Tokens that converge, listed in a random order at every term: distance of lists, W_1 "
        "of measures, and the change of attention against its Lipschitz bound."
    ),
    known="disagree",
    correction=(
        "A measure does not know the order of its tokens: the matrices converge only after a "
        "permutation at each term."
    ),
    subject="networks",
    basis="text",
    limits="One sequence of sixteen terms for twelve tokens on one random layer.",
    planted="wasserstein + 0.1",
    settings={"tokens": 12, "terms": 16, "seed": 0},
)


def weak_convergence(*, tokens: int, terms: int, seed: int) -> Finding:
    """Measures may converge while their lists of tokens do not; attention follows the measures."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (tokens, 1))
    limit = Points(x, on_sphere=False)
    beta, q, k, v = 1.0, [[0.7]], [[0.5]], [[1.3]]
    gamma, at = Attention(SelfAttention(beta, q, k, v)), np.linspace(-1, 1, 9)[:, None]
    lists, measures, images = [], [], []
    for step in range(terms):
        moved = x + 0.5**step * random.uniform(-0.5, 0.5, x.shape)
        shuffled = np.clip(moved, -1, 1)[random.permutation(tokens)]
        here = Points(shuffled, on_sphere=False)
        lists.append(float(np.abs(shuffled - x).max()))
        measures.append(wasserstein(here, limit, order=1))
        images.append(largest_difference(gamma(here, at), gamma(limit, at)))
    bound = continuity_bound(beta, q, k, v, 1.0)
    ratio = max(a / b for a, b in zip(images, measures, strict=True))
    rows = [
        holds("where the measures converge the lists of tokens do too: last ‖X_k − X‖",
              "Definition A.2", lists[-1] < 1e-3, "tends to 0", lists[-1]),
        holds("the measures converge: last W_1", "weak convergence on a compact set",
              measures[-1] < 1e-3, "tends to 0", measures[-1]),
        holds("attention depends on the measure continuously: |Γ(μ_k, x) − Γ(μ, x)|/W_1",
              "derived", ratio <= bound, f"at most {bound:.3g}", ratio),
    ]  # fmt: skip
    terms_at = np.arange(terms)
    figure = plot_lines(
        {"largest |x_i,k − x_i|": (terms_at, lists), "W_1": (terms_at, measures),
         "change of attention": (terms_at, images)},
        "k", "distance from the limit",
        f"{tokens} tokens on the line that converge as a measure, in a new order each time.",
        log="y", lines=True,
    )  # fmt: skip
    return Finding(rows, {"distances": figure})
