"""Relatives of softmax attention: by distance, doubly stochastic, and in the frame that grows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.attention import AttentionHead, SelfAttention, act, logits
from metastable.fields.field import Field, Places
from metastable.fields.position import Causal
from metastable.fields.sums import Kernel, Sum
from metastable.measures import Points


class L2Attention(AttentionHead):
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


class SinkhornAttention(AttentionHead):
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

        start = jnp.zeros_like(log_w)
        g = _fixed_point(scale, start, self.iterations, self.tolerance, level=not symmetric)
        kernel = dataclasses.replace(kernel, column=log_w + g, zonal=False, own=False)
        return act(self.value, sum.attend(kernel, measure.points)[1])


class Rescaled(Field):
    """Attention without normalisation in the variable z = e^{−tV}x, which stays bounded.

    ż_i = Σ_j P_ij V(z_j − z_i),  P_ij ∝ w_j e^{β⟨Qe^{tV}z_i, Ke^{tV}z_j⟩}

    Source: Geshkovski, Letrouit, Polyanskiy, Rigollet, arXiv:2305.05465, eq. (1.3). Tokens live in
    R^d; x itself grows like e^{tV}. Logits grow like e^{2t}: in float64 they lose their digits past
    t ≈ 18 for V = I.
    """

    attention: SelfAttention

    def __check_init__(self) -> None:
        if not isinstance(self.attention, SelfAttention) or not self.attention.normalized:
            raise ValueError(f"Rescaled needs a normalised SelfAttention; got {self.attention!r}.")

    @property
    def clock(self) -> str:
        return self.attention.clock

    def drift(self, measure: Points, at: Places, t: Any, sum: Sum) -> Float[Array, "m d"]:
        if measure.on_sphere:
            raise ValueError("Rescaled moves tokens in R^d; start from tokens.euclidean().")
        a = self.attention
        growth = exponential_of(a.value, t)
        kernel = logits(
            a.beta, _compose(a.query, growth), _compose(a.key, growth), a.position, measure, at
        )
        mean = sum.attend(kernel, measure.points)[1]
        return act(a.value, mean - at.points)

    def tokens(self, z: Points, t: Any) -> Points:
        """The tokens x = e^{tV}z behind a rescaled measure."""
        return z.at(act(exponential_of(self.attention.value, t), z.points))


def exponential_of(operator: Array | None, t: Any) -> Array:
    """e^{tV} for a matrix or a multiple of the identity."""
    if operator is None:
        return jnp.exp(jnp.asarray(t, jnp.float64))
    return jnp.exp(t * operator) if operator.ndim == 0 else jax.scipy.linalg.expm(t * operator)


def _compose(left: Array | None, right: Array) -> Array:
    if left is None:
        return right
    return left @ right if left.ndim and right.ndim else left * right


def _fixed_point(
    step: Callable[[Array], Array], start: Array, iterations: int, tolerance: float, level: bool
) -> Array:
    """Iterate until the change is below tolerance; differentiated as the solution of x = step(x).

    Derivatives of the iteration itself would stop with it: around tokens placed so that the start
    is the solution, such as a ring, none has been taken by then. `level` says that x may be moved
    by a constant; the derivative is then the one of mean zero.
    """

    def solve(defect: Callable[[Array], Array], value: Array) -> Array:
        def more(carry: Any) -> Array:
            _, change, count = carry
            return (change > tolerance) & (count < iterations)

        def advance(carry: Any) -> Any:
            value, _, count = carry
            change = defect(value)
            return value + change, jnp.max(jnp.abs(change)), count + 1

        value, change, _ = jax.lax.while_loop(more, advance, (value, jnp.inf, 0))
        return jnp.where(change <= 100 * tolerance, value, jnp.nan)

    def invert(linear: Callable[[Array], Array], right: Array) -> Array:
        matrix = jax.jacobian(linear)(right)
        return jnp.linalg.solve(matrix + 1 / right.size if level else matrix, right)

    return jax.lax.custom_root(lambda x: step(x) - x, start, solve, invert)
