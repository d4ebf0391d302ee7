"""Phase diagrams for other matrices."""

from __future__ import annotations

import numpy as np

from metastable.fields import SelfAttention
from metastable.flows.ensemble import TokenForm
from metastable.report.figures.plain import plot_image
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from ._pairs import share_together

ENTRY = Entry(
    title="Phase diagrams for other matrices",
    places=["Figure 18"],
    claim="The transition survives random Q and K; other value matrices change the picture.",
    method="The same diagram with random Q and K, a symmetric V and an orthogonal V.",
    subject="clusters",
    basis="text",
    limits="16 tokens in d = 16 with one draw of each matrix, 16 values of β, up to t = 60.",
    planted="share_together.horizon * 0.01",
    settings={"tokens": 16, "dim": 16, "samples": 128, "betas": 16, "horizon": 60.0},
    fast={"tokens": 8, "dim": 8, "samples": 32, "betas": 4},
)


def special_matrices(*, tokens: int, dim: int, samples: int, betas: int, horizon: float) -> Finding:
    """The same diagram when query, key or value are random: what survives of it."""
    random = np.random.default_rng(5)
    draw = lambda: random.normal(size=(dim, dim)) / np.sqrt(dim)
    query, key, value = draw(), draw(), draw()
    skew = np.linalg.qr(draw())[0]
    cases = {
        "Q = K = V = I": {},
        "random Q, K": {"query": query, "key": key},
        "symmetric V": {"value": (value + value.T) / np.sqrt(2)},
        "orthogonal V": {"value": skew},
    }
    levels, frames = np.linspace(0.25, 8, betas), 41
    figures, ends = {}, {}
    for name, matrices in cases.items():
        share = np.array(
            [
                share_together(
                    TokenForm(SelfAttention(b, **matrices), rate=4.0 if matrices else 2.0),
                    samples, tokens, dim, horizon, frames,
                )
                for b in levels
            ]
        )  # fmt: skip
        short = name.split(" =")[0].replace(" ", "-").replace(",", "").lower()
        figures[short] = plot_image(
            share, (0, horizon, levels[0], levels[-1]), "time t (SA clock)", "β",
            "P(⟨x₁,x₂⟩ ≥ 1 − δ)", f"{name}: {samples} starts of {tokens} tokens, d = {dim}.",
        )  # fmt: skip
        ends[name] = share[:, -1]
    rows = [
        holds(
            "random Q and K leave one cluster in the end (V = I, d ≥ n)", "Figure 18, Theorem 5",
            ends["random Q, K"].min() > 0.9, "P > 0.9 at every β",
            float(ends["random Q, K"].min()),
        ),
        holds(
            "another V changes the diagram", "Figure 18",
            np.abs(ends["symmetric V"] - ends["Q = K = V = I"]).max() > 0.3, "differs",
            float(np.abs(ends["symmetric V"] - ends["Q = K = V = I"]).max()),
        ),
    ]  # fmt: skip
    return Finding(rows, figures)
