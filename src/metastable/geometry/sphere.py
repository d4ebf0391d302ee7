"""Geometry of the unit sphere S^{d-1} in R^d: the named operations every other module uses."""

from __future__ import annotations

from jaxtyping import Array, Float

from metastable.core.numerics import jax, jnp


def retract(x: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Send a nonzero vector to the sphere: x / ‖x‖."""
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def project(x: Float[Array, "*b d"], y: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Tangent part of y at x: P_x y = y − ⟨x,y⟩x, for x on the sphere."""
    return y - jnp.sum(x * y, axis=-1, keepdims=True) * x


def exponential(x: Float[Array, "*b d"], v: Float[Array, "*b d"]) -> Float[Array, "*b d"]:
    """Follow the geodesic from x with tangent velocity v for one unit of time."""
    length = jnp.linalg.norm(v, axis=-1, keepdims=True)
    # sinc is smooth at v = 0, where v / ‖v‖ is not.
    return retract(jnp.cos(length) * x + jnp.sinc(length / jnp.pi) * v)


def angle(x: Float[Array, "*b d"], y: Float[Array, "*b d"]) -> Float[Array, "*b"]:
    """Geodesic distance on the sphere, accurate for nearly equal and nearly opposite points.

    2 atan2(‖x−y‖, ‖x+y‖): the arccosine of the inner product loses half its digits near 0 and π.
    """
    return 2 * jnp.arctan2(jnp.linalg.norm(x - y, axis=-1), jnp.linalg.norm(x + y, axis=-1))


def uniform_points(key: jax.Array, count: int, dim: int) -> Float[Array, "count dim"]:
    """Independent points of the uniform law on S^{dim−1}: normalised Gaussians."""
    return retract(jax.random.normal(key, (count, dim), dtype=jnp.float64))
