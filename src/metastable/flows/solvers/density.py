"""A density in continuous depth: spectral in space, adaptive in time and resolution."""

from __future__ import annotations

import time
from typing import Any

import diffrax
import numpy as np

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.flows.solvers.density_step import solve, tail_grows
from metastable.flows.solvers.frames import Frame, frame_times
from metastable.flows.solvers.mean_field import mean_field
from metastable.flows.solvers.solver import Choices, Solver
from metastable.flows.solvers.steps import check_steps, evaluations_per_step
from metastable.flows.solvers.tokens import token_flow
from metastable.flows.steppers import Adaptive, Fixed, Resolution
from metastable.measures.density import Density
from metastable.measures.spectral import basis_for


class DensityFlow(Solver):
    """A density under a field: ∂_t μ + div(μ v[μ]) = (1/κ)Δμ.

    Products are formed on a grid that integrates them exactly, Laplacian and linear theory are
    exact, and what is left is stepped in time by an exponential Runge–Kutta pair. Mass is
    conserved exactly. Past the highest degree of `resolution` the run ends as unresolved, or goes
    on with `resolution.handover` quiet tokens.
    """

    def __init__(self, measure: Density, field: Field, horizon: float, how: Choices):
        if is_traced(measure, field):
            raise ValueError("a density cannot be flowed inside jit, grad or vmap: use tokens.")
        checks.positive("horizon", horizon)
        wraps = isinstance(how.stepper, Resolution)
        resolution: Resolution = how.stepper if wraps else Resolution(stepper=how.stepper)
        self.measure, self.field, self.resolution = measure, field, resolution
        self.times, self.seed = frame_times(how.frames, float(horizon)), how.seed
        self.most = resolution.limit(measure)
        if measure.degree > self.most:
            raise ValueError(
                f"the density has degree {measure.degree}, above the {self.most} that the "
                "resolution allows: raise most, or use density.resized(degree)."
            )
        self._use(max(measure.degree, resolution.least))
        noisy = float(self.equation.diffusion) > 0
        stepper = resolution.stepper
        if stepper is None:
            pair = diffrax.Tsit5() if noisy else diffrax.Dopri8()
            stepper = Adaptive(1e-10, 1e-10, solver=pair)
        _check_stepper(stepper, noisy)
        if isinstance(stepper, Fixed):
            check_steps(horizon, stepper.step, stepper.max_steps)
        self.stepper, self.kept = stepper, [Frame.at(0.0, measure)]
        self.tokens: Solver | None = None  # who goes on after a handover

    def start(self) -> None:
        c = np.asarray(self.measure.resized(self.degree).coefficients)
        self.coefficients = np.asarray(self.equation.basis.to_real(jnp.asarray(c)))
        fastest = float(jnp.max(jnp.abs(self.equation.rates)))
        short = min(0.1 / fastest, float(self.times[-1]))
        self.step = self.stepper.step if isinstance(self.stepper, Fixed) else short
        self.steps = self.attempts = self.reached = 0
        while not self._resolved() and 2 * self.degree <= self.most:
            self._refine()
        if not self._resolved():
            self._leave(Outcome.unresolved(0.0, self.degree))

    def _use(self, degree: int) -> None:
        self.degree = degree
        basis = basis_for(self.measure.dim, degree, self.measure.zonal)
        self.equation = mean_field(self.field, basis)

    def _refine(self) -> None:
        self._use(2 * self.degree)
        c, size = self.coefficients, len(self.equation.basis.degrees)
        self.coefficients = np.pad(c, [(0, 0)] * (c.ndim - 1) + [(0, size - c.shape[-1])])

    def _resolved(self) -> bool:
        grows = tail_grows(self.equation.basis, self.coefficients, self.resolution.tail)
        return not bool(grows)

    def advance(self) -> list[Frame]:
        """Go to the next frame, or on with the tokens that took over."""
        if self.tokens is not None:
            return self._advance_tokens(self.tokens)
        self.reached += 1
        moment, ended = self._move(self.kept[-1].time, float(self.times[self.reached]))
        count = len(self.kept)
        if moment > self.kept[-1].time:
            c = self.equation.basis.from_real(jnp.asarray(self.coefficients))
            self.kept.append(Frame.at(moment, Density(c, self.measure.dim, self.measure.axis)))
        if ended is not None:
            self._leave(ended)
        elif self.reached == self.times.size - 1:
            self.outcome = Outcome.done()
        return self.kept[count:]

    def _move(self, t0: float, t1: float) -> tuple[float, Outcome | None]:
        """Move from t0 to t1, refining where needed; the time reached, and how it ended early."""
        while True:
            # As arrays: numbers would be compiled in.
            numbers = (np.asarray(a) for a in (t0, t1, self.step, self.resolution.tail))
            part = solve(self.equation, self.stepper, self.coefficients, *numbers)
            self.steps += int(part.steps)
            self.attempts += int(part.attempts)
            finite = bool(np.isfinite(np.asarray(part.state)).all())
            if part.exhausted and finite and not part.stopped:
                self.coefficients = np.asarray(part.state)
                return float(part.time), Outcome.step_limit(float(part.time), int(part.attempts))
            if finite and not part.stopped:
                self.coefficients = np.asarray(part.state)
                if isinstance(self.stepper, Adaptive):
                    self.step = float(part.step)
                return t1, None
            if 2 * self.degree > self.most:
                if finite:
                    self.coefficients = np.asarray(part.state)
                reached = float(part.time) if finite else t0
                return reached, Outcome.unresolved(reached, self.degree)
            self._refine()

    def _leave(self, outcome: Outcome) -> None:
        """End, or go on with quiet tokens where the density can no longer be resolved."""
        tokens = self.resolution.handover
        if outcome.name != "unresolved" or tokens is None:
            self.outcome = outcome
            return
        self.since = self.kept[-1].time
        ahead = self.times[self.times > self.since] - self.since
        points = self.kept[-1].measure.to_points(tokens)
        how = Choices(frames=ahead, seed=self.seed)
        self.tokens = token_flow(points, self.field, ahead[-1], how)
        self.tokens.start()
        self.outcome, self.seconds = self.tokens.outcome, 0.0

    def _advance_tokens(self, tokens: Solver) -> list[Frame]:
        began = time.perf_counter()
        new = [Frame.at(self.since + f.time, f.measure) for f in tokens.advance()]
        self.seconds += time.perf_counter() - began
        self.kept += new
        self.outcome = tokens.outcome
        return new

    def end(self) -> None:
        (self.tokens or super()).end()
        self.outcome = self.outcome if self.tokens is None else self.tokens.outcome

    @property
    def share(self) -> float:
        return self.kept[-1].time / float(self.times[-1])

    def statistics(self) -> dict[str, Any]:
        numbers: dict[str, Any] = {
            "steps": self.steps,
            "rejected": self.attempts - self.steps,
            "evaluations": self.attempts * evaluations_per_step(self.stepper.solver),
            "degree": self.degree,
            "stepper": f"exponential {self.stepper.name}",
        }
        if self.tokens is not None:
            numbers["handover_time"] = self.since
            numbers["handover_tokens"] = self.resolution.handover
            numbers["tokens"] = {**self.tokens.statistics(), "seconds": self.seconds}
        return numbers


def _check_stepper(stepper: Any, noisy: bool) -> None:
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
