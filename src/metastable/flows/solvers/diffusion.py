"""Tokens with Brownian noise: geodesic random steps between frames."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int

from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Sum
from metastable.flows.solvers.segments import Job, Segment
from metastable.flows.solvers.steps import check_steps
from metastable.geometry.sphere import exponential, project, retract
from metastable.measures import Points


class Diffusive(Job):
    """Motion with noise: half a Brownian step, a midpoint drift step, half a Brownian step.

    The steps between two frames are equal and at most `step` long. The Gaussian vectors of step k
    come from the key fold_in(seed, k), whatever the segments.
    """

    measure: Points
    field: Field
    sum: Sum
    step: Float[Array, ""]
    seed: Int[Array, ""]
    max_steps: int = eqx.field(static=True, default=100_000_000)

    @property
    def name(self) -> str:
        return f"Geodesic(step={float(self.step):.3g})"

    @property
    def limit(self) -> int:
        return self.max_steps

    @property
    def grid(self) -> None:
        return None  # the steps between two frames are equal, whatever the segments

    def start(self, horizon: float) -> tuple[Array, Array]:
        check_steps(horizon, self.step, self.limit)
        return self.measure.points, jnp.asarray(0)

    def segment(self, carry: tuple[Array, Array], t0: Any, ts: Array) -> Segment:
        rate = diffusion(self.field)
        root = jax.random.key(self.seed)
        held = self.measure.on_sphere

        def wander(x: Array, key: Array, h: Any) -> Array:
            xi = jnp.sqrt(2 * rate * h) * jax.random.normal(key, x.shape, x.dtype)
            return exponential(x, project(x, xi)) if held else x + xi

        def drift(x: Array, t: Any, h: Any) -> Array:
            move = retract if held else (lambda x: x)
            v = lambda x, t: self.field.velocity(self.measure.at(x), t=t, sum=self.sum)
            half = move(x + 0.5 * h * v(x, t))
            return move(x + h * v(half, t + 0.5 * h))

        def to_frame(carry, interval):
            x, done = carry
            a, b = interval
            # Rounding must not turn an exact quotient into one step more.
            count = jnp.ceil((b - a) / self.step * (1 - 1e-12)).astype(int)
            h = (b - a) / jnp.maximum(count, 1)

            def advance(state):
                k, x = state
                first, second = jax.random.split(jax.random.fold_in(root, done + k))
                x = wander(x, first, 0.5 * h)
                x = drift(x, a + k * h, h)
                return k + 1, wander(x, second, 0.5 * h)

            # A loop of unknown length that reverse-mode differentiation can still go back through.
            unfinished = lambda state: state[0] < count
            _, x = eqx.internal.while_loop(
                unfinished, advance, (jnp.asarray(0), x), kind="checkpointed", checkpoints=64
            )
            return (x, done + count), x

        starts = jnp.concatenate([jnp.asarray(t0)[None], ts[:-1]])
        last, frames = jax.lax.scan(to_frame, carry, (starts, ts))
        taken = last[1] - carry[1]
        zero = jnp.zeros(())
        return Segment(frames, last, taken, taken, zero, jnp.asarray(False))

    def evaluations(self, attempts: int, segments: int) -> int:
        return 2 * attempts
