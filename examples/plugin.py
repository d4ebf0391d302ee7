"""A field, a start, an observable and a claim of one's own, for specs to name.

metastable run examples/plugin.toml --plugin examples/plugin.py --out runs/spring
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float

import metastable as ms
from metastable.comparison.case import Case
from metastable.core.numerics import jnp
from metastable.core.spec import Count, Positive, Real
from metastable.core.verdict import Verdict, judge


@ms.register.field("spring")
class Spring(ms.Field):
    """A pull of strength k towards a unit vector c: ẋ = P_x(k c)."""

    strength: Float[Array, ""]
    center: Float[Array, " d"]

    def __init__(self, strength: Positive, center: list[Real]):
        self.strength = jnp.asarray(strength, jnp.float64)
        self.center = jnp.asarray(center, jnp.float64)

    @property
    def clock(self) -> str:
        return "spring"

    def drift(self, measure: ms.Points, at: Any, t: Any, sum: Any) -> Float[Array, "m d"]:
        return jnp.broadcast_to(self.strength * self.center, at.points.shape)


@ms.register.start("ring")
def ring(tokens: Count, turn: Real = 0.0) -> ms.Points:
    """Tokens at equal angles on the circle, the first at angle `turn`."""
    angles = turn + 2 * np.pi * np.arange(tokens) / tokens
    return ms.from_array(np.stack([np.cos(angles), np.sin(angles)], axis=1))


@ms.register.observable()
def highest(measure: ms.Points) -> float:
    """Largest first coordinate."""
    return float(np.asarray(measure.points)[:, 0].max())


@ms.register.claim
def reaches_center(case: Case) -> Verdict | None:
    """tan(φ/2) = tan(φ_0/2) e^{−kt} for the angle φ between a token and c: derived."""
    if not isinstance(case.field, Spring):
        return None
    center = np.asarray(case.field.center)
    angle = lambda frame: np.arccos(np.clip(np.asarray(frame.points) @ center, -1.0, 1.0))
    decay = np.exp(-float(case.field.strength) * case.times[-1])
    expected = 2 * np.arctan(np.tan(angle(case.run.frames[0]) / 2) * decay)
    error = float(np.abs(angle(case.run.frames[-1]) - expected).max())
    return judge("angles to the center, largest error", "derived", 0.0, error, absolute=1e-6)
