"""A Gaussian in continuous depth."""

from __future__ import annotations

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.schedule import jumps
from metastable.flows.solvers.affine import affine_velocity
from metastable.flows.solvers.frames import Frame, frame_times
from metastable.flows.solvers.solver import Choices, Solver
from metastable.flows.solvers.steps import check_steps, evaluations_per_step
from metastable.flows.steppers import Adaptive, Fixed
from metastable.flows.trajectory import Trajectory
from metastable.measures import Gaussian

LOOKS = 24  # how many times Python looks up from the compiled solve of a run
# A covariance that will double within this share of the time elapsed has reached its pole: what
# is left of the way is known to the square of this number.
NEAR = 1e-8


class GaussianFlow(Solver):
    """A Gaussian moved by attention: the exact mean-field flow, as an ODE for mean and factor.

    ṁ = c + Bm,  L̇ = BL,  Σ = LLᵀ,  with the affine velocity c + Bx of the field under N(m, Σ):
    for one softmax head ṁ = V(I + ΣA)m, Σ̇ = VΣAΣ + (VΣAΣ)ᵀ, A = βKᵀQ.

    Source: Castin, Ablin, Carrillo, Peyré, arXiv:2501.18322. `affine_velocity` says which fields
    are allowed, and why the others are not. Evolving L keeps Σ positive semidefinite, and its rank
    constant at finite times, whatever the error of a step.

    Softmax covariances can become infinite in finite time, like a pole. Such a run ends with the
    outcome "blow_up"; `statistics["blow_up_time"]` is the time of the pole, found to the accuracy
    of the steps. For V ≠ I there are also runs that settle, and runs that only grow, along a
    direction with xᵀAx near 0, in steps as short as 1/‖Σ‖: those end with "step_limit".

    The default tolerance is 1e−11, relative to the size of the start. Inside `jax.grad` the solve
    is one differentiable call.

    >>> import metastable as ms
    >>> run = ms.flow(Gaussian([0.0], [[1.0]]), ms.SelfAttention(beta=1.0), horizon=1.0)
    >>> run.outcome.name, round(run.statistics["blow_up_time"], 9)
    ('blow_up', 0.5)
    """

    def __init__(self, measure: Gaussian, field: Field, horizon: float, how: Choices):
        checks.positive("horizon", horizon)
        self.stepper: Adaptive | Fixed = how.stepper or _default(measure)
        if isinstance(self.stepper, Fixed):
            check_steps(float(horizon), self.stepper.step, self.stepper.max_steps)
        self.times = frame_times(how.frames, float(horizon))
        checks.fits_memory(
            f"keeping {self.times.size} covariances of dimension {measure.dim}",
            2.0 * self.times.size * measure.factor.size,
            "ask for fewer frames",
        )
        # Refusals and mismatched shapes are met here, before anything is compiled.
        eqx.filter_eval_shape(lambda m, f: _velocity(0.0, (m.mean, m.factor), f), measure, field)
        self.measure, self.field = measure, field
        self.kept = [Frame.at(0.0, measure)]

    def start(self) -> None:
        # Equal steps must not be cut at every look.
        looks = 1 if isinstance(self.stepper, Fixed) else LOOKS
        self.size = -(-(self.times.size - 1) // looks)
        self.moving: tuple[Any, Any] = (self.measure.mean, self.measure.factor)
        self.pole: dict[str, float] = {}
        self.steps = self.attempts = self.parts = 0

    def advance(self) -> list[Frame]:
        first = 1 + self.parts * self.size
        wanted = self.times[first : first + self.size]
        # Padded to one length, so that one compilation serves all parts.
        ts = np.concatenate([wanted, np.full(self.size - wanted.size, wanted[-1])])
        t0 = jnp.asarray(self.kept[-1].time)
        part = _solve(self.field, self.stepper, self.moving, t0, jnp.asarray(ts), True)
        part = jax.tree.map(np.asarray, part)
        self.steps, self.attempts = self.steps + int(part.steps), self.attempts + int(part.attempts)
        self.parts += 1
        for t, mean, factor in zip(wanted, *part.frames, strict=False):
            with np.errstate(over="ignore"):
                finite = np.isfinite(np.sum(factor**2) + np.sum(mean))
            if not finite:
                break
            self.kept.append(Frame.at(t, Gaussian.from_factor(mean, factor)))
        here = self.kept[-1].time
        if part.at_pole:
            self.pole = {"blow_up_time": float(part.stopped + 1.0 / part.growth)}
            self.outcome = Outcome(
                "blow_up",
                f"The covariance becomes infinite at t = {self.pole['blow_up_time']:.9g}; the "
                "frames before are kept. Shorten the horizon below it, or change the sign of value "
                "or query.",
            )
        elif part.exhausted or (self.attempts >= self.stepper.max_steps and here < self.times[-1]):
            self.outcome = Outcome.step_limit(here, self.attempts)
        elif len(self.kept) < first + wanted.size:
            self.outcome = Outcome.blow_up(here)
        elif len(self.kept) == self.times.size:
            self.outcome = Outcome.done()
        self.moving = part.last
        return self.kept[first:]

    @property
    def share(self) -> float:
        return self.kept[-1].time / float(self.times[-1])

    def statistics(self) -> dict[str, Any]:
        each = evaluations_per_step(self.stepper.solver)
        return {
            **self.pole,
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.attempts * each + 2 * self.parts,
            "stepper": self.stepper.name,
        }

    def traced(self) -> Trajectory:
        ts = jnp.asarray(self.times[1:])
        state = (self.measure.mean, self.measure.factor)
        part = _solve(self.field, self.stepper, state, jnp.asarray(0.0), ts, False)
        kept = [Gaussian.from_factor(m, f) for m, f in zip(*part.frames, strict=True)]
        frames = (self.measure, *kept)
        return Trajectory(self.times, frames, self.clock, Outcome.done(), {}, self.field)


class _Part(NamedTuple):
    frames: tuple[Array, Array]  # means (k, d) and factors (k, d, r); non-finite where not reached
    last: tuple[Array, Array]  # the state at which the solve stopped, and its time
    stopped: Array
    steps: Array
    attempts: Array
    growth: Array  # of the covariance where it stopped
    at_pole: Array
    exhausted: Array


def _default(measure: Gaussian) -> Adaptive:
    size = 0.0 if is_traced(measure) else float(jnp.sqrt(jnp.mean(measure.factor**2)))
    # A power of ten, so that starts of like size share one compilation.
    power = round(np.log10(size)) if size > 0 else 0
    return Adaptive(rtol=1e-11, atol=float(f"1e{power - 11}"))


def _velocity(t: Any, state: tuple[Array, Array], field: Field) -> tuple[Array, Array]:
    mean, factor = state
    offset, linear = affine_velocity(field, mean, factor, t)
    if linear.shape != (mean.size, mean.size):
        raise ValueError(
            f"the field must map dimension {mean.size} to itself; got {linear.shape[0]}: make "
            "value (or output times value) square."
        )
    return offset + linear @ mean, linear @ factor


def _growth(t: Any, state: tuple[Array, Array], field: Field) -> Array:
    """d/dt log tr Σ: near a pole at T it is 1/(T − t)."""
    factor, moved = state[1], _velocity(t, state, field)[1]
    return 2 * jnp.sum(factor * moved) / jnp.sum(factor**2)


@eqx.filter_jit
def _solve(
    field: Field, stepper: Adaptive | Fixed, state: Any, t0: Array, ts: Array, watch: bool
) -> _Part:
    if isinstance(stepper, Adaptive):
        # The stepper's own least step is in absolute time; poles stand at any scale.
        controller = diffrax.PIDController(stepper.rtol, stepper.atol, dtmin=1e-15 * ts[-1])
        if switches := jumps(field):
            controller = diffrax.ClipStepSizeController(controller, jump_ts=jnp.asarray(switches))
    else:
        controller = stepper.controller

    def at_pole(t, y, args, **_):
        return _growth(t, y, args) * NEAR * t > 1.0

    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(_velocity),
        stepper.solver,
        t0=t0,
        t1=ts[-1],
        dt0=stepper.step if isinstance(stepper, Fixed) else None,
        y0=state,
        args=field,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)]),
        stepsize_controller=controller,
        max_steps=stepper.max_steps,
        event=diffrax.Event(at_pole) if watch else None,
        throw=False,
    )
    frames, end = solution.ys
    last = jax.tree.map(lambda leaf: leaf[0], end)
    stopped = solution.ts[1][0]
    return _Part(
        frames=frames,
        last=last,
        stopped=stopped,
        steps=solution.stats["num_accepted_steps"],
        attempts=solution.stats["num_steps"],
        growth=_growth(stopped, last, field),
        at_pole=solution.result == diffrax.RESULTS.event_occurred,
        exhausted=solution.result == diffrax.RESULTS.max_steps_reached,
    )
