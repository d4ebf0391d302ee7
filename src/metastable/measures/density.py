"""A smooth measure on a sphere: infinitely many tokens, as coefficients of harmonics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Inexact

from metastable.core import checks
from metastable.core.numerics import is_traced, jnp
from metastable.geometry.harmonics import multiplicity
from metastable.measures.measure import Measure, Variables
from metastable.measures.points import Points
from metastable.measures.spectral import Basis, basis_for
from metastable.measures.spectral.kernels import exponential_kernel
from metastable.measures.spectral.quantiles import places

SMOOTH = 1e-13  # coefficients this small, relative to the largest, are rounding
MOST = {2: 4096, 3: 128}  # degrees tried by `from_function`; the tables on S² grow with the cube
MOST_ZONAL = 1024


class Density(Measure):
    """A probability density on S^{d−1} relative to the uniform one: μ = f σ, f = Σ f̂_{ℓm} Y_{ℓm}.

    The harmonics are orthonormal for the uniform probability σ, so f̂_0 = 1 is the mass. Three
    geometries:

    - circle (dim = 2): complex f̂_0..f̂_K, f(θ) = Σ_{|k|≤K} f̂_k e^{ikθ}; shape (K + 1,);
    - S² (dim = 3): real f̂_{ℓm} at ℓ² + ℓ + m; shape ((K + 1)²,);
    - zonal, any dim ≥ 2, with `axis` e: a function of s = ⟨x,e⟩, real f̂_ℓ along √N_ℓ P_ℓ(s), N_ℓ
      the multiplicity of the degree; shape (K + 1,). In dim ≥ 4 every density is zonal.

    Conventions of `metastable.geometry.harmonics`. A density must be nonnegative; this is not
    checked, as coefficients of tokens may dip below zero.

    >>> Density.mode(dim=2, degree=3, amplitude=0.01)
    Density(on the sphere S^1, harmonics to degree 3)
    """

    coefficients: Inexact[Array, " size"]
    axis: Float[Array, " dim"] | None
    dim: int = eqx.field(static=True)

    def __init__(self, coefficients: Any, dim: int, axis: Any = None):
        checks.integer("dim", dim, 2)
        if axis is not None:
            axis = _axis(axis, dim)
        elif dim > 3:
            raise ValueError(f"axis must be given in dim {dim}: all densities there are zonal.")
        if np.ndim(coefficients) != 1 or np.size(coefficients) == 0:
            raise ValueError(
                f"coefficients must be one row f̂_0, f̂_1, …; got shape {np.shape(coefficients)}."
            )
        if not is_traced(coefficients):
            coefficients = np.array(coefficients)
            if not np.isfinite(coefficients).all() or abs(coefficients[0] - 1) > 1e-9:
                raise ValueError(
                    "coefficients must be finite, with mass f̂_0 = 1; got f̂_0 = "
                    f"{coefficients[0]:g}."
                )
            coefficients[0] = 1
        kind = jnp.complex128 if dim == 2 and axis is None else jnp.float64
        self.coefficients = jnp.asarray(coefficients, kind)
        self.axis, self.dim = axis, dim
        if coefficient_count(dim, self.degree, self.zonal) != self.coefficients.size:
            raise ValueError(
                f"coefficients must have (L+1)² entries on S²; got {self.coefficients.size}: pass "
                "every degree in full."
            )

    @classmethod
    def uniform(cls, dim: int, zonal: bool | None = None) -> Density:
        """The uniform measure; `zonal` (always in dim ≥ 4) keeps it axially symmetric.

        >>> Density.uniform(3)
        Density(on the sphere S^2, harmonics to degree 0)
        """
        return cls([1.0], dim, _default_axis(dim, zonal))

    @classmethod
    def mode(
        cls,
        dim: int,
        degree: int,
        amplitude: float,
        order: int = 0,
        phase: float = 0.0,
        zonal: bool | None = None,
    ) -> Density:
        """Uniform plus one harmonic.

        Circle: 1 + 2a cos(k(θ − phase)), so |μ̂_k| = a. S²: 1 + a Y_{ℓm}, m = `order`.
        Zonal: 1 + a √N_ℓ P_ℓ(s).
        """
        degree = checks.integer("degree", degree, 1)
        checks.real("amplitude", amplitude)
        axis = _default_axis(dim, zonal)
        flat = np.zeros(coefficient_count(dim, degree, axis is not None), complex)
        flat[0] = 1.0
        if abs(order) > degree:
            raise ValueError(f"order must lie between -degree and degree; got {order}.")
        place = degree * degree + degree + order if dim == 3 and axis is None else degree
        turned = np.exp(-1j * degree * phase) if dim == 2 and axis is None else 1.0
        flat[place] = amplitude * turned
        return cls(flat if dim == 2 and axis is None else np.real(flat), dim, axis)

    @classmethod
    def von_mises_fisher(
        cls, centre: Any, concentration: float, zonal: bool | None = None
    ) -> Density:
        """Density ∝ e^{κ⟨x,centre⟩}; around an axis in dim ≥ 4 (or with `zonal`)."""
        checks.finite_array("centre", centre, 1)
        checks.nonnegative("concentration", concentration)
        dim = len(centre)
        axis = _axis(centre, dim)
        flat = zonal if zonal is not None else dim > 3
        degree = 8 + int(np.sqrt(75 * concentration))  # past e^{−degree²/(2κ)} < 1e−16
        kernel = exponential_kernel(concentration, dim, degree)
        if flat:
            counts = np.array([float(multiplicity(ell, dim)) for ell in range(degree + 1)])
            return cls(kernel * np.sqrt(counts), dim, axis)
        basis = basis_for(dim, degree, False)
        spread = basis.measure(np.asarray(axis)[None], np.ones(1), None)
        return cls(kernel[basis.degrees] * spread, dim)

    @classmethod
    def from_points(cls, points: Points, degree: int, axis: Any = None) -> Density:
        """The harmonics of tokens up to a degree: their density seen at resolution 1/degree.

        With an `axis` the tokens are first averaged over the rotations around it. Independent
        tokens have noise n^{−1/2} in every coefficient. For attention with inverse temperature β
        degrees above √(60β) + 10 are invisible.
        """
        degree = checks.integer("degree", degree, 0)
        if not points.on_sphere:
            raise ValueError(f"points must be on the sphere; got {points!r}: use directions().")
        axis = None if axis is None and points.dim <= 3 else _axis(axis, points.dim)
        basis = basis_for(points.dim, degree, axis is not None)
        found = basis.measure(np.asarray(points.points), np.asarray(points.weights), axis)
        return cls(found, points.dim, axis)

    @classmethod
    def from_function(
        cls, function: Callable[[Array], Array], dim: int, axis: Any = None
    ) -> Density:
        """A density ∝ `function` of points (m, d) ↦ (m,), smooth and nonnegative.

        With an `axis` (always in dim ≥ 4) it must depend on ⟨x,axis⟩ alone. The degree is
        doubled until the last coefficients are rounding.

        >>> wave = Density.from_function(lambda x: 1 + x[:, 0] ** 2, dim=2)
        >>> wave.degree, round(float(wave.coefficients[2].real), 12)  # 1 + (1/3) cos 2θ
        (2, 0.166666666667)
        """
        checks.function("function", function, "a function of points")
        axis = _default_axis(dim, None) if axis is None else _axis(axis, dim)
        degree, most = 16, MOST_ZONAL if axis is not None else MOST[dim]
        while True:
            basis = basis_for(dim, degree, axis is not None)
            values = jnp.asarray(function(jnp.asarray(basis.nodes(axis))))
            if np.min(values) < 0 or not np.isfinite(values).all():
                raise ValueError(f"function must be finite and >= 0; got {float(np.min(values))}.")
            found = np.asarray(_from_grid(basis, values))
            size = np.abs(found)
            kept = size > SMOOTH * size.max()
            if not kept[basis.degrees > 0.8 * degree].any():
                last = int(basis.degrees[kept].max())
                kept = found[: coefficient_count(dim, last, axis is not None)]
                return cls(kept / found[0].real, dim, axis)
            if 2 * degree > most:
                raise ValueError(
                    f"function must be smooth enough for harmonics to degree {degree}; its last "
                    f"coefficients are {size[basis.degrees > 0.8 * degree].max():.2g}: smooth it, "
                    "or use tokens."
                )
            degree *= 2

    @property
    def zonal(self) -> bool:
        """Whether the density depends on ⟨x,axis⟩ alone."""
        return self.axis is not None

    @property
    def degree(self) -> int:
        """The highest degree kept."""
        size = self.coefficients.shape[0]
        full = self.dim == 3 and self.axis is None  # (L+1)² of them on S²
        return int(np.sqrt(size)) - 1 if full else size - 1

    @property
    def on_sphere(self) -> bool:
        return True

    @property
    def basis(self) -> Basis:
        """The harmonics of this density and their grid."""
        return basis_for(self.dim, self.degree, self.zonal)

    @property
    def mass(self) -> Float[Array, ""]:
        """∫ dμ, by quadrature on the grid."""
        return self.basis.mean(_on_grid(self.basis, self.coefficients))

    def at(self, points: Any) -> Float[Array, " m"]:
        """Values f(x) relative to the uniform density, at unit vectors (m, d)."""
        checks.finite_array("points", points, 2)
        points = jnp.asarray(points, jnp.float64)
        if points.shape[1] != self.dim:
            raise ValueError(f"points must have dimension {self.dim}; got shape {points.shape}.")
        return _values(self.basis, self.coefficients, points, self.axis)

    def integrate(self, function: Callable[[Array], Array]) -> Float[Array, ""]:
        """∫ g dμ for a smooth g of points (m, d) ↦ (m,); of ⟨x,axis⟩ alone if zonal.

        >>> x = Density.von_mises_fisher([0.0, 0.0, 1.0], 2.0).integrate(lambda x: x[:, 2])
        >>> round(float(x), 12)  # coth 2 − 1/2
        0.537314720728
        """
        basis = self.resized(max(2 * self.degree, 32)).basis
        f = _on_grid(basis, self.resized(basis.degree).coefficients)
        return basis.mean(f * function(jnp.asarray(basis.nodes(self.axis))))

    def resized(self, degree: int) -> Density:
        """The same density with harmonics to another degree: padded with zeros, or cut."""
        size = coefficient_count(self.dim, degree, self.zonal)
        flat = self.coefficients[:size]
        padded = jnp.pad(flat, (0, size - flat.shape[0]))
        return eqx.tree_at(lambda m: m.coefficients, self, padded)

    def sample(self, tokens: int, seed: int = 0) -> Points:
        """Independent tokens of this density."""
        random = np.random.default_rng(checks.seed(seed))
        tokens = checks.integer("tokens", tokens, 1)
        return self._tokens(random.uniform(size=(tokens, 2)), random)

    def _tokens(self, shares: np.ndarray, random: np.random.Generator) -> Points:
        return Points(places(self.basis, np.asarray(self.coefficients), self.axis, shares, random))

    def to_points(self, tokens: int) -> Points:
        """Quiet tokens: quantiles of the density, with far less noise than independent ones.

        Circle: the quantiles (j + ½)/n. S²: a Fibonacci lattice carried over by the distribution
        functions of latitude and longitude. Zonal: quantiles of the height, around the axis in
        fixed random directions.
        """
        tokens = checks.integer("tokens", tokens, 1)
        j = np.arange(tokens)
        golden = (np.sqrt(5) - 1) / 2
        return self._tokens(
            np.stack([(j + 0.5) / tokens, (j * golden) % 1.0], 1), np.random.default_rng(0)
        )

    @classmethod
    def to_variables(cls, frames: Sequence[Density | None]) -> Variables:
        """Coefficients (time, coefficient, part), padded with zeros, and the degree of each."""
        kept = [(k, frame) for k, frame in enumerate(frames) if frame is not None]
        first = kept[0][1]
        degrees = np.full(len(frames), -1)
        flat = np.zeros((len(frames), max(f.coefficients.size for _, f in kept)), complex)
        for k, frame in kept:
            degrees[k] = frame.degree
            flat[k, : frame.coefficients.size] = frame.coefficients
        parts = np.stack([np.real(flat), np.imag(flat)], -1)
        variables: Variables = {
            "coefficients": (("time", "coefficient", "part"), parts),
            "degree": (("time",), degrees),
            "density_dim": ((), np.asarray(first.dim)),
        }
        if first.axis is not None:
            variables["density_axis"] = (("axis",), np.asarray(first.axis))
        return variables

    @classmethod
    def from_variables(cls, data: Mapping[Any, Any]) -> list[Density | None]:
        dim = int(data["density_dim"].values)
        axis = data["density_axis"].values if "density_axis" in data else None
        frames: list[Density | None] = []
        for parts, degree in zip(data["coefficients"].values, data["degree"].values, strict=True):
            if degree < 0:
                frames.append(None)
                continue
            size = coefficient_count(dim, int(degree), axis is not None)
            flat = parts[:size, 0] + 1j * parts[:size, 1]
            real = dim > 2 or axis is not None
            frames.append(cls(flat.real if real else flat, dim, axis))
        return frames

    def __repr__(self) -> str:
        kind = " around an axis" if self.zonal else ""
        return f"Density(on the sphere S^{self.dim - 1}{kind}, harmonics to degree {self.degree})"


@eqx.filter_jit
def _on_grid(basis: Basis, coefficients: Array) -> Array:
    return basis.values(coefficients)


@eqx.filter_jit
def _from_grid(basis: Basis, values: Array) -> Array:
    return basis.coefficients(values)


@eqx.filter_jit
def _values(basis: Basis, coefficients: Array, points: Array, axis: Array | None) -> Array:
    return basis.evaluate(coefficients, points, axis)[0]


def coefficient_count(dim: int, degree: int, zonal: bool) -> int:
    """How many coefficients a degree has."""
    return (degree + 1) ** 2 if dim == 3 and not zonal else degree + 1


def _default_axis(dim: int, zonal: bool | None) -> Array | None:
    checks.integer("dim", dim, 2, "The sphere of R^1 is two points and nothing moves on it.")
    if zonal is False and dim > 3:
        raise ValueError(f"zonal must be True in dim {dim}: only there are no full harmonics.")
    return jnp.eye(dim)[0] if zonal or dim > 3 else None


def _axis(axis: Any, dim: int) -> Array:
    if axis is None:
        raise ValueError(f"axis must be given in dim {dim}: all densities there are zonal.")
    checks.finite_array("axis", axis, 1)
    axis = np.asarray(axis, float)
    if axis.shape != (dim,) or not np.linalg.norm(axis) > 0:
        raise ValueError(f"axis must be a nonzero vector of dimension {dim}; got {axis.tolist()}.")
    return jnp.asarray(axis / np.linalg.norm(axis))
