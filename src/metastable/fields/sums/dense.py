"""The direct sum over all pairs: exact to rounding, in blocks, O(n·block) memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.sums.exponentials import symmetric_sums
from metastable.fields.sums.kernel import Attended, Kernel, Sum


class Dense(Sum):
    """All pairs, in log domain, `block` × `block` at a time.

    For e^{β⟨x,y⟩} between tokens of the sphere and themselves each pair is evaluated once and used
    twice, and no running maximum is needed: scaled by e^{−β} the largest term is a token's own.
    """

    block: int | None = eqx.field(static=True, default=None)  # None: what suits the device

    def __check_init__(self) -> None:
        if self.block is not None:
            checks.integer("block", self.block, 1)

    @property
    def size(self) -> int:
        """Rows and columns of a block: what a CPU keeps in its cache, or what fills a GPU."""
        return self.block or (8192 if jax.default_backend() == "gpu" else 1024)

    @property
    def name(self) -> str:
        return "dense"

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        if kernel.zonal and kernel.own:
            return _attend_symmetric(kernel, values, self.size)
        return _attend(kernel, values, self.size)

    def pairwise(
        self,
        profile: Callable[[Array, Array], Array],
        x: Float[Array, "m d"],
        y: Float[Array, "n d"],
        weights: Float[Array, " n"],
        values: Float[Array, "n v"],
    ) -> Attended:
        """Σ_j w_j φ(x_i, y_j) and Σ_j w_j φ(x_i, y_j) v_j for a profile of any sign.

        `profile` maps blocks (a, d), (b, d) to (a, b).
        """
        size = min(self.size, y.shape[0])
        yb, wb, vb = (blocks(a, size) for a in (y, weights, values))

        @jax.checkpoint
        def rows(x_rows: Array) -> tuple[Array, Array]:
            def step(carry, column):
                y_col, w_col, v_col = column
                # A padded row has weight zero, but its profile may be infinite: 0 · ∞ is not 0.
                k = jnp.where(w_col > 0, profile(x_rows, y_col), 0.0) * w_col
                return (carry[0] + k.sum(1), carry[1] + k @ v_col), None

            m, dtype = x_rows.shape[0], values.dtype
            start = jnp.zeros(m, dtype), jnp.zeros((m, values.shape[1]), dtype)
            return jax.lax.scan(step, start, (yb, wb, vb))[0]

        return _over_rows(rows, x, size=self.size)


def _attend_symmetric(kernel: Kernel, values: Array, block: int) -> tuple[Array, Array]:
    beta, mass = kernel.beta.astype(values.dtype), jnp.exp(kernel.column)
    # A token's own term is e^0 up to rounding. Beyond this β the rounding of ⟨x,x⟩ alone would make
    # it overflow or vanish, while tokens it could tell apart no longer attend to each other.
    sharp = jnp.minimum(beta, 0.2 / jnp.finfo(values.dtype).eps)
    if jax.default_backend() == "gpu" and values.dtype == jnp.float64:
        total, means = symmetric_sums(sharp, kernel.left, mass, values, block)
        return beta + jnp.log(total), means / total[:, None]
    # One product gives both the partition function and the mean: masses ride as a first column.
    weighted = mass[:, None] * jnp.concatenate([jnp.ones_like(values[:, :1]), values], axis=1)
    total = _symmetric_products(sharp, kernel.left, weighted, block)
    return beta + jnp.log(total[:, 0]), total[:, 1:] / total[:, :1]


def _symmetric_products(sharp: Array, x: Array, weighted: Array, block: int) -> Array:
    """Σ_j k_ij u_j with k = e^{β(⟨x_i,x_j⟩−1)}, each pair evaluated once."""

    def exponentials(rows: Array, columns: Array) -> Array:
        return jnp.exp(sharp * (rows @ columns) - sharp)

    if x.shape[0] <= block:
        return exponentials(x, x.T) @ weighted
    xb, vb = blocks(x, block), blocks(weighted, block)
    # Transposing once here keeps all three products of a step in the layout the CPU likes; in
    # float32 a product k.T @ v inside the step is three times slower.
    xt, vt = xb.transpose(0, 2, 1), vb.transpose(0, 2, 1)
    first, second = np.triu_indices(xb.shape[0])

    @jax.checkpoint
    def step(total, pair):
        by_row, by_column = total
        i, j = pair
        k = exponentials(xb[i], xt[j])
        by_row = by_row.at[i].add(k @ vb[j])
        # The same block serves the mirrored pair; the diagonal has no mirror.
        return (by_row, by_column.at[j].add(jnp.where(i == j, 0, vt[i] @ k))), None

    pairs = jnp.asarray(first), jnp.asarray(second)
    zeros = jnp.zeros_like(vb), jnp.zeros_like(vt)
    (by_row, by_column), _ = jax.lax.scan(step, zeros, pairs)
    total = by_row + by_column.transpose(0, 2, 1)
    return total.reshape(-1, total.shape[-1])[: x.shape[0]]


def _attend(kernel: Kernel, values: Array, block: int) -> tuple[Array, Array]:
    size = min(block, kernel.right.shape[0])
    right, values = blocks(kernel.right, size), blocks(values, size)
    beta, dtype = kernel.beta.astype(values.dtype), values.dtype
    column = blocks(kernel.column, size, fill=-jnp.inf)
    # Without a bias the times play no role; the logits have checked that they exist with one.
    row_times, times = kernel.row_times, kernel.column_times
    times = None if times is None or not kernel.biases else blocks(times, size)

    @jax.checkpoint
    def rows(left: Array, here: Any) -> tuple[Array, Array]:
        def step(carry, block_of_columns):
            top, mass, mean = carry
            r, v, c, s = block_of_columns
            logits = beta * (left @ r.T) + c
            for bias in kernel.biases:
                logits = logits + bias(here, s)
            # The result does not depend on the maximum; its derivative would look for the logit
            # equal to it, which a recomputation with other rounding does not hold.
            new_top = jax.lax.stop_gradient(jnp.maximum(top, jnp.max(logits, axis=1)))
            # A row that has seen only hidden tokens has top = −∞; −∞ − (−∞) must not appear.
            safe = jnp.where(jnp.isfinite(new_top), new_top, 0.0)
            k = jnp.exp(logits - safe[:, None])
            shrink = jnp.exp(top - safe)
            return (new_top, shrink * mass + k.sum(1), shrink[:, None] * mean + k @ v), None

        m = left.shape[0]
        zeros = jnp.zeros((m, values.shape[-1]), dtype)
        start = jnp.full(m, -jnp.inf, dtype), zeros[:, 0], zeros
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
    blocked = [None if a is None else blocks(a, size) for a in arrays]
    out = jax.lax.map(lambda block: rows(*block), blocked)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:count], out)


def blocks(array: Array, size: int, fill: float | None = 0.0) -> Array:
    """(n, …) to (⌈n/size⌉, size, …), padded with `fill`, or with the last row if None."""
    pad = [(0, -array.shape[0] % size)] + [(0, 0)] * (array.ndim - 1)
    how: Any = dict(mode="edge") if fill is None else dict(constant_values=fill)
    return jnp.pad(array, pad, **how).reshape(-1, size, *array.shape[1:])
