"""Attention of the sphere in one GPU kernel: no n × n array, no running maximum.

For unit vectors every logit β⟨x,y⟩ is at most β, so e^{β(⟨x,y⟩−1)} needs no maximum, and all
channels of Σ_j w_j e^{β(⟨x_i,y_j⟩−1)} (1, v_j) are plain sums. Imports JAX only.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

_LOG2E = math.log2(math.e)


def fused_sums(
    beta: Any,
    left: jax.Array,
    right: jax.Array,
    log_mass: jax.Array,
    values: jax.Array,
    *,
    half: bool = False,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Σ_j w_j k_ij, shape (m,), and Σ_j w_j k_ij v_j, shape (m, v), with k = e^{β(⟨x_i,y_j⟩−1)}.

    Products and sums in float32; `half` rounds the factors of the products to bfloat16, for more
    than four axes. Left and right must be unit vectors of at most 256 axes.
    """
    axes, channels = left.shape[1], values.shape[1]
    if max(axes, channels) > 256:
        raise ValueError(f"at most 256 axes and channels; got {axes} and {channels}: use Dense().")
    few = max(axes, channels) <= 4
    sums = register_sums if few else partial(tiled_sums, half=half)
    return sums(beta, left, right, log_mass, values, interpret=interpret)


def register_sums(
    beta: Any,
    left: jax.Array,
    right: jax.Array,
    log_mass: jax.Array,
    values: jax.Array,
    *,
    rows: int = 128,
    columns: int = 32,
    warps: int = 4,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """`fused_sums` for few axes: components in registers, one multiply-add per axis and channel.

    A program keeps `rows` × `columns` partial sums, so that nothing is exchanged between threads
    before the end, where they are added over the columns.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, axes, channels = left.shape[0], left.shape[1], values.shape[1]
    x = _pad((jnp.asarray(beta, jnp.float32) * _LOG2E * left.astype(jnp.float32)).T, rows)
    y, v = (_pad(a.astype(jnp.float32).T, columns) for a in (right, values))
    shift = _pad(_shift(beta, log_mass), columns, -jnp.inf)
    steps = shift.shape[0] // columns

    def kernel(x_ref, y_ref, shift_ref, v_ref, out_ref):
        here = [x_ref[axis, :][:, None] for axis in range(axes)]

        def step(j, totals):
            at = pl.ds(j * columns, columns)
            logit = shift_ref[at][None, :]
            for axis in range(axes):
                logit = logit + here[axis] * y_ref[axis, at][None, :]
            k = _exp2(logit, interpret)
            terms = [k, *(k * v_ref[c, at][None, :] for c in range(channels))]
            return tuple(total + term for total, term in zip(totals, terms, strict=True))

        zero = jnp.zeros((rows, columns), jnp.float32)
        totals = lax.fori_loop(jnp.int32(0), jnp.int32(steps), step, (zero,) * (1 + channels))
        for c, total in enumerate(totals):
            out_ref[c, :] = jnp.sum(total, axis=1)

    out = pl.pallas_call(
        kernel,
        grid=(x.shape[1] // rows,),
        in_specs=[
            pl.BlockSpec((axes, rows), lambda i: (0, i)),
            pl.BlockSpec(y.shape, lambda i: (0, 0)),
            pl.BlockSpec(shift.shape, lambda i: (0,)),
            pl.BlockSpec(v.shape, lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((1 + channels, rows), lambda i: (0, i)),
        out_shape=jax.ShapeDtypeStruct((1 + channels, x.shape[1]), jnp.float32),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
    )(x, y, shift, v)
    return out[0, :count], out[1:, :count].T


def tiled_sums(
    beta: Any,
    left: jax.Array,
    right: jax.Array,
    log_mass: jax.Array,
    values: jax.Array,
    *,
    half: bool = False,
    rows: int = 128,
    columns: int = 64,
    warps: int = 8,
    stages: int = 3,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """`fused_sums` for many axes: matrix products of tiles on the tensor cores.

    In float32 each product is three in TF32, which restores the lost digits.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, channels = left.shape[0], values.shape[1]
    dtype = jnp.bfloat16 if half else jnp.float32
    width = lambda size: max(16, 1 << (size - 1).bit_length())
    x, y, v = (
        jnp.pad(_pad(a.astype(dtype).T, size).T, ((0, 0), (0, width(a.shape[1]) - a.shape[1])))
        for a, size in ((left, rows), (right, columns), (values, columns))
    )
    shift = _pad(_shift(beta, log_mass), columns, -jnp.inf)
    scale = jnp.full((1,), jnp.asarray(beta, jnp.float32) * _LOG2E)
    steps = shift.shape[0] // columns
    precision = None if half or interpret else lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    dot = partial(lax.dot_general, precision=precision, preferred_element_type=jnp.float32)

    def kernel(scale_ref, x_ref, y_ref, shift_ref, v_ref, mass_ref, out_ref):
        here, sharpness = x_ref[...], scale_ref[0]

        def step(j, totals):
            mass, total = totals
            at = pl.ds(j * columns, columns)
            inner = dot(here, y_ref[at, :], (((1,), (1,)), ((), ())))
            k = _exp2(sharpness * inner + shift_ref[at][None, :], interpret)
            total = total + dot(k.astype(dtype), v_ref[at, :], (((1,), (0,)), ((), ())))
            return mass + jnp.sum(k, axis=1), total

        start = jnp.zeros(rows, jnp.float32), jnp.zeros((rows, v.shape[1]), jnp.float32)
        mass, total = lax.fori_loop(jnp.int32(0), jnp.int32(steps), step, start)
        mass_ref[...], out_ref[...] = mass, total

    whole = lambda array: pl.BlockSpec(array.shape, lambda i: (0,) * array.ndim)
    mass, total = pl.pallas_call(
        kernel,
        grid=(x.shape[0] // rows,),
        in_specs=[
            whole(scale),
            pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0)),
            whole(y),
            whole(shift),
            whole(v),
        ],
        out_specs=[
            pl.BlockSpec((rows,), lambda i: (i,)),
            pl.BlockSpec((rows, v.shape[1]), lambda i: (i, 0)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((x.shape[0],), jnp.float32),
            jax.ShapeDtypeStruct((x.shape[0], v.shape[1]), jnp.float32),
        ],
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=interpret,
    )(scale, x, y, shift, v)
    return mass[:count], total[:count, :channels]


def _shift(beta: Any, log_mass: jax.Array) -> jax.Array:
    """The part of a logit that belongs to the column, in powers of two."""
    return ((log_mass - beta) * _LOG2E).astype(jnp.float32)


def _pad(array: jax.Array, size: int, fill: float = 0.0) -> jax.Array:
    """The last axis padded to a multiple of `size`."""
    extra = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % size)]
    return jnp.pad(array, extra, constant_values=fill)


def _exp2(x: jax.Array, interpret: bool) -> jax.Array:
    if interpret:
        return jnp.exp2(x)
    from jax.experimental.pallas import triton as plgpu

    # The library function guards subnormal numbers with several instructions; these are sums of
    # terms up to 1, so the bare instruction of the chip is enough.
    (out,) = plgpu.elementwise_inline_asm(
        "ex2.approx.ftz.f32 $0, $1;",
        args=[x],
        constraints="=f,f",
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(x.shape, jnp.float32)],
    )
    return out
