"""The interaction energy, the potential it comes from, and the Kuramoto order parameter."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.measures import Density, Points
from metastable.observe.density import density_energy
from metastable.observe.pairs import over_rows, padded

__all__ = ["energy", "log_potential", "order_parameter"]


def energy(
    measure: Points | Density, beta: Any, matrix: Any = None, scaled: bool = False
) -> Float[Array, ""]:
    """Interaction energy of a measure.

    E_β[μ] = (1/2β) Σ_i Σ_j w_i w_j e^{β⟨M x_i, x_j⟩}, M = I unless `matrix` is given.

    Both flows, SA and USA, increase it for V = I and decrease it for V = −I (arXiv:2312.10794,
    §3.4; for general M = QᵀK = V symmetric likewise). `scaled=True` gives 2βe^{−β}E instead, which
    lies in (0, 1] for β ≥ 0 on the sphere with M = I and climbs by 2 w_i w_j at each merger of
    distant clusters (arXiv:2410.06833). At β = 0 the value is the Kuramoto energy ½⟨M m, m⟩,
    m = Σ w_j x_j: the limit of E_β − 1/(2β). Differentiable in tokens, weights, β and M; memory
    O(n) at any n, time O(n²d). Of a `Density` the exact double integral, with M = I.

    >>> from metastable.measures import polygon
    >>> round(float(energy(polygon(2), beta=1.0)), 6)  # cosh(1)/2
    0.77154
    """
    checks.real("beta", beta)
    if matrix is not None:
        checks.square("matrix", matrix, measure.dim)
    if isinstance(measure, Density):
        if matrix is not None:
            raise ValueError("matrix must be left out for a density; got one: use to_points(n).")
        return jnp.asarray(density_energy(measure, beta, scaled))
    points, weights = padded(measure.points, measure.weights)
    return _energy(points, weights, matrix, beta, scaled=bool(scaled))


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


def order_parameter(measure: Points) -> Float[Array, ""]:
    """Kuramoto's r = ‖Σ_j w_j x_j‖: 0 when balanced, 1 when all tokens on the sphere agree.

    >>> from metastable.measures import Density, Points
    >>> round(float(order_parameter(Points([[1.0, 0.0], [0.0, 1.0]]))), 6)
    0.707107
    """
    return jnp.linalg.norm(measure.weights @ measure.points)
