"""A feed-forward network."""

from __future__ import annotations

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.fields import FeedForward
from metastable.measures import Points
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="A feed-forward network",
    places=["Figure 1.5", "Definition 1.2", "Definition 1.3"],
    claim=(
        "A feed-forward layer is W_2 σ(W_1 x + b_1), token by token, with d_hid = 4d and "
        "ReLU, a sigmoid or tanh between the two."
    ),
    method=(
        "Our layer against plain NumPy for the three activations; other tokens changed; a midpoint."
    ),
    subject="networks",
    basis="text",
    limits="One random layer on seven tokens in d = 6, three activations; no training.",
    planted="FeedForward.inner * 1.01",
    settings={"tokens": 7, "dim": 6, "seed": 0},
)


def feedforward_network(*, tokens: int, dim: int, seed: int) -> Finding:
    """A perceptron token by token against plain NumPy, for the three activations named."""
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
    figure = plot_lines(
        {name: (z, np.asarray(ours(jnp.asarray(z)))) for name, (ours, _) in kinds.items()}, "z",
        "activation", "The activations of our networks (lines) and their formulas (dashes).",
        theory={f"{name}, formula": (z, plain(z)) for name, (_, plain) in kinds.items()},
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"activations": figure})
