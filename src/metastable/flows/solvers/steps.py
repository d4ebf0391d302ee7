"""Single steps of a solve: kept on the sphere, and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import numpy as np
from jaxtyping import Array

from metastable.core.numerics import is_traced, jax, jnp
from metastable.geometry.sphere import retract

SAFETY, SHRINK, STRETCH = 0.9, 0.2, 10.0  # how far a step may change at once, as in diffrax
FEW_NUMBERS = 2**14  # in one stage; below, memory is no matter
SHORTEST = 1e-14  # steps below it only occur on the way to a blow-up


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


class Marched(NamedTuple):
    """Where `march` came: states at the times asked for, inf where they were not reached."""

    frames: Array
    steps: Array
    attempts: Array
    drift: Array
    reached: Array


def march(
    velocity: Callable[[Any, Array], Array],
    solver: Any,
    tolerances: tuple[float, float] | None,
    y: Array,
    t0: Any,
    ts: Array,
    step: Any,
    *,
    most: int,
    held: bool,
) -> Marched:
    """An explicit Runge–Kutta method from t0 through the times ts, by a plain loop.

    The steps, step sizes and interpolation are those of `diffrax.diffeqsolve`; this loop has one
    evaluation of the field in it and no derivative, and compiles three times as fast. `tolerances`
    are rtol and atol, None for equal steps; `held` returns to the sphere after each step.
    """
    c, _, b, error_weights = map(jnp.asarray, tableau(solver))
    mix, stages, end, fsal = partial_sums(solver), len(c), ts[-1], bool(solver.tableau.fsal)
    here = retract if held else (lambda y: y)

    def advance(state: tuple[Any, ...]) -> tuple[Any, ...]:
        t, step, y, first, k, frames, steps, attempts, drift = state
        h = jnp.minimum(step, end - t)

        def stage(i: Any, slopes: Array) -> Array:
            there = y + h * mix(i, slopes)
            return slopes.at[i].set(velocity(t + c[i] * h, there))

        slopes = jnp.zeros((stages, *y.shape)).at[0].set(first)
        slopes = jax.lax.fori_loop(1 if fsal else 0, stages, stage, slopes)
        new = y + h * jnp.tensordot(b, slopes, axes=1)
        kept, factor = jnp.asarray(True), 1.0
        if tolerances is not None:
            rtol, atol = tolerances
            size = jnp.maximum(jnp.abs(y), jnp.where(jnp.isnan(new).any(), y, jnp.abs(new)))
            error = h * jnp.tensordot(error_weights, slopes, axes=1) / (atol + rtol * size)
            error = jnp.sqrt(jnp.mean(error**2))
            error = jnp.where(jnp.isnan(error), jnp.inf, error)
            kept = error < 1
            wanted = SAFETY * error ** (-1 / solver.order(None))
            low, high = jnp.where(kept, 1.0, SHRINK), jnp.where(kept, STRETCH, SAFETY)
            factor = jnp.clip(wanted, low, high)
        # A step cut at the end must not leave one of rounding behind it.
        now = jnp.where(step >= end - t, end, t + h)

        def save(found: tuple[Any, Array]) -> tuple[Any, Array]:
            k, frames = found
            path = solver.interpolation_cls(t0=t, t1=now, y0=y, y1=new, k=h * slopes)
            return k + 1, frames.at[k].set(path.evaluate(ts[k]))

        def due(found: tuple[Any, Array]) -> Array:
            k = found[0]
            return kept & (k < len(ts)) & (ts[jnp.minimum(k, len(ts) - 1)] <= now)

        k, frames = jax.lax.while_loop(due, save, (k, frames))
        off = jnp.max(jnp.abs(jnp.linalg.norm(new, axis=-1) - 1.0)) if held else 0.0
        drift = jnp.where(kept & (off < 0.1), jnp.maximum(drift, off), drift)
        y, t = jnp.where(kept, here(new), y), jnp.where(kept, now, t)
        first = jnp.where(kept, slopes[-1], first) if fsal else first
        step = step if tolerances is None else h * factor
        return t, step, y, first, k, frames, steps + kept, attempts + 1, drift

    def going(state: tuple[Any, ...]) -> Array:
        return (state[0] < end) & (state[1] >= SHORTEST) & (state[7] < most)

    first = velocity(t0, y) if fsal else jnp.zeros_like(y)
    frames = jnp.full((len(ts), *y.shape), jnp.inf)
    t, step, none, zero = (
        jnp.asarray(t0, float),
        jnp.asarray(step, float),
        jnp.asarray(0.0),
        jnp.asarray(0),
    )
    begin = t, step, y, first, zero, frames, zero, zero, none
    state = jax.lax.while_loop(going, advance, begin)
    return Marched(state[5], state[6], state[7], state[8], state[0] >= end)


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


def partial_sums(solver: Any) -> Callable[[Any, Array], Array]:
    """Σ_{j<i} a_ij k_j for a stage i that is known when it runs.

    Large arrays on a CPU pass through memory once for each k_j that is there, not for all.
    """
    rows = tableau(solver)[1]

    def mix(i: Any, slopes: Array) -> Array:
        if slopes[0].size < FEW_NUMBERS or jax.default_backend() != "cpu":
            return jnp.tensordot(jnp.asarray(rows)[i], slopes, axes=1)

        def of(row: np.ndarray) -> Callable[[Array], Array]:
            zero = jnp.zeros_like(slopes[0])
            return lambda k: sum((row[j] * k[j] for j in np.flatnonzero(row)), zero)

        return jax.lax.switch(i, [of(row) for row in rows], slopes)

    return mix


def tableau(solver: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Times, matrix, weights and error weights, with the first stage at the start included."""
    table = solver.tableau
    c = np.concatenate([[0.0], np.asarray(table.c)])
    a = np.zeros((len(c), len(c)))
    for i, row in enumerate(table.a_lower):
        a[i + 1, : i + 1] = row
    return c, a, np.asarray(table.b_sol), np.asarray(table.b_error)
