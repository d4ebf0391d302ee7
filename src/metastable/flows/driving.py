"""`flow`, and the iterator under it: saved, stopped and interrupted in one place."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from metastable.core import checks
from metastable.core.checkpoint import Checkpoint
from metastable.core.numerics import is_traced
from metastable.core.progress import Bar
from metastable.fields import Field
from metastable.fields.sums import Sum, check_sum
from metastable.flows.solvers.density import DensityFlow
from metastable.flows.solvers.frames import Frame
from metastable.flows.solvers.gaussian import GaussianFlow
from metastable.flows.solvers.gaussian_layers import GaussianLayers
from metastable.flows.solvers.hardmax import SpaceHardmax, SphereHardmax
from metastable.flows.solvers.merging import MergingFlow
from metastable.flows.solvers.solver import Choices, Solver
from metastable.flows.solvers.token_layers import TokenLayers
from metastable.flows.solvers.tokens import token_flow
from metastable.flows.steppers import (
    Adaptive,
    Fixed,
    Geodesic,
    Hardmax,
    Layers,
    Merging,
    Resolution,
    Stepper,
)
from metastable.flows.trajectory import Trajectory
from metastable.measures import Density, Gaussian, Measure, Points

SPACING = Choices().spacing


class Drive:
    """A run under way: iterate over it, and it moves from frame to frame.

    Nothing is computed before the next frame is asked for, so that whoever watches sets the pace.
    The start is a frame; a run that goes on from a checkpoint first gives the frames it has.
    `trajectory()` is the run so far, at any moment. A stop request or Ctrl-C inside the solver ends
    it as interrupted; frames that were not given out yet are dropped then.
    """

    def __init__(
        self,
        solver: Solver,
        check: bool,
        checkpoint: str | Path | None,
        stopped: Callable[[], bool],
        watch: Callable[[float], None],
        stepper: Stepper | None,
    ):
        self.solver, self.check, self.stopped, self.watch = solver, check, stopped, watch
        self.stepper = stepper
        identity = None if checkpoint is None else solver.identity
        self.saved = None if checkpoint is None else Checkpoint(checkpoint, identity)
        self.seconds, self.started = 0.0, False

    @property
    def start(self) -> Any:
        """The measure at time 0."""
        return self.solver.measure

    @property
    def field(self) -> Field:
        return self.solver.field

    @property
    def sum(self) -> Sum | None:
        """How the mean over tokens is evaluated, where there is one."""
        return self.solver.sum

    def __iter__(self) -> Iterator[Frame]:
        yield self.solver.kept[0]
        self._start()
        yield from self.solver.kept[1:]
        while self.solver.outcome is None:
            if self.stopped():
                self.solver.end()
                return
            frames = self._advance()
            for left, frame in zip(range(len(frames) - 1, -1, -1), frames, strict=True):
                yield frame
                if left and self.stopped():
                    self.solver.drop(left)
                    self.solver.end()
                    return

    def _start(self) -> None:
        if self.started:
            return
        began, self.started = time.perf_counter(), True
        self.solver.start()
        if self.saved is not None:
            self.solver.restore(self.saved.load(self.solver.state()))
        self.seconds += time.perf_counter() - began

    def _advance(self) -> Sequence[Frame]:
        solver, began = self.solver, time.perf_counter()
        frames: Sequence[Frame] = ()
        try:
            frames = solver.advance()
            if self.saved is not None and (solver.outcome is None or solver.outcome.name == "done"):
                self.saved.save(solver.state())
            self.watch(solver.share)
        except KeyboardInterrupt:
            solver.end()
        self.seconds += time.perf_counter() - began
        return frames

    def trajectory(self) -> Trajectory[Any]:
        """The run so far."""
        self._start()
        run = dataclasses.replace(self.solver.trajectory(self.seconds), stepper=self.stepper)
        if not self.check:
            return run
        assert self.sum is not None and run.field is not None
        error = max(check_sum(self.sum, run.frames[k], run.field) for k in (0, -1))
        error = max(error, run.statistics.get("low_rank_error", 0.0))  # measured along the way
        return dataclasses.replace(run, statistics={**run.statistics, "sum_error": error})


def drive(
    measure: Measure,
    field: Field,
    horizon: float,
    *,
    stepper: Stepper | None = None,
    sum: Sum | None = None,
    frames: Any = 101,
    seed: int = 0,
    check: bool = False,
    checkpoint: str | Path | None = None,
    stopped: Callable[[], bool] = lambda: False,
    watch: Callable[[float], None] = lambda share: None,
    spacing: float = SPACING,
) -> Drive:
    """A run as an iterator of `Frame(time, log_time, measure, names)`; arguments as in `flow`.

    - `stopped`: asked between frames; once it says yes the run ends as interrupted.
    - `watch`: told the share of the work that is done, after each segment.
    - `spacing`: of the frames of runs that merge tokens, in log t, as long as they are few.

    >>> import metastable as ms
    >>> from metastable.flows import drive
    >>> run = drive(ms.uniform(tokens=20, dim=2), ms.SelfAttention(4.0), 5.0, frames=6)
    >>> [round(frame.time, 6) for frame in run]
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    >>> run.trajectory().outcome.name
    'done'
    """
    how = Choices(stepper, sum, frames, seed, spacing)
    solver = choose_solver(measure, field, horizon, how)
    what = f"a flow of {type(measure).__name__}"
    what += "" if stepper is None else f" with {type(stepper).__name__}"
    if checkpoint is not None and not solver.resumable:
        raise ValueError(f"checkpoint has no meaning in {what}, which keeps none; leave it out.")
    if check and (solver.sum is None or isinstance(stepper, Merging)):
        raise ValueError(f"check has no meaning in {what}; got {check!r}: omit it.")
    return Drive(solver, check, checkpoint, stopped, watch, stepper)


def flow(
    measure: Measure,
    field: Field,
    horizon: float,
    *,
    stepper: Stepper | None = None,
    sum: Sum | None = None,
    frames: Any = 101,
    seed: int = 0,
    check: bool = False,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory[Any]:
    """Move a measure by a field; the equation follows from the measure, time from the stepper.

    Tokens: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`. A density:
    ∂_t μ + div(μ v[μ]) = (1/κ)Δμ. A Gaussian: its mean and covariance.

    - `horizon`: final time > 0, in the field's clock; `math.inf`, with `Merging` and `Hardmax`, is
      the last cluster; with `Layers` it is a whole number of steps.
    - `stepper`: how time advances. `Adaptive(...)` (default) or `Fixed(...)`; for tokens with noise
      `Geodesic(...)`; for tokens and Gaussians `Layers(...)`, discrete depth; for tokens
      `Merging(...)`, which joins those that have collapsed and carries a run through all its
      mergers over times e^{cβ}, and `Hardmax(...)`, the limit β = ∞; for a density
      `Resolution(...)`, how many harmonics it has at first and at most: the number doubles when
      the last ones grow, and past the limit the outcome is "unresolved".
    - `frames`: how many equally spaced frames to keep, or an increasing array of times.
    - `seed`: randomness of the noise; without noise it has no effect.
    - `progress`: True, False, or None (a bar on a terminal after two seconds).

    For tokens only:

    - `sum`: how the mean over tokens is evaluated; by default the cheapest whose error stays well
      below the stepper's (`choose_sum`), and the dense one in `Layers`. The result names it.
    - `check`: compare the sum with the dense one on a sample of tokens, at the start and at the
      end, and report the larger relative error as `statistics["sum_error"]`.
    - `checkpoint`: a file that makes the run resumable; an interrupted run goes on from there, and
      gives the same bits as an undisturbed one. In continuous depth without mergers.

    Frames lie on the sphere to rounding. A blow-up, a step limit or Ctrl-C ends the run with an
    `Outcome` and all frames so far. Inside `jax.grad`, `jit` or `vmap` a solve of tokens or of a
    Gaussian is one differentiable call (recursive checkpointing) without progress or checkpoints.
    `drive` gives the same run frame by frame.

    >>> import metastable as ms
    >>> run = flow(ms.orthogonal(tokens=3, dim=3), ms.SelfAttention(beta=1.0), horizon=20.0)
    >>> round(ms.similarity(run.frames[-1]).mean, 6)
    1.0
    >>> deep = flow(ms.uniform(8, 16), ms.SelfAttention(1.0), 6.0, stepper=ms.Layers())
    >>> len(deep.frames), deep.clock
    (7, 'SA')
    """
    if is_traced(measure, field, stepper, sum):
        how = Choices(stepper, sum, frames, seed)
        return choose_solver(measure, field, horizon, how).traced()
    choices: dict[str, Any] = dict(stepper=stepper, sum=sum, frames=frames, seed=seed, check=check)
    with Bar("flow", progress) as bar:
        choices |= dict(checkpoint=checkpoint, watch=bar.update)
        run = drive(measure, field, horizon, **choices)
        for _ in run:
            pass
    return run.trajectory()


def is_resumable(measure: Measure, stepper: Any) -> bool:
    """Whether such a run can keep a checkpoint."""
    return isinstance(measure, Points) and not isinstance(stepper, Layers | Merging | Hardmax)


def choose_solver(measure: Measure, field: Field, horizon: float, how: Choices) -> Solver:
    """The solver for a measure and a stepper; what cannot be solved is refused."""
    checks.instance("measure", measure, Measure, "Points(...), a Density or Gaussian(...)")
    checks.instance("field", field, Field, "a field")
    checks.seed(how.seed)
    kind = next(kind for kind in SOLVERS if isinstance(measure, kind))
    solvers, stepper = SOLVERS[kind], how.stepper
    # A stepper from elsewhere brings what moves each kind of measure.
    brought = getattr(stepper, "solvers", {}).get(kind)
    if brought is not None:
        solvers = {**solvers, type(stepper): brought}
    if stepper is not None:
        *others, last = [f"{one.__name__}(...)" for one in solvers]
        need = f"{', '.join(others)} or {last} for {kind.__name__}"
        checks.instance("stepper", stepper, tuple(solvers), need)
    if how.sum is not None and (kind is not Points or isinstance(stepper, Hardmax)):
        what = "Hardmax" if kind is Points else kind.__name__
        raise ValueError(f"sum has no meaning in a flow of {what}; got {how.sum!r}: omit it.")
    return solvers[Adaptive if stepper is None else type(stepper)](measure, field, horizon, how)


def _hardmax(measure: Points, field: Field, horizon: float, how: Choices) -> Solver:
    if is_traced(measure, field):
        raise ValueError("hardmax cannot be traced by jit, grad or vmap: call it with numbers.")
    if not horizon > 0:
        raise ValueError(f"horizon must be > 0; got {horizon}: math.inf runs to the end.")
    what = f"hardmax of {measure.count} tokens"
    checks.fits_memory(what, 10.0 * measure.count**2, "use fewer tokens, or Merging(...)")
    solver = SphereHardmax if measure.on_sphere else SpaceHardmax
    return solver(measure, field, horizon, how)


SOLVERS: dict[Any, dict[Any, Callable[..., Solver]]] = {
    Points: {
        **dict.fromkeys((Adaptive, Fixed, Geodesic), token_flow),
        Layers: TokenLayers,
        Merging: MergingFlow,
        Hardmax: _hardmax,
    },
    Density: dict.fromkeys((Adaptive, Fixed, Resolution), DensityFlow),
    Gaussian: {Adaptive: GaussianFlow, Fixed: GaussianFlow, Layers: GaussianLayers},
}
