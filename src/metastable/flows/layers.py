"""Tokens in discrete depth: the transformer as it is computed."""

from __future__ import annotations

import time
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.noise import diffusion
from metastable.fields.sums import Dense, Sum
from metastable.flows.segments import count_whole
from metastable.flows.trajectory import Trajectory
from metastable.geometry.sphere import retract
from metastable.measures import Points

__all__ = ["layers"]

DEEPEST = 100_000_000


def layers(
    measure: Points,
    field: Field,
    depth: int,
    step: float = 1.0,
    *,
    sum: Sum | None = None,
    frames: int | None = None,
) -> Trajectory:
    """Apply `depth` residual layers: x ← N(x + ε A(x)), N(y) = y/‖y‖ on the sphere, ε = `step`.

    A is the field before projection, as in a transformer; layer k sees the field at time kε. As
    ε → 0 with depth·ε fixed the result tends to `flow` at first order. In R^d nothing is
    normalised. `frames` layers are kept, all of them by default.

    >>> import metastable as ms
    >>> run = layers(ms.uniform(tokens=8, dim=16), ms.SelfAttention(beta=1.0), depth=6)
    >>> len(run.frames), run.clock
    (7, 'SA')
    """
    if checks.integer("depth", depth, 1) > DEEPEST:
        raise ValueError(
            f"depth must be at most {DEEPEST} layers; got {float(depth):.3g}: take fewer, or a "
            "longer step."
        )
    checks.positive("step", step)
    if is_traced(diffusion(field)) or float(diffusion(field)) > 0:
        raise ValueError("layers cannot carry noise; this field holds Noise: use flow(...).")
    kept = depth + 1 if frames is None else min(checks.integer("frames", frames, 2), depth + 1)
    sum = Dense() if sum is None else sum
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, t=0.0, sum=sum), measure, field)
    checks.fits_memory(
        f"keeping {kept} layers of {measure.count} tokens in dimension {measure.dim}",
        2.0 * kept * measure.points.size,
        "pass frames=... to keep fewer",
    )
    stride = -(-depth // (kept - 1))
    indices = np.minimum(np.arange(0, depth + stride, stride), depth)
    began = time.perf_counter()
    states = _apply(measure, field, sum, step, depth, stride)
    outcome, statistics = Outcome.done(), {}
    if not is_traced(states):
        reached = count_whole(np.asarray(states), measure.on_sphere)
        if reached < indices.size:
            indices, states = indices[:reached], states[:reached]
            outcome = Outcome.blow_up(float(indices[-1] * step))
        off = np.max(np.abs(np.linalg.norm(np.asarray(states), axis=-1) - 1))
        statistics = {
            "steps": int(indices[-1]),
            "evaluations": int(indices[-1]),
            "sum": sum.name,
            "stepper": f"layers(step={step:g})",
            "max_norm_drift": float(off) if measure.on_sphere else None,
            "seconds": time.perf_counter() - began,
        }
    return Trajectory(
        times=indices * float(step),
        frames=tuple(measure.at(state) for state in states),
        clock=field.clock or "none",
        outcome=outcome,
        statistics=statistics,
        field=field,
    )


@eqx.filter_jit
def _apply(
    measure: Points, field: Field, sum: Sum, step: Any, depth: int, stride: int
) -> Float[Array, "frame n d"]:
    """The state before the first layer and after every `stride` layers, and after the last."""

    def layer(x, k):
        tokens = measure.at(x)
        here = Places(x, tokens.positions, own=True)
        # A hair past kε, so that rounding cannot leave a layer on the wrong side of a switch.
        moved = x + step * field.drift(tokens, here, (k + 1e-9) * step, sum)
        # The last group of layers may be short; the layers past the depth do nothing.
        return jnp.where(k < depth, retract(moved) if measure.on_sphere else moved, x), None

    @jax.checkpoint
    def group(x, first):
        x, _ = jax.lax.scan(layer, x, first + jnp.arange(stride))
        return x, x

    _, states = jax.lax.scan(group, measure.points, jnp.arange(0, depth, stride))
    return jnp.concatenate([measure.points[None], states])
