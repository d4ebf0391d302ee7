"""Limit laws of the spectra of random matrices.

Every law states its scale: a law for entries of variance σ² without the division by √n lives on an
interval that grows with n.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np


@dataclass(frozen=True)
class Law(ABC):
    """A law on an interval: `density`, `cdf`, `edges`; `scale` multiplies the variable."""

    scale: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be a finite number > 0; got {self.scale}.")

    @property
    @abstractmethod
    def edges(self) -> tuple[float, float]:
        """Ends of the continuous part."""

    @property
    def atom(self) -> float:
        """Mass at zero."""
        return 0.0

    def density(self, x: np.ndarray) -> np.ndarray:
        """Density of the continuous part."""
        u = np.asarray(x, float) / self.scale
        low, high = (edge / self.scale for edge in self.edges)
        inside = (u > low) & (u < high)
        found = self._density(np.where(inside, u, (low + high) / 2))
        return np.where(inside, found, 0.0) / self.scale

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """Probability of values up to x, the atom included."""
        u = np.asarray(x, float) / self.scale
        low, high = (edge / self.scale for edge in self.edges)
        return self._cdf(np.clip(u, low, high)) + self.atom * (u >= 0)

    def scaled(self, factor: float) -> Self:
        """The law of the variable times `factor`."""
        return replace(self, scale=self.scale * factor)

    @abstractmethod
    def _density(self, u: np.ndarray) -> np.ndarray:
        """At scale 1, inside the edges."""

    @abstractmethod
    def _cdf(self, u: np.ndarray) -> np.ndarray:
        """Of the continuous part, at scale 1, between the edges."""


@dataclass(frozen=True)
class Semicircle(Law):
    """Eigenvalues of a symmetric n × n matrix of independent centred entries of variance σ².

    ρ(x) = (2/πR²)√(R²−x²) on [−R, R], R = 2·`scale`, `scale` = σ√n (1 for entries divided by √n).

    Source: wigner1958distribution.

    >>> float(Semicircle().cdf(0.0)), Semicircle(scale=3000**0.5).edges[1].__round__(1)
    (0.5, 109.5)
    """

    @property
    def edges(self) -> tuple[float, float]:
        return -2 * self.scale, 2 * self.scale

    def _density(self, u: np.ndarray) -> np.ndarray:
        return np.sqrt(4 - u**2) / (2 * np.pi)

    def _cdf(self, u: np.ndarray) -> np.ndarray:
        return 0.5 + u * np.sqrt(4 - u**2) / (4 * np.pi) + np.arcsin(u / 2) / np.pi


@dataclass(frozen=True)
class QuarterCircle(Law):
    """Singular values of a square matrix, symmetric or not, of independent centred entries.

    ρ(x) = (4/πR²)√(R²−x²) on [0, R], R = 2·`scale`, `scale` = σ√n. Twice the semicircle: the
    singular values of a symmetric matrix are the absolute values of its eigenvalues.
    """

    @property
    def edges(self) -> tuple[float, float]:
        return 0.0, 2 * self.scale

    def _density(self, u: np.ndarray) -> np.ndarray:
        return np.sqrt(4 - u**2) / np.pi

    def _cdf(self, u: np.ndarray) -> np.ndarray:
        return u * np.sqrt(4 - u**2) / (2 * np.pi) + 2 * np.arcsin(u / 2) / np.pi


@dataclass(frozen=True)
class MarchenkoPastur(Law):
    """Eigenvalues of GGᵀ/q for G of p × q independent centred entries of variance σ².

    ρ(x) = √((b−x)(x−a))/(2πcσ²x) on [a, b], a, b = σ²(1∓√c)², c = `ratio` = p/q, `scale` = σ²;
    for c > 1 also a mass 1 − 1/c at zero. GGᵀ/√n with n × n entries has `scale` σ²√n.

    Source: marchenko1967distribution. The distribution function is derived here and checked
    against quadrature.

    >>> MarchenkoPastur(ratio=0.25, scale=2.0).edges
    (0.5, 4.5)
    """

    ratio: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ratio < math.inf:
            raise ValueError(f"ratio must be a finite number > 0; got {self.ratio}.")

    @property
    def edges(self) -> tuple[float, float]:
        root = math.sqrt(self.ratio)
        return self.scale * (1 - root) ** 2, self.scale * (1 + root) ** 2

    @property
    def atom(self) -> float:
        return max(0.0, 1 - 1 / self.ratio)

    def _density(self, u: np.ndarray) -> np.ndarray:
        a, b = (edge / self.scale for edge in self.edges)
        return np.sqrt((b - u) * (u - a)) / (2 * np.pi * self.ratio * u)

    def _cdf(self, u: np.ndarray) -> np.ndarray:
        a, b = (edge / self.scale for edge in self.edges)
        c = self.ratio
        arc = np.sqrt(np.maximum((b - u) * (u - a), 0.0))
        # Inverse sines of arguments that reach ±1 at the edges, where arcsin would lose half the
        # digits; the second has no weight when a = 0.
        turn = np.arctan2(2 * u - a - b, 2 * arc)
        twist = np.arctan2((a + b) * u - 2 * a * b, 2 * abs(1 - c) * arc)
        total = arc + (1 + c) * turn - abs(1 - c) * twist
        return total / (2 * np.pi * c) + 0.5 * min(1.0, 1 / c)


@dataclass(frozen=True)
class FussCatalan(Law):
    """Squared singular values of a product of s square matrices with entries of variance 1/n.

    With s = `order` and 0 < φ < π/(s+1):
    x = sin^{s+1}((s+1)φ)/(sin φ sin^s(sφ)),  ρ = sin φ sin((s+1)φ)/(πx sin(sφ)),
    P(X > x) = [(s+1)φ − s sin φ sin((s+1)φ)/sin(sφ)]/π;  support [0, (s+1)^{s+1}/s^s].

    Source: penson2011product, for the law; the distribution function is derived here and checked
    against quadrature. s = 1 is Marchenko–Pastur of ratio 1; s = 2 ends at 27/4 and has moments
    1, 3, 12.

    >>> FussCatalan(order=2).edges
    (0.0, 6.75)
    """

    order: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order != int(self.order) or self.order < 1:
            raise ValueError(f"order must be an integer >= 1; got {self.order}.")

    @property
    def edges(self) -> tuple[float, float]:
        s = self.order
        return 0.0, self.scale * (s + 1) ** (s + 1) / s**s

    def _angle(self, u: np.ndarray) -> np.ndarray:
        """φ of x, by bisection: x falls monotonically from the edge to 0."""
        s = self.order
        low, high = np.zeros_like(u), np.full_like(u, np.pi / (s + 1))
        for _ in range(60):
            phi = (low + high) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                x = np.sin((s + 1) * phi) ** (s + 1) / (np.sin(phi) * np.sin(s * phi) ** s)
            below = x > u
            low, high = np.where(below, phi, low), np.where(below, high, phi)
        return (low + high) / 2

    def _density(self, u: np.ndarray) -> np.ndarray:
        s, phi = self.order, self._angle(u)
        return np.sin(phi) * np.sin((s + 1) * phi) / (np.pi * u * np.sin(s * phi))

    def _cdf(self, u: np.ndarray) -> np.ndarray:
        s, phi = self.order, np.maximum(self._angle(u), 1e-300)
        tail = np.sin(phi) * np.sin((s + 1) * phi) / np.sin(s * phi)
        return 1 - ((s + 1) * phi - s * tail) / np.pi


def outlier_location(n: int, mean: float, variance: float) -> float:
    """Where the largest eigenvalue of a symmetric n × n matrix of entries of mean μ > 0 stands.

    nμ + σ²/μ, with fluctuations of order σ; the other n − 1 follow the semicircle of σ√n.

    Source: furedi1981eigenvalues. Divide by √n for a scaled matrix.

    >>> outlier_location(300, 0.5, 1 / 12).__round__(3)
    150.167
    """
    return n * mean + variance / mean
