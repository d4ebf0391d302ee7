"""Tokens carried along by a density that does not feel them."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.flows.solvers.mean_field import MeanField, mean_field
from metastable.flows.trajectory import Trajectory
from metastable.geometry.sphere import retract
from metastable.measures import Points
from metastable.measures.density import Density


def density_velocity(density: Density, field: Field, at: Any) -> Float[Array, "m d"]:
    """The velocity v[μ] − ∇ log μ/κ that carries a density, at unit vectors (m, d).

    Without noise it is v[μ], what the same field gives for very many tokens of this density. With
    noise it holds the probability flow of the diffusion, so that tokens moved by it, without any
    randomness, keep the law μ(t).
    """
    checks.finite_array("at", at, 2)
    equation = mean_field(field, density.basis)
    return _velocity(equation, density.coefficients, jnp.asarray(at, jnp.float64), density.axis)


@eqx.filter_jit
def _velocity(equation: MeanField, coefficients: Array, at: Array, axis: Any) -> Array:
    return equation.velocity(coefficients, retract(at), axis)


def push(run: Trajectory[Density], tokens: Points, tolerance: float = 1e-8) -> Trajectory[Points]:
    """Tokens moved by the velocity of a density run: ẋ = v[μ(t)](x) − ∇ log μ(t)(x)/κ.

    Tokens of the first frame stay tokens of every frame: their weak distance to it stays at its
    sampling error, which checks the density solver along characteristics. Between two frames the
    density is solved again together with the tokens, so nothing is interpolated.
    """
    if run.field is None:
        raise ValueError("run must know its field; a stored one needs dataclasses.replace(...).")
    checks.positive("tolerance", tolerance)
    densities = [frame for frame in run.frames if isinstance(frame, Density)]
    frames, steps = [tokens], 0
    for k in range(len(densities) - 1):
        # The later frame has at least the resolution that the way to it needed.
        start = densities[k].resized(max(densities[k].degree, densities[k + 1].degree))
        equation = mean_field(run.field, start.basis)
        times = np.asarray(run.times[k : k + 2])
        points, taken = _carry(
            equation,
            equation.basis.to_real(start.coefficients),
            frames[-1].points,
            start.axis,
            jnp.asarray(times),
            jnp.asarray(tolerance),
        )
        frames.append(tokens.at(points))
        steps += int(taken)
    return Trajectory(
        times=np.asarray(run.times[: len(frames)]),
        frames=tuple(frames),
        clock=run.clock,
        outcome=Outcome.done(),
        statistics={"steps": steps, "stepper": f"Dopri8(rtol={tolerance:g})"},
        field=run.field,
    )


@eqx.filter_jit
def _carry(
    equation: MeanField, y: Array, x: Array, axis: Any, times: Array, tolerance: Array
) -> tuple[Array, Array]:
    basis = equation.basis

    def rates(t: Any, state: tuple[Array, Array], equation: MeanField) -> tuple[Array, Array]:
        c = basis.from_real(state[0])
        moved = equation.velocity(c, retract(state[1]), axis)
        return basis.to_real(equation.derivative(c)), moved

    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(rates),
        diffrax.Dopri8(),
        t0=times[0],
        t1=times[1],
        dt0=(times[1] - times[0]) / 16,
        y0=(y, x),
        args=equation,
        saveat=diffrax.SaveAt(t1=True),
        stepsize_controller=diffrax.PIDController(tolerance, tolerance),
        max_steps=100_000,
    )
    return retract(solution.ys[1][-1]), solution.stats["num_accepted_steps"]
