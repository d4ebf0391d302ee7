"""Attention through a few tokens: the low-rank sum, once clusters have formed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.sums.dense import blocks
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.pivots import COMPILED, SIZES, find_pivots

NUGGET = 1e-13  # added to the diagonal of G_SS: pivots that have collapsed leave it singular
KEPT = {"cpu": 2**26, "gpu": 2**29}  # numbers n·r kept between two products, or computed again
ROWS = {"cpu": 1024, "gpu": 2**15}  # of them at a time
_EPS = float(np.finfo(float).eps)


class LowRankSum(Sum):
    """Sums over tokens through r of them, the pivots S: n·r exponentials instead of n².

    On the sphere k_ij = e^{β⟨x_i,x_j⟩} = e^β G_ij with G = e^{−β‖x_i−x_j‖²/2}; for queries and keys
    in general k_ij = e^{β‖q_i‖²/2} G(q_i, k_j) e^{β‖k_j‖²/2}. G is positive semi-definite with unit
    diagonal, and collapsed tokens make its numerical rank small. It is replaced by

        Ĝ = G_{:S} (G_SS + δ)^{-1} G_{S:},   δ = 1e−13,

    the Nyström approximation (Williams & Seeger, NIPS 2000), whose action needs n·r exponentials, a
    Cholesky factor of r × r and no product of n·r². Pivots are *tokens*: they move with the tokens,
    and the error falls as clusters collapse (n = 2000, d = 8, β = 9, 150 pivots taken at t = 11:
    2e−10 there, 1e−12 at t = 12, 1e−13 at t = 13). Places that stay behind lose six digits.

    **Error.** R = G − Ĝ is positive semi-definite, so |R_ij| ≤ √(R_ii R_jj), and the mean m̂_i is
    off by Σ_j w_j R_ij (v_j − m̂_i)/Z_i, at most

        √R_ii Σ_j w_j √R_jj (‖v_j‖ + ‖m̂_i‖) / (Ẑ_i − √R_ii Σ_j w_j √R_jj):

    `bound`, rigorous, n·r² products. It is far from sharp, because v_j − m̂_i is small in the
    cluster where R_ij is not: measured errors are 1e1 to 1e5 times smaller. Runs therefore measure
    the error itself, against the sum over all pairs.

    `pivots` are indices of tokens, the best first; `count` of them are in use. The shape is that of
    `pivots` for every count, so that one compilation serves them all. Gradients in tokens, values
    and β are those of the formula with the pivots fixed. Masks and positional biases are refused.
    Where a row sees less mass than the error the result may be any number: `bound` is infinite.

    >>> import metastable as ms
    >>> near = 1e-3 * np.sin(np.arange(750)).reshape(150, 5)
    >>> x = ms.from_array(np.repeat(np.eye(5)[:3], 50, axis=0) + near)
    >>> sum = LowRankSum.reaching(1e-9, x.points, 9.0)
    >>> sum.name
    'low rank 16'
    >>> v = ms.SelfAttention(9.0).velocity(x, sum=sum) - ms.SelfAttention(9.0).velocity(x)
    >>> float(abs(v).max()) < 1e-9
    True
    >>> LowRankSum.reaching(1e-9, ms.uniform(150, 5).points, 9.0) is None  # no clusters
    True
    """

    pivots: Int[Array, " c"]
    count: Int[Array, ""]

    def __init__(self, pivots: Any, count: Any = None):
        self.pivots = jnp.asarray(pivots)
        if self.pivots.ndim != 1 or not 1 <= self.pivots.size <= SIZES[-1]:
            raise ValueError(
                f"pivots must be a row of 1 to {SIZES[-1]} indices of tokens; got shape "
                f"{self.pivots.shape}."
            )
        self.count = jnp.asarray(self.pivots.size if count is None else count)

    @classmethod
    def reaching(
        cls,
        tolerance: float,
        points: Float[Array, "n p"],
        beta: float,
        weights: Float[Array, " n"] | None = None,
        most: int | None = None,
    ) -> LowRankSum | None:
        """As many pivots as `bound` needs to stay below `tolerance` for values of norm ≤ 1.

        None where `most` pivots (an eighth of the tokens by default) do not reach it.
        """
        checks.positive("tolerance", tolerance)
        x = np.asarray(points)
        w = np.full(len(x), 1 / len(x)) if weights is None else np.asarray(weights, float)
        most = max(len(x) // 8, 1) if most is None else most
        kernel = Kernel(jnp.asarray(beta, float), *[jnp.asarray(x)] * 2, column=jnp.log(w))
        values = jnp.zeros((len(x), 1)).at[:, 0].set(1.0)
        found = find_pivots(x, float(beta), w, most)
        for size in [s for s in SIZES if s < len(found.indices)] + [len(found.indices)]:
            chosen = cls(found.indices[:size])
            if float(jnp.max(chosen.bound(kernel, values))) <= tolerance:
                return chosen
        return None

    @property
    def name(self) -> str:
        return f"low rank {int(self.count)}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The ranks that are compiled: G_SS is padded to the next."""
        return (*(s for s in _here(COMPILED) if s < self.pivots.size), self.pivots.size)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        check_plain(kernel)
        beta = kernel.beta.astype(values.dtype)
        heavy = kernel.column + 0.5 * beta * _squares(kernel.right)
        top = jax.lax.stop_gradient(jnp.max(heavy))
        mass = jnp.exp(heavy - top)[:, None]
        # One product gives both the partition function and the mean.
        weighted = jnp.concatenate([mass, mass * values], axis=1)
        branches = [self._through(size) for size in self.sizes]
        total = jax.lax.switch(self._level, branches, kernel, beta, weighted)
        log_mass = top + 0.5 * beta * _squares(kernel.left) + jnp.log(total[:, 0])
        mean = total[:, 1:] / total[:, :1]
        return (log_mass if kernel.row is None else log_mass + kernel.row), mean

    def pairs(self, tokens: int, size: int, symmetric: bool) -> int:
        """Exponentials of one evaluation with as many tokens, at one of `sizes`."""
        keep = symmetric and self._keeps(tokens, size)
        return tokens * size if keep else 2 * tokens * size + size**2

    def _keeps(self, tokens: int, size: int) -> bool:
        """Whether the exponentials are kept between two products."""
        return tokens * size <= _here(KEPT)

    @property
    def _level(self) -> Array:
        return jnp.searchsorted(jnp.asarray(self.sizes[:-1]), self.count)

    def _through(self, size: int) -> Any:
        """Ĝ applied to the weighted values, with G_SS of this size."""

        def apply(kernel: Kernel, beta: Array, weighted: Array) -> Array:
            places = kernel.right[self.pivots[:size]]
            columns = _columns_of(places, beta)
            keep = is_symmetric(kernel) and self._keeps(kernel.right.shape[0], size)
            rows = blocks(_rows_of(kernel.right, beta), _here(ROWS))
            values = blocks(weighted, _here(ROWS)).transpose(0, 2, 1)  # the faster layout

            def gather(total: Array, block: tuple[Array, Array]) -> tuple[Array, Array | None]:
                near = jnp.exp(block[0] @ columns)
                return total + block[1] @ near, near if keep else None

            start = jnp.zeros((weighted.shape[1], size), weighted.dtype)
            gather = gather if keep else jax.checkpoint(gather)
            held, kept = jax.lax.scan(gather, start, (rows, values))
            # Of pivots that are not in use too: they enter here with the number 0.
            held = jnp.where(jnp.arange(size) < self.count, held, 0.0).T
            if kept is not None:
                near = kept.reshape(-1, size)
                factor = self._factor(size, near[self.pivots[:size]])
                out = near @ jax.scipy.linalg.cho_solve((factor, True), held)
                return out[: kernel.left.shape[0]]

            factor = self._factor(size, jnp.exp(_rows_of(places, beta) @ columns))
            solved = jax.scipy.linalg.cho_solve((factor, True), held)
            spread = jax.checkpoint(lambda rows: jnp.exp(rows @ columns) @ solved)
            if not is_symmetric(kernel):
                rows = blocks(_rows_of(kernel.left, beta), _here(ROWS))
            out = jax.lax.map(spread, rows)
            return out.reshape(-1, out.shape[-1])[: kernel.left.shape[0]]

        return apply

    def _columns(self, size: int, rows: Array, places: Array, beta: Array) -> Array:
        used = jnp.arange(size) < self.count
        return jnp.where(used, gaussian(rows, places, beta), 0.0)

    def _factor(self, size: int, inner: Array) -> Array:
        """The Cholesky factor of G_SS + δ; unused pivots are as if far from all others."""
        used = jnp.arange(size) < self.count
        inner = jnp.where(used[:, None] & used, inner, 0.0)
        inner = inner + jnp.diag(jnp.where(used, NUGGET, 1.0).astype(inner.dtype))
        return jax.lax.linalg.cholesky(inner, symmetrize_input=False)

    @eqx.filter_jit
    def residual(self, kernel: Kernel) -> tuple[Float[Array, " m"], Float[Array, " n"]]:
        """R_ii = 1 − G_iS (G_SS + δ)^{-1} G_Si at places and tokens, and what rounding may hide."""
        size, beta = self.pivots.size, kernel.beta
        places = kernel.right[self.pivots]
        factor = self._factor(size, self._columns(size, places, places, beta))

        def diagonal(rows: Array) -> Array:
            columns = self._columns(size, rows, places, beta)
            half = jax.scipy.linalg.solve_triangular(factor, columns.T, lower=True)
            return jnp.maximum(1 - jnp.sum(half**2, axis=0), 0.0) + _EPS * (10 + size)

        right = diagonal(kernel.right)
        return (right if is_symmetric(kernel) else diagonal(kernel.left)), right

    @eqx.filter_jit
    def bound(self, kernel: Kernel, values: Float[Array, "n v"]) -> Float[Array, " m"]:
        """How far the mean of the values can be off at each place; infinite where nothing is known.

        n·r² products. In exact arithmetic a theorem; rounding enters as (10 + r)·2e−16 in R_ii.
        """
        check_plain(kernel)
        left, right = map(jnp.sqrt, self.residual(kernel))
        log_mass, mean = self.attend(kernel, values)
        heavy = kernel.column + 0.5 * kernel.beta * _squares(kernel.right)
        top = jnp.max(heavy)
        weights = jnp.exp(heavy - top) * right
        row = 0.0 if kernel.row is None else kernel.row
        seen = jnp.exp(log_mass - row - top - 0.5 * kernel.beta * _squares(kernel.left))
        lost = left * jnp.sum(weights)
        off = left * (weights @ jnp.linalg.norm(values, axis=1))
        off = off + jnp.linalg.norm(mean, axis=1) * lost
        return jnp.where(seen > lost, off / (seen - lost), jnp.inf)


