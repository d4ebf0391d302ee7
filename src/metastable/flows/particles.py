"""Tokens in continuous depth."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Sum, check_sum, choose_sum
from metastable.flows.diffusion import Diffusive
from metastable.flows.segments import Job, Segment, drive
from metastable.flows.staircase import Merge, staircase
from metastable.flows.steppers import (
    Adaptive,
    Fixed,
    Geodesic,
    Retracted,
    check_steps,
    evaluations_per_step,
)
from metastable.flows.trajectory import Trajectory
from metastable.geometry.sphere import retract
from metastable.measures import Points

__all__ = ["flow_points", "frame_times"]


def flow_points(
    measure: Points,
    field: Field,
    horizon: float,
    *,
    sum: Sum | None = None,
    stepper: Adaptive | Fixed | Geodesic | None = None,
    merge: Merge | None = None,
    frames: Any = 101,
    check: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory[Points]:
    """Tokens under a field: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`.

    Frames lie on the sphere to rounding. Arguments as in `metastable.flows.flow`.
    """
    if stepper is not None:
        steppers = (Adaptive, Fixed, Geodesic)
        checks.instance("stepper", stepper, steppers, "Adaptive(...), Fixed(...) or Geodesic(...)")
    checks.seed(seed)
    if merge is not None:
        return _merging(measure, field, horizon, merge, sum, stepper, frames, progress, checkpoint)
    checks.positive("horizon", horizon)
    times = frame_times(frames, float(horizon))
    sum = _sum_for(measure, field, float(horizon), stepper) if sum is None else sum
    # Shapes and geometry are checked here, abstractly, before anything is allocated or compiled.
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, t=0.0, sum=sum), measure, field)
    checks.fits_memory(
        f"keeping {times.size} frames of {measure.count} tokens in dimension {measure.dim}",
        2.0 * times.size * measure.points.size,
        "ask for fewer frames or tokens",
    )
    noisy = _has_noise(field)
    if stepper is None:
        stepper = Geodesic() if noisy else Adaptive()
    if noisy != isinstance(stepper, Geodesic):
        need = "Geodesic(...)" if noisy else "Adaptive(...) or Fixed(...)"
        raise ValueError(f"stepper must be {need} for this field; got {type(stepper).__name__}.")
    if isinstance(stepper, Geodesic):
        step = jnp.asarray(stepper.resolve(measure, field, sum))
        job = Diffusive(measure, field, sum, step, jnp.asarray(seed), stepper.max_steps)
    else:
        job = Deterministic(measure, field, sum, stepper)
    run = drive(job, times, progress, checkpoint)
    if check:
        ends = run.frames[0], run.frames[-1]
        error = max(check_sum(sum, frame, field) for frame in ends)
        run = dataclasses.replace(run, statistics={**run.statistics, "sum_error": error})
    return run


def _sum_for(measure: Points, field: Field, horizon: float, stepper: Any) -> Sum:
    """The cheapest sum whose error, gathered over the whole run, is a tenth of the stepper's."""
    wanted = stepper.atol if isinstance(stepper, Adaptive) else 1e-9
    return choose_sum(measure, field, max(0.1 * wanted / max(horizon, 1.0), 1e-13))


def _merging(
    measure: Points,
    field: Field,
    horizon: float,
    merge: Merge,
    sum: Sum | None,
    stepper: Any,
    frames: Any,
    progress: bool | None,
    checkpoint: Any,
) -> Trajectory:
    if checkpoint is not None:
        raise ValueError("checkpoint must be left out with merge, which keeps none; got one.")
    if stepper is not None and not isinstance(stepper, Adaptive):
        raise ValueError(f"stepper must be Adaptive(...) with merge; got {type(stepper).__name__}.")
    sum = choose_sum(measure, field, 1e-12) if sum is None else sum
    return staircase(
        measure,
        field,
        horizon,
        merge=merge,
        sum=sum,
        stepper=stepper,
        frames=frames,
        progress=progress,
    )


def frame_times(frames: Any, horizon: float) -> np.ndarray:
    """Frame times from a count or an array; the start and the horizon always belong."""
    if np.ndim(frames) == 0:
        checks.integer("frames", frames, 2, "The start and the end are frames too.")
        checks.fits_memory(f"frames = {frames}", float(frames), "ask for fewer")
        return np.linspace(0.0, horizon, int(frames))
    times = np.unique(np.concatenate([[0.0], np.asarray(frames, float), [horizon]]))
    if not np.isfinite(times).all() or times[0] < 0 or times[-1] > horizon:
        raise ValueError(
            f"frames must be times between 0 and the horizon {horizon:g}; got {frames}."
        )
    return times


def _has_noise(field: Field) -> bool:
    rate = diffusion(field)
    return is_traced(rate) or float(rate) > 0


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
            speed = jnp.max(jnp.abs(self.field.velocity(self.measure, t=0.0, sum=self.sum)))
            # A speed that is not finite makes a step that is none, and the run ends at once.
            step = 0.01 / max(float(speed), 0.01 / horizon) if jnp.isfinite(speed) else jnp.nan
        return self.measure.points, jnp.asarray(step)

    def segment(self, carry: tuple[Array, Array], t0: Any, ts: Array) -> Segment:
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
        solution: Any = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            Retracted(solver) if held else solver,
            t0=t0,
            t1=ts[-1],
            dt0=jnp.minimum(step + hair, ts[-1] - t0),
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
