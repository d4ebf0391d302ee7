"""Several equal layers with one unknown β, and the derivative of their output in β.

Σ_{t+1} = F(Σ_t, β), and G_t = dΣ_t/dβ follows G_{t+1} = ∂_βF + ∂_ΣF[G_t], G_0 = 0: forward
sensitivities, whose memory does not grow with the depth.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx

from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.teacher import Dataset, GaussianLayer, Matrices


def propagate(
    layer: GaussianLayer, matrices: Matrices, covariances: Any, beta: Any, depth: int
) -> Any:
    """Σ_T after `depth` layers; `covariances` (…, d, d)."""

    def one(_, s):
        return layer(matrices, s, beta)

    # The first layer stands outside of the loop: what does not depend on β is not repeated there
    # when many β are mapped over, and one layer needs no loop.
    return jax.lax.fori_loop(1, depth, one, one(0, covariances))


def propagate_with_slope(
    layer: GaussianLayer, matrices: Matrices, covariances: Any, beta: Any, depth: int
) -> tuple[Any, Any]:
    """Σ_T and its derivative G_T in β, each (…, d, d)."""

    def one(_, pair):
        s, g = pair
        return layer(matrices, s, beta), layer.tangent(matrices, s, g, beta)

    return jax.lax.fori_loop(0, depth, one, (covariances, jnp.zeros_like(covariances)))


@eqx.filter_jit
def loss_and_slope(
    layer: GaussianLayer, matrices: Matrices, data: Dataset, depth: int, beta: Any
) -> tuple[Any, Any]:
    """Mean squared error per entry of the student with β, and its derivative, by sensitivities."""
    ends, slopes = propagate_with_slope(layer, matrices, data.inputs, beta, depth)
    errors = ends - data.targets
    return jnp.mean(errors**2), 2 * jnp.mean(errors * slopes)
