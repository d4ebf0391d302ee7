"""The abstract field: what every force on tokens must answer."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.fields.sums import Dense, Sum, choose_sum
from metastable.geometry.sphere import project, retract
from metastable.measures import Points

_MANY = 1024  # tokens; below, to choose a sum costs more than the dense one


class Places(eqx.Module):
    """Where a velocity is wanted: positions, their times, and whether they are the tokens."""

    points: Float[Array, "m d"]
    times: Float[Array, " m"] | None
    own: bool = eqx.field(static=True, default=False)

    def at(self, points: Array) -> Places:
        return Places(points, self.times, self.own)


class Field(eqx.Module):
    """A velocity field that depends on the measure it moves: ẋ = v[μ](x, t).

    A new field defines `drift` (the vector in R^d before projection to the sphere) and `clock`.
    Fields add with `+`.
    """

    @abstractmethod
    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        """The unprojected vector at each place."""

    @property
    @abstractmethod
    def clock(self) -> str | None:
        """Whose time this field keeps ("SA", "USA", …); None for one that keeps none of its own."""

    def velocity(
        self, measure: Points, at: Any = None, t: Any = 0.0, sum: Sum | None = None
    ) -> Float[Array, "m d"]:
        """v[μ](x, t) at the measure's own tokens, or at other points.

        `at` is None (own tokens), an array (m, d) of points of the same space, or `Points` when
        the field is causal and needs the times of the places. On the sphere the result is tangent.

        `sum` is how the mean over tokens is evaluated. By default the dense sum; at a thousand
        tokens and more, at their own places, the cheapest that reaches a relative error of 1e−12
        (`choose_sum`), as `flow` chooses it. Inside `jit`, `grad` and `vmap` always the dense sum.

        Projection cancels digits where the vector before it is much longer than the velocity. The
        worst case is USA between nearly opposite tokens, e^β against e^{−β}: at β = 9 a pair 0.1
        from antipodal has a relative error of 3e−8, 1e−5 from antipodal 5e−4. Runs that merge
        tokens sum differences instead, which keeps the digits.

        >>> import metastable as ms
        >>> pair = ms.Points([[1.0, 0.0], [0.0, 1.0]])
        >>> ms.SelfAttention(beta=0.0).velocity(pair).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        places, t = _places(measure, at), jnp.asarray(t, jnp.float64)
        many = places.own and measure.count >= _MANY
        if sum is None and many and not is_traced(self, measure, t):
            fast = _velocity(self, measure, places, t, choose_sum(measure, self, 1e-12))
            # A token that sees less mass than the error of a fast sum gets NaN from it.
            if is_traced(fast) or bool(jnp.isfinite(fast).all()):
                return fast
        return _velocity(self, measure, places, t, Dense() if sum is None else sum)

    def __add__(self, other: Field) -> Superposition:
        return Superposition((self, other))

    def __repr__(self) -> str:
        given = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))
        shown = [f"{name}={show_value(value)}" for name, value in given if value is not None]
        return f"{type(self).__name__}({', '.join(shown)})"


def joint_clock(fields: Iterable[Field]) -> str | None:
    """The clocks of fields that add, each named once."""
    names = dict.fromkeys(f.clock for f in fields if f.clock is not None)
    if len(names) > 1:
        names.pop("random depth", None)  # noise in the time of the force beside it
    return "+".join(names) or None


def show_value(value: Any) -> str:
    """A parameter on one line: numbers in full, arrays by shape, functions by name."""
    if is_traced(value):
        return "traced"
    if isinstance(value, Array | np.ndarray):
        return f"{float(value):g}" if value.ndim == 0 else f"<{'x'.join(map(str, value.shape))}>"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(show_value, value)) + "]"
    return repr(value) if isinstance(value, eqx.Module) else getattr(value, "__name__", str(value))


@eqx.filter_jit
def _velocity(field: Field, measure: Points, places: Places, t: Array, sum: Sum) -> Array:
    vector = field.drift(measure, places, t, sum)
    if vector.shape != places.points.shape:
        raise ValueError(
            f"the field must map tokens of dimension {measure.dim} to vectors of the same "
            f"dimension; got {vector.shape[1]}: make value (or output times value) square."
        )
    return project(places.points, vector) if measure.on_sphere else vector


class Superposition(Field):
    """The sum of several fields, v = v_1 + v_2 + …; write `a + b`."""

    parts: tuple[Field, ...]

    def __init__(self, parts: Any):
        flat: list[Field] = []
        for part in parts:
            if not isinstance(part, Field):
                raise ValueError(f"only fields add to fields; got {type(part).__name__}.")
            flat += part.parts if isinstance(part, Superposition) else [part]
        self.parts = tuple(flat)

    @property
    def clock(self) -> str | None:
        return joint_clock(self.parts)

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        return reduce(add, (part.drift(measure, at, t, sum) for part in self.parts))

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)


def _places(measure: Points, at: Any) -> Places:
    if at is None:
        return Places(measure.points, measure.positions, own=True)
    if isinstance(at, Points):
        points, times = at.points, at.times
    else:
        checks.finite_array("at", at, 2)
        points, times = jnp.asarray(at, measure.points.dtype), None
    if np.shape(points)[1] != measure.dim:
        raise ValueError(
            f"at must hold points of dimension {measure.dim}, like the tokens; got shape "
            f"{np.shape(points)}."
        )
    if measure.on_sphere:
        if not is_traced(points) and np.any(np.linalg.norm(np.asarray(points), axis=1) == 0):
            raise ValueError("at must hold no zero vector on the sphere; got one: drop it.")
        points = retract(points)
    return Places(points, times)
