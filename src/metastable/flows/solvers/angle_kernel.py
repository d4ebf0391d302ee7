"""Plain attention of many small systems on the circle in GPU kernels. Imports JAX only."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from metastable.fields.sums.fused import exp2

_LOG2E = math.log2(math.e)
UNROLLED = 64  # tokens up to which the loop over them is written out
TILE = 512  # tokens that a program moves: of as many systems as it takes


def angle_drift(
    beta: Any,
    angles: jax.Array,
    *,
    rows: int = 32,
    samples: int = 32,
    warps: int = 4,
    interpret: bool = False,
) -> jax.Array:
    """θ̇_i = Σ_j k_ij sin(θ_j − θ_i) / Σ_j k_ij, k = e^{β cos(θ_i−θ_j)}, for angles (n, s).

    One β, or one for each system. A program keeps `rows` tokens of `samples` systems in registers
    while all n tokens of these systems pass by.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, systems = angles.shape
    padded = jnp.pad(angles, ((0, -count % rows), (0, -systems % samples)))
    scale = jnp.broadcast_to(jnp.asarray(beta, jnp.float32) * _LOG2E, (systems,))
    scale = jnp.pad(scale, (0, -systems % samples))
    cos, sin = jnp.cos(padded), jnp.sin(padded)

    def kernel(scale_ref, cos_ref, sin_ref, all_cos, all_sin, out_ref):
        sharp = scale_ref[...][None, :]
        c, s = cos_ref[...], sin_ref[...]
        mass, along, across = _pull(sharp, c, s, all_cos, all_sin, count, interpret)
        out_ref[...] = (c * across - s * along) / mass

    here = pl.BlockSpec((rows, samples), lambda i, s: (i, s))
    column = pl.BlockSpec((padded.shape[0], samples), lambda i, s: (0, s))
    out = pl.pallas_call(
        kernel,
        grid=(padded.shape[0] // rows, padded.shape[1] // samples),
        in_specs=[pl.BlockSpec((samples,), lambda i, s: (s,)), here, here, column, column],
        out_specs=here,
        out_shape=jax.ShapeDtypeStruct(padded.shape, jnp.float32),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
    )(scale, cos, sin, cos, sin)
    return out[:count, :systems]


def angle_march(
    beta: Any,
    angles: jax.Array,
    history: tuple[jax.Array, ...],
    decay: jax.Array,
    weights: jax.Array,
    *,
    rate: float,
    strides: int,
    steps: int,
    warps: int = 4,
    interpret: bool = False,
) -> tuple[jax.Array, jax.Array, tuple[jax.Array, ...]]:
    """Exponential steps of the angles (n, s), which stay in registers from the first to the last.

    `history` holds g = θ̇ + `rate`·θ of earlier steps, the latest first; `decay` (m,) and `weights`
    (m, 1 + len(history)) are those of `step_weights`. After `steps` steps each of `strides` strides
    leaves m states, at parts of its last step: gives (strides·m, n, s), the last of them, and the
    history then. Between steps the waves of a program's own systems go through memory, since a
    register of one thread is not seen by the others.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton as plgpu

    count, systems = angles.shape
    inside, memory = weights.shape
    rows = max(16, 1 << (count - 1).bit_length())
    samples = max(TILE // rows, 1)
    pad = lambda a: jnp.pad(a, ((0, rows - count), (0, -systems % samples)))
    scale = jnp.broadcast_to(jnp.asarray(beta, jnp.float32) * _LOG2E, (systems,))
    scale = jnp.pad(scale, (0, -systems % samples))
    given = tuple(pad(each) for each in (angles, *history))
    barrier = (lambda: None) if interpret else plgpu.debug_barrier

    def kernel(scale_ref, decay_ref, weights_ref, *refs):
        before, after = refs[:memory], refs[memory:]
        seen_ref, ends, (cos_ref, sin_ref) = after[0], after[1:-2], after[-2:]
        sharp = scale_ref[...][None, :]
        decays = [decay_ref[m] for m in range(inside)]
        shares = [[weights_ref[m * memory + k] for k in range(memory)] for m in range(inside)]

        def at(m, y, slopes):
            return decays[m] * y + sum(w * f for w, f in zip(shares[m], slopes, strict=True))

        def slopes_of(state):
            y, *past = state
            c, s = jnp.cos(y), jnp.sin(y)
            cos_ref[...], sin_ref[...] = c, s
            barrier()  # all have written before any reads
            mass, along, across = _pull(sharp, c, s, cos_ref, sin_ref, count, interpret)
            barrier()  # all have read before any writes again
            return (c * across - s * along) / mass + rate * y, *past

        def step(_, state):
            slopes = slopes_of(state)
            return (at(inside - 1, state[0], slopes), *slopes[:-1])

        def stride(k, state):
            if steps > 1:
                state = lax.fori_loop(jnp.int32(0), jnp.int32(steps - 1), step, state)
            slopes = slopes_of(state)
            for m in range(inside):
                reached = at(m, state[0], slopes)
                seen_ref[k * inside + m, :, :] = reached
            return (reached, *slopes[:-1])

        state = tuple(ref[...] for ref in before)
        state = lax.fori_loop(jnp.int32(0), jnp.int32(strides), stride, state)
        for ref, value in zip(ends, state, strict=True):
            ref[...] = value

    block = pl.BlockSpec((rows, samples), lambda s: (0, s))
    whole = lambda size: pl.BlockSpec((size,), lambda s: (0,))
    shape = jax.ShapeDtypeStruct(given[0].shape, jnp.float32)
    frames = strides * inside
    seen = jax.ShapeDtypeStruct((frames, *shape.shape), jnp.float32)
    out = pl.pallas_call(
        kernel,
        grid=(shape.shape[1] // samples,),
        in_specs=[
            pl.BlockSpec((samples,), lambda s: (s,)),
            whole(inside),
            whole(inside * memory),
            *([block] * memory),
        ],
        out_specs=[pl.BlockSpec((frames, rows, samples), lambda s: (0, 0, s))]
        + [block] * (memory + 2),
        out_shape=[seen] + [shape] * (memory + 2),
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
        interpret=interpret,
    )(scale, decay, weights.reshape(-1), *given)
    cut = lambda a: a[..., :count, :systems]
    return cut(out[0]), cut(out[1]), tuple(map(cut, out[2:-2]))


def _pull(
    sharp: Any, c: Any, s: Any, all_cos: Any, all_sin: Any, count: int, interpret: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Σ_j k_ij, Σ_j k_ij cos θ_j and Σ_j k_ij sin θ_j, log₂ k_ij = sharp (cos(θ_i − θ_j) − 1)."""
    left, right = sharp * c, sharp * s

    def step(j, totals):
        mass, along, across = totals
        there, beside = all_cos[j, :][None, :], all_sin[j, :][None, :]
        k = exp2(left * there + (right * beside - sharp), interpret)
        return mass + k, along + k * there, across + k * beside

    totals: Any = (jnp.zeros(c.shape, jnp.float32),) * 3
    if count <= UNROLLED:
        for j in range(count):
            totals = step(j, totals)
        return totals
    return lax.fori_loop(jnp.int32(0), jnp.int32(count), step, totals)
