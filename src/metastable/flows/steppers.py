"""How time advances: adaptive or fixed steps, kept on the sphere; and geodesic random steps."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Sum
from metastable.geometry.sphere import retract
from metastable.measures import Points

__all__ = [
    "Adaptive",
    "Fixed",
    "Geodesic",
    "Retracted",
    "check_steps",
    "evaluations_per_step",
]

_SHORTEST = 1e-307  # of a step; times divided by a shorter one overflow


class Adaptive(eqx.Module):
    """Steps of an explicit Runge–Kutta pair, as long as the local error stays below tolerance.

    `rtol` and `atol` bound the error of one step in root mean square over all coordinates. The
    order-8 default needs the fewest evaluations from about 1e−6 downwards.
    """

    rtol: float = eqx.field(static=True, default=1e-9)
    atol: float = eqx.field(static=True, default=1e-9)
    solver: diffrax.AbstractSolver = eqx.field(default_factory=diffrax.Dopri8)
    max_steps: int = eqx.field(static=True, default=100_000)

    def __check_init__(self) -> None:
        checks.positive("rtol", self.rtol)
        checks.positive("atol", self.atol)
        checks.integer("max_steps", self.max_steps, 1)

    @property
    def name(self) -> str:
        return f"{type(self.solver).__name__}(rtol={self.rtol:g}, atol={self.atol:g})"

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        # Steps below 1e−14 of a time unit only occur on the way to a blow-up.
        return diffrax.PIDController(self.rtol, self.atol, dtmin=1e-14, force_dtmin=False)


class Fixed(eqx.Module):
    """Equal steps of length `step`; `diffrax.Euler()` gives the scheme of the paper scripts."""

    step: float = eqx.field(static=True)
    solver: diffrax.AbstractSolver = eqx.field(default_factory=diffrax.Tsit5)
    max_steps: int = eqx.field(static=True, default=10_000_000)

    def __check_init__(self) -> None:
        checks.positive("step", self.step)
        checks.integer("max_steps", self.max_steps, 1)

    @property
    def name(self) -> str:
        return f"{type(self.solver).__name__}(step={self.step:g})"

    @property
    def controller(self) -> diffrax.AbstractStepSizeController:
        return diffrax.ConstantStepSize()


class Geodesic(eqx.Module):
    """Steps for fields with noise: half a Brownian step, a drift step, half a Brownian step.

    On the sphere a Brownian step follows the geodesic of a Gaussian tangent vector, which is exact
    on the circle and of weak order 1 elsewhere; the drift step is the explicit midpoint rule.
    `step=None` takes 2 % of the fastest time scale among drift and diffusion. A run that would
    need more than `max_steps` is refused.
    """

    step: float | None = eqx.field(static=True, default=None)
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


class Retracted(diffrax.AbstractWrappedSolver):
    """A solver that returns to the sphere after every step, and remembers how far it had left.

    The field is evaluated at x/‖x‖, so it is the same at a point and at its retraction: a solver
    that re-uses its last evaluation (FSAL) stays consistent.
    """

    solver: diffrax.AbstractSolver

    @property
    def term_structure(self):
        return self.solver.term_structure

    @property
    def interpolation_cls(self):
        return self.solver.interpolation_cls

    def order(self, terms):
        return self.solver.order(terms)

    def strong_order(self, terms):
        return self.solver.strong_order(terms)

    def error_order(self, terms):
        return self.solver.error_order(terms)

    def init(self, terms, t0, t1, y0, args):
        return self.solver.init(terms, t0, t1, y0, args), jnp.zeros(())

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        inner, drift = solver_state
        y1, error, dense, inner, result = self.solver.step(
            terms, t0, t1, y0, args, inner, made_jump
        )
        off = jnp.max(jnp.abs(jnp.linalg.norm(y1, axis=-1) - 1.0))
        # A rejected trial step may leave the sphere (or be NaN) without harm; only small drifts
        # come from accepted steps.
        drift = jnp.where(off < 0.1, jnp.maximum(drift, off), drift)
        return retract(y1), error, dense, (inner, drift), result

    def func(self, terms, t0, y0, args):
        return self.solver.func(terms, t0, y0, args)


def check_steps(horizon: float, step: Any, max_steps: int) -> None:
    """Refuse a horizon of more equal steps than `max_steps`, before the first of them."""
    if is_traced(step):
        return
    steps = horizon / float(step)
    if steps > max_steps * (1 + 1e-9):
        raise ValueError(
            f"horizon must be at most max_steps = {max_steps} steps of {float(step):.3g}; got "
            f"{horizon:g}, which is {steps:.3g} of them: shorten it, give the stepper a longer "
            "step or more max_steps, or scale down the field or its noise if they set the step."
        )


def evaluations_per_step(solver: Any) -> int:
    """Field evaluations of one step of an explicit Runge–Kutta method."""
    if not isinstance(solver, diffrax.AbstractERK):
        return 1
    tableau: Any = solver.tableau
    return tableau.c.size if tableau.fsal else tableau.c.size + 1
