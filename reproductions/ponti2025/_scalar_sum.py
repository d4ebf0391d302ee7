"""Sums over tokens for scalar queries and keys, in O(n) by interpolation."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import Kernel, Sum

__all__ = ["ScalarSum"]

NODES, REACH = 20, 2.0  # 2 (REACH/2)^NODES / NODES! is below rounding


class ScalarSum(Sum):
    """Attention with d_k = 1 in O(n · pieces): Z(q) = Σ_j w_j e^{q k_j} is an entire function of q.

    The queries' range is cut into `pieces`; on each, Z and Σ_j w_j e^{q k_j} v_j are interpolated
    at 20 Chebyshev nodes. While (q − q_c)(k − k_c) stays within ±2 in a piece, all terms being
    positive, the relative error is near 1e−14 (derived here, checked against the dense sum).
    Where it does not, the answer is NaN: take more pieces.
    """

    pieces: int = eqx.field(static=True, default=16)

    def __check_init__(self) -> None:
        checks.integer("pieces", self.pieces, 1)

    @property
    def name(self) -> str:
        return "scalar"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        if kernel.left.shape[1] != 1 or kernel.biases:
            raise ValueError(
                "ScalarSum needs scalar queries and keys without positions; got dimension "
                f"{kernel.left.shape[1]}: use Dense()."
            )
        q, k = kernel.beta * kernel.left[:, 0], kernel.right[:, 0]
        low, high = jnp.min(q), jnp.max(q)
        half = jnp.maximum((high - low) / (2 * self.pieces), 1e-300)
        middle = (jnp.max(k) + jnp.min(k)) / 2
        centred = k - middle
        terms = jnp.concatenate([jnp.ones_like(values[:, :1]), values], axis=1)
        angles = np.pi * (np.arange(NODES) + 0.5) / NODES
        nodes = np.cos(angles)
        # Values at the nodes to coefficients of T_0..T_19.
        to_series = 2 / NODES * np.cos(np.outer(np.arange(NODES), angles))
        to_series[0] /= 2

        def piece(centre: Array) -> tuple[Array, Array]:
            top = jnp.max(centre * centred + kernel.column)
            logits = (centre + half * nodes)[:, None] * centred + (kernel.column - top)
            return jnp.asarray(to_series) @ (jnp.exp(logits) @ terms), top

        centres = low + half * (2 * jnp.arange(self.pieces) + 1)
        series, tops = jax.lax.map(piece, centres)  # (pieces, 20, 1 + v), (pieces,)
        which = jnp.clip(((q - low) / (2 * half)).astype(int), 0, self.pieces - 1)
        place = jnp.clip((q - centres[which]) / half, -1.0, 1.0)
        shapes = jnp.cos(jnp.arange(NODES) * jnp.arccos(place)[:, None])  # T_j
        sums = jnp.einsum("mj,mjv->mv", shapes, series[which])
        good = half * jnp.max(jnp.abs(centred)) <= REACH
        log_mass = tops[which] + jnp.log(sums[:, 0]) + q * middle
        mean = jnp.where(good, sums[:, 1:] / sums[:, :1], jnp.nan)
        return (log_mass if kernel.row is None else log_mass + kernel.row), mean
