"""Tokens in continuous depth, with noise or without."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.random import common_noise, is_noisy
from metastable.fields.sums import Sum, choose_sum
from metastable.flows.solvers.frames import frame_times
from metastable.flows.solvers.segments import Job, Segment, TokenFlow
from metastable.flows.solvers.solver import Choices
from metastable.flows.solvers.steps import Retracted, check_steps, evaluations_per_step, march
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.geometry.sphere import exponential, project, retract
from metastable.measures import Points


def token_flow(measure: Points, field: Field, horizon: float, how: Choices) -> TokenFlow:
    """Tokens under a field: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`.

    Frames lie on the sphere to rounding. Arguments as in `metastable.flows.flow`.
    """
    checks.positive("horizon", horizon)
    times, stepper = frame_times(how.frames, float(horizon)), how.stepper
    # The cheapest sum whose error, gathered over the whole run, is a tenth of the stepper's.
    wanted = stepper.atol if isinstance(stepper, Adaptive) else 1e-9
    tolerance = max(0.1 * wanted / max(float(horizon), 1.0), 1e-13)
    sum = how.sum or choose_sum(measure, field, tolerance)
    # Shapes and geometry are checked here, abstractly, before anything is allocated or compiled.
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, t=0.0, sum=sum), measure, field)
    checks.fits_memory(
        f"keeping {times.size} frames of {measure.count} tokens in dimension {measure.dim}",
        2.0 * times.size * measure.points.size,
        "ask for fewer frames or tokens",
    )
    noisy = is_noisy(field)
    if stepper is None:
        stepper = Geodesic() if noisy else Adaptive()
    if noisy != isinstance(stepper, Geodesic):
        need = "Geodesic(...)" if noisy else "Adaptive(...) or Fixed(...)"
        raise ValueError(f"stepper must be {need} for this field; got {type(stepper).__name__}.")
    if not isinstance(stepper, Geodesic):
        job = Deterministic(measure, field, sum, stepper)
        return TokenFlow(job, times, None if how.sum else 0.1 * wanted)
    step = jnp.asarray(stepper.resolve(measure, field, sum))
    job = Diffusive(measure, field, sum, step, jnp.asarray(how.seed), stepper.max_steps)
    return TokenFlow(job, times)


class Deterministic(Job):
    """Motion without noise: one diffrax solve per segment."""

    measure: Points
    field: Field
    sum: Sum
    stepper: Adaptive | Fixed

    @property
    def name(self) -> str:
        return self.stepper.name

    @property
    def limit(self) -> int:
        return self.stepper.max_steps

    @property
    def grid(self) -> float | None:
        return self.stepper.step if isinstance(self.stepper, Fixed) else None

    def start(self, horizon: float) -> tuple[Array, Array]:
        if isinstance(self.stepper, Fixed):
            step = self.stepper.step
            check_steps(horizon, step, self.stepper.max_steps)
        elif is_traced(self):
            step = 1e-3 * horizon
        else:
            # The time in which the fastest token covers a hundredth of a radian.
            speed = np.abs(self.field.velocity(self.measure, t=0.0, sum=self.sum)).max()
            # A speed that is not finite makes a step that is none, and the run ends at once.
            step = 0.01 / max(float(speed), 0.01 / horizon) if np.isfinite(speed) else np.nan
        return self.measure.points, jnp.asarray(step)

    def segment(
        self, carry: tuple[Array, Array], t0: Any, ts: Array, differentiable: bool = True
    ) -> Segment:
        y, step = carry
        held = self.measure.on_sphere
        here = retract if held else (lambda y: y)

        # A segment ends where the field switches: its last stage must see the field before.
        last = jnp.nextafter(ts[-1], t0)

        def velocity(t, y, job):
            now = jnp.minimum(t, last)
            return job.field.velocity(job.measure.at(here(y)), t=now, sum=job.sum)

        # Rounding must not leave a last step of one unit in the last place: equal steps are made
        # long enough to reach the end, and the solver cuts what passes it.
        hair = 4e-16 * ts[-1] if isinstance(self.stepper, Fixed) else 0.0
        solver = self.stepper.solver
        first = jnp.minimum(step + hair, ts[-1] - t0)
        if not differentiable and isinstance(solver, diffrax.AbstractERK):
            how = self.stepper
            tolerances = (how.rtol, how.atol) if isinstance(how, Adaptive) else None
            moved = lambda t, y: velocity(t, y, self)
            limits: dict[str, Any] = {"most": how.max_steps, "held": held}
            # Equal steps keep their length; only what passes the end is cut.
            length = first if tolerances else step + hair
            done = march(moved, solver, tolerances, y, t0, ts, length, **limits)
            frames = here(done.frames)
            if tolerances:
                step = (ts[-1] - t0) / jnp.maximum(done.steps, 1)
            spent = ~done.reached & (done.attempts >= how.max_steps)
            carry = frames[-1], step
            return Segment(frames, carry, done.steps, done.attempts, done.drift, spent)
        solution: Any = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            Retracted(solver) if held else solver,
            t0=t0,
            t1=ts[-1],
            dt0=first,
            y0=y,
            args=self,
            saveat=diffrax.SaveAt(ts=ts, solver_state=True),
            stepsize_controller=self.stepper.controller,
            max_steps=self.stepper.max_steps,
            throw=False,
        )
        frames = here(solution.ys)
        taken = solution.stats["num_accepted_steps"]
        if isinstance(self.stepper, Adaptive):
            step = (ts[-1] - t0) / jnp.maximum(taken, 1)
        return Segment(
            frames=frames,
            carry=(frames[-1], step),
            steps=taken,
            attempts=solution.stats["num_steps"],
            drift=solution.solver_state[1] if held else jnp.zeros(()),
            exhausted=solution.result == diffrax.RESULTS.max_steps_reached,
        )

    def evaluations(self, attempts: int, segments: int) -> int:
        return attempts * evaluations_per_step(self.stepper.solver) + segments + 1


class Diffusive(Job):
    """Motion with noise: half a Brownian step, a midpoint drift step, half a Brownian step.

    Common noise kicks all tokens along geodesics after the drift. The steps between two frames are
    equal and at most `step` long. What is random in step k comes from the key fold_in(seed, k),
    whatever the segments.
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

    def segment(
        self, carry: tuple[Array, Array], t0: Any, ts: Array, differentiable: bool = True
    ) -> Segment:
        rate, common = diffusion(self.field), common_noise(self.field)
        alone = isinstance(rate, float) and rate == 0.0  # no token has noise of its own
        root = jax.random.key(self.seed)
        held = self.measure.on_sphere

        def wander(x: Array, key: Array, h: Any) -> Array:
            if alone:
                return x
            xi = jnp.sqrt(2 * rate * h) * jax.random.normal(key, x.shape, x.dtype)
            return exponential(x, project(x, xi)) if held else x + xi

        def together(x: Array, key: Array, t: Any, h: Any) -> Array:
            """In the sense of Itô: the kick is that of the tokens before the step."""
            for number, part in enumerate(common):
                own = jax.random.fold_in(key, number)
                xi = jnp.sqrt(h) * part.kick(self.measure.at(x), own, t, self.sum)
                x = exponential(x, project(x, xi)) if held else x + xi
            return x

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
                key = jax.random.fold_in(root, done + k)
                first, second, third = jax.random.split(key, 3)
                x = wander(x, first, 0.5 * h)
                x = drift(x, a + k * h, h)
                x = together(x, third, a + k * h, h)
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
