"""A feed-forward layer against attention on the circle: does it keep, move or replace clusters?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import iv

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.progress import Bar
from metastable.fields import FeedForward, Field, SelfAttention
from metastable.flows.ensemble import Tokens, flow_ensemble
from metastable.measures import Points
from metastable.observe import kernel_modes

__all__ = ["FeedForwardMap", "map_feedforward", "spread_of_cluster", "well_layer"]


@dataclasses.dataclass(frozen=True, eq=False)
class FeedForwardMap:
    """What random starts became at the horizon; all arrays are (betas, strengths).

    - `counts`: mean number of clusters (maxima of the potential); `alone` (betas,): without layer.
    - `aligned`: mean over starts of Re μ̂_m. Zero where chance places the clusters, 1 where all
      tokens sit in the wells.
    - `order`: mean of |μ̂_m|, which is large wherever m clusters form, placed or not.
    - `done`: False where Ctrl-C ended it; what was not run is NaN.
    """

    wells: int
    betas: np.ndarray
    strengths: np.ndarray
    counts: np.ndarray
    alone: np.ndarray
    aligned: np.ndarray
    order: np.ndarray
    done: bool = True


def well_layer(strength: Any, wells: int) -> FeedForward:
    """A feed-forward layer w exp(ax), w ∝ aᵀ, that pulls tokens of the circle into m equal wells.

    Its neurons look in m directions evenly around the circle, with gain g = m³/100. The potential
    is (c/g) Σ_j e^{g⟨a_j,x⟩} = const + ε cos mθ + …, with c = εg/(2m I_m(g)): wells contract at
    rate εm². The next wave, cos 2mθ, bends it by less than 1 % of that.

    >>> layer = well_layer(0.25, 2)
    >>> layer.velocity(Points([[2**-0.5, 2**-0.5]])).round(3).tolist()  # −ε m sin 2θ at θ = π/4
    [[0.354, -0.354]]
    """
    m = checks.integer("wells", wells, 1)
    angles = 2 * np.pi * np.arange(m) / m
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    gain = m**3 / 100
    scale = gain / (2 * m * iv(m, gain))
    return FeedForward(strength * scale * directions.T, gain * directions, activation=jnp.exp)


def map_feedforward(
    betas: Sequence[float],
    strengths: Sequence[float],
    wells: int,
    *,
    tokens: int = 128,
    starts: int = 16,
    horizon: float = 8.0,
    seed: int = 0,
    progress: bool | None = None,
) -> FeedForwardMap:
    """Run independent uniform starts under attention and a `well_layer`, for every pair (β, ε).

    Time is that of SA. Expected, with ε_c = I_m(β)/(β I_0(β)): below 2ε_c/√n the layer changes
    nothing; up to ε_c it moves the clusters of attention; above, clusters are those of the layer
    (`theory.perturbation`).
    """
    hot, strong = np.asarray(betas, float), np.asarray(strengths, float)
    shape = len(hot), len(strong)
    counts, aligned, order = (np.full(shape, np.nan) for _ in range(3))
    alone = np.full(len(hot), np.nan)
    start = _starts(tokens, starts, seed)
    # One rate for the whole map, or every cell would be compiled anew.
    rate = float(2 ** np.ceil(np.log2(1 + 1.5 * wells**2 * strong.max())))
    done = True
    with Bar("feed-forward map", progress) as bar:
        try:
            for cell in range(shape[0] * (shape[1] + 1)):
                i, j = divmod(cell, shape[1] + 1)
                strength = 0.0 if j == 0 else float(strong[j - 1])
                field = SelfAttention(float(hot[i])) + well_layer(strength, wells)
                ends = _ends(field, start, horizon, rate)
                found = np.mean([int(kernel_modes(Points(x), float(hot[i]))) for x in ends])
                if j == 0:
                    alone[i] = found
                    continue
                wave = np.mean((ends[..., 0] + 1j * ends[..., 1]) ** wells, axis=1)
                counts[i, j - 1] = found
                aligned[i, j - 1], order[i, j - 1] = wave.real.mean(), np.abs(wave).mean()
                bar.update((cell + 1) / (shape[0] * (shape[1] + 1)))
        except KeyboardInterrupt:
            done = False
    return FeedForwardMap(wells, hot, strong, counts, alone, aligned, order, done)


def spread_of_cluster(
    strength: float, wells: int, beta: float = 5.0, horizon: float = 2.0, width: float = 1e-4
) -> float:
    """Growth rate of the width of a tight cluster on the hilltop between two wells (SA clock).

    Theory: εm² − 1. Measured: log of the ratio of two widths, over the time between them.
    """
    top = np.pi / wells
    angles = top + width * np.linspace(-1, 1, 9)
    start = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1))[None]
    field = SelfAttention(beta) + well_layer(strength, wells)
    ends = _ends(field, start, horizon, 64.0)[0]
    turned = np.angle((ends[:, 0] + 1j * ends[:, 1]) * np.exp(-1j * top))
    return float(np.log(np.std(turned) / np.std(angles)) / horizon)


def _starts(tokens: int, starts: int, seed: int) -> Any:
    keys = jax.random.split(jax.random.key(checks.seed(seed)), starts)
    return Tokens(SelfAttention(1.0), rate=1.0).start(keys, tokens, 2)


def _ends(field: Field, start: Any, horizon: float, rate: float) -> np.ndarray:
    form = Tokens(field, rate=rate)
    return np.asarray(flow_ensemble(form, start, horizon, 2, _places)[-1])


def _places(form: Any, y: Any) -> Any:
    return y
