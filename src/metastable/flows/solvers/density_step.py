"""A density moved from one time to the next, as long as its harmonics resolve it.

Runge–Kutta steps treat the linear part of the equation exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp
from metastable.flows.solvers.mean_field import MeanField
from metastable.flows.solvers.steps import tableau
from metastable.flows.steppers import Adaptive, Fixed
from metastable.measures.spectral import Basis


class Exponential(diffrax.AbstractSolver):
    """An explicit Runge–Kutta pair for ẏ = Λy + N(y), Λ diagonal, in the variable e^{−Λt}y.

    Y_i = e^{c_iτΛ}y + τ Σ_j a_ij e^{(c_i−c_j)τΛ} N(Y_j)  (Lawson, SIAM J. Numer. Anal. 4, 1967)

    Where N vanishes a step of any length is exact. Stiff decay needs c_1 ≤ c_2 ≤ …, as in Tsit5
    and Dopri5, so that no exponential grows. The term holds N alone. Source of the form: as cited;
    the pair is that of `solver`.
    """

    solver: diffrax.AbstractERK
    rates: Array  # Λ

    @property
    def term_structure(self):
        return diffrax.ODETerm

    @property
    def interpolation_cls(self):
        return diffrax.LocalLinearInterpolation

    def order(self, terms):
        return self.solver.order(terms)

    def init(self, terms, t0, t1, y0, args):
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        c, a, b, error_weights = tableau(self.solver)
        tau = t1 - t0
        lengths = (len(c),) + (1,) * y0.ndim

        def carry(stages: Array, weights: Any, until: Any) -> Array:
            """τ Σ_j w_j e^{(until − c_j)τΛ} N_j."""
            weights = jnp.asarray(weights)
            # The exponent is masked too: a stage of no weight may lie ahead in time.
            ahead = jnp.where(weights != 0, until - jnp.asarray(c), 0.0).reshape(lengths)
            grown = jnp.exp(ahead * tau * self.rates)
            return jnp.sum(tau * weights.reshape(lengths) * grown * stages, axis=0)

        def stage(i: Array, stages: Array) -> Array:
            at = jnp.asarray(c)[i]
            y = jnp.exp(at * tau * self.rates) * y0 + carry(stages, jnp.asarray(a)[i], at)
            return stages.at[i].set(terms.vf(t0 + at * tau, y, args))

        # One compiled stage serves them all.
        stages = jax.lax.fori_loop(0, len(c), stage, jnp.zeros((len(c), *y0.shape), y0.dtype))
        y1 = jnp.exp(tau * self.rates) * y0 + carry(stages, b, 1.0)
        error = carry(stages, error_weights, 1.0)
        return y1, error, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


class Courant(diffrax.AbstractStepSizeController):
    """Steps that `controller` finds accurate enough, no longer than advection is stable for.

    The error estimate sees an instability of the highest harmonics only once it has grown to the
    tolerance, and by then they have filled the tail by which resolution is judged. `frequency`
    gives max|v| times the degree; the length of a step times it stays in the stability region.
    """

    controller: Any
    frequency: Callable[[Array, Any], Array]
    reach: float

    def wrap(self, direction):
        return Courant(self.controller.wrap(direction), self.frequency, self.reach)

    def init(self, terms, t0, t1, y0, dt0, args, func, error_order):
        first, state = self.controller.init(terms, t0, t1, y0, dt0, args, func, error_order)
        return self._cut(t0, first, y0, args), state

    def adapt_step_size(
        self, t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
    ):
        keep, next_t0, next_t1, *rest = self.controller.adapt_step_size(
            t0, t1, y0, y1_candidate, args, y_error, error_order, controller_state
        )
        y = jnp.where(keep, y1_candidate, y0)
        return keep, next_t0, self._cut(next_t0, next_t1, y, args), *rest

    def _cut(self, t0: Any, t1: Any, y: Array, args: Any) -> Any:
        longest = self.reach / jnp.maximum(self.frequency(y, args), 1e-300)
        return jnp.minimum(t1, t0 + longest)


def imaginary_reach(solver: diffrax.AbstractERK) -> float:
    """How far up the imaginary axis the stability region of a pair goes, to a growth of 1e−6."""
    c, a, b, _ = tableau(solver)
    y = np.linspace(0.05, 8.0, 160)
    stages = np.linalg.solve(np.eye(len(c)) - 1j * y[:, None, None] * a, np.ones((len(c), 1)))
    growth = np.abs(1 + 1j * y * (stages[..., 0] @ b))
    outside = growth > 1 + 1e-6
    return float(y[max(int(np.argmax(outside)) - 1, 0)])


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
            dtmin=1e-14 * jnp.minimum(1.0, t1),  # unnormalised clocks tick e^β times faster
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
        # Out of steps, or of digits for them: neither may pass for the horizon. There the next step
        # has no length, which the controller reports too.
        exhausted=(solution.result != diffrax.RESULTS.successful)
        & (solution.result != diffrax.RESULTS.event_occurred)
        & (solution.ts[-1] < t1),
        steps=taken,
        attempts=solution.stats["num_steps"],
        step=(solution.ts[-1] - t0) / jnp.maximum(taken, 1),
    )
