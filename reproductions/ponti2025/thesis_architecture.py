"""Encoder and decoder."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_image
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._torch_beside import transformer_beside

ENTRY = Entry(
    title="Encoder and decoder",
    places=["Figure 1.1", "section 1.4"],
    claim=(
        "A transformer is an encoder and a decoder of L layers each, with self-attention, "
        "masked self-attention, attention to the encoder, feed-forward networks, sums and "
        "normalisations."
    ),
    method=(
        "Our encoder–decoder in double precision against torch.nn's with the same weights; "
        "the mask, the sums and the number of attention modules."
    ),
    subject="networks",
    basis="text",
    limits="One set of random weights of width 64 with six layers each side; no trained weights.",
    planted="transformer_beside.ours * 1.001",
    settings={"width": 64, "heads": 8, "layers": 6, "hidden": 128},
    fast={"width": 32, "heads": 4, "layers": 3, "hidden": 48},
)


def thesis_architecture(*, width: int, heads: int, layers: int, hidden: int) -> Finding:
    """Our encoder and decoder against torch.nn's with the same weights, and what they must do."""
    both = transformer_beside(width, heads, layers, hidden)
    maps = [*both.masked, *both.cross, *both.encoder]
    far = lambda x, y: float(np.abs(x - y).max())
    rows = [
        judge(f"output probabilities of {layers} + {layers} layers against torch.nn, same weights",
              "Figure 1.1; vaswani2017attention", 0.0, far(both.ours, both.theirs),
              absolute=1e-10),
        judge("the encoder alone", "Figure 1.1, left", 0.0, far(both.memory, both.their_memory),
              absolute=1e-10),
        judge("output probabilities sum to one: largest error", "Figure 1.1, top", 0.0,
              far(np.exp(both.ours).sum(axis=-1), 1.0), absolute=1e-12),
        judge("the last target id changes nothing before it", "masked attention", 0.0,
              far(both.other_last[:, :-1], both.ours[:, :-1]), absolute=1e-12),
        holds("attention maps: self and cross in the decoder, self in the encoder, rows sum to one",
              "Figure 1.1, modules", len(maps) == 3 * layers
              and all(np.abs(m.sum(axis=-1) - 1).max() < 1e-12 for m in maps),
              f"{3 * layers} maps", f"{len(maps)} maps"),
    ]  # fmt: skip
    shown = both.masked[-1][0, 0]
    count = len(shown)
    figure = plot_image(
        shown[::-1], (0.5, count + 0.5, count + 0.5, 0.5), "place looked at", "place that looks",
        "attention", "Masked self-attention of one head in the last layer of the decoder.",
    )  # fmt: skip
    return Finding(rows, {"mask": figure})
