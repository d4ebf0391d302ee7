"""A field around a configuration on the product of spheres: chart, Jacobian, symmetries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp
from metastable.fields import Field
from metastable.fields.field import Places
from metastable.fields.sums import Dense
from metastable.geometry.sphere import retract
from metastable.measures import Points

SAME = 1e-8  # a rotation that moves tokens by less leaves them in place


class Linearization(NamedTuple):
    """A field and its derivative around tokens, in the frame that turns with them; m = n(d−1).

    Vectors are in orthonormal bases of the tangent spaces.
    """

    velocity: np.ndarray  # (m,) orthogonal to all rotations of the tokens
    jacobian: np.ndarray  # (m, m)
    basis: np.ndarray  # (n, d, d−1) the tangent bases
    orbit: np.ndarray  # (m, r) orthonormal basis of the rotations that commute with the field
    turn: np.ndarray  # (d, d) antisymmetric: the rotation of the frame
    scale: float  # size of the field: the yardstick of its rounding errors

    @property
    def speed(self) -> float:
        return float(np.linalg.norm(self.velocity))


def linearize(measure: Points, field: Field, generators: np.ndarray) -> Linearization:
    """The field and its derivative at the tokens, at time 0; `generators` from `symmetries`.

    The scale is the largest of the rates and of the vectors before projection, which is what
    tokens would feel if the field did not balance.
    """
    parts = _derive(measure, field, jnp.asarray(generators))
    velocity, jacobian, basis, orbit, lengths, turn, drift = (np.asarray(part) for part in parts)
    _check_finite(jacobian)
    scale = max(np.linalg.norm(drift, axis=1).max(), np.linalg.norm(jacobian, 2))
    return Linearization(velocity, jacobian, basis, orbit[:, lengths > SAME], turn, float(scale))


@eqx.filter_jit
def _derive(measure: Points, field: Field, generators: Array) -> tuple[Array, ...]:
    basis = tangent_basis(measure.points)
    orbit, lengths, turn = turning(measure, field, generators)
    _, velocity = chart(measure, field, turn)
    here = jnp.zeros(measure.count * (measure.dim - 1))
    v, jacobian = value_and_jacobian(velocity, here)
    return v, jacobian, basis, orbit, lengths, turn, _drift(measure, field)


def value_and_jacobian(function: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    jacobian, value = jax.jacfwd(lambda u: (function(u),) * 2, has_aux=True)(at)
    return value, jacobian


def turning(measure: Points, field: Field, generators: Array) -> tuple[Array, Array, Array]:
    """The combination Ω of the generators that is nearest to the velocity, Ωx ≈ v.

    Returns principal directions of the orbit (m, s), their lengths (s,), zero where a rotation
    leaves the tokens in place, and Ω (d, d).
    """
    x, basis = measure.points, tangent_basis(measure.points)
    if not len(generators):
        return jnp.zeros((x.size - len(x), 0)), jnp.zeros(0), jnp.zeros((x.shape[1],) * 2)
    orbit = jnp.einsum("ide,sdc,ic->ies", basis, generators, x).reshape(-1, len(generators))
    v = jnp.einsum("ide,id->ie", basis, field.velocity(measure)).ravel()
    left, lengths, right = jnp.linalg.svd(orbit, full_matrices=False)
    inverse = jnp.where(lengths > SAME, 1 / jnp.maximum(lengths, SAME), 0.0)
    return left, lengths, jnp.einsum("s,sk,kab->ab", inverse * (left.T @ v), right, generators)


def tangent_basis(points: Float[Array, "n d"]) -> Float[Array, "n d e"]:
    """Orthonormal bases B_i of the tangent spaces of S^{d−1} at the points, e = d − 1.

    The reflection that exchanges x with the first axis, up to sign, has x as its first column; the
    others are tangent. The sign is the one for which x and its image are far apart.
    """
    axis = points.at[:, 0].add(jnp.where(points[:, 0] < 0, -1.0, 1.0))
    square = jnp.sum(axis**2, axis=1)[:, None, None]
    reflection = jnp.eye(points.shape[1]) - 2 * axis[:, :, None] * axis[:, None, :] / square
    return reflection[:, :, 1:]


def chart(
    measure: Points, field: Field, turn: Float[Array, "d d"]
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Coordinates u ∈ R^{n(d−1)} around the tokens, and the field in them, in a turning frame.

    x_i(u) = z_i/‖z_i‖ with z_i = x_i + B_i u_i, and exactly u̇_i = ‖z_i‖(B_iᵀ − u_i x_iᵀ)w_i for
    w = v − Ωx. Returns u ↦ x (n, d) and u ↦ u̇ (n(d−1),).
    """
    x = measure.points
    basis = tangent_basis(x)

    def lift(u: Array) -> Array:
        return x + jnp.einsum("ide,ie->id", basis, u.reshape(x.shape[0], -1))

    def place(u: Array) -> Array:
        return retract(lift(u))

    def velocity(u: Array) -> Array:
        at = place(u)
        w = field.velocity(measure.at(at)) - at @ turn.T
        along = jnp.einsum("ide,id->ie", basis, w)
        across = u.reshape(along.shape) * jnp.sum(x * w, axis=1, keepdims=True)
        length = jnp.linalg.norm(lift(u), axis=1, keepdims=True)
        return (length * (along - across)).ravel()

    return place, velocity


