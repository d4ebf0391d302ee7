"""Parameters that change with depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields.block import Mix
from metastable.fields.field import Field, Places
from metastable.fields.sums import Sum
from metastable.measures import Points


class Schedule(Field):
    """A field whose parameters depend on time: `at_time` maps t to a field.

    `Schedule(lambda t: ms.SelfAttention(beta=1 + t))` varies smoothly; `Schedule.piecewise` holds
    one field per layer; `Schedule.resampled` draws a fresh one per layer, which for many thin
    layers tends to the flow of the averaged field.
    """

    at_time: Callable[[Any], Field]
    switches: tuple[float, ...] = eqx.field(static=True, default=())

    def __check_init__(self) -> None:
        if isinstance(self.at_time, Field):
            raise ValueError("at_time must be a function t -> field; got a field: use it directly.")
        checks.function("at_time", self.at_time, "a function t -> field")

    @classmethod
    def piecewise(cls, fields: Sequence[Field], switches: Sequence[float]) -> Schedule:
        """Field k holds until switches[k]; the last one holds for ever.

        The fields must have the same structure (same classes and array shapes).
        """
        fields, switches = tuple(fields), tuple(float(s) for s in switches)
        if not fields:
            raise ValueError("fields must hold at least one field; got none.")
        if any(not eqx.is_array(leaf) for leaf in jax.tree.leaves(fields)):
            raise ValueError(
                "fields of a piecewise schedule must hold numbers only; got one with a function: "
                "write Schedule(lambda t: ...)."
            )
        if len(switches) != len(fields) - 1 or list(switches) != sorted(set(switches)):
            raise ValueError(
                f"switches must be {len(fields) - 1} increasing times, one fewer than the fields; "
                f"got {list(switches)}."
            )
        try:
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *fields)
        except ValueError as error:
            raise ValueError(
                "the fields of a piecewise schedule must share classes and array shapes; write "
                "identities as matrices where others are matrices."
            ) from error
        return cls(_Steps(stacked, jnp.asarray(switches, jnp.float64)), switches)

    @classmethod
    def resampled(
        cls, draw: Callable[[jax.Array], Field], layers: int, horizon: float, seed: int = 0
    ) -> Schedule:
        """`layers` fields drawn independently by `draw(key)`, each held for horizon/layers."""
        checks.integer("layers", layers, 1)
        checks.positive("horizon", horizon)
        keys = jax.random.split(jax.random.key(checks.seed(seed)), layers)
        switches = np.linspace(0.0, horizon, layers + 1)[1:-1]
        return cls.piecewise([draw(key) for key in keys], switches.tolist())

    @property
    def clock(self) -> str | None:
        return self.at_time(0.0).clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        return self.at_time(t).drift(measure, at, t, sum)


class _Steps(eqx.Module):
    stacked: Field
    switches: Array

    def __call__(self, t: Any) -> Field:
        layer = jnp.searchsorted(self.switches, t, side="right")
        return jax.tree.map(lambda leaf: leaf[layer], self.stacked)

    def __repr__(self) -> str:
        return f"<{self.switches.shape[0] + 1} fields, one after the other>"


def jumps(field: Any) -> tuple[float, ...]:
    """Times at which a field changes abruptly; a solver must not step across them."""
    switching = (Schedule, Mix)
    nodes = jax.tree.leaves(field, is_leaf=lambda node: isinstance(node, switching))
    found = {s for node in nodes if isinstance(node, Schedule) for s in node.switches}
    found |= {float(n.until) for n in nodes if isinstance(n, Mix) and not is_traced(n.until)}
    return tuple(sorted(found))
