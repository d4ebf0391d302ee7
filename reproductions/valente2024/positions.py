"""Positional encoding."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.measures.starts import encoding
from metastable.report.figures.plain import plot_image, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="Positional encoding",
    places=["Figure 7", "positional encoding"],
    claim=(
        "Sines and cosines of i/M^(2k/d) with k from 1 to d/2 − 1 encode the position of a token."
    ),
    method="Count the coordinates that receive a position; check that a shift is a rotation.",
    known="disagree",
    correction="k starts at 0; otherwise the two fastest coordinates have no position.",
    subject="networks",
    basis="text",
    limits="One width 32 and base 10 000 at 64 positions; no model that uses them.",
    planted="encoding.base * 1.3",
    settings={"tokens": 64, "dim": 32, "base": 10000.0},
)


def positions(*, tokens: int, dim: int, base: float) -> Finding:
    """Sinusoidal positions: which coordinates the printed range of k reaches."""
    p = np.asarray(encoding(tokens, dim, base))
    reached = sorted({2 * k + r for k in range(1, dim // 2) for r in (0, 1)})
    # A shift by s turns every pair of coordinates by a fixed angle.
    step, worst = 5, 0.0
    for k in range(dim // 2):
        angle = step / base ** (2 * k / dim)
        turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        pair = p[:, 2 * k : 2 * k + 2]
        worst = max(worst, np.abs(pair[step:] - pair[:-step] @ turn.T).max())
    products = p @ p.T * 2 / dim
    apart = np.abs(np.subtract.outer(np.arange(tokens), np.arange(tokens)))
    spread = max(np.ptp(products[apart == s]) for s in range(tokens))
    rows = [
        holds("k = 1 to d/2 − 1 gives every coordinate a position", "positional encoding",
              len(reached) == dim, f"{dim} coordinates", f"{len(reached)} coordinates"),
        judge("from k = 0 a shift is a rotation: largest error", "vaswani2017attention", 0.0,
              worst, absolute=1e-12),
        judge("inner products depend on the distance alone: largest spread",
              "vaswani2017attention", 0.0, float(spread), absolute=1e-12),
    ]  # fmt: skip
    image = plot_image(
        p, (-0.5, dim - 0.5, -0.5, tokens - 0.5), "coordinate", "position i", "p_i",
        f"Positions of {tokens} tokens in d = {dim}, M = {base:g}.",
    )  # fmt: skip
    line = plot_lines(
        {"⟨p_i, p_j⟩·2/d": (np.arange(tokens), products[0])}, "distance |i − j|", "similarity",
        "How alike two positions are.", lines=True,
    )  # fmt: skip
    return Finding(rows, {"positions": image, "similarity": line})
