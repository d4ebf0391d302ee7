"""Equilibria of a field: polished from a guess, named by their shape, with their spectrum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array

from metastable.core import checks
from metastable.fields import Field
from metastable.fields.random import is_noisy
from metastable.geometry.sphere import retract
from metastable.measures import Points
from metastable.observe.clusters import Clusters, clusters
from metastable.observe.linearization import Linearization, linearize, symmetries

# Speeds in units of the field's own size, below which tokens rest; rounding leaves a few 1e−16.
REST = 1e-12
RESOLUTION = 1e-10  # a rate this small against the field's size cannot be told from zero


@dataclass(frozen=True)
class Share:
    """A share of random starts, `hits` out of `starts`, with its 95 % Wilson interval."""

    hits: int
    starts: int

    @property
    def value(self) -> float:
        return self.hits / self.starts

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval: (p + z²/2n ± z√(p(1−p)/n + z²/4n²)) / (1 + z²/n), z = 1.96."""
        z, n, p = 1.959963984540054, self.starts, self.value
        half = z * np.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
        low, high = np.array([-half, half]) + p + z**2 / (2 * n)
        return float(max(low, 0.0) / (1 + z**2 / n)), float(min(high / (1 + z**2 / n), 1.0))

    def __repr__(self) -> str:
        low, high = self.interval
        return f"{self.value:.1%} of {self.starts} starts (95%: {low:.1%} to {high:.1%})"


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """Tokens at rest in a field, with the linearisation there; see `equilibrium`."""

    measure: Points
    kind: str  # "consensus", "bipartite", "polygonal", "clustering" or "other"
    groups: Clusters  # tokens at one place
    modes: np.ndarray  # complex rates without the symmetry's zeros, fastest growth first
    symmetry: int  # zero modes that are rotations commuting with the field
    turning: float  # angular speed at which all tokens turn together, 0 at rest
    resolution: float  # a rate below it cannot be told from zero
    residual: float  # speed left over, over all tokens
    share: Share | None = None  # of the random starts that end here, after a search

    @property
    def spectrum(self) -> np.ndarray:
        """All n(d−1) eigenvalues, largest real part first; those of the symmetry count as 0."""
        return _by_growth(np.append(self.modes, np.zeros(self.symmetry)))

    @property
    def rate(self) -> float:
        """The largest growth rate up to symmetry; −∞ when symmetry is all there is."""
        return float(np.max(np.real(self.modes), initial=-np.inf))

    @property
    def zeros(self) -> int:
        """How many eigenvalues vanish; equal to `symmetry` unless there are others."""
        return self.symmetry + int(np.count_nonzero(np.abs(self.modes) <= self.resolution))

    @property
    def stability(self) -> str:
        """Linear stability up to symmetry: "stable", "unstable", or "neutral" if undecided."""
        if abs(self.rate) <= self.resolution:
            return "neutral"
        return "stable" if self.rate < 0 else "unstable"

    def __repr__(self) -> str:
        count = self.groups.count
        places = f"{self.measure.count} tokens in {count} group{'s' if count > 1 else ''}"
        parts = [f"{self.kind}, {self.stability}: {places}", f"rate {self.rate:.4g}"]
        parts += [f"turning at {self.turning:.4g}"] if self.turning > self.resolution else []
        parts += [f"{self.share}"] if self.share is not None else []
        return f"Equilibrium({', '.join(parts)})"


def equilibrium(measure: Points, field: Field) -> Equilibrium:
    """The equilibrium near a guess, by Newton's method on the product of spheres.

    v(x) = Ωx, with Ω = 0 or a rotation that commutes with the field: softmax forces do not obey
    action and reaction, so groups can rest relative to each other and turn together. Solved in
    tangent coordinates u by (JᵀJ + ‖w‖²)u = −Jᵀw, w = v − Ωx: this damping keeps convergence
    quadratic when equilibria form families, as under rotations, and takes the shortest step there
    (Yamashita and Fukushima, Computing Suppl. 15, 2001). Unlike a flow it finds saddles too. The
    field is taken at time 0, without noise.

    Kinds, up to 1e−6 rad: "consensus" (one group), "bipartite" (two antipodal groups), "polygonal"
    (three or more groups equally spaced on a great circle), "clustering" (otherwise, some tokens
    coincide), "other" (no two tokens coincide).

    The spectrum is that of the Jacobian on the tangent space of (S^{d−1})^n, in the turning frame.
    Directions of rotations that commute with the field are split off first, so that `rate` and
    `stability` speak about shapes. A rate below 1e−10 of the largest counts as zero: separated
    clusters at large β are "neutral", their rates e^{−cβ} being lost in rounding. Dense: n(d−1) up
    to 1000 or so.

    >>> import metastable as ms
    >>> equilibrium(ms.polygon(3), ms.SelfAttention(beta=5.0))
    Equilibrium(polygonal, unstable: 3 tokens in 3 groups, rate 0.007044)
    """
    checks.defined_for("equilibrium", measure, Points)
    check_field(field)
    if not measure.on_sphere:
        raise ValueError("measure must hold tokens on the sphere; got R^d: use .directions().")
    result = polish(measure, field)
    if result is None:
        raise ValueError(
            "measure must lie near an equilibrium of the field; Newton's method stalled away from "
            "one: start closer, for instance from the last frame of a long flow."
        )
    return result


