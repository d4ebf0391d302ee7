"""Every interval of a run with noise, drawn again from its first frame by the stated field."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array

from metastable.comparison.equation import ends_of
from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.sums import Dense
from metastable.flows import Adaptive, Geodesic, Layers, Trajectory
from metastable.flows.solvers.token_layers import apply_layers
from metastable.flows.solvers.tokens import Deterministic, Diffusive
from metastable.measures import Points

SEED = 4_020_104  # of the noise of simulations, which no run should share


class Draws(NamedTuple):
    """Every interval of a noisy run, drawn again: where it began, ended, would end, and could."""

    starts: np.ndarray  # (k, n, d)
    ends: np.ndarray
    calm: np.ndarray  # without noise
    again: np.ndarray  # with other noise

    def squares(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances from the path without noise, of the run and of the simulation, (k,)."""
        total = lambda ends: np.sum((ends - self.calm) ** 2, axis=(1, 2))
        return total(self.ends), total(self.again)

    def along(self) -> tuple[np.ndarray, np.ndarray]:
        """⟨run − simulation, path without noise⟩, and that path's square, each over the noise.

        Both are divided by the squared size of what noise did, which treats run and simulation
        alike, so that intervals of much drift and little noise count most.
        """
        path = self.calm - self.starts
        size = np.maximum(sum(self.squares()), 1e-300)
        along = np.sum((self.ends - self.again) * path, axis=(1, 2))
        return along / size, np.sum(path**2, axis=(1, 2)) / size


def simulated(run: Trajectory) -> Draws:
    """All intervals of a run with noise, simulated from their first frame by the stated field."""
    assert run.field is not None
    start, times, stepper = run.frames[0], np.asarray(run.times, float), run.stepper or Geodesic()
    points = np.stack([np.asarray(frame.points) for frame in run.frames])
    if isinstance(stepper, Layers):
        return _layers_again(run, stepper, points)
    step = jnp.asarray(stepper.resolve(start, run.field, Dense()))
    pieces = np.column_stack([times[:-1], times[1:]])
    job = Diffusive(start, run.field, Dense(), step, jnp.asarray(SEED), stepper.max_steps)
    calm = Deterministic(start, run.field, Dense(), Adaptive(1e-6, 1e-6))
    ends = (ends_of(one, points[:-1], pieces) for one in (calm, job))
    return Draws(points[:-1], points[1:], *ends)


def _layers_again(run: Trajectory, stepper: Layers, points: np.ndarray) -> Draws:
    """Intervals of equal numbers of layers with other weights, and from where they began."""
    layers = np.rint(np.asarray(run.times) / stepper.step).astype(int)
    stride = int(layers[1])
    whole = np.flatnonzero(np.diff(layers) == stride)

    @eqx.filter_jit
    def again(field: Field, measure: Points, starts: Array, numbers: Array) -> Array:
        def one(given: tuple[Array, Array]) -> Array:
            x, k = given
            count = (stride, jnp.inf, SEED)
            return apply_layers(measure.at(x), field, Dense(), stepper, k * stride, *count)

        return jax.lax.map(one, (starts, numbers))

    starts = jnp.asarray(points[whole])
    ends = again(run.field, run.frames[0], starts, jnp.asarray(whole))  # pyright: ignore
    return Draws(points[whole], points[whole + 1], points[whole], np.asarray(ends))
