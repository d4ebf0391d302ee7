"""Mean shift: tokens climb the kernel density of their own measure to its maxima."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.observe.components import components
from metastable.observe.pairs import over_rows, padded

ROUNDS, CYCLES = 60, 10


def climb(
    points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Maxima (k, d) of x ↦ Σ_j w_j e^{−β‖x−x_j‖²/2} reached from the tokens, and basins (n,).

    Mean shift x ← Σ_j p_j x_j (retracted on the sphere), p the softmax of the exponents, is an
    ascent for every β; it slows down where the landscape is flat, so two steps at a time are
    extrapolated (Varadhan and Roland, Scand. J. Stat. 35, 2008) and the result kept if higher.
    """
    width = beta**-0.5
    # A token exactly on a saddle would stay there.
    random = np.random.default_rng(0)
    kick = random.standard_normal(points.shape)
    seeds = points + 1e-3 * width * kick / np.linalg.norm(kick, axis=1, keepdims=True)
    # Tokens of one cell, a tenth of the kernel's width, share a start.
    seeds, basin = _thin(seeds, 0.1 * width, np.zeros(points.shape[1]))
    for _ in range(ROUNDS):
        moved, seeds = _rounds(seeds, points, weights, beta, on_sphere)
        if moved.max() < 1e-8 * width:
            break
        seeds, merged = _thin(seeds, 1e-3 * width, random.uniform(size=points.shape[1]))
        basin = merged[basin]
    # Only now: while tokens still move, a chain of neighbours would join separate maxima.
    labels = components(seeds, 1e-2 * width)
    first = np.unique(labels, return_index=True)[1]
    return seeds[first], labels[basin]


def _thin(seeds: np.ndarray, side: float, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One seed per grid cell, and the cell of each seed; a moving grid leaves no lasting border."""
    cells = np.floor(seeds / side + shift)
    _, first, inverse = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    return seeds[first], inverse.reshape(-1)


def _rounds(
    seeds: np.ndarray, points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    # The number of seeds falls from round to round: powers of four, to compile few programs.
    size = 4 ** ((len(seeds) - 1).bit_length() + 1 >> 1)
    filled = np.concatenate([seeds, np.repeat(seeds[:1], size - len(seeds), axis=0)])
    points, weights = padded(points, weights)
    moved, filled = _cycles(filled, points, weights, beta, on_sphere=on_sphere)
    return np.asarray(moved)[: len(seeds)], np.asarray(filled)[: len(seeds)]


@partial(jax.jit, static_argnames="on_sphere")
def _cycles(seeds: Any, points: Any, weights: Any, beta: Any, *, on_sphere: bool) -> Any:
    place = (lambda x: x / jnp.linalg.norm(x)) if on_sphere else (lambda x: x)
    points, bias = jnp.asarray(points), jnp.log(weights) - 0.5 * beta * jnp.sum(points**2, axis=1)

    def shift(x: Any) -> Any:
        """Height log Σ w e^{−β‖x−x_j‖²/2} of x, and the next place."""
        exponents = beta * (points @ x) + bias
        height = jax.nn.logsumexp(exponents)
        return height - 0.5 * beta * x @ x, place(jnp.exp(exponents - height) @ points)

    def cycle(_: Any, state: Any) -> Any:
        x, _ = state
        _, one = shift(x)
        height, two = shift(one)
        step, bend = one - x, two - 2 * one + x
        ratio = jnp.linalg.norm(step) / jnp.maximum(jnp.linalg.norm(bend), 1e-300)
        leap = 2 * ratio * step + ratio**2 * bend
        # Longer leaps than a few hundredths of the kernel's width pass over shallow maxima.
        far = jnp.linalg.norm(leap) / (0.03 * beta**-0.5)
        leap = place(x + leap / jnp.maximum(far, 1.0))
        best, after = shift(leap)
        return jnp.where(best > height, after, two), jnp.linalg.norm(step)

    climb_one = lambda x: jax.lax.fori_loop(0, CYCLES, cycle, (x, jnp.inf))
    seeds, moved = over_rows(climb_one, jnp.asarray(seeds), points.shape[0])
    return moved, seeds
