"""The architecture drawn in the document: encoder and decoder, feed-forward network."""

from __future__ import annotations

import numpy as np

from metastable.comparison.verdict import judge
from metastable.fields import FeedForward
from metastable.measures import Points
from metastable.numerics import jax, jnp
from metastable.reproduce.finding import Finding, holds

__all__ = ["feedforward_network", "thesis_architecture"]


def thesis_architecture(*, width: int, heads: int, layers: int, hidden: int) -> Finding:
    """Our encoder and decoder against torch.nn's with the same weights, and what they must do."""
    from metastable.models.parity import transformer_beside
    from metastable.report.plots import draw_image

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
    figure = draw_image(
        shown[::-1], (0.5, count + 0.5, count + 0.5, 0.5), "place looked at", "place that looks",
        "attention", "Masked self-attention of one head in the last layer of the decoder.",
    )  # fmt: skip
    return Finding(rows, {"mask": figure})


def feedforward_network(*, tokens: int, dim: int, seed: int) -> Finding:
    """A perceptron token by token against plain NumPy, for the three activations named."""
    from metastable.report.plots import draw_lines

    random = np.random.default_rng(seed)
    inner, outer = random.normal(size=(4 * dim, dim)), random.normal(size=(dim, 4 * dim)) / dim
    bias, x = random.normal(size=4 * dim), random.normal(size=(tokens, dim))
    kinds = {
        "ReLU": (jax.nn.relu, lambda z: np.maximum(0, z)),
        "sigmoid": (jax.nn.sigmoid, lambda z: 1 / (1 + np.exp(-z))),
        "tanh": (jnp.tanh, lambda z: (np.exp(z) - np.exp(-z)) / (np.exp(z) + np.exp(-z))),
    }
    off, mixed, bent = [], 0.0, []
    for ours, plain in kinds.values():
        field = FeedForward(outer, inner, bias, ours)
        moved = np.asarray(field.velocity(Points(x, on_sphere=False)))
        off.append(np.abs(moved - plain(x @ inner.T + bias) @ outer.T).max())
        other = x.copy()
        other[1:] = random.normal(size=(tokens - 1, dim))
        alone = np.asarray(field.velocity(Points(other, on_sphere=False)))
        mixed = max(mixed, np.abs(alone[0] - moved[0]).max())
        middle = np.asarray(field.velocity(Points((x[:1] + x[1:2]) / 2, on_sphere=False)))[0]
        bent.append(np.abs(middle - (moved[0] + moved[1]) / 2).max() / np.abs(moved).max())
    rows = [
        judge("max(0, xW_1 + b_1)W_2 and its kin against plain NumPy: largest error",
              "Figure 1.5, Definitions 1.2 and 1.3", 0.0, float(max(off)), absolute=1e-12),
        judge("other tokens change nothing", "section 1.3", 0.0, float(mixed), absolute=1e-14),
        holds("the map is not linear: value at a midpoint against the mean", "section 1.3",
              min(bent) > 1e-3, "differs", float(min(bent))),
    ]  # fmt: skip
    z = np.linspace(-4, 4, 161)
    figure = draw_lines(
        {name: (z, np.asarray(ours(jnp.asarray(z)))) for name, (ours, _) in kinds.items()}, "z",
        "activation", "The activations of our networks (lines) and their formulas (dashes).",
        theory={f"{name}, formula": (z, plain(z)) for name, (_, plain) in kinds.items()},
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"activations": figure})
