"""Random steps along geodesics, for fields with noise."""

from __future__ import annotations

import equinox as eqx

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Sum
from metastable.measures import Points

_SHORTEST = 1e-307  # of a step; times divided by a shorter one overflow


class Geodesic(eqx.Module):
    """Steps for fields with noise: half a Brownian step, a drift step, half a Brownian step.

    On the sphere a Brownian step follows the geodesic of a Gaussian tangent vector, which is exact
    on the circle and of weak order 1 elsewhere; the drift step is the explicit midpoint rule.
    `step=None` takes 2 % of the fastest time scale among drift and diffusion. A run that would
    need more than `max_steps` is refused.
    """

    step: float | None = eqx.field(static=True, converter=checks.plain_number, default=None)
    max_steps: int = eqx.field(static=True, default=100_000_000)

    def __check_init__(self) -> None:
        if self.step is not None:
            checks.positive("step", self.step)
        checks.integer("max_steps", self.max_steps, 1)

    def resolve(self, measure: Points, field: Field, sum: Sum) -> float:
        """The length of a step for this measure and field."""
        if self.step is not None:
            return float(self.step)
        if is_traced(measure, field):
            raise ValueError("inside jit or grad, noise needs stepper=Geodesic(step=...).")
        # The stiffest drift is that of a token next to a cluster of all the others.
        cluster = jnp.broadcast_to(measure.points[0], measure.points.shape)
        nudge = jax.random.normal(jax.random.key(0), cluster.shape)
        velocity = lambda points: field.velocity(measure.at(points), sum=sum)
        change = jax.jvp(velocity, (cluster,), (nudge,))[1]
        stiffness = float(jnp.linalg.norm(change) / jnp.linalg.norm(nudge))
        step = 0.02 / max(1.0, stiffness, float(diffusion(field)) * max(measure.dim - 1, 1))
        if step < _SHORTEST:
            raise ValueError(
                f"the field must change at a finite rate next to a cluster; got a time scale of "
                f"{50 * step:.2g}: scale down its matrices or its noise."
            )
        return step
