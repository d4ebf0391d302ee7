"""Attention in one GPU kernel: no n × n array. Imports JAX only.

A program sums a tile of rows over one part of the columns; the parts are added in float64 outside,
so that few tokens fill the card and many do not lose digits to long sums in float32. For unit
vectors every logit β⟨x,y⟩ is at most β, so e^{β(⟨x,y⟩−1)} needs no running maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_LOG2E = math.log2(math.e)
_FEW = 4  # axes up to which components are kept in registers
WIDEST = 256  # axes that a tile can hold
PART = 4096  # columns that one program sums in float32
_CARD = 512  # programs that fill a large card

# Products of three-part bfloat16 factors that count in float32, the smallest first.
_PRODUCTS = ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))


class Logits(NamedTuple):
    """log k_ij = β⟨left_i, right_j⟩ + column_j + bias(row_times_i, column_times_j).

    `bounded` promises β⟨left, right⟩ ≤ β. `bias` maps two arrays of times, (a,) and (b,), to the
    logits (a, b) that are added; it may hold no arrays of its own.
    """

    beta: Any
    left: jax.Array
    right: jax.Array
    column: jax.Array
    bounded: bool = True
    bias: Callable[[jax.Array, jax.Array], jax.Array] | None = None
    row_times: jax.Array | None = None
    column_times: jax.Array | None = None


def fused_sums(
    logits: Logits, values: jax.Array, *, half: bool = False, interpret: bool = False
) -> tuple[jax.Array, jax.Array]:
    """log Σ_j k_ij, shape (m,), and Σ_j k_ij v_j / Σ_j k_ij, shape (m, v), in float64.

    Products and sums in float32; `half` rounds the factors of the products to bfloat16 when there
    are more than four axes. At most 256 axes and channels.
    """
    axes, channels = logits.left.shape[1], values.shape[1]
    if max(axes, channels) > WIDEST:
        raise ValueError(
            f"at most {WIDEST} axes and channels; got {axes} and {channels}: use Dense()."
        )
    few = max(axes, channels) <= _FEW and logits.bounded and logits.bias is None
    parts = register_sums if few else partial(tiled_sums, half=half)
    top, mass, total = parts(logits, values, interpret=interpret)
    # Parts that saw nothing have mass zero and no top.
    best = jnp.max(top, axis=0)
    safe = jnp.where(jnp.isfinite(best), best, 0.0)
    share = jnp.exp2(top - safe)
    mass = jnp.sum(share * mass, axis=0, dtype=jnp.float64)
    total = jnp.sum(share[..., None] * total, axis=0, dtype=jnp.float64)
    seen = jnp.where(mass > 0, mass, 1.0)
    log_mass = jnp.where(mass > 0, safe / _LOG2E + jnp.log(seen), -jnp.inf)
    return log_mass, total / seen[:, None]


Parts = tuple[jax.Array, jax.Array, jax.Array]  # (s, m) top in powers of two, (s, m), (s, m, v)


def register_sums(
    logits: Logits,
    values: jax.Array,
    *,
    rows: int = 128,
    columns: int = 16,
    warps: int = 4,
    part: int = PART,
    interpret: bool = False,
) -> Parts:
    """Bounded logits of few axes: components in registers, one multiply-add per axis and channel.

    A program keeps `rows` × `columns` partial sums, so that nothing is exchanged between threads
    before the end, where they are added over the columns.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, axes, channels = *logits.left.shape, values.shape[1]
    beta = jnp.asarray(logits.beta)
    x = _pad((beta * _LOG2E * logits.left).T.astype(jnp.float32), rows)
    y, v = (_pad(a.T.astype(jnp.float32), columns) for a in (logits.right, values))
    shift = _pad(((logits.column - beta) * _LOG2E).astype(jnp.float32), columns, -jnp.inf)
    splits, steps = _splits(x.shape[1] // rows, shift.shape[0] // columns, part // columns)
    y, v = (_pad(a, columns * splits * steps) for a in (y, v))
    shift = _pad(shift, columns * splits * steps, -jnp.inf)

    def kernel(x_ref, y_ref, shift_ref, v_ref, out_ref):
        here = [x_ref[axis, :][:, None] for axis in range(axes)]
        begin = pl.program_id(1) * jnp.int32(steps)

        def step(j, totals):
            at = pl.ds((begin + j) * columns, columns)
            logit = shift_ref[at][None, :]
            for axis in range(axes):
                logit = logit + here[axis] * y_ref[axis, at][None, :]
            k = exp2(logit, interpret)
            terms = [k, *(k * v_ref[c, at][None, :] for c in range(channels))]
            return tuple(total + term for total, term in zip(totals, terms, strict=True))

        zero = jnp.zeros((rows, columns), jnp.float32)
        totals = lax.fori_loop(jnp.int32(0), jnp.int32(steps), step, (zero,) * (1 + channels))
        for c, total in enumerate(totals):
            out_ref[0, c, :] = jnp.sum(total, axis=1)

    whole = lambda array: pl.BlockSpec(array.shape, lambda i, s: (0,) * array.ndim)
    out = pl.pallas_call(
        kernel,
        grid=(x.shape[1] // rows, splits),
        in_specs=[
            pl.BlockSpec((axes, rows), lambda i, s: (0, i)),
            whole(y),
            whole(shift),
            whole(v),
        ],
        out_specs=pl.BlockSpec((1, 1 + channels, rows), lambda i, s: (s, 0, i)),
        out_shape=jax.ShapeDtypeStruct((splits, 1 + channels, x.shape[1]), jnp.float32),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
    )(x, y, shift, v)
    mass, total = out[:, 0, :count], out[:, 1:, :count].transpose(0, 2, 1)
    return jnp.full(mass.shape, beta * _LOG2E), mass, total


def tiled_sums(
    logits: Logits,
    values: jax.Array,
    *,
    half: bool = False,
    rows: int = 128,
    columns: int = 32,
    warps: int = 4,
    stages: int = 2,
    part: int = PART,
    interpret: bool = False,
) -> Parts:
    """Many axes, or logits without a bound: matrix products of tiles on the tensor cores.

    In float32 every factor is three numbers in bfloat16, and a product six products of these: the
    24 bits of float32 at the speed of the fastest units.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, channels = logits.left.shape[0], values.shape[1]
    beta, bounded, bias = jnp.asarray(logits.beta), logits.bounded, logits.bias
    products = ((0, 0),) if half else _PRODUCTS
    pieces = 1 if half else 3
    grid_rows = -(-count // rows)
    splits, steps = _splits(grid_rows, -(-logits.right.shape[0] // columns), part // columns)
    tall, long = grid_rows * rows, splits * steps * columns
    x = _pieces(_block(beta * _LOG2E * logits.left, tall), pieces)
    y, v = (_pieces(_block(a, long), pieces) for a in (logits.right, values))
    shift = logits.column - beta if bounded else logits.column
    shift = _pad((shift * _LOG2E).astype(jnp.float32), long, -jnp.inf)
    times = [_pad(jnp.asarray(t, jnp.float64), size) for t, size in _times(logits, tall, long)]
    dot = partial(lax.dot_general, preferred_element_type=jnp.float32)

    def kernel(x_ref, y_ref, shift_ref, v_ref, *refs):
        *clocks, top_ref, mass_ref, out_ref = refs
        here = [x_ref[p] for p in range(pieces)]
        begin = pl.program_id(1) * jnp.int32(steps)

        def step(j, state):
            top, mass, total = state
            at = pl.ds((begin + j) * columns, columns)
            inner = jnp.zeros((rows, columns), jnp.float32)
            for p, q in products:
                inner = inner + dot(here[p], y_ref[q, at, :], (((1,), (1,)), ((), ())))
            logit = inner + shift_ref[at][None, :]
            if bias is not None:
                logit = logit + (_LOG2E * bias(clocks[0][...], clocks[1][at])).astype(jnp.float32)
            if not bounded:
                new = jnp.maximum(top, jnp.max(logit, axis=1))
                safe = jnp.where(new > -jnp.inf, new, 0.0)
                shrink = exp2(top - safe, interpret)
                top, mass, total = new, shrink * mass, shrink[:, None] * total
                logit = logit - safe[:, None]
            k = exp2(logit, interpret)
            mass = mass + jnp.sum(k, axis=1)
            factors = _split(k, pieces)
            # Tensor cores cut off what they add: a long sum in them drifts, so each is short.
            part = jnp.zeros((rows, v.shape[2]), jnp.float32)
            for p, q in products:
                part = part + dot(factors[p], v_ref[q, at, :], (((1,), (0,)), ((), ())))
            return top, mass, total + part

        start = jnp.full(rows, 0.0 if bounded else -jnp.inf, jnp.float32)
        state = start, jnp.zeros(rows, jnp.float32), jnp.zeros((rows, v.shape[2]), jnp.float32)
        top, mass, total = lax.fori_loop(jnp.int32(0), jnp.int32(steps), step, state)
        top_ref[0, :], mass_ref[0, :], out_ref[0, :, :] = top, mass, total

    whole = lambda array: pl.BlockSpec(array.shape, lambda i, s: (0,) * array.ndim)
    of_rows = pl.BlockSpec((1, rows), lambda i, s: (s, i))
    top, mass, total = pl.pallas_call(
        kernel,
        grid=(grid_rows, splits),
        in_specs=[
            pl.BlockSpec((pieces, rows, x.shape[2]), lambda i, s: (0, i, 0)),
            *map(whole, (y, shift, v)),
            *([pl.BlockSpec((rows,), lambda i, s: (i,)), whole(times[1])] if times else []),
        ],
        out_specs=[of_rows, of_rows, pl.BlockSpec((1, rows, v.shape[2]), lambda i, s: (s, i, 0))],
        out_shape=[
            jax.ShapeDtypeStruct((splits, tall), jnp.float32),
            jax.ShapeDtypeStruct((splits, tall), jnp.float32),
            jax.ShapeDtypeStruct((splits, tall, v.shape[2]), jnp.float32),
        ],
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=stages),
        interpret=interpret,
    )(x, y, shift, v, *times)
    top = top[:, :count].astype(jnp.float64)
    return (top + beta * _LOG2E if bounded else top), mass[:, :count], total[:, :count, :channels]


def _splits(programs: int, steps: int, most: int) -> tuple[int, int]:
    """Parts of the columns, and steps in each: short sums, and enough programs for a card."""
    splits = max(-(-steps // max(most, 1)), min(-(-_CARD // programs), -(-steps // 4)))
    return splits, -(-steps // splits)


def _times(logits: Logits, tall: int, long: int) -> list[tuple[Any, int]]:
    if logits.bias is None:
        return []
    return [(logits.row_times, tall), (logits.column_times, long)]


def _block(array: jax.Array, count: int) -> jax.Array:
    """Rows padded to `count`, axes to a power of two that the tensor cores take."""
    width = max(16, 1 << (array.shape[1] - 1).bit_length())
    return jnp.pad(array, ((0, count - array.shape[0]), (0, width - array.shape[1])))


def _pieces(array: jax.Array, pieces: int) -> jax.Array:
    """(pieces, n, p) numbers in bfloat16 whose sum is the array."""
    return jnp.stack(_split(array.astype(jnp.float32), pieces))


def _split(array: jax.Array, pieces: int) -> list[jax.Array]:
    """A float32 array as a sum of bfloat16 ones: three hold all of its bits."""
    found = []
    for _ in range(pieces - 1):
        # The upper half of the bits; the compiler may not see through it, as it does a conversion.
        bits = lax.bitcast_convert_type(array, jnp.uint32) & jnp.uint32(0xFFFF0000)
        upper = lax.bitcast_convert_type(bits, jnp.float32)
        found.append(upper.astype(jnp.bfloat16))
        array = array - upper
    return [*found, array.astype(jnp.bfloat16)]


def _pad(array: jax.Array, size: int, fill: float = 0.0) -> jax.Array:
    """The last axis padded to a multiple of `size`."""
    extra = [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % size)]
    return jnp.pad(array, extra, constant_values=fill)


def exp2(x: jax.Array, interpret: bool) -> jax.Array:
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
