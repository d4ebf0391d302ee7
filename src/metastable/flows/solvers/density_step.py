"""A density moved from one time to the next, as long as its harmonics resolve it."""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
from jaxtyping import Array

from metastable.core.numerics import jnp
from metastable.flows.solvers.exponential import Courant, Exponential, imaginary_reach
from metastable.flows.solvers.mean_field import MeanField
from metastable.flows.steppers import Adaptive, Fixed
from metastable.measures.spectral import Basis


class Part(NamedTuple):
    """What one compiled call gives back."""

    time: Any  # where it stopped
    state: Any
    stopped: Any  # because the tail grew
    exhausted: Any  # because of the step limit
    steps: Any
    attempts: Any
    step: Any  # a good length for the next step


def tail_grows(basis: Basis, state: Any, tail: float | Array) -> Array:
    """Whether the last eighth of the harmonics exceeds its share of the largest."""
    c = basis.from_real(jnp.asarray(state))
    squares = basis.weights * jnp.abs(c) ** 2
    last = basis.degrees > 0.875 * basis.degree
    largest = jnp.max(jnp.where(basis.degrees > 0, squares, 0.0))
    return jnp.max(jnp.where(last, squares, 0.0)) > tail**2 * largest


@eqx.filter_jit
def solve(
    equation: MeanField, stepper: Adaptive | Fixed, y: Any, t0: Any, t1: Any, step: Any, tail: Any
) -> Part:
    """Move the real coefficients y from t0 to t1, or to the first step after which the tail grows.

    Numbers must be arrays: anything else is compiled in.
    """
    basis = equation.basis

    def nonlinear(t: Any, y: Array, equation: MeanField) -> Array:
        return basis.to_real(equation.tendency(basis.from_real(y)))

    def frequency(y: Array, equation: MeanField) -> Array:
        return basis.degree * equation.speed(basis.from_real(y))

    controller: Any = stepper.controller
    if isinstance(stepper, Adaptive):
        # Absolute errors count against the largest coefficient, so that a perturbation of 1e−9
        # is followed as accurately as one of order one.
        scale = basis.size(basis.from_real(y))
        inner = diffrax.PIDController(
            stepper.rtol,
            stepper.atol * scale,
            norm=lambda error: jnp.max(jnp.abs(error)),
            dtmin=1e-14,
            force_dtmin=False,
        )
        reach = imaginary_reach(stepper.solver)  # pyright: ignore[reportArgumentType]
        controller = Courant(inner, frequency, reach)
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(nonlinear),
        Exponential(stepper.solver, equation.rates),  # pyright: ignore[reportArgumentType]
        t0=t0,
        t1=t1,
        dt0=jnp.minimum(step, t1 - t0),
        y0=y,
        args=equation,
        saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=controller,
        max_steps=stepper.max_steps,
        event=diffrax.Event(lambda t, y, args, **_: tail_grows(basis, y, tail)),
        throw=False,
    )
    taken = solution.stats["num_accepted_steps"]
    return Part(
        time=solution.ts[-1],
        state=solution.ys[-1],
        stopped=solution.result == diffrax.RESULTS.event_occurred,
        exhausted=solution.result == diffrax.RESULTS.max_steps_reached,
        steps=taken,
        attempts=solution.stats["num_steps"],
        step=(solution.ts[-1] - t0) / jnp.maximum(taken, 1),
    )
