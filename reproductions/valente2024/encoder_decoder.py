"""The transformer as encoder and decoder."""

from __future__ import annotations

import numpy as np

from metastable.core.verdict import judge
from metastable.report.figures.plain import plot_image, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

from .._torch_beside import transformer_beside

ENTRY = Entry(
    title="The transformer as encoder and decoder",
    places=["Figure 4", "Figure 12", "Figure 13", "equations 31 and 32"],
    claim=(
        "An encoder of N = 6 layers hands context vectors to a decoder of six; each sub-layer "
        "is Norm(x + Sublayer(x)), with eight heads."
    ),
    method=(
        "Our encoder–decoder in double precision against the layers of torch.nn with the same "
        "weights, layer by layer; the mask, the context vectors and the number of attention "
        "modules."
    ),
    subject="networks",
    basis="text",
    limits=(
        "One set of random weights of width 64 with six layers each side; no trained weights, "
        "no dropout."
    ),
    planted="transformer_beside.ours * 1.001",
    settings={"width": 64, "heads": 8, "layers": 6, "hidden": 128},
)


def encoder_decoder(*, width: int, heads: int, layers: int, hidden: int) -> Finding:
    """Our encoder and decoder of N = 6 layers against torch.nn's, layer by layer."""
    both = transformer_beside(width, heads, layers, hidden)
    first = np.abs(both.ours - both.swapped).max()
    later = np.triu(np.ones(both.masked[0].shape[-2:]), 1)
    ahead = max(float((one * later).max()) for one in both.masked)
    rows = [
        judge(f"log-probabilities of N = {layers} + {layers} layers against torch.nn: worst error",
              "Figures 4 and 13; arXiv:1706.03762", 0.0,
              float(np.abs(both.ours - both.theirs).max()), absolute=1e-10),
        judge("Norm(x + Sublayer(x)) after every layer: largest error", "Figure 13, text",
              0.0, float(both.by_layer.max()), absolute=1e-10),
        judge("the context vectors handed over: largest error", "Figure 12, encoder", 0.0,
              float(np.abs(both.memory - both.their_memory).max()), absolute=1e-10),
        holds("other context vectors make the decoder say something else", "Figure 12, decoder",
              first > 1e-3, "differs", float(first)),
        judge("masked attention to later places: largest weight", "Figure 13, decoder", 0.0, ahead,
              absolute=0.0),
        judge("so the last target id changes nothing before it: largest change",
              "Figure 13, decoder", 0.0,
              float(np.abs(both.other_last - both.ours)[:, :-1].max()), absolute=1e-12),
        holds("attention modules: self in the encoder, masked and cross in the decoder",
              "Figure 13", [len(m) for m in (both.encoder, both.masked, both.cross)]
              == [layers] * 3, f"{layers} of each",
              f"{len(both.encoder)}, {len(both.masked)}, {len(both.cross)}"),
    ]  # fmt: skip
    shown = both.cross[-1][0, 0]
    n, m = shown.shape
    order = np.arange(1, layers + 1)
    apart = np.maximum(both.by_layer, 1e-17)
    figures = {
        "layers": plot_lines(
            {"encoder": (order, apart[:layers]), "decoder": (order, apart[layers:])},
            "layer", "largest difference", log="y", lines=True,
            caption="States of our layers and of torch.nn's, with the same weights.",
        ),
        "cross": plot_image(
            shown[::-1], (0.5, m + 0.5, n + 0.5, 0.5), "place of the source",
            "place of the target", "attention",
            "What one head of the last layer of the decoder looks at in the encoder's output.",
        ),
    }  # fmt: skip
    return Finding(rows, figures)