def check_field(field: Field) -> None:
    if is_noisy(field):
        raise ValueError("field must be free of noise, which never rests; leave Noise out.")


def polish(measure: Points, field: Field) -> Equilibrium | None:
    """`equilibrium` of a checked guess, or None where Newton's method does not come to rest."""
    size = measure.count * (measure.dim - 1)
    checks.fits_memory(f"the Jacobian of {measure.count} tokens", 4.0 * size**2, "use fewer tokens")
    generators = symmetries(measure, field)
    here, damping = linearize(measure, field, generators), 1.0
    for _ in range(100):
        # Convergence is quadratic: one more step at rest brings the speed down to rounding.
        if here.speed <= 1e-2 * REST * here.scale:
            break
        trial = measure.at(_moved(measure, here, damping))
        there = linearize(trial, field, generators)
        if there.speed < here.speed:
            measure, here, damping = trial, there, max(damping / 10, 1e-3)
        elif here.speed <= REST * here.scale or damping > 1e20:
            break
        else:
            damping *= 10
    return _describe(measure, here) if here.speed <= REST * here.scale else None


def _moved(measure: Points, here: Linearization, damping: float) -> Array:
    # The derivative of the velocity less its rotation: at rest J carries the orbit into itself.
    jacobian = here.jacobian - here.orbit @ (here.orbit.T @ here.jacobian)
    left, values, right = np.linalg.svd(jacobian)
    shift = damping * here.speed**2 + (1e-11 * here.scale) ** 2
    u = -right.T @ (values / (values**2 + shift) * (left.T @ here.velocity))
    step = np.einsum("ide,ie->id", here.basis, u.reshape(measure.count, -1))
    return retract(measure.points + step)


def _describe(measure: Points, here: Linearization) -> Equilibrium:
    symmetry = here.orbit.shape[1]
    # J carries the orbit into itself, so the other eigenvalues are those of its compression.
    rest = np.linalg.svd(here.orbit)[0][:, symmetry:]
    modes = np.linalg.eigvals(rest.T @ here.jacobian @ rest).astype(complex)
    groups = clusters(measure, angle=1e-6)
    return Equilibrium(
        measure=measure,
        kind=_kind(groups),
        groups=groups,
        modes=_by_growth(modes),
        symmetry=symmetry,
        turning=float(np.linalg.norm(here.turn, 2)),
        resolution=RESOLUTION * here.scale,
        residual=here.speed,
    )


def _kind(groups: Clusters) -> str:
    centres, count = groups.centres, groups.count
    if count == 1:
        return "consensus"
    if count == 2 and np.linalg.norm(centres[0] + centres[1]) <= 1e-6:
        return "bipartite"
    if count >= 3 and _equally_spaced(centres):
        return "polygonal"
    return "clustering" if count < np.count_nonzero(groups.labels >= 0) else "other"


def _equally_spaced(centres: np.ndarray) -> bool:
    _, values, axes = np.linalg.svd(centres)
    if np.any(values[2:] > 1e-6):
        return False
    angles = np.sort(np.arctan2(centres @ axes[1], centres @ axes[0]))
    gaps = np.diff(angles, append=angles[0] + 2 * np.pi)
    return bool(np.abs(gaps - 2 * np.pi / len(angles)).max() <= 1e-6)


def _by_growth(rates: np.ndarray) -> np.ndarray:
    return rates[np.lexsort((-np.imag(rates), -np.real(rates)))]
