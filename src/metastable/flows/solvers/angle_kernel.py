"""Plain attention of many small systems on the circle in one GPU kernel. Imports JAX only."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from metastable.fields.sums.fused import exp2

_LOG2E = math.log2(math.e)
UNROLLED = 64  # tokens up to which the loop over them is written out


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
        left, right = sharp * c, sharp * s

        def step(j, totals):
            mass, along, across = totals
            there, beside = all_cos[j, :][None, :], all_sin[j, :][None, :]
            k = exp2(left * there + (right * beside - sharp), interpret)
            return mass + k, along + k * there, across + k * beside

        totals = (jnp.zeros((rows, samples), jnp.float32),) * 3
        if count <= UNROLLED:
            for j in range(count):
                totals = step(j, totals)
        else:
            totals = lax.fori_loop(jnp.int32(0), jnp.int32(count), step, totals)
        mass, along, across = totals
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
