"""Weighted tokens: the empirical measure Σ_j w_j δ_{x_j} that attention sees and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.geometry.sphere import retract
from metastable.measures.measure import Measure, Variables


class Points(Measure):
    """Tokens x_j with masses w_j: the probability measure μ = Σ_j w_j δ_{x_j}.

    Tokens live on the unit sphere, or in R^d with `on_sphere=False`. Weights are normalised to sum
    to 1; a token of weight 2/n acts exactly as two tokens at one place. `times` orders tokens for
    causal attention and gives their positions to positional schemes; without it token i has
    time i.

    - `points`: (n, d); on the sphere each row must have norm 1 to 1e−6 and is then retracted
      exactly. Use `from_array` to normalise arbitrary vectors.
    - `weights`: (n,) nonnegative, or None for 1/n.
    - `times`: (n,) or None.

    >>> Points([[1.0, 0.0], [0.0, 1.0]], weights=[1, 3])
    Points(2 tokens on the sphere S^1, masses 0.25 to 0.75)
    """

    points: Float[Array, "n d"]
    weights: Float[Array, " n"]
    times: Float[Array, " n"] | None
    on_sphere: bool = eqx.field(static=True)
    massless: bool = eqx.field(static=True)  # whether some token is known to have weight 0

    def __init__(
        self,
        points: Any,
        weights: Any = None,
        times: Any = None,
        *,
        on_sphere: bool = True,
        dtype: Any = jnp.float64,
    ):
        checks.finite_array("points", points, 2)
        points = jnp.asarray(points, dtype)
        count, dim = points.shape
        if on_sphere:
            if dim < 2:
                raise ValueError(
                    f"points on a sphere need at least 2 axes; got shape {points.shape}. "
                    "Use on_sphere=False for tokens in R."
                )
            _check_unit(points)
            points = retract(points)
        if weights is None:
            weights = jnp.full(count, 1.0 / count, dtype)
        else:
            _check_row("weights", weights, count)
            weights = jnp.asarray(weights, dtype)
            if not is_traced(weights) and (np.min(weights) < 0 or np.sum(weights) <= 0):
                raise ValueError(
                    "weights must be >= 0 with a positive sum; got smallest "
                    f"{float(np.min(weights)):g} and sum {float(np.sum(weights)):g}."
                )
            weights = weights / jnp.sum(weights)
        if times is not None:
            _check_row("times", times, count)
            times = jnp.asarray(times, dtype)
        self.points, self.weights, self.times = points, weights, times
        self.on_sphere = bool(on_sphere)
        self.massless = not is_traced(weights) and bool(np.any(np.asarray(weights) == 0))

    @classmethod
    def unchecked(
        cls,
        points: Any,
        weights: Any,
        times: Any = None,
        *,
        on_sphere: bool = True,
        massless: bool | None = None,
    ) -> Points:
        """Arrays that are known to be right, kept as they are.

        The checks of the constructor would compile anew for every number of tokens, and its weights
        are normalised. `massless` says whether some weight is 0; None looks.
        """
        massless = bool((weights == 0).any()) if massless is None else massless
        fresh = object.__new__(cls)
        parts = dict(points=points, weights=weights, times=times)
        for name, value in (parts | dict(on_sphere=on_sphere, massless=massless)).items():
            object.__setattr__(fresh, name, value)
        return fresh

    @property
    def count(self) -> int:
        """Number of tokens."""
        return self.points.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d of the surrounding space."""
        return self.points.shape[1]

    @property
    def positions(self) -> Float[Array, " n"]:
        """Token times, or 0, 1, … when none were given."""
        if self.times is not None:
            return self.times
        return jnp.arange(self.count, dtype=self.points.dtype)

    @property
    def angles(self) -> Float[Array, " n"]:
        """Polar angles in (−π, π]; only on the circle."""
        if self.dim != 2:
            raise ValueError(f"angles exist in dimension 2 only; this measure has {self.dim}.")
        return jnp.arctan2(self.points[:, 1], self.points[:, 0])

    def at(self, points: Float[Array, "n d"]) -> Points:
        """The same masses and times at other places (which must obey the same geometry)."""
        return eqx.tree_at(lambda m: m.points, self, points)

    def directions(self) -> Points:
        """Tokens pushed to the sphere by x ↦ x/‖x‖."""
        return self._moved(retract(self.points), on_sphere=True)

    def euclidean(self) -> Points:
        """The same tokens, free to move in R^d."""
        return self._moved(self.points, on_sphere=False)

    def _moved(self, points: Any, *, on_sphere: bool) -> Points:
        same = dict(on_sphere=on_sphere, massless=self.massless)
        return Points.unchecked(points, self.weights, self.times, **same)

    @classmethod
    def to_variables(cls, frames: Sequence[Points | None]) -> Variables:
        """Tokens (time, token, axis) and weights (time, token), padded with NaN and weight 0."""
        kept = [(k, frame) for k, frame in enumerate(frames) if frame is not None]
        first = kept[0][1]
        count = max(frame.count for _, frame in kept)
        tokens = np.full((len(frames), count, first.dim), np.nan)
        weights = np.zeros((len(frames), count))
        for k, frame in kept:
            tokens[k, : frame.count] = frame.points
            weights[k, : frame.count] = frame.weights
        variables: Variables = {
            "tokens": (("time", "token", "axis"), tokens),
            "weights": (("time", "token"), weights),
            "on_sphere": ((), np.asarray(first.on_sphere)),
        }
        if first.times is not None:
            variables["token_time"] = (("token",), np.asarray(first.times))
        return variables

    @classmethod
    def from_variables(cls, data: Mapping[Any, Any]) -> list[Points | None]:
        token_time = data["token_time"].values if "token_time" in data else None
        on_sphere = bool(data["on_sphere"].values)
        frames: list[Points | None] = []
        for points, weights in zip(data["tokens"].values, data["weights"].values, strict=True):
            kept = ~np.isnan(points[:, 0])
            times = token_time if token_time is not None and kept.all() else None
            here = kept.any()
            frames.append(
                Points(points[kept], weights[kept], times, on_sphere=on_sphere) if here else None
            )
        return frames

    def __repr__(self) -> str:
        where = f"on the sphere S^{self.dim - 1}" if self.on_sphere else f"in R^{self.dim}"
        if is_traced(self.weights):
            return f"Points({self.count} tokens {where})"
        low, high = float(np.min(self.weights)), float(np.max(self.weights))
        masses = (
            f"mass {low:.3g} each" if np.isclose(low, high) else f"masses {low:.3g} to {high:.3g}"
        )
        return f"Points({self.count} tokens {where}, {masses})"


def _check_unit(points: Array) -> None:
    if is_traced(points):
        return
    norms = np.linalg.norm(np.asarray(points), axis=1)
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > 1e-6:
        raise ValueError(
            f"points on the sphere must have norm 1; row {worst} has norm {norms[worst]:.6g}. "
            "Use from_array(...) to normalise, or on_sphere=False for tokens in R^d."
        )


def _check_row(name: str, value: Any, count: int) -> None:
    checks.finite_array(name, value, 1)
    if np.shape(value) != (count,):
        raise ValueError(
            f"{name} must have one entry per token ({count}); got shape {np.shape(value)}."
        )
