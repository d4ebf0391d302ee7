"""A run seen as a case for theory: what it is, before any claim is tested on it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.fields import Field, SelfAttention
from metastable.fields.noise import diffusion
from metastable.flows import Trajectory
from metastable.observe import amplitudes
from metastable.observe.summary import attention_of, energy_series
from metastable.theory import spectrum


def continuous(claim: Callable[..., Any]) -> Any:
    """Marks a claim about continuous depth: discrete layers of step ε differ from it by O(ε)."""
    claim.continuous = True  # pyright: ignore[reportFunctionMemberAccess]
    return claim


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
        self.dim, self.tokens = self.start.dim, self.start.count
        self.on_sphere = self.start.on_sphere
        self.rate = float(diffusion(run.field))
        self.noisy = self.rate > 0
        self.discrete = str(run.statistics.get("stepper", "")).startswith("layers")

    @property
    def beta(self) -> float:
        assert self.head is not None
        return float(self.head.beta)

    @property
    def alone(self) -> bool:
        """One attention head and nothing else, on the sphere."""
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

    @functools.cached_property
    def effective_tokens(self) -> float:
        """1/Σw²: the number of equal tokens with the same sampling noise."""
        return float(1.0 / np.sum(np.asarray(self.start.weights) ** 2))

    @functools.cached_property
    def energies(self) -> np.ndarray | None:
        return energy_series(self.run)

    @functools.cached_property
    def modes(self) -> int:
        leading = spectrum.dominant_mode(self.beta, self.dim) if self.beta > 0 else 1
        return int(min(2 * leading + 1, 40 if self.dim <= 3 else 6))

    @functools.cached_property
    def rates(self) -> np.ndarray:
        """Predicted growth rates of modes 1, …, in the clock of the field."""
        return spectrum.growth_rates(self.beta, self.dim, self.modes, normalized=self.normalized)

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
        if self.tokens < 64:
            return False
        return bool(self.amplitudes[0].max() < 5 / math.sqrt(self.effective_tokens))
