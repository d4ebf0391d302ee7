"""A run seen as a case for theory: what it is, before any claim is tested on it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.comparison.equation import FEW, velocities_at
from metastable.comparison.linear import Growth, linear_growth
from metastable.core.numerics import jnp
from metastable.fields import Block, Field, SelfAttention
from metastable.fields.attention import act
from metastable.fields.noise import diffusion
from metastable.fields.random import common_noise
from metastable.flows import Hardmax, Layers, Trajectory
from metastable.measures import Points
from metastable.observe import amplitudes
from metastable.observe.gradient import Climb, climb_of
from metastable.observe.summary import attention_of, energy_series
from metastable.theory import spectrum

MANY = 5_000  # tokens above which no claim sums over all pairs in every frame


def continuous(claim: Callable[..., Any]) -> Any:
    """Marks a claim about continuous depth: discrete layers of step ε differ from it by O(ε)."""
    claim.continuous = True  # pyright: ignore[reportFunctionMemberAccess]
    return claim


def about(measure: type) -> Callable[[Any], Any]:
    """Marks a claim about another kind of measure than tokens."""

    def mark(claim: Any) -> Any:
        claim.measure = measure
        return claim

    return mark


def applied(operator: Any, x: np.ndarray) -> np.ndarray:
    """An operator of a field on each row; None is the identity."""
    return np.asarray(act(operator, jnp.asarray(x)))


class Case:
    """The facts of a run that decide which claims apply to it."""

    def __init__(self, run: Trajectory):
        if run.field is None:
            raise ValueError(
                "run must know its field to be compared; a stored trajectory is read back with it "
                "by `metastable compare DIR`, or by dataclasses.replace(run, field=...)."
            )
        self.run = run
        self.field: Field = run.field
        self.head: SelfAttention | None = attention_of(run.field)
        self.times = np.asarray(run.times, float)
        self.start = run.frames[0]
        self.dim, self.tokens = self.start.dim, getattr(self.start, "count", 0)
        self.on_sphere = bool(getattr(self.start, "on_sphere", False))
        self.rate = float(diffusion(run.field))
        self.common = common_noise(run.field)
        self.noisy = self.rate > 0 or bool(self.common)
        named = str(run.statistics.get("stepper", "")).startswith("layers")
        self.discrete = named or isinstance(run.stepper, Layers)
        for k, frame in enumerate(run.frames):
            if isinstance(frame, Points) and not np.isfinite(np.asarray(frame.points)).all():
                raise ValueError(
                    f"run must hold finite frames; frame {k} at t = {self.times[k]:g} has tokens "
                    "that are no numbers: cut the run before it."
                )

    @property
    def beta(self) -> float:
        assert self.head is not None
        return float(self.head.beta)

    @property
    def alone(self) -> bool:
        """One attention head of finite β and nothing else, on the sphere."""
        if isinstance(self.run.stepper, Hardmax):
            return False
        return self.head is not None and self.field is self.head and self.on_sphere

    @property
    def isotropic(self) -> bool:
        """Q = K = I, V = ±I, no mask, no noise: energies and linear theory apply."""
        head = self.head
        return (
            self.alone
            and head is not None
            and head.isotropic
            and head.query is None
            and head.key is None
            and (head.value is None or abs(float(head.value)) == 1.0)
        )

    @property
    def attractive(self) -> bool:
        return self.isotropic and self.head is not None and self.head.value is None

    @property
    def normalized(self) -> bool:
        return self.head is not None and self.head.normalized

    @property
    def same_tokens(self) -> bool:
        """Whether every frame holds the same tokens."""
        return all(getattr(frame, "count", 0) == self.tokens for frame in self.run.frames)

    @property
    def step_error(self) -> float:
        """What one step may get wrong in one token: its tolerance holds for the mean square."""
        return 1e-9 * math.sqrt(self.tokens * self.dim)

    @functools.cached_property
    def effective_tokens(self) -> float:
        """1/Σw²: the number of equal tokens with the same sampling noise."""
        return float(1.0 / np.sum(np.asarray(self.start.weights) ** 2))

    @property
    def crowd(self) -> str:
        """How many tokens there are, and as how many equal ones they count where masses differ."""
        if self.effective_tokens > 0.999 * self.tokens:
            return f"{self.tokens} tokens"
        return f"{self.tokens} tokens of unequal mass, as {self.effective_tokens:.3g} equal ones,"

    @functools.cached_property
    def energies(self) -> np.ndarray | None:
        """Of every frame; None where that would sum over all pairs of very many tokens."""
        return None if self.tokens > MANY else energy_series(self.run)

    @functools.cached_property
    def points(self) -> np.ndarray:
        """All frames, (T, n, d); of a block that moves the radius, their directions."""
        points = np.stack([np.asarray(frame.points) for frame in self.run.frames])
        if isinstance(self.field, Block):
            points = points / np.linalg.norm(points, axis=2, keepdims=True)
        return points

    @functools.cached_property
    def velocities(self) -> np.ndarray:
        """v of the stated field at every frame, (T, n, d)."""
        if self.same_tokens and self.tokens <= FEW:
            return velocities_at(self.field, self.run.frames, self.times)
        frames = zip(self.run.frames, self.times, strict=True)
        return np.stack([np.asarray(self.field.velocity(f, t=t)) for f, t in frames])

    @functools.cached_property
    def climb(self) -> Climb | None:
        """The energy that the field climbs; that of the inner field, for a block."""
        inner = self.field.field if isinstance(self.field, Block) else self.field
        if self.noisy or not (self.on_sphere or isinstance(self.field, Block)):
            return None
        return climb_of(inner, self.dim)

    @functools.cached_property
    def growth(self) -> Growth | None:
        """Growth rates around the uniform measure, noise included."""
        if not self.on_sphere:
            return None
        return linear_growth(self.field, self.dim, 1 / self.rate if self.rate > 0 else math.inf)

    @functools.cached_property
    def modes(self) -> int:
        """How many degrees are followed: twice the one that grows or decays fastest, and one."""
        if self.growth is None:
            return 1
        rates = np.nan_to_num(np.abs(self.growth.rates))
        leading = int(np.argmax(rates)) + 1 if self.growth.fastest <= 0 else self.growth.mode
        return int(min(2 * leading + 1, 40 if self.dim <= 3 else 6, len(rates)))

    @functools.cached_property
    def rates(self) -> np.ndarray:
        """Predicted growth rates of degrees 1, …, noise included, in the clock of the field."""
        assert self.growth is not None
        return np.asarray(self.growth.rates, float)[: self.modes]

    @functools.cached_property
    def max_rate(self) -> float:
        """The largest of all rates, also where its mode is not among those followed."""
        return spectrum.max_rate(self.beta, self.dim, normalized=self.normalized)

    @functools.cached_property
    def amplitudes(self) -> np.ndarray:
        """Amplitude of each degree in each frame, (T, modes)."""
        return np.array([amplitudes(frame, self.modes) for frame in self.run.frames])

    @functools.cached_property
    def starts_uniform(self) -> bool:
        """Whether the first amplitudes are those of independent uniform tokens."""
        if self.tokens < 16:
            return False
        first = amplitudes(self.start, self.modes)
        return bool(
            0.2 < np.mean(first**2) * self.effective_tokens
            and first.max() < 5 / math.sqrt(self.effective_tokens)
        )
