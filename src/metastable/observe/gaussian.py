"""The distance between Gaussians."""

from __future__ import annotations

from typing import Any

from metastable.core.numerics import is_traced, jax, jnp
from metastable.measures import Gaussian
from metastable.observe.sort import only


def bures_wasserstein(measure: Gaussian, other: Gaussian) -> Any:
    """Wasserstein distance W_2 between two Gaussians, singular covariances included.

    W_2² = ‖m_1−m_2‖² + tr(Σ_1 + Σ_2 − 2(Σ_1^{1/2}Σ_2Σ_1^{1/2})^{1/2})
         = ‖m_1−m_2‖² + min_R ‖L_1 − L_2R‖²_F over orthogonal R.

    Source: Dowson, Landau, J. Multivariate Anal. 12 (1982) 450; the second form is Bhatia, Jain,
    Lim, Expo. Math. 37 (2019) 165. It has no root of a product and no cancellation: equal measures
    are at distance 0 to rounding, not to its square root. Differentiable away from equality.

    >>> bures_wasserstein(Gaussian([0.0, 3.0], 1.0), Gaussian([4.0, 0.0], 1.0))
    5.0
    """
    only("bures_wasserstein", measure, Gaussian)
    if measure.dim != other.dim:
        raise ValueError(
            f"other must live in dimension {measure.dim}, like measure; got {other.dim}."
        )
    first, second = measure.factor, other.factor
    width = max(first.shape[1], second.shape[1])
    first, second = (jnp.pad(f, ((0, 0), (0, width - f.shape[1]))) for f in (first, second))
    left, _, right = jnp.linalg.svd(jax.lax.stop_gradient(second.T @ first))
    # At the minimum over R the derivative through R vanishes, so R may be held fixed.
    gap = first - second @ (left @ right)
    distance = jnp.sqrt(jnp.sum((measure.mean - other.mean) ** 2) + jnp.sum(gap**2))
    return distance if is_traced(distance) else float(distance)
