"""The attention matrix."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.fields import SelfAttention
from metastable.geometry.sphere import project
from metastable.measures import uniform
from metastable.observe import attention
from metastable.report.figures.plain import plot_image
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding

ENTRY = Entry(
    title="The attention matrix",
    places=["Figure 5", "definition of A_ij"],
    claim="A_ij = e^(β⟨Qx_j, Kx_j⟩)/Z_i is the matrix of self-attention.",
    method=(
        "Form both matrices from the same tokens and compare row sums and the velocity they give."
    ),
    known="disagree",
    correction="The query belongs to the row: the logit is ⟨Qx_i, Kx_j⟩.",
    subject="networks",
    basis="text",
    limits="One start of 24 tokens in d = 6 with random matrices at β = 3.",
    planted="SelfAttention.beta * 1.01",
    settings={"tokens": 24, "dim": 6, "beta": 3.0},
)


def self_attention(*, tokens: int, dim: int, beta: float) -> Finding:
    """The attention matrix as printed, and as it must be for rows to be probabilities."""
    random = np.random.default_rng(0)
    query, key, value = random.normal(size=(3, dim, dim)) / np.sqrt(dim)
    start = uniform(tokens, dim, seed=1)
    x = np.asarray(start.points)
    logits = beta * (x @ query.T) @ (x @ key.T).T  # ⟨Qx_i, Kx_j⟩
    z = np.exp(logits).sum(axis=1)
    printed = np.exp(np.diag(logits))[None, :] / z[:, None]  # ⟨Qx_j, Kx_j⟩, as printed
    right = np.asarray(attention(start, beta, query, key))
    velocity = np.asarray(SelfAttention(beta, query, key, value).velocity(start))
    from_rows = np.asarray(project(start.points, right @ x @ value.T))
    rows = [
        judge("rows of the printed matrix sum to one: largest error", "definition after Figure 5",
              0.0, float(np.abs(printed.sum(axis=1) - 1).max()), absolute=1e-12),
        judge("the same with Qx_i in the logits", "equation 8", 0.0,
              float(np.abs(right.sum(axis=1) - 1).max()), absolute=1e-12),
        judge("its rows give the velocity: largest error", "equation 8", 0.0,
              float(np.abs(velocity - from_rows).max()), absolute=1e-12),
    ]  # fmt: skip
    figure = plot_image(
        right, (-0.5, tokens - 0.5, -0.5, tokens - 0.5), "token j", "token i", "attention A_ij",
        f"Attention of {tokens} random tokens, β = {beta:g}; each row is a probability.",
    )  # fmt: skip
    return Finding(rows, {"matrix": figure})
