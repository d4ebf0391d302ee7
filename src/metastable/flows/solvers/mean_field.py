"""The equation of a density under a field: every force is diagonal in harmonics.

∂_t μ + div(μ v[μ]) = (1/κ)Δμ. With μ = 1 + h relative to uniform and u = ŵ∗h (Funk–Hecke):

    USA, zonal potentials:  v = ∇u,            ŵ_ℓ = c_ℓ/β, or that of W;
    SA:                     v = ∇u/(1 + βu),   ŵ_ℓ = c_ℓ/(βc_0).

Split as ḣ = Λh − div F: Λ_ℓ = ℓ(ℓ+d−2)(ŵ_ℓ − 1/κ) is exact linear theory, and the flux F = h∇u, or
(h − βu)v for SA, is quadratic. Small perturbations therefore keep their relative accuracy.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jnp
from metastable.fields import (
    Field,
    Kuramoto,
    MultiHead,
    Noise,
    SelfAttention,
    Superposition,
)
from metastable.fields.noise import diffusion
from metastable.fields.zonal import potential_of
from metastable.measures.spectral import Basis
from metastable.measures.spectral.kernels import (
    attention_kernel,
    log_mean_exponential,
    potential_kernel,
)


class MeanFieldHead(eqx.Module):
    """One softmax head: v = scale · ∇u/(1 + βu), u = kernel∗h."""

    scale: Float[Array, ""]
    beta: Float[Array, ""]
    kernel: Float[Array, " degrees"]


class MeanField(eqx.Module):
    """A field as it acts on densities with harmonics up to a degree."""

    basis: Basis
    linear: Float[Array, " degrees"]  # ŵ_ℓ of all forces that are linear in the measure
    heads: tuple[MeanFieldHead, ...]
    diffusion: Float[Array, ""]  # 1/κ

    @property
    def rates(self) -> Float[Array, " size"]:
        """Λ of each coefficient: the growth rates of linear theory."""
        kernel: Any = self.linear + sum(head.scale * head.kernel for head in self.heads)
        return self.basis.laplacian() * (kernel[self.basis.degrees] - self.diffusion)

    def tendency(self, coefficients: Array) -> Array:
        """−div F, the quadratic part of the equation."""
        h = coefficients.at[0].set(0.0)
        contrast = self.basis.values(h)
        flux: Any = sum((contrast - excess) * v for excess, v in self._velocities(h))
        return -self.basis.divergence(flux)

    def speed(self, coefficients: Array) -> Array:
        """max|v| over the grid."""
        v: Any = sum(v for _, v in self._velocities(coefficients.at[0].set(0.0)))
        return jnp.sqrt(jnp.max(jnp.sum(v * v, axis=0)))

    def _velocities(self, h: Array) -> list[tuple[Array | float, Array]]:
        """βu and v on the grid of each force; those linear in the measure are one, with βu = 0."""
        basis = self.basis
        parts: list[tuple[Array | float, Array]] = [
            (0.0, basis.gradient(self._convolved(self.linear, h)))
        ]
        for head in self.heads:
            u = self._convolved(head.kernel, h)
            excess = head.beta * basis.values(u)
            parts.append((excess, head.scale * basis.gradient(u) / (1 + excess)))
        return parts

    def derivative(self, coefficients: Array) -> Array:
        """∂_t μ̂, all of it."""
        return self.rates * coefficients + self.tendency(coefficients)

    def velocity(self, coefficients: Array, points: Array, axis: Any) -> Float[Array, "m d"]:
        """v[μ] − ∇ log μ/κ at unit vectors (m, d): what carries the density along.

        Diffusion is transport too, by the probability flow of the Fokker–Planck equation.
        """
        at = lambda c: self.basis.evaluate(c, points, axis)
        h = coefficients.at[0].set(0.0)
        v = at(self._convolved(self.linear, h))[1]
        for head in self.heads:
            u, slope = at(self._convolved(head.kernel, h))
            v = v + head.scale * slope / (1 + head.beta * u)[:, None]
        value, slope = at(coefficients)
        return v - self.diffusion * slope / value[:, None]

    def _convolved(self, kernel: Array, coefficients: Array) -> Array:
        return kernel[self.basis.degrees] * coefficients


def mean_field(field: Field, basis: Basis) -> MeanField:
    """How a field acts on densities; refuses one that is not diagonal in harmonics."""
    dim, degree = basis.dim, basis.degree
    linear, heads = np.zeros(degree + 1), []
    for scale, part in _forces(field):
        if isinstance(part, SelfAttention):
            beta = float(part.beta) * _number(part.query) * _number(part.key)
            kernel = attention_kernel(beta, dim, degree)
            scale = scale * _number(part.value)
            if part.normalized:
                heads.append(
                    MeanFieldHead(*(jnp.asarray(a, jnp.float64) for a in (scale, beta, kernel)))
                )
                continue
            log_mean = log_mean_exponential(beta, dim)
            if log_mean > 690:
                raise ValueError(
                    f"beta must be below about 700 without normalisation, where e^beta overflows; "
                    f"got {beta:g}: use Potential(lambda s: exp(beta*(s - 1))/beta)."
                )
            kernel = np.exp(log_mean) * kernel
        elif (potential := potential_of(part)) is not None:
            kernel = potential_kernel(potential, dim, degree)
        else:
            kernel = np.eye(1, degree + 1, 1)[0] * float(part.coupling) / dim
        linear = linear + scale * kernel
    rate = jnp.asarray(diffusion(field), jnp.float64)
    return MeanField(basis, jnp.asarray(linear), tuple(heads), rate)


def _forces(field: Field, scale: Any = 1.0) -> list[tuple[Any, Any]]:
    """The forces that a field adds up, each with a factor; noise aside."""
    if isinstance(field, Superposition):
        return [force for part in field.parts for force in _forces(part, scale)]
    if isinstance(field, MultiHead) and all(w is None or w.ndim == 0 for w in field.outputs):
        pairs = zip(field.heads, field.outputs, strict=True)
        return [force for head, w in pairs for force in _forces(head, scale * _number(w))]
    if isinstance(field, Noise):
        return []
    simple = (
        potential_of(field) is not None
        or (isinstance(field, SelfAttention) and field.isotropic)
        or (isinstance(field, Kuramoto) and field.frequencies is None)
    )
    if not simple:
        raise ValueError(
            "a density moves under SelfAttention with multiples of the identity and no mask, "
            "such SigmoidAttention or plain LinearAttention, Potential, Kuramoto, MultiHead of "
            f"these, and Noise; got {field!r}: move tokens instead, density.to_points(n)."
        )
    return [(scale, field)]


def _number(operator: Array | None) -> float:
    return 1.0 if operator is None else float(operator)
