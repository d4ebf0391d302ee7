"""`flow`: one call for every description of a measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metastable import checks
from metastable.fields import Field
from metastable.fields.sums import Sum
from metastable.flows.particles import flow_points
from metastable.flows.staircase import Merge
from metastable.flows.steppers import Adaptive, Fixed, Geodesic
from metastable.flows.trajectory import Trajectory
from metastable.measures import Measure, Points

__all__ = ["flow"]


def flow(
    measure: Measure,
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
) -> Trajectory[Any]:
    """Move a measure by a field: ẋ_i = v[μ(t)](x_i, t), or the SDE when the field holds `Noise`.

    - `horizon`: final time > 0, in the field's clock; `math.inf` with `merge`, to the last cluster.
    - `sum`: how the mean over tokens is evaluated; by default the cheapest whose error stays well
      below the stepper's (`choose_sum`). The result names it.
    - `stepper`: `Adaptive(...)` (default), `Fixed(...)`, or `Geodesic(...)` with noise.
    - `merge`: `Merge()` joins tokens that have collapsed, which carries a run through all its
      mergers over times e^{cβ}; see `staircase`, also for what `frames` means then. By default
      tokens stay apart.
    - `frames`: how many equally spaced frames to keep, or an increasing array of times.
    - `check`: compare the sum with the dense one on a sample of tokens, at the start and at the
      end, and report the larger relative error as `statistics["sum_error"]`.
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
    checks.instance("measure", measure, Measure, "Points(...), a Density or Gaussian(...)")
    checks.instance("field", field, Field, "a field")
    if isinstance(measure, Points):
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
    tokens_only = {"sum": sum, "merge": merge, "check": check, "checkpoint": checkpoint}
    for name, value in tokens_only.items():
        if value:
            kind = type(measure).__name__
            raise ValueError(f"{name} is for tokens and must be left out of a flow of a {kind}.")
    how = {name: v for name, v in (("stepper", stepper), ("progress", progress)) if v is not None}
    from metastable.flows.gaussian import flow_gaussian  # pyright: ignore[reportMissingImports]

    return flow_gaussian(measure, field, horizon, frames=frames, **how)