def symmetries(measure: Points, field: Field) -> np.ndarray:
    """Generators Ω (s, d, d) of the rotations that commute with the field, v(Rx) = R v(x).

    Those with Dv(y)Ωy = Ωv(y) at random tokens y: a linear system for Ω. All d(d−1)/2 for an
    isotropic field, none for a general matrix, some for a matrix with a multiple eigenvalue.
    """
    generators = _antisymmetric(measure.dim)
    # Few tokens span a small space, and a rotation of its complement would go unnoticed.
    draws = 2 + measure.dim // measure.count
    y = np.random.default_rng(0).standard_normal((draws, measure.count, measure.dim))
    y = jnp.asarray(y / np.linalg.norm(y, axis=-1, keepdims=True))
    parts = _commute(measure, field, jnp.asarray(generators), y)
    moved, turned, drift = (np.asarray(part) for part in parts)
    _check_finite(moved)
    defect = (moved - turned).reshape(len(generators), -1)
    combinations, values, _ = np.linalg.svd(defect, full_matrices=False)
    size = max(np.abs(part).max() for part in (moved, turned, drift))
    rank = np.count_nonzero(values > 1e-9 * size)
    return np.einsum("ks,kab->sab", combinations[:, rank:], generators)


def _check_finite(derivative: np.ndarray) -> None:
    if not np.isfinite(derivative).all():
        raise ValueError(
            "field must have a finite derivative; got NaN or infinity: lower beta, or take the "
            "normalised form."
        )


def _antisymmetric(dim: int) -> np.ndarray:
    rows, columns = np.triu_indices(dim, 1)
    generators = np.zeros((len(rows), dim, dim))
    generators[np.arange(len(rows)), rows, columns] = np.sqrt(0.5)
    return generators - generators.transpose(0, 2, 1)


@eqx.filter_jit
def _commute(
    measure: Points, field: Field, generators: Array, places: Float[Array, "draws n d"]
) -> tuple[Array, Array, Array]:
    """Dv(y)Ωy, Ωv(y) and the field before projection, for each generator and each y."""

    def commute(omega: Array, y: Array) -> tuple[Array, Array, Array]:
        velocity = lambda y: field.velocity(measure.at(y))
        v, moved = jax.jvp(velocity, (y,), (y @ omega.T,))
        return moved, v @ omega.T, _drift(measure.at(y), field)

    return jax.vmap(jax.vmap(commute, (None, 0)), (0, None))(generators, places)


def _drift(measure: Points, field: Field) -> Array:
    """The field before projection, the yardstick for what cancels."""
    places = Places(measure.points, measure.positions, own=True)
    return field.drift(measure, places, 0.0, Dense())
