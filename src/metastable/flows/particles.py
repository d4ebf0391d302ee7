"""Tokens in continuous depth: `flow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import diffrax
import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable import checks
from metastable.fields import Field
from metastable.fields.noise import diffusion
from metastable.fields.sums import Dense, Sum
from metastable.flows.diffusion import Diffusive
from metastable.flows.segments import Job, Segment, drive
from metastable.flows.steppers import Adaptive, Fixed, Geodesic, Retracted, evaluations_per_step
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points
from metastable.numerics import is_traced, jnp
from metastable.sphere import retract

__all__ = ["flow", "frame_times"]


def flow(
    measure: Points,
    field: Field,
    horizon: float,
    *,
    sum: Sum | None = None,
    stepper: Adaptive | Fixed | Geodesic | None = None,
    frames: Any = 101,
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory:
    """Move a measure by a field: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`.

    - `horizon`: final time > 0, in the field's clock.
    - `sum`: how the mean over tokens is evaluated; the dense sum by default.
    - `stepper`: `Adaptive(...)` (default), `Fixed(...)`, or `Geodesic(...)` with noise.
    - `frames`: how many equally spaced frames to keep, or an increasing array of times.
    - `seed`: randomness of the noise; without noise it has no effect.
    - `progress`: True, False, or None (a bar on a terminal after two seconds).
    - `checkpoint`: a file that makes the run resumable; an interrupted run goes on from there, and
      gives the same bits as an undisturbed one.

    Frames lie on the sphere to rounding. A blow-up, a step limit or Ctrl-C ends the run with an
    `Outcome` and all frames so far. Inside `jax.grad`, `jit` or `vmap` the whole solve is one
    differentiable call (recursive checkpointing) without progress or checkpoints.

    >>> import metastable as ms
    >>> run = flow(ms.orthogonal(tokens=3, dim=3), ms.SelfAttention(beta=1.0), horizon=20.0)
    >>> round(ms.similarity(run.frames[-1]).mean, 6)
    1.0
    """
    checks.positive("horizon", horizon)
    times = frame_times(frames, float(horizon))
    sum = Dense() if sum is None else sum
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
        job = Diffusive(measure, field, sum, stepper.resolve(measure, field, sum), seed)
    else:
        job = Deterministic(measure, field, sum, stepper)
    return drive(job, times, progress, checkpoint)


def frame_times(frames: Any, horizon: float) -> np.ndarray:
    """Frame times from a count or an array; the start and the horizon always belong."""
    if np.ndim(frames) == 0:
        checks.integer("frames", frames, 2, "The start and the end are frames too.")
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

    def start(self, horizon: float) -> tuple[Array, Array]:
        if isinstance(self.stepper, Fixed):
            step = self.stepper.step
        elif is_traced(self):
            step = 1e-3 * horizon
        else:
            # The time in which the fastest token covers a hundredth of a radian.
            speed = jnp.max(jnp.abs(self.field.velocity(self.measure, t=0.0, sum=self.sum)))
            step = 0.01 / max(float(speed), 0.01 / horizon)
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

        solver = self.stepper.solver
        solution: Any = diffrax.diffeqsolve(
            diffrax.ODETerm(velocity),
            Retracted(solver) if held else solver,
            t0=t0,
            t1=ts[-1],
            dt0=jnp.minimum(step, ts[-1] - t0),
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
