"""Which early tokens the last token of a causal chain still knows: retrieval profiles."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.special import ive

from metastable.core import checks
from metastable.core.numerics import jax, jnp

CHUNK = {"cpu": 2**16, "gpu": 2**22}  # angles moved together: in the cache, or in many cores


class RetrievalProfile(NamedTuple):
    """Retrieval R_j of the sources j = 1 … N−1 by token N, with standard errors over systems.

    `response` is the estimate by derivatives, `plain` the one by cosines alone; both have the same
    mean for uniform starts, and the errors of `response` are smaller by about √N.
    """

    position: np.ndarray  # s_j = j/N
    response: np.ndarray
    response_error: np.ndarray
    plain: np.ndarray
    plain_error: np.ndarray
    covariance: np.ndarray  # of the means `response`, (N−1, N−1)
    systems: int
    steps: int

    def averaged(self, weights: Any) -> tuple[np.ndarray, np.ndarray]:
        """Σ_j weights_kj R_j for each row of weights, and its standard error."""
        weights = np.atleast_2d(np.asarray(weights, float))
        variance = np.einsum("kj,jl,kl->k", weights, self.covariance, weights)
        return weights @ self.response, np.sqrt(variance)

    def binned(self, edges: Any) -> np.ndarray:
        """Rows (position, response, error) of the sources between successive edges of s."""
        group = np.digitize(self.position, edges)
        rows = np.stack([group == k for k in range(1, len(edges))])
        weights = rows / rows.sum(axis=1, keepdims=True)
        return np.stack([weights @ self.position, *self.averaged(weights)], axis=1)


def position_bias(
    tokens: int,
    slope: float = 0.0,
    *,
    own: bool = True,
    width: float = math.inf,
    sinks: int = 0,
    period: float = math.inf,
    depth: float = 0.0,
) -> Float[np.ndarray, "n n"]:
    """Logits b_ij of a causal chain by position alone, −∞ where token i does not see token j.

    b_ij = −λ(i−j)/N + κ cos(2π(i−j)/T) for j ≤ i (j < i without `own`) and i−j < `width` or
    j ≤ `sinks`. λ = `slope` is ALiBi's slope times the number of tokens, `width` and `sinks` are
    those of a sliding window, and the cosine of `period` T and `depth` κ stands for the part of a
    rotary logit that depends on position alone.

    >>> position_bias(3, 3.0).tolist()
    [[0.0, -inf, -inf], [-1.0, 0.0, -inf], [-2.0, -1.0, 0.0]]
    """
    checks.integer("tokens", tokens, 2)
    order = np.arange(1, tokens + 1)
    gap = order[:, None] - order
    seen = (gap >= (0 if own else 1)) & ((gap < width) | (order <= sinks))
    wave = depth * np.cos(2 * np.pi * gap / period)
    return np.where(seen, -slope * gap / tokens + wave, -np.inf)


def retrieval_profile(
    bias: Any,
    beta: Any,
    horizon: float,
    *,
    systems: int,
    outputs: Any = None,
    mode: int = 1,
    steps: int | None = None,
    seed: int = 0,
    precision: Literal["float32", "float64"] = "float64",
    chunk: int | None = None,
) -> RetrievalProfile:
    """Retrieval of every source by the last token of a chain on the circle, over random starts.

    R_j = N E cos k(θ_N(t) − θ_j(0)) = N E[cos k(θ_N(t) − θ_j(0)) ∂θ_N(t)/∂θ_j(0)],
    θ̇_i = −Σ_h o_h Σ_j π^h_ij e^{β_h cos(θ_i−θ_j)} sin(θ_i−θ_j), π^h_i· the softmax of row i of the
    `bias` of head h.

    The second form follows from the first by parts in the uniform angle θ_j(0), and is exact; its
    variance does not grow with N. All derivatives of a system come from one reverse pass. The
    clock is USA's. Of the initial token, not of the token at time t: common ancestors add to the
    latter, and their correlation has no minimum. Setting: arXiv:2605.09213 (abstract).

    - `bias`: logits by position, of any form, (n, n); `position_bias` makes the usual ones. A row
      of −∞ leaves its token where it is. Several heads: (h, n, n), and a `beta` for each, or one.
    - `outputs`: o_h; by default 1/h, the mean of the heads.
    - `steps`: of the classical Runge–Kutta method; by default 3 a unit of t Σ_h o_h e^{β_h}, 8 at
      least.
    - `precision`: of the flow; sums over systems are in float64.
    - `chunk`: systems moved together, which bounds the memory.

    >>> profile = retrieval_profile(position_bias(8, 1.0), 1.0, 1.0, systems=400)
    >>> profile.response.shape, bool((profile.response_error < profile.plain_error).all())
    ((7,), True)
    """
    bias = np.asarray(bias, float)
    checks.finite_array("exp(bias)", np.exp(bias), 2 if bias.ndim < 3 else 3)
    bias = bias.reshape(-1, *bias.shape[-2:])
    checks.square("bias", bias[0], bias.shape[1])
    betas = _per_head("beta", beta, len(bias))
    shares = _per_head("outputs", 1 / len(bias) if outputs is None else outputs, len(bias))
    checks.positive("horizon", horizon)
    checks.integer("systems", systems, 2)
    checks.integer("mode", mode, 1)
    tokens = bias.shape[1]
    if steps is None:
        steps = max(8, math.ceil(3 * horizon * float(shares @ np.exp(betas))))
    checks.integer("steps", steps, 1)
    dtype = jnp.dtype(precision)
    force = force_waves(betas, dtype, shares)
    pull = jnp.asarray([position_weights(head) for head in bias], dtype)
    if chunk is None:
        chunk = max(1, CHUNK.get(jax.default_backend(), CHUNK["gpu"]) // tokens)
    chunk = min(checks.integer("chunk", chunk, 1), systems)
    key, totals = jax.random.key(checks.seed(seed)), (0.0, 0.0, 0.0)
    step = jnp.asarray(horizon / steps, dtype)
    for first in range(0, systems, chunk):
        # Every chunk has one shape, so that one program serves all; the last may count less.
        count = min(chunk, systems - first)
        part = _chunk(jax.random.fold_in(key, first), pull, force, step, steps, chunk, mode, count)
        totals = tuple(map(operator.add, totals, part))
    (response, plain), square, products = (np.asarray(total) / systems for total in totals)
    scale = tokens**2 / (systems - 1)
    covariance = scale * (products - np.outer(response, response))
    spread = np.sqrt(scale * np.maximum(square - plain**2, 0.0))
    return RetrievalProfile(
        position=np.arange(1, tokens) / tokens,
        response=tokens * response,
        response_error=np.sqrt(np.maximum(np.diag(covariance), 0.0)),
        plain=tokens * plain,
        plain_error=spread,
        covariance=covariance,
        systems=systems,
        steps=steps,
    )


def position_weights(bias: Any) -> Float[np.ndarray, "n n"]:
    """Rows of the softmax of position logits; a row of −∞ becomes zero.

    >>> position_weights([[-np.inf, -np.inf], [0.0, 0.0]]).tolist()
    [[0.0, 0.0], [0.5, 0.5]]
    """
    bias = np.asarray(bias, float)
    top = bias.max(axis=1, keepdims=True)
    weights = np.exp(bias - np.where(np.isfinite(top), top, 0.0))
    mass = weights.sum(axis=1, keepdims=True)
    return weights / np.where(mass > 0, mass, 1.0)


def _per_head(name: str, values: Any, heads: int) -> np.ndarray:
    """One number ≥ 0 for each head."""
    values = np.asarray(values, float)
    if values.ndim > 1 or (values.ndim == 1 and len(values) != heads):
        raise ValueError(
            f"{name} must be one number, or one for each head of bias ({heads}); got shape "
            f"{values.shape}: bias has the shape (heads, n, n)."
        )
    return np.array([checks.nonnegative(name, float(v)) for v in np.broadcast_to(values, heads)])


def force_waves(betas: Any, dtype: Any, outputs: Any = 1.0) -> Float[Array, "h m"]:
    """Fourier series of the forces o_h e^{β_h cos φ} sin φ, f_m = 2m o_h I_m(β_h)/β_h.

    Cut where the rest is below the rounding of `dtype`.
    """
    betas = np.atleast_1d(np.asarray(betas, float))
    orders = np.arange(1, 60 + int(4 * betas.max()))
    safe = np.where(betas > 0, betas, 1.0)[:, None]
    # At β = 0 this is Kuramoto's sine alone.
    terms = np.where(betas[:, None] > 0, 2 / safe * orders * ive(orders, safe), orders == 1)
    rest = np.cumsum(terms[:, ::-1], axis=1)[:, ::-1]
    kept = np.any(rest > float(jnp.finfo(dtype).eps) * rest[:, :1], axis=0)
    scale = np.broadcast_to(outputs, betas.shape) * np.exp(betas)
    return jnp.asarray(terms[:, kept] * scale[:, None], dtype)


@jax.custom_vjp
def circle_drift(angles: Float[Array, "n s"], pull: Array, force: Array) -> Array:
    """θ̇_i = Σ_h Σ_j π^h_ij f_h(θ_j − θ_i), for systems along the last axis.

    `pull` is (h, n, n), `force` the waves of f_h, (h, m). Its transposed derivative,
    Σ_h Σ_i (p_i π^h_ij − p_j π^h_ji) f_h'(θ_i − θ_j), is written out: left to the compiler, it
    would keep every pair.
    """
    cos, sin = _waves(angles, force)
    total = jnp.zeros_like(angles)
    for seen, waves in zip(pull, force, strict=True):
        turn = cos * _mixed(seen, sin) - sin * _mixed(seen, cos)
        total += jnp.sum(waves[:, None] * turn, axis=1)
    return total


def _transposed(angles: Array, pull: Array, force: Array, p: Array) -> Array:
    cos, sin = _waves(angles, force)
    p, total = p[:, None], jnp.zeros_like(angles)
    orders = jnp.arange(1, force.shape[1] + 1, dtype=force.dtype)
    for seen, waves in zip(pull, force, strict=True):
        back = cos * (_mixed(seen.T, p * cos) - p * _mixed(seen, cos))
        back += sin * (_mixed(seen.T, p * sin) - p * _mixed(seen, sin))
        total += jnp.sum((orders * waves)[:, None] * back, axis=1)
    return total


def _waves(angles: Array, force: Array) -> tuple[Array, Array]:
    """cos mθ and sin mθ: (n, m, s)."""
    turns = jnp.arange(1, force.shape[1] + 1, dtype=angles.dtype)[:, None] * angles[:, None]
    return jax.lax.optimization_barrier((jnp.cos(turns), jnp.sin(turns)))


def _mixed(matrix: Array, waves: Array) -> Array:
    return (matrix @ waves.reshape(waves.shape[0], -1)).reshape(waves.shape)


circle_drift.defvjp(
    lambda angles, pull, force: (circle_drift(angles, pull, force), (angles, pull, force)),
    lambda kept, p: (_transposed(kept[0], kept[1], kept[2], p), None, None),
)


def flow_circle(
    angles: Float[Array, "n s"], pull: Array, force: Array, step: Any, steps: int
) -> Float[Array, "n s"]:
    """`steps` classical Runge–Kutta steps; differentiable, one state a step kept."""

    @jax.checkpoint
    def move(y: Array, _: None) -> tuple[Array, None]:
        k1 = circle_drift(y, pull, force)
        k2 = circle_drift(y + step / 2 * k1, pull, force)
        k3 = circle_drift(y + step / 2 * k2, pull, force)
        k4 = circle_drift(y + step * k3, pull, force)
        return y + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return jax.lax.scan(move, angles, length=steps)[0]


@partial(jax.jit, static_argnames=("steps", "chunk", "mode"))
def _chunk(
    key: Array,
    pull: Array,
    force: Array,
    step: Array,
    steps: int,
    chunk: int,
    mode: int,
    count: Any,
) -> tuple[Array, Array, Array]:
    """Sums over `count` systems: both estimates over N, plain², products of responses."""
    shape = (pull.shape[1], chunk)
    start = jax.random.uniform(key, shape, pull.dtype, 0, 2 * math.pi)

    def last(angles: Array) -> tuple[Array, Array]:
        end = flow_circle(angles, pull, force, step, steps)[-1]
        return end.sum(), end

    slope, end = jax.grad(last, has_aux=True)(start)
    counted = jnp.arange(chunk) < count
    near = jnp.where(counted, jnp.cos(mode * (end - start[:-1])), 0.0).astype(jnp.float64)
    response = near * slope[:-1]
    sums = jnp.stack([response.sum(-1), near.sum(-1)])
    return sums, (near**2).sum(-1), response @ response.T
