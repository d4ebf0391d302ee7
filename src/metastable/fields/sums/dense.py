"""The direct sum over all pairs: exact to rounding, in blocks, O(n·block) memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable import checks
from metastable.fields.sums.kernel import Kernel, Sum
from metastable.numerics import jax, jnp

__all__ = ["Dense"]


class Dense(Sum):
    """All pairs, in log domain, `block` × `block` at a time.

    For e^{β⟨x,y⟩} between tokens of the sphere and themselves each pair is evaluated once and used
    twice, and no running maximum is needed: scaled by e^{−β} the largest term is a token's own.
    """

    block: int = eqx.field(static=True, default=1024)

    def __check_init__(self) -> None:
        checks.integer("block", self.block, 1)

    @property
    def name(self) -> str:
        return "dense"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        if kernel.zonal and kernel.own:
            return _attend_symmetric(kernel, values, self.block)
        return _attend(kernel, values, self.block)

    def pairwise(
        self,
        profile: Callable[[Array, Array], Array],
        x: Float[Array, "m d"],
        y: Float[Array, "n d"],
        weights: Float[Array, " n"],
        values: Float[Array, "n v"],
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        """Σ_j w_j φ(x_i, y_j) and Σ_j w_j φ(x_i, y_j) v_j for a profile of any sign.

        `profile` maps blocks (a, d), (b, d) to (a, b).
        """
        size = min(self.block, y.shape[0])
        yb, wb, vb = (_blocks(a, size) for a in (y, weights, values))

        @jax.checkpoint
        def rows(x_rows: Array) -> tuple[Array, Array]:
            def step(carry, column):
                y_col, w_col, v_col = column
                # A padded row has weight zero, but its profile may be infinite: 0 · ∞ is not 0.
                k = jnp.where(w_col > 0, profile(x_rows, y_col), 0.0) * w_col
                return (carry[0] + k.sum(1), carry[1] + k @ v_col), None

            start = jnp.zeros(x_rows.shape[0]), jnp.zeros((x_rows.shape[0], values.shape[1]))
            return jax.lax.scan(step, start, (yb, wb, vb))[0]

        return _over_rows(rows, x, size=self.block)


def _attend_symmetric(kernel: Kernel, values: Array, block: int) -> tuple[Array, Array]:
    x, beta = kernel.left, kernel.beta
    count = x.shape[0]
    mass = jnp.exp(kernel.column)
    # One product gives both the partition function and the mean: masses ride as a first column.
    weighted = mass[:, None] * jnp.concatenate([jnp.ones((count, 1)), values], axis=1)

    def exponentials(rows: Array, columns: Array) -> Array:
        return jnp.exp(beta * (rows @ columns.T - 1.0))

    if count <= block:
        total = exponentials(x, x) @ weighted
    else:
        xb, vb = _blocks(x, block), _blocks(weighted, block)
        first, second = np.triu_indices(xb.shape[0])

        @jax.checkpoint
        def step(total, pair):
            i, j = pair
            k = exponentials(xb[i], xb[j])
            total = total.at[i].add(k @ vb[j])
            # The transposed block serves the mirrored pair; the diagonal has no mirror.
            return total.at[j].add(jnp.where(i == j, 0.0, 1.0) * (k.T @ vb[i])), None

        total, _ = jax.lax.scan(step, jnp.zeros_like(vb), (jnp.asarray(first), jnp.asarray(second)))
        total = total.reshape(-1, total.shape[-1])[:count]
    return beta + jnp.log(total[:, 0]), total[:, 1:] / total[:, :1]


def _attend(kernel: Kernel, values: Array, block: int) -> tuple[Array, Array]:
    size = min(block, kernel.right.shape[0])
    right, values = _blocks(kernel.right, size), _blocks(values, size)
    column = _blocks(kernel.column, size, fill=-jnp.inf)
    # Without a bias the times play no role; the logits have checked that they exist with one.
    row_times, times = kernel.row_times, kernel.column_times
    times = None if times is None or not kernel.biases else _blocks(times, size)

    @jax.checkpoint
    def rows(left: Array, here: Any) -> tuple[Array, Array]:
        def step(carry, block_of_columns):
            top, mass, mean = carry
            r, v, c, s = block_of_columns
            logits = kernel.beta * (left @ r.T) + c
            for bias in kernel.biases:
                logits = logits + bias(here, s)
            new_top = jnp.maximum(top, jnp.max(logits, axis=1))
            # A row that has seen only hidden tokens has top = −∞; −∞ − (−∞) must not appear.
            safe = jnp.where(jnp.isfinite(new_top), new_top, 0.0)
            k = jnp.exp(logits - safe[:, None])
            shrink = jnp.exp(top - safe)
            return (
                new_top,
                shrink * mass + k.sum(1),
                shrink[:, None] * mean + k @ v,
            ), None

        m = left.shape[0]
        start = jnp.full(m, -jnp.inf), jnp.zeros(m), jnp.zeros((m, values.shape[-1]))
        (top, mass, mean), _ = jax.lax.scan(step, start, (right, values, column, times))
        # A row that sees no mass (hidden or padded) has mean 0, and a finite derivative.
        mass = jnp.where(mass > 0, mass, 1.0)
        return top + jnp.log(mass), mean / mass[:, None]

    log_mass, mean = _over_rows(rows, kernel.left, row_times if kernel.biases else None, size=block)
    return (log_mass if kernel.row is None else log_mass + kernel.row), mean


def _over_rows(rows: Callable, *arrays: Any, size: int) -> tuple[Array, Array]:
    """Apply `rows` to blocks of at most `size` rows, one after the other."""
    count = arrays[0].shape[0]
    if count <= size:
        return rows(*arrays)
    blocked = [None if a is None else _blocks(a, size) for a in arrays]
    out = jax.lax.map(lambda block: rows(*block), blocked)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:count], out)


def _blocks(array: Array, size: int, fill: float = 0.0) -> Array:
    """(n, …) to (⌈n/size⌉, size, …), padded at the end."""
    extra = -array.shape[0] % size
    pad = [(0, extra)] + [(0, 0)] * (array.ndim - 1)
    padded = jnp.pad(array, pad, constant_values=fill)
    return padded.reshape(-1, size, *array.shape[1:])
