"""`flow`: one call for every description of a measure and every way to move it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metastable.core.numerics import is_traced
from metastable.core.progress import Bar
from metastable.fields import Field
from metastable.fields.sums import Sum
from metastable.flows.drive import choose_solver, drive
from metastable.flows.solvers.solver import Choices
from metastable.flows.steppers import Stepper
from metastable.flows.trajectory import Trajectory
from metastable.measures import Measure

__all__ = ["flow"]


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
