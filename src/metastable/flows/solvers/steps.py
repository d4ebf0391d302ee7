"""Single steps of a solve: kept on the sphere, and counted."""

from __future__ import annotations

from typing import Any

import diffrax
import numpy as np

from metastable.core.numerics import is_traced, jnp
from metastable.geometry.sphere import retract


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


def tableau(solver: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, matrix, weights and error weights, with the first stage at the start included."""
    table = solver.tableau
    c = np.concatenate([[0.0], np.asarray(table.c)])
    a = np.zeros((len(c), len(c)))
    for i, row in enumerate(table.a_lower):
        a[i + 1, : i + 1] = row
    return c, a, np.asarray(table.b_sol), np.asarray(table.b_error)
