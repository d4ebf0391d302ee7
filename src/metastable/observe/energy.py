"""The interaction energy, the potential it comes from, and the Kuramoto order parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import is_traced, jax, jnp
from metastable.fields import Field, SelfAttention
from metastable.fields.sums import Kernel, Sum, choose_sum
from metastable.measures import Density, Gaussian, Points
from metastable.observe.density import density_energy
from metastable.observe.pairs import over_rows, padded
from metastable.observe.similarity import mean_of

_MANY = 2000  # tokens, from which a sum is worth its compilation


def energy(
    measure: Points | Density | Gaussian, beta: Any, matrix: Any = None, scaled: bool = False
) -> Float[Array, ""]:
    """Interaction energy of a measure.

    E_β[μ] = (1/2β) Σ_i Σ_j w_i w_j e^{β⟨M x_i, x_j⟩}, M = I unless `matrix` is given.

    Both flows, SA and USA, increase it for V = I and decrease it for V = −I (arXiv:2312.10794,
    §3.4; for general M = QᵀK = V symmetric likewise). `scaled=True` gives 2βe^{−β}E instead, which
    lies in (0, 1] for β ≥ 0 on the sphere with M = I and climbs by 2 w_i w_j at each merger of
    distant clusters (arXiv:2410.06833). At β = 0 the value is the Kuramoto energy ½⟨M m, m⟩,
    m = Σ w_j x_j: the limit of E_β − 1/(2β). Differentiable in tokens, weights, β and M; memory
    O(n) at any n, time O(n²d). From two thousand tokens on the sphere on, with M = I, the sum is
    the one `choose_sum` takes at 1e−11, near-linear for d = 2, …, 8: the energy of tokens spread
    evenly is the least, so its relative error is at most 1e−10. Of a `Density` and a `Gaussian`
    the exact double integral, M = I.

    A field in place of `beta` gives the energy that this field climbs (`observe.gradient`), and is
    refused where none is known.

    >>> from metastable.measures import polygon
    >>> round(float(energy(polygon(2), beta=1.0)), 6)  # cosh(1)/2
    0.77154
    """
    checks.defined_for("energy", measure, Points, Density, Gaussian)
    if isinstance(beta, Field):
        return _of_field(measure, beta)
    checks.real("beta", beta)
    if matrix is not None:
        checks.square("matrix", matrix, measure.dim)
    if isinstance(measure, Points):
        fast = None if matrix is not None else _by_sum(measure, beta, bool(scaled))
        if fast is not None:
            return fast
        points, weights = padded(measure.points, measure.weights)
        return _energy(points, weights, matrix, beta, scaled=bool(scaled))
    if matrix is not None:
        dense = isinstance(measure, Density)
        sort = f"a {'density' if dense else 'Gaussian'}; got one: use "
        sort += "to_points(n)" if dense else "sample(n)"
        raise ValueError(f"matrix must be left out for {sort}.")
    exact: Any = density_energy if isinstance(measure, Density) else _gaussian_energy
    return jnp.asarray(exact(measure, float(beta), scaled))


def _by_sum(measure: Points, beta: Any, scaled: bool) -> Float[Array, ""] | None:
    """The energy of many tokens on the sphere by the sum chosen for them, or None.

    Not for a traced call, which needs derivatives, nor in single precision.
    """
    plain = measure.on_sphere and not is_traced(measure.points, measure.weights, beta)
    if not plain or measure.count < _MANY or measure.points.dtype != jnp.float64 or not beta > 0:
        return None
    chosen = choose_sum(measure, SelfAttention(beta), 1e-11)
    points, weights = padded(measure.points, measure.weights)
    # A token of no mass must still lie on the sphere.
    points[measure.count :] = points[0]
    share = _mean_share(chosen, points, weights, jnp.asarray(beta, jnp.float64))
    # A token that sees less than the sum can tell gives NaN, and then all pairs decide.
    if not bool(jnp.isfinite(share)):
        return None
    return share if scaled else jnp.exp(jnp.log(share) + beta) / (2 * beta)


@jax.jit
def _mean_share(sum: Sum, points: Any, weights: Any, beta: Any) -> Array:
    """Σ_i Σ_j w_i w_j e^{β(⟨x_i,x_j⟩−1)}."""
    points, weights = jnp.asarray(points), jnp.asarray(weights)
    kernel = Kernel(beta, points, points, jnp.log(weights), zonal=True, own=True)
    log_mass, _ = sum.attend(kernel, points[:, :1])
    return jnp.sum(jnp.where(weights > 0, weights * jnp.exp(log_mass - beta), 0.0))


def _of_field(measure: Any, field: Field) -> Float[Array, ""]:
    """The energy that a field climbs."""
    from metastable.observe.gradient import climb_of

    checks.defined_for("energy of a field", measure, Points)
    climb = climb_of(field, measure.dim) if measure.on_sphere else None
    if climb is None:
        raise ValueError(
            f"no energy is known that {field!r} climbs on these tokens; known are SA and USA with "
            "V = ±I or V = QᵀK symmetric, potentials, Kuramoto, and doubly stochastic attention: "
            "pass a number beta for that of plain attention."
        )
    return jnp.asarray(np.exp(climb.log_scale) * climb.energy(measure))


def _gaussian_energy(measure: Gaussian, beta: float, scaled: bool) -> float:
    """∬ e^{β⟨x,y⟩} = Π_i (1 − β²s_i²)^{−1/2} exp(β Σ_i m_i²/(1 − βs_i)) along principal axes.

    Two Gaussian integrals, one after the other; s_i are the variances. Infinite from |β|s_i = 1 on.
    """
    factor = np.asarray(measure.factor)
    variances, axes = np.linalg.eigh(factor @ factor.T)
    means = axes.T @ np.asarray(measure.mean)
    if beta == 0:
        return 1.0 if scaled else float(0.5 * means @ means)
    if np.abs(beta * variances).max() >= 1:
        log_pairs = np.inf
    else:
        log_pairs = beta * np.sum(means**2 / (1 - beta * variances))
        log_pairs -= 0.5 * np.sum(np.log1p(-((beta * variances) ** 2)))
    with np.errstate(over="ignore"):
        return float(np.exp(log_pairs - beta) if scaled else np.exp(log_pairs) / (2 * beta))


@jax.jit(static_argnames="scaled")
def _energy(points: Any, weights: Any, matrix: Any, beta: Any, *, scaled: bool) -> Array:
    rows = _log_potential(points, weights, beta, points, matrix)
    log_pairs = jax.nn.logsumexp(rows, b=weights)
    if scaled:
        return jnp.exp(log_pairs - beta)
    mean = weights @ points
    kuramoto = 0.5 * mean @ (mean if matrix is None else matrix @ mean)
    # The inner `where` keeps the branch not taken, and its derivative, finite.
    nonzero = jnp.where(beta == 0, 1.0, beta)
    return jnp.where(beta == 0, kuramoto, jnp.exp(log_pairs) / (2 * nonzero))


def log_potential(
    measure: Points, beta: Any, at: Any = None, matrix: Any = None
) -> Float[Array, " m"]:
    """Logarithm of the potential of a measure, at its own tokens or at other places (m, d).

    log Z(x) = log Σ_j w_j e^{β⟨M x, x_j⟩}. The SA velocity is the tangent part of ∇ log Z / β, and
    on the sphere Z is, up to a factor, the von Mises–Fisher kernel density of concentration β.
    Computed without overflow at any β.

    >>> from metastable.measures import polygon
    >>> round(float(log_potential(polygon(2), beta=1e4)[0]), 6)  # 10⁴ − log 2
    9999.306853
    """
    checks.defined_for("log_potential", measure, Points)
    checks.real("beta", beta)
    if matrix is not None:
        checks.square("matrix", matrix, measure.dim)
    points, weights = padded(measure.points, measure.weights)
    places = measure.points if at is None else jnp.asarray(at)
    return _log_potential(points, weights, beta, places, matrix)


@jax.jit
def _log_potential(points: Any, weights: Any, beta: Any, at: Any, matrix: Any) -> Array:
    points, weights = jnp.asarray(points), jnp.asarray(weights)
    queries = at if matrix is None else at @ jnp.asarray(matrix).T
    row = lambda query: jax.nn.logsumexp(beta * (points @ query), b=weights)
    return over_rows(row, queries, points.shape[0])


def order_parameter(measure: Points | Density | Gaussian) -> Float[Array, ""]:
    """Kuramoto's r = ‖∫ x dμ‖: 0 when balanced, 1 when all tokens on the sphere agree.

    >>> from metastable.measures import Density, Points
    >>> round(float(order_parameter(Points([[1.0, 0.0], [0.0, 1.0]]))), 6)
    0.707107
    """
    if not isinstance(measure, Points):
        return jnp.asarray(np.linalg.norm(mean_of(measure)))
    return jnp.linalg.norm(measure.weights @ measure.points)
