"""One layer of many heads and equivariant maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.figure import Axis
from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.geometry.sphere import uniform_points
from metastable.learn.neural.equivariant import (
    TARGETS,
    apply_heads,
    best_values,
    even_share,
    head_means,
)
from metastable.learn.neural.equivariant import (
    Heads as Layer,
)
from metastable.report.figures.plain import plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="One layer of many heads and equivariant maps",
    places=["Open Question 1"],
    claim=(
        "Can one layer of H heads approximate every permutation-equivariant map of tokens on "
        "the sphere, as H grows?"
    ),
    method=(
        "Heads with random scores and the best values (a convex fit) against an even and two "
        "odd maps; test error against H; no projection."
    ),
    known="disagree",
    correction=(
        "Not every map: f(−X) = −f(X) for every H, so that the error of an even map never "
        "falls below its size. For odd maps the error falls with H in all runs; whether to "
        "zero stays open."
    ),
    subject="control",
    basis="text",
    limits=(
        "Four tokens on the circle, three target maps, random scores up to 512 heads; whether "
        "odd maps are reached in the limit stays open."
    ),
    planted="best_values * 1.3",
    settings={"heads": [4, 16, 64, 256, 512], "tokens": 4, "dim": 2, "samples": 4096, "seeds": 3},
    fast={"heads": [4, 16, 64], "samples": 512, "seeds": 1},
)


def equivariant_heads(
    *, heads: list[int], tokens: int, dim: int, samples: int, seeds: int
) -> Finding:
    """One layer of H heads with the best values for random scores, against equivariant maps."""
    names = ("cube", "nearest", "mirror")

    def configurations(seed: int) -> Any:
        half = uniform_points(jax.random.key(seed), samples * tokens // 2, dim)
        half = half.reshape(samples // 2, tokens, dim)
        return jnp.concatenate([half, -half])  # a law symmetric under X → −X, exactly

    missed = np.zeros((len(heads), len(names), seeds))
    odd = 0.0
    for seed in range(seeds):
        x, test = configurations(seed), configurations(1000 + seed)
        goals, wanted = (jnp.stack([TARGETS[name](z) for name in names]) for z in (x, test))
        for k, count in enumerate(heads):
            one, two = jax.random.split(jax.random.fold_in(jax.random.key(seed), count))
            size = jnp.exp(jax.random.uniform(two, (count, 1, 1), minval=-1.0, maxval=3.0))
            score = size * jax.random.normal(one, (count, dim, dim))
            values = best_values(score, x, goals)
            answers = jnp.einsum("bihe,thde->tbid", head_means(score, test), values)
            gap = jnp.sum((answers - wanted) ** 2, axis=(1, 2, 3))
            missed[k, :, seed] = np.sqrt(gap / jnp.sum(wanted**2, axis=(1, 2, 3)))
        layer = Layer(score, values[0])
        odd = max(
            odd,
            float(jnp.abs(apply_heads(layer, -test) + apply_heads(layer, test)).max()),
        )
    mean, wide = missed.mean(axis=2), missed.std(axis=2)
    even = [even_share(TARGETS[name], x) for name in names]
    rows = [
        holds(f"every equivariant map is approached as H grows: error of an even one, H = "
              f"{heads[-1]}", "Open Question 1", mean[-1, 2] < 0.5 * mean[0, 2],
              "falls towards 0", float(mean[-1, 2])),
        holds("an even map stays at least at the distance of its even part",
              "scores are even, values odd; derived", mean[-1, 2] >= even[2] - 1e-6,
              f"at least {even[2]:.4g}", float(mean[-1, 2])),
        judge("every layer is odd, f(−X) = −f(X): largest error", "derived", 0.0, odd,
              absolute=1e-9 * float(jnp.abs(values[0]).sum())),
        holds(f"odd maps come nearer with H: errors at H = {heads[0]} and {heads[-1]}",
              "Open Question 1, odd maps in L²",
              bool((mean[-1, :2] < 0.8 * mean[0, :2]).all()), "fall by a fifth or more",
              ", ".join(f"{n}: {a:.3f} to {b:.3f}" for n, a, b in
                        zip(names, mean[0], mean[-1], strict=True) if n != "mirror")),
    ]  # fmt: skip
    figure = plot_lines(
        {name: (heads, mean[:, k], wide[:, k]) for k, name in enumerate(names)},
        Axis("heads H", scale="log", places=heads), "relative L² error", log="xy", lines=True,
        caption=f"Random scores, best values; {tokens} tokens on S^{dim - 1}, bars over {seeds} "
        "seeds. The answer 0 has error 1.",
    )  # fmt: skip
    return Finding(rows, {"errors": figure})
