"""Small systems of one shape, moved by one compiled call: for sweeps and ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.random import is_noisy
from metastable.fields.schedule import jumps
from metastable.fields.sums import Dense
from metastable.flows.solvers.frames import frame_times, frames_at
from metastable.flows.solvers.tokens import Deterministic
from metastable.flows.steppers import Adaptive
from metastable.flows.trajectory import Trajectory
from metastable.measures import Points

BATCH = 16  # systems in one compiled call; always padded to this, so that bits never differ
SMALL = 2**14  # numbers in n² + nd: above, a system keeps the machine busy on its own


def moves_together(measure: Any, field: Field, stepper: Any) -> bool:
    """Whether `flow_batch` can move such a start, and is worth it: few tokens, no noise.

    Switches of a field end a segment, which every system of a batch would have to share.
    """
    return (
        isinstance(measure, Points)
        and measure.count * (measure.count + measure.dim) <= SMALL
        and isinstance(stepper, Adaptive | None)
        and not is_noisy(field)
        and not jumps(field)
    )


def flow_batch(
    starts: Sequence[tuple[Any, Field]], horizon: float, frames: Any, stepper: Adaptive
) -> list[Trajectory | None]:
    """Runs of at most BATCH starts of tokens and fields, or None for those to be run alone.

    These are all of them where shapes or functions inside the fields differ, and each whose numbers
    are not finite: alone, it says how it ended. Any field will do that has no noise and no switches
    (`moves_together`). On a CPU systems move one after the other inside the compiled call, which is
    up to three times as fast as side by side; elsewhere side by side, with the same steps.

    Measured (101 frames to t = 10; 16 tokens on S², 32 on S⁷, 64 on S¹⁵): 37, 15 and 5 times as
    fast as one `flow` after the other (benchmarks/small.py).
    """
    arrays, rest = zip(*(eqx.partition(start, eqx.is_array_like) for start in starts), strict=True)
    shapes = {tuple(np.shape(leaf) for leaf in jax.tree.leaves(start)) for start in arrays}
    if len(shapes) > 1 or len({jax.tree.structure(start) for start in starts}) > 1:
        return [None] * len(starts)
    functions = [jax.tree.leaves(each) for each in rest]
    if any(
        one is not two for each in functions for one, two in zip(each, functions[0], strict=True)
    ):
        return [None] * len(starts)
    padded = [*arrays, *arrays[-1:] * (BATCH - len(starts))]
    stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a) for a in leaves]), *padded)
    times = frame_times(frames, horizon)
    try:
        together = jax.default_backend() != "cpu"
        points = np.asarray(_flows(stacked, rest[0], times, stepper, together))
    except TypeError:  # of JAX, where a field must look at its numbers
        return [None] * len(starts)
    runs: list[Trajectory | None] = []
    for (measure, field), each in zip(starts, points, strict=False):
        moved = tuple(frame.measure for frame in frames_at(times, measure, each))
        clock, whole = field.clock or "none", bool(np.isfinite(each).all())
        runs.append(Trajectory(times, moved, clock, Outcome.done(), {}, field) if whole else None)
    return runs


@eqx.filter_jit
def _flows(
    stacked: tuple[Points, Field],
    rest: tuple[Points, Field],
    times: np.ndarray,
    stepper: Adaptive,
    together: bool,
) -> Float[Array, "system frame n d"]:
    """Frames of each system; `rest` is what they have in common, such as functions."""
    t0, ts = jnp.asarray(times[0]), jnp.asarray(times[1:])

    def one(arrays: tuple[Points, Field]) -> Array:
        measure, field = eqx.combine(arrays, rest)
        job = Deterministic(measure, field, Dense(), stepper)
        carry = measure.points, 1e-3 * ts[-1]
        done = job.segment(carry, t0, ts, differentiable=False)
        return jnp.concatenate([measure.points[None], done.frames])

    return jax.vmap(one)(stacked) if together else jax.lax.map(one, stacked)
