"""A density in continuous depth: spectral in space, adaptive in time and resolution."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import diffrax
import numpy as np

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.core.outcome import Outcome
from metastable.core.progress import Bar
from metastable.fields import Field
from metastable.flows.meanfield import mean_field
from metastable.flows.particles import flow_points, frame_times
from metastable.flows.resolved import solve, tail_grows
from metastable.flows.steppers import Adaptive, Fixed, check_steps, evaluations_per_step
from metastable.flows.trajectory import Trajectory
from metastable.measures.density import MOST, MOST_ZONAL, Density
from metastable.measures.spectral import basis_for

__all__ = ["Resolution", "flow_density"]


@dataclasses.dataclass(frozen=True)
class Resolution:
    """How many harmonics a density is followed with.

    - `least`: the degree to start with (the density's own, if that is higher); 32 by default.
    - `most`: the degree beyond which the run ends as unresolved; by default 4096 on the circle,
      128 on S², 1024 for zonal densities.
    - `tail`: the degree is doubled as soon as the last eighth of the harmonics exceeds this share
      of the largest: until then the neglected ones are smaller still.
    """

    least: int = 32
    most: int | None = None
    tail: float = 1e-11

    def __post_init__(self) -> None:
        checks.integer("least", self.least, 1)
        if self.most is not None:
            checks.integer("most", self.most, self.least, "It cannot be below least.")
        checks.positive("tail", self.tail)

    def limit(self, density: Density) -> int:
        if self.most is not None:
            return self.most
        return max(MOST_ZONAL if density.zonal else MOST[density.dim], self.least)


def flow_density(
    measure: Density,
    field: Field,
    horizon: float,
    *,
    stepper: Adaptive | Fixed | None = None,
    resolution: Resolution | None = None,
    frames: Any = 101,
    handover: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Trajectory[Any]:
    """A density under a field: ∂_t μ + div(μ v[μ]) = (1/κ)Δμ.

    Products are formed on a grid that integrates them exactly, Laplacian and linear theory are
    exact, and what is left is stepped in time by an exponential Runge–Kutta pair. Mass is
    conserved exactly. Arguments as in `metastable.flows.flow`; the tolerances of `stepper` are
    relative to the largest coefficient (1e−10 by default).
    """
    if is_traced(measure, field):
        raise ValueError("a density cannot be flowed inside jit, grad or vmap: use tokens.")
    checks.positive("horizon", horizon)
    checks.seed(seed)
    resolution = Resolution() if resolution is None else resolution
    checks.instance("resolution", resolution, Resolution, "Resolution(...)")
    if handover is not None:
        checks.integer("handover", handover, 2)
    times = frame_times(frames, float(horizon))
    run = _Solve(measure, field, stepper, resolution, float(horizon)).drive(times, progress)
    if handover is None or run.outcome.name != "unresolved":
        return run
    return _hand_over(run, times, handover, seed, progress)


def _hand_over(
    run: Trajectory[Any], times: np.ndarray, tokens: int, seed: int, progress: bool | None
) -> Trajectory[Any]:
    """Go on with quiet tokens from where the density could no longer be resolved."""
    assert run.field is not None
    since = float(run.times[-1])
    ahead = times[times > since] - since
    points = run.frames[-1].to_points(tokens)
    rest = flow_points(points, run.field, ahead[-1], frames=ahead, seed=seed, progress=progress)
    statistics = {
        **run.statistics,
        "handover_time": since,
        "handover_tokens": tokens,
        "tokens": dict(rest.statistics),
    }
    return Trajectory(
        times=np.concatenate([run.times, since + rest.times[1:]]),
        frames=(*run.frames, *rest.frames[1:]),
        clock=run.clock,
        outcome=rest.outcome,
        statistics=statistics,
        field=run.field,
    )


class _Solve:
    """A run in progress: the state, its resolution, and what it has cost."""

    def __init__(
        self,
        measure: Density,
        field: Field,
        stepper: Adaptive | Fixed | None,
        resolution: Resolution,
        horizon: float,
    ):
        self.start, self.field, self.resolution = measure, field, resolution
        self.most = resolution.limit(measure)
        if measure.degree > self.most:
            raise ValueError(
                f"the density has degree {measure.degree}, above the {self.most} that the "
                "resolution allows: raise most, or use density.resized(degree)."
            )
        self.use(max(measure.degree, resolution.least))
        noisy = float(self.equation.diffusion) > 0
        if stepper is None:
            pair = diffrax.Tsit5() if noisy else diffrax.Dopri8()
            stepper = Adaptive(1e-10, 1e-10, solver=pair)
        _check_stepper(stepper, noisy)
        if isinstance(stepper, Fixed):
            check_steps(horizon, stepper.step, stepper.max_steps)
        self.stepper = stepper
        c = np.asarray(measure.resized(self.degree).coefficients)
        self.state = np.asarray(self.equation.basis.to_real(jnp.asarray(c)))
        fastest = float(jnp.max(jnp.abs(self.equation.rates)))
        self.step = stepper.step if isinstance(stepper, Fixed) else min(0.1 / fastest, horizon)
        self.steps = self.attempts = self.calls = 0
        while not self.resolved(self.state) and 2 * self.degree <= self.most:
            self.refine()

    def use(self, degree: int) -> None:
        self.degree = degree
        basis = basis_for(self.start.dim, degree, self.start.zonal)
        self.equation = mean_field(self.field, basis)

    def refine(self) -> None:
        self.use(2 * self.degree)
        size = len(self.equation.basis.degrees)
        room = [(0, 0)] * (self.state.ndim - 1) + [(0, size - self.state.shape[-1])]
        self.state = np.pad(self.state, room)

    def resolved(self, state: Any) -> bool:
        return not bool(tail_grows(self.equation.basis, state, self.resolution.tail))

    @property
    def frame(self) -> Density:
        c = self.equation.basis.from_real(jnp.asarray(self.state))
        return Density(c, self.start.dim, self.start.axis)

    def advance(self, t0: float, t1: float) -> tuple[float, Outcome | None]:
        """Move from t0 to t1, refining where needed; the time reached, and how it ended early."""
        while True:
            # As arrays: numbers would be compiled in.
            numbers = (np.asarray(a) for a in (t0, t1, self.step, self.resolution.tail))
            part = solve(self.equation, self.stepper, self.state, *numbers)
            self.calls += 1
            self.steps += int(part.steps)
            self.attempts += int(part.attempts)
            finite = bool(np.isfinite(np.asarray(part.state)).all())
            if part.exhausted and finite and not part.stopped:
                self.state = np.asarray(part.state)
                return float(part.time), Outcome.step_limit(float(part.time), int(part.attempts))
            if finite and not part.stopped:
                self.state = np.asarray(part.state)
                if isinstance(self.stepper, Adaptive):
                    self.step = float(part.step)
                return t1, None
            if 2 * self.degree > self.most:
                if finite:
                    self.state = np.asarray(part.state)
                reached = float(part.time) if finite else t0
                return reached, Outcome.unresolved(reached, self.degree)
            self.refine()

    def drive(self, times: np.ndarray, progress: bool | None) -> Trajectory[Density]:
        began = time.perf_counter()
        kept, frames, outcome = [0.0], [self.start], Outcome.done()
        if not self.resolved(self.state):
            outcome, times = Outcome.unresolved(0.0, self.degree), times[:1]
        with Bar("flow", progress) as bar:
            try:
                for t1 in times[1:]:
                    reached, ended = self.advance(kept[-1], float(t1))
                    if reached > kept[-1]:
                        kept.append(reached)
                        frames.append(self.frame)
                    if ended is not None:
                        outcome = ended
                        break
                    bar.update(reached / float(times[-1]))
            except KeyboardInterrupt:
                outcome = Outcome.interrupted(kept[-1])
        pair = self.stepper.solver
        statistics = {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.attempts * evaluations_per_step(pair),
            "degree": self.degree,
            "stepper": f"exponential {self.stepper.name}",
            "seconds": time.perf_counter() - began,
        }
        return Trajectory(
            times=np.array(kept),
            frames=tuple(frames),
            clock=self.field.clock or "none",
            outcome=outcome,
            statistics=statistics,
            field=self.field,
        )


def _check_stepper(stepper: Any, noisy: bool) -> None:
    checks.instance("stepper", stepper, (Adaptive, Fixed), "Adaptive(...) or Fixed(...)")
    pair: Any = stepper.solver
    if not isinstance(pair, diffrax.AbstractERK):
        raise ValueError(
            "stepper must hold an explicit Runge–Kutta pair (Dopri8, Tsit5, Heun, …) for a "
            f"density; got {type(pair).__name__}."
        )
    tableau: Any = pair.tableau
    if noisy and (np.diff(np.asarray(tableau.c, float)) < 0).any():
        raise ValueError(
            "stepper must hold a pair with increasing stage times (Tsit5, Dopri5, Bosh3) for a "
            f"density with noise; got {type(pair).__name__}, whose stages would undo the diffusion."
        )
