"""Following an equilibrium as a parameter of the field varies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields import Field
from metastable.geometry.sphere import angle, retract
from metastable.observe.equilibria import Equilibrium, equilibrium, polish

STEP = 0.2  # rad: a token that a corrector moves farther has gone to another branch


@dataclass(frozen=True, eq=False)
class EquilibriumBranch:
    """A curve of equilibria; see `follow`."""

    betas: np.ndarray  # (k,) those reached
    equilibria: tuple[Equilibrium, ...]  # (k,)
    changes: tuple[float, ...]  # where stability changes
    end: float | None  # where the branch turned back or vanished; None if followed to the last

    @property
    def rates(self) -> np.ndarray:
        """Largest growth rate up to symmetry at each β, shape (k,)."""
        return np.array([rest.rate for rest in self.equilibria])

    def __repr__(self) -> str:
        first = self.equilibria[0]
        parts = [first.kind, f"beta {self.betas[0]:.4g} to {self.betas[-1]:.4g}", first.stability]
        parts += [f"changes at {beta:.8g}" for beta in self.changes]
        parts += [] if self.end is None else [f"ends at {self.end:.8g}"]
        return f"Branch({', '.join(parts)})"


def follow(start: Equilibrium, field_at: Callable[[float], Field], betas: Any) -> EquilibriumBranch:
    """Follow an equilibrium through the fields `field_at(beta)`, one β after another.

    Predictor: the secant through the last two; corrector: `equilibrium`. A step is halved when the
    corrector fails or moves a token by more than 0.2 rad. Where the leading rate up to symmetry
    changes sign, bisection finds β to 1e−8; two changes between neighbouring β go unnoticed. At a
    fold, where the branch turns back in β, it ends, and `end` holds the last β reached there.

    - `field_at`: any one-parameter family of fields; keep its structure fixed to compile once.
    - `betas`: (k,) in the order to be followed; the first one is where `start` is polished.

    >>> import metastable as ms
    >>> ring = equilibrium(ms.polygon(3), ms.SelfAttention(beta=1.0, query=-1))
    >>> follow(ring, lambda beta: ms.SelfAttention(beta, query=-1), [1.0, 0.5])
    Branch(polygonal, beta 1 to 0.5, stable, changes at 0.66666667)
    """
    checks.finite_array("betas", betas, 1)
    path = np.asarray(betas, float)
    reached = [equilibrium(start.measure, field_at(path[0]))]
    changes, slope, end = [], None, None
    decided = None if reached[0].stability == "neutral" else (path[0], reached[0])
    for goal in path[1:]:
        beta, here, slope = _advance(field_at, path[len(reached) - 1], reached[-1], goal, slope)
        if beta != goal:
            end = beta
            break
        reached.append(here)
        if here.stability == "neutral":
            continue
        if decided is not None and decided[1].stability != here.stability:
            changes.append(_bisect(field_at, *decided, goal, here))
        decided = (goal, here)
    return EquilibriumBranch(path[: len(reached)], tuple(reached), tuple(changes), end)


def _advance(
    field_at: Callable[[float], Field],
    beta: float,
    here: Equilibrium,
    goal: float,
    slope: np.ndarray | None,
) -> tuple[float, Equilibrium, np.ndarray | None]:
    step = goal - beta
    while beta != goal:
        target = goal if abs(goal - beta) <= abs(step) else beta + step
        points = here.measure.points
        ahead = points if slope is None else retract(points + slope * (target - beta))
        guess = here.measure.at(jnp.asarray(ahead))
        new = polish(guess, field_at(target))
        if new is not None and np.max(angle(guess.points, new.measure.points)) <= STEP:
            slope = np.asarray(new.measure.points - points) / (target - beta)
            beta, here = target, new
        elif abs(step) < 1e-8:
            break
        else:
            step = (target - beta) / 2
    return beta, here, slope


def _bisect(
    field_at: Callable[[float], Field],
    low: float,
    before: Equilibrium,
    high: float,
    after: Equilibrium,
) -> float:
    while abs(high - low) > 1e-8:
        middle = (low + high) / 2
        halfway = retract(before.measure.points + after.measure.points)
        new = polish(before.measure.at(halfway), field_at(middle))
        if new is None:
            break
        if (new.rate > 0) == (before.rate > 0):
            low, before = middle, new
        else:
            high, after = middle, new
    return float((low + high) / 2)
