"""The sphere's kernel in float64 on a GPU, each pair of tokens once. Imports JAX only."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

TILE = 64  # rows and columns that one program takes


def symmetric_sums(
    beta: Any, x: jax.Array, mass: jax.Array, values: jax.Array, block: int, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """Σ_j w_j k_ij, shape (n,), and Σ_j w_j k_ij v_j, shape (n, v), k = e^{β(⟨x_i,x_j⟩−1)}.

    Blocks of at most `block` tokens above the diagonal serve the pairs below it too.
    """
    count, size = x.shape[0], min(block, x.shape[0])
    size += -size % TILE
    pad = lambda a: jnp.pad(a, ((0, -count % size),) + ((0, 0),) * (a.ndim - 1))
    cut = lambda a: pad(a).reshape(-1, size, *a.shape[1:])
    xb, wb, vb = cut(x), cut(mass), cut(mass[:, None] * values)

    @jax.checkpoint
    def step(totals: tuple, pair: tuple) -> tuple[tuple, None]:
        masses, means = totals
        i, j = pair
        k, by_row, by_column = exponentials(beta, xb[i], xb[j], wb[i], wb[j], interpret)
        masses, means = masses.at[i].add(by_row), means.at[i].add(k @ vb[j])
        mirrored = jnp.where(i == j, 0.0, 1.0)  # the diagonal has no mirror
        masses = masses.at[j].add(mirrored * by_column)
        return (masses, means.at[j].add(mirrored * (k.T @ vb[i]))), None

    if xb.shape[0] == 1:
        k, total, _ = exponentials(beta, xb[0], xb[0], wb[0], wb[0], interpret)
        return total[:count], (k @ vb[0])[:count]
    pairs = tuple(map(jnp.asarray, np.triu_indices(xb.shape[0])))
    (masses, means), _ = lax.scan(step, (jnp.zeros_like(wb), jnp.zeros_like(vb)), pairs)
    return masses.reshape(-1)[:count], means.reshape(-1, values.shape[1])[:count]


@partial(jax.custom_jvp, nondiff_argnums=(5,))
def exponentials(
    beta: Any,
    x: jax.Array,
    y: jax.Array,
    x_mass: jax.Array,
    y_mass: jax.Array,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """k_ij = e^{β(⟨x_i,y_j⟩−1)}, Σ_j w_j k_ij and Σ_i w_i k_ij; counts are multiples of `TILE`.

    The exponential is taken and summed while the product is in registers: the array is written
    once, where a product, an exponential and a sum would pass over it five times.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    (m, axes), n, dtype = x.shape, y.shape[0], x.dtype
    width = min(64, max(16, 1 << (axes - 1).bit_length()))
    wide = ((0, 0), (0, -axes % width))
    left, right = jnp.pad(beta * x, wide), jnp.pad(y, wide)
    shift = jnp.full((1,), beta, dtype)

    def kernel(shift_ref, x_ref, y_ref, a_ref, b_ref, out_ref, row_ref, column_ref):
        inner = jnp.zeros((TILE, TILE), dtype)
        for first in range(0, left.shape[1], width):
            at = pl.ds(first, width)
            product = (((1,), (1,)), ((), ()))
            inner += lax.dot_general(
                x_ref[:, at], y_ref[:, at], product, preferred_element_type=dtype
            )
        k = jnp.exp(inner - shift_ref[0])
        out_ref[...] = k
        row_ref[0, :] = jnp.sum(k * b_ref[...][None, :], axis=1)
        column_ref[0, :] = jnp.sum(k * a_ref[...][:, None], axis=0)

    rows, columns = (lambda i, j: (i, 0)), (lambda i, j: (j, 0))
    k, by_row, by_column = pl.pallas_call(
        kernel,
        grid=(m // TILE, n // TILE),
        in_specs=[
            pl.BlockSpec((1,), lambda i, j: (0,)),
            pl.BlockSpec((TILE, left.shape[1]), rows),
            pl.BlockSpec((TILE, left.shape[1]), columns),
            pl.BlockSpec((TILE,), lambda i, j: (i,)),
            pl.BlockSpec((TILE,), lambda i, j: (j,)),
        ],
        out_specs=[
            pl.BlockSpec((TILE, TILE), lambda i, j: (i, j)),
            pl.BlockSpec((1, TILE), lambda i, j: (j, i)),
            pl.BlockSpec((1, TILE), lambda i, j: (i, j)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((m, n), dtype),
            jax.ShapeDtypeStruct((n // TILE, m), dtype),
            jax.ShapeDtypeStruct((m // TILE, n), dtype),
        ],
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
    )(shift, left, right, x_mass, y_mass)
    return k, by_row.sum(0), by_column.sum(0)


@exponentials.defjvp
def _change(interpret: bool, primals: tuple, tangents: tuple) -> Any:
    (beta, x, y, x_mass, y_mass), (d_beta, d_x, d_y, d_x_mass, d_y_mass) = primals, tangents
    k, by_row, by_column = exponentials(*primals, interpret)
    d_k = k * (beta * (d_x @ y.T + x @ d_y.T) + d_beta * (x @ y.T - 1))
    d_row, d_column = d_k @ y_mass + k @ d_y_mass, x_mass @ d_k + d_x_mass @ k
    return (k, by_row, by_column), (d_k, d_row, d_column)
