"""The attention matrix of a measure, its rank and the entropy of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.measures import Points


def attention(
    measure: Points, beta: Any, query: Any = None, key: Any = None, causal: bool = False
) -> Float[Array, "n n"]:
    """The row-stochastic attention matrix.

    P_ij = w_j e^{β⟨Qx_i,Kx_j⟩} / Σ_k w_k e^{β⟨Qx_i,Kx_k⟩}, with masses in numerator and
    denominator, so that a token of weight 2/n draws as much attention as two tokens.

    `query`, `key`: None (identity), a number, or a matrix (p, d). `causal`: token i sees the tokens
    of time ≤ its own. Row i then needs mass at or before i; a massless token that sees no mass
    attends to itself. Stores n² numbers.

    >>> from metastable.measures import orthogonal
    >>> attention(orthogonal(2, 2), beta=np.log(3)).round(6).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    checks.defined_for("attention", measure, Points)
    checks.real("beta", beta)
    checks.fits_memory(
        f"the attention matrix of {measure.count} tokens",
        3.0 * measure.count**2,
        "take a subset of the tokens",
    )
    x, w = measure.points, measure.weights
    logits = beta * _act("query", query, x) @ _act("key", key, x).T + jnp.log(w)
    if causal:
        times = measure.positions
        logits = jnp.where(times[None, :] <= times[:, None], logits, -jnp.inf)
    blind = jnp.isneginf(logits).all(axis=1, keepdims=True) & jnp.eye(measure.count, dtype=bool)
    return jax.nn.softmax(jnp.where(blind, 0.0, logits), axis=1)


def _act(name: str, matrix: Any, x: Array) -> Array:
    if matrix is None:
        return x
    matrix = jnp.asarray(matrix, float)
    if matrix.ndim == 0:
        return matrix * x
    if matrix.ndim != 2 or matrix.shape[1] != x.shape[1]:
        raise ValueError(
            f"{name} must be None, a number or a matrix with {x.shape[1]} columns to act on tokens "
            f"of dimension {x.shape[1]}; got shape {matrix.shape}."
        )
    return x @ matrix.T


def attention_rank(matrix: Any, tolerance: float = 1e-6) -> int:
    """Numerical rank: the singular values above `tolerance` times the largest.

    For pure attention in R^d with V = I the limit has at most as many as the limit polytope has
    vertices (arXiv:2305.05465).

    >>> attention_rank(np.ones((4, 4)) / 4)
    1
    """
    checks.finite_array("matrix", matrix, 2)
    checks.positive("tolerance", tolerance)
    values = np.linalg.svd(np.asarray(matrix), compute_uv=False)
    return int(np.count_nonzero(values > tolerance * values[0]))


def attention_entropy(matrix: Any) -> Float[Array, " n"]:
    """Shannon entropy of each row in nats: 0 when it looks at one token, log n when at all alike.

    >>> attention_entropy(np.eye(2)).tolist()
    [0.0, 0.0]
    """
    checks.finite_array("matrix", matrix, 2)
    return jnp.sum(jax.scipy.special.entr(jnp.asarray(matrix)), axis=1)
