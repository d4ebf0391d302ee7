"""Tokens in discrete depth: the transformer as it is computed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.core.outcome import Outcome
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.noise import diffusion
from metastable.fields.random import common_noise
from metastable.fields.sums import Dense, Sum
from metastable.flows.solvers.frames import Frame, frames_at
from metastable.flows.solvers.segments import count_whole
from metastable.flows.solvers.solver import Choices, Solver
from metastable.flows.steppers import Layers
from metastable.flows.trajectory import Trajectory
from metastable.geometry.sphere import retract
from metastable.measures import Points


def kept_layers(depth: int, frames: Any, size: float, what: str) -> int:
    """The stride from one kept layer to the next; at most `frames` are kept, of `size` numbers."""
    kept = min(checks.integer("frames", frames, 2), depth + 1)
    checks.fits_memory(f"keeping {kept} {what}", kept * size, "pass frames=... to keep fewer")
    return -(-depth // (kept - 1))


_FIT: set[Any] = set()  # shapes known to fit
MANY_SHAPES = 4096


def check_shapes(measure: Points, field: Field, sum: Sum) -> None:
    """Refuse tokens, fields and sums that do not fit, before anything is allocated or compiled.

    It traces the field, which takes as long as hundreds of small layers: once for each set of
    shapes.
    """
    leaves, tree = jax.tree.flatten((measure, field, sum))
    described = (
        (np.shape(leaf), leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves
    )
    shapes = tree, tuple(described)
    try:
        if shapes in _FIT:
            return
    except TypeError:  # something in it has no hash
        shapes = None
    eqx.filter_eval_shape(lambda m, f: f.velocity(m, t=0.0, sum=sum), measure, field)
    if shapes is not None and len(_FIT) < MANY_SHAPES:
        _FIT.add(shapes)


class TokenLayers(Solver):
    """x ← N(x + ε A(x)), all layers in one compiled call; see `Layers`."""

    def __init__(self, measure: Points, field: Field, horizon: float, how: Choices):
        stepper: Layers = how.stepper
        self.measure, self.field, self.stepper = measure, field, stepper
        self.depth = stepper.depth(horizon)
        if stepper.truncated:
            raise ValueError("truncated must be False for tokens; got True: it is for a Gaussian.")
        if is_traced(diffusion(field)) or float(diffusion(field)) > 0:
            raise ValueError("layers cannot carry noise; this field has some: use Geodesic(...).")
        if common_noise(field) and not stepper.residual:
            raise ValueError("residual must be True for random weights; got False.")
        self.seed = jnp.asarray(how.seed)
        self.sum: Sum = Dense() if how.sum is None else how.sum
        check_shapes(measure, field, self.sum)
        what = f"layers of {measure.count} tokens in dimension {measure.dim}"
        self.stride = kept_layers(self.depth, how.frames, 2.0 * measure.points.size, what)
        self.kept, self.off = [Frame.at(0.0, measure)], 0.0

    def start(self) -> None:
        """Nothing: all is done in one call."""

    @property
    def share(self) -> float:
        return self.kept[-1].time / (self.depth * self.stepper.step)

    @property
    def layers(self) -> np.ndarray:
        """The layers that are kept."""
        return np.minimum(np.arange(0, self.depth + self.stride, self.stride), self.depth)

    def advance(self) -> list[Frame]:
        states = np.asarray(self._states())
        reached = count_whole(states, self.measure.on_sphere)
        times = self.layers[:reached] * float(self.stepper.step)
        self.kept = frames_at(times, self.measure, states[:reached])
        norms = np.linalg.norm(states[:reached], axis=-1)
        self.off = float(np.max(np.abs(norms - 1)))  # before the first layer too
        whole = reached == self.layers.size
        self.outcome = Outcome.done() if whole else Outcome.blow_up(self.kept[-1].time)
        return self.kept[1:]

    def traced(self) -> Trajectory:
        frames = tuple(self.measure.at(state) for state in self._states())
        times = self.layers * float(self.stepper.step)
        return Trajectory(times, frames, self.clock, Outcome.done(), {}, self.field)

    def _states(self) -> Array:
        how = self.stepper, self.depth, self.stride
        return _apply(self.measure, self.field, self.sum, self.seed, *how)

    def statistics(self) -> dict[str, Any]:
        done = round(self.kept[-1].time / self.stepper.step)
        return {
            "steps": done,
            "evaluations": done,
            "sum": self.sum.name,
            "stepper": self.stepper.name,
            "max_norm_drift": self.off if self.measure.on_sphere else None,
        }


@eqx.filter_jit
def _apply(
    measure: Points, field: Field, sum: Sum, seed: Array, how: Layers, depth: int, stride: int
) -> Float[Array, "frame n d"]:
    """The state before the first layer and after every `stride` layers, and after the last."""

    @jax.checkpoint
    def group(x, first):
        # The last group of layers may be short.
        x = apply_layers(measure.at(x), field, sum, how, first, stride, depth, seed)
        return x, x

    _, states = jax.lax.scan(group, measure.points, jnp.arange(0, depth, stride))
    return jnp.concatenate([measure.points[None], states])


def apply_layers(
    measure: Points,
    field: Field,
    sum: Sum,
    how: Layers,
    first: Any,
    count: int,
    depth: Any,
    seed: Any = 0,
) -> Float[Array, "n d"]:
    """The tokens after the layers first, …, first + count − 1; those from `depth` on do nothing."""
    common = common_noise(field)

    def layer(x, k):
        tokens = measure.at(x)
        here = Places(x, tokens.positions, own=True)
        # A hair past kε, so that rounding cannot leave a layer on the wrong side of a switch.
        moved = how.step * field.drift(tokens, here, (k + 1e-9) * how.step, sum)
        for number, part in enumerate(common):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), k), number)
            moved += jnp.sqrt(how.step) * part.kick(tokens, key, k * how.step, sum)
        moved = x + moved if how.residual else moved
        return jnp.where(k < depth, retract(moved) if measure.on_sphere else moved, x), None

    return jax.lax.scan(layer, measure.points, first + jnp.arange(count))[0]
