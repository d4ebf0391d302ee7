"""Relatives of softmax attention: by distance, and doubly stochastic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import Head, act, logits
from metastable.fields.field import Places
from metastable.fields.position import Causal
from metastable.fields.sums import Kernel, Sum
from metastable.measures import Points


class L2Attention(Head):
    """Attention by distance: logits −β‖Qx−Ky‖²/2 instead of β⟨Qx,Ky⟩.

    ẋ_i = P_{x_i} Σ_j w_j e^{−β‖Qx_i−Kx_j‖²/2} V x_j / Σ_k w_k e^{−β‖Qx_i−Kx_k‖²/2}

    Source: Kim, Papamakarios, Mnih, arXiv:2006.04710. With Q = K = I on the sphere it is SA.
    """

    causal: bool = eqx.field(static=True)

    def __init__(
        self, beta: Any, query: Any = None, key: Any = None, value: Any = None, causal: bool = False
    ):
        super().__init__(beta, query, key, value)
        self.causal = bool(causal)

    clock: ClassVar[str] = "SA"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        mask = (Causal(),) if self.causal else ()
        bilinear = logits(self.beta, self.query, self.key, mask, measure, at)
        # −β‖q−k‖²/2 = β⟨q,k⟩ − β‖k‖²/2 up to a term of the row, which the softmax forgets.
        squares = jnp.sum(bilinear.right**2, axis=1)
        column = bilinear.column - 0.5 * self.beta * squares
        kernel = dataclasses.replace(bilinear, column=column, zonal=False, own=False)
        return act(self.value, sum.attend(kernel, measure.points)[1])


class SinkhornAttention(Head):
    """Doubly stochastic attention: the kernel scaled until rows and columns both sum to 1.

    ẋ_i = P_{x_i} Σ_j w_j e^{β⟨Qx_i,Kx_j⟩ + f_i + g_j} V x_j,  with f, g such that
    Σ_j w_j e^{…} = 1 for every i and Σ_i w_i e^{…} = 1 for every j.

    Source: Sander, Ablin, Blondel, Peyré, arXiv:2110.11773. The scaling runs in log domain until g
    changes by less than `tolerance`; the count grows with β, least for Q = K = I, where the two
    scalings are one. Not converged within `iterations`, it gives NaN, not a wrong velocity.
    """

    iterations: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(
        self,
        beta: Any,
        query: Any = None,
        key: Any = None,
        value: Any = None,
        iterations: int = 5000,
        tolerance: float = 1e-13,
    ):
        super().__init__(beta, query, key, value)
        self.iterations = checks.integer("iterations", iterations, 1)
        self.tolerance = float(checks.positive("tolerance", tolerance))

    clock: ClassVar[str] = "Sinkhorn"

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        # The scaling changes the column terms, so the zonal shortcut no longer applies.
        kernel = logits(self.beta, self.query, self.key, (), measure, at)
        left, log_w = act(self.query, measure.points), kernel.column

        def log_mass(rows: Array, columns: Array, column: Array) -> Array:
            return sum.attend(Kernel(self.beta, rows, columns, column), columns[:, :1])[0]

        symmetric = self.query is None and self.key is None

        def scale(g: Array) -> Array:
            f = -log_mass(left, kernel.right, log_w + g)
            # For a symmetric kernel f = g in the end, and their mean gets there much faster.
            return 0.5 * (f + g) if symmetric else -log_mass(kernel.right, left, log_w + f)

        g = _fixed_point(scale, jnp.zeros_like(log_w), self.iterations, self.tolerance)
        kernel = dataclasses.replace(kernel, column=log_w + g, zonal=False, own=False)
        return act(self.value, sum.attend(kernel, measure.points)[1])


def _fixed_point(
    step: Callable[[Array], Array], start: Array, iterations: int, tolerance: float
) -> Array:
    """Iterate until the change is below tolerance; a scan, so that gradients flow through it."""

    def advance(carry, _):
        value, change = carry

        def once(value):
            new = step(value)
            return new, jnp.max(jnp.abs(new - value))

        return jax.lax.cond(change > tolerance, once, lambda v: (v, change), value), None

    (value, change), _ = jax.lax.scan(advance, (start, jnp.inf), length=iterations)
    return jnp.where(change <= 100 * tolerance, value, jnp.nan)