def is_symmetric(kernel: Kernel) -> bool:
    """Whether places and tokens are the same, and queries and keys too."""
    return kernel.zonal and kernel.own


def check_plain(kernel: Kernel) -> None:
    if kernel.biases:
        names = ", ".join(type(bias).__name__ for bias in kernel.biases)
        raise ValueError(
            f"a low-rank sum has no positional bias or mask; got {names}: use Dense()."
        )


def gaussian(
    x: Float[Array, "m p"], y: Float[Array, "r p"], beta: Float[Array, ""]
) -> Float[Array, "m r"]:
    """e^{−β‖x−y‖²/2}."""
    return jnp.exp(_rows_of(x, beta) @ _columns_of(y, beta))


def _rows_of(x: Float[Array, "m p"], beta: Float[Array, ""]) -> Float[Array, "m p+2"]:
    """(βx, −β‖x‖²/2, 1): the product with `_columns_of` is −β‖x−y‖²/2, in one pass."""
    half = -0.5 * beta * _squares(x)[:, None]
    return jnp.concatenate([beta * x, half, jnp.ones_like(half)], axis=1)


def _columns_of(y: Float[Array, "r p"], beta: Float[Array, ""]) -> Float[Array, "p+2 r"]:
    half = -0.5 * beta * _squares(y)[:, None]
    return jnp.concatenate([y, jnp.ones_like(half), half], axis=1).T


def _squares(x: Float[Array, "n p"]) -> Float[Array, " n"]:
    return jnp.sum(x * x, axis=1)


def _here(limits: dict[str, Any]) -> Any:
    """The limit of the device at hand."""
    return limits.get(jax.default_backend(), limits["cpu"])
