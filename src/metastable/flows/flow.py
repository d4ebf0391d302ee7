"""`flow`: one call for every description of a measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

from metastable.core import checks
from metastable.fields import Field
from metastable.fields.sums import Sum
from metastable.flows.density import Resolution, flow_density
from metastable.flows.gaussian import flow_gaussian
from metastable.flows.particles import flow_points
from metastable.flows.staircase import Merge
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.flows.trajectory import Trajectory
from metastable.measures import Density, Gaussian, Measure, Points

__all__ = ["flow"]


@overload
def flow(
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
) -> Trajectory[Points]: ...


@overload
def flow(
    measure: Density,
    field: Field,
    horizon: float,
    *,
    stepper: Adaptive | Fixed | None = None,
    resolution: Resolution | None = None,
    handover: int | None = None,
    frames: Any = 101,
    seed: int = 0,
    progress: bool | None = None,
) -> Trajectory[Any]: ...


@overload
def flow(
    measure: Gaussian,
    field: Field,
    horizon: float,
    *,
    stepper: Adaptive | Fixed | None = None,
    frames: Any = 101,
    progress: bool | None = None,
) -> Trajectory[Gaussian]: ...


def flow(
    measure: Measure,
    field: Field,
    horizon: float,
    *,
    sum: Sum | None = None,
    stepper: Any = None,
    merge: Merge | None = None,
    resolution: Resolution | None = None,
    handover: int | None = None,
    frames: Any = 101,
    check: bool = False,
    seed: int = 0,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory[Any]:
    """Move a measure by a field; the solver follows from the measure's type.

    Tokens: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`. A density:
    ∂_t μ + div(μ v[μ]) = (1/κ)Δμ. A Gaussian: its mean and covariance.

    - `horizon`: final time > 0, in the field's clock; `math.inf` with `merge`, to the last cluster.
    - `stepper`: `Adaptive(...)` (default), `Fixed(...)`, or `Geodesic(...)` for tokens with noise.
    - `frames`: how many equally spaced frames to keep, or an increasing array of times.
    - `seed`: randomness of the noise; without noise it has no effect.
    - `progress`: True, False, or None (a bar on a terminal after two seconds).

    For tokens only:

    - `sum`: how the mean over tokens is evaluated; by default the cheapest whose error stays well
      below the stepper's (`choose_sum`). The result names it.
    - `merge`: `Merge()` joins tokens that have collapsed, which carries a run through all its
      mergers over times e^{cβ}; see `staircase`, also for what `frames` means then. By default
      tokens stay apart.
    - `check`: compare the sum with the dense one on a sample of tokens, at the start and at the
      end, and report the larger relative error as `statistics["sum_error"]`.
    - `checkpoint`: a file that makes the run resumable; an interrupted run goes on from there, and
      gives the same bits as an undisturbed one.

    For densities only:

    - `resolution`: `Resolution(...)`, how many harmonics to start with and to end at. The number
      doubles when the last ones grow; past the limit the outcome is "unresolved".
    - `handover`: a number of tokens with which such a run goes on by itself to the horizon; its
      later frames are `Points`.

    Frames lie on the sphere to rounding. A blow-up, a step limit or Ctrl-C ends the run with an
    `Outcome` and all frames so far. Inside `jax.grad`, `jit` or `vmap` a solve of tokens is one
    differentiable call (recursive checkpointing) without progress or checkpoints.

    >>> import metastable as ms
    >>> run = flow(ms.orthogonal(tokens=3, dim=3), ms.SelfAttention(beta=1.0), horizon=20.0)
    >>> round(ms.similarity(run.frames[-1]).mean, 6)
    1.0
    """
    checks.instance("measure", measure, Measure, "Points(...), a Density or Gaussian(...)")
    checks.instance("field", field, Field, "a field")
    if isinstance(measure, Points):
        _leave_out(measure, resolution=resolution, handover=handover)
        return flow_points(
            measure,
            field,
            horizon,
            sum=sum,
            stepper=stepper,
            merge=merge,
            frames=frames,
            check=check,
            seed=seed,
            progress=progress,
            checkpoint=checkpoint,
        )
    _leave_out(measure, sum=sum, merge=merge, check=check or None, checkpoint=checkpoint)
    if isinstance(measure, Density):
        return flow_density(
            measure,
            field,
            horizon,
            stepper=stepper,
            resolution=resolution,
            frames=frames,
            handover=handover,
            seed=seed,
            progress=progress,
        )
    assert isinstance(measure, Gaussian)
    _leave_out(measure, resolution=resolution, handover=handover)
    return flow_gaussian(measure, field, horizon, frames=frames, stepper=stepper, progress=progress)


def _leave_out(measure: Measure, **options: Any) -> None:
    """Refuse what would silently have no effect."""
    for name, value in options.items():
        if value is not None:
            kind = type(measure).__name__
            raise ValueError(f"{name} has no meaning in a flow of {kind}; got {value!r}: omit it.")
