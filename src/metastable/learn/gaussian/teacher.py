"""Teacher and student on covariances: random data, the two layer maps, and the split.

A layer of Gaussian attention moves a covariance Σ by A = WV and P = KᵀQ (α = ε/√d_k):

exact      Σ⁺ = (I + B)Σ(I + B)ᵀ, B = αβ AΣP
truncated  Σ⁺ = Σ + αβ(AΣPΣ + its transpose), which is not positive definite for large steps.

The truncated map is what a published teacher–student experiment trains; it is kept to reproduce it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp


class Matrices(NamedTuple):
    """The four matrices of one head: W (d, d_v), V (d_v, d), Q and K (d_k, d)."""

    W: Any
    V: Any
    Q: Any
    K: Any


class Dataset(NamedTuple):
    """Pairs of covariances, `inputs` and `targets`, each (N, d, d); `weights` (N,) or None for 1.

    A weight of 0 fills up a batch that has too few pairs.
    """

    inputs: Any
    targets: Any
    weights: Any = None


class GaussianLayer(eqx.Module):
    """How one layer moves covariances; `step` is ε. `layer(matrices, covariances, beta)` is Σ⁺.

    `tangent` is the derivative of Σ⁺ in β when Σ itself depends on β with derivative `slope`.
    """

    step: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.positive("step", self.step)

    def gain(self, matrices: Matrices, beta: Any) -> Any:
        # A NumPy scalar would raise single precision to double.
        return beta * (self.step / math.sqrt(matrices.Q.shape[0]))

    @abstractmethod
    def __call__(self, matrices: Matrices, covariances: Any, beta: Any = 1.0) -> Any: ...

    @abstractmethod
    def tangent(self, matrices: Matrices, covariances: Any, slope: Any, beta: Any) -> Any: ...


class TruncatedLayer(GaussianLayer):
    """Σ⁺ = Σ + αβ(M + Mᵀ), M = AΣPΣ: first order in the step, and linear in β.

    >>> matrices = Matrices(*[np.eye(1)] * 4)
    >>> float(TruncatedLayer(step=0.5)(matrices, 2 * np.eye(1))[0, 0])
    6.0
    """

    def __call__(self, matrices: Matrices, covariances: Any, beta: Any = 1.0) -> Any:
        left, right = _halves(matrices, covariances)
        m = _outer(self.gain(matrices, beta) * left, right)
        return covariances + m + _transpose(m)

    def tangent(self, matrices: Matrices, covariances: Any, slope: Any, beta: Any) -> Any:
        left, right = _halves(matrices, covariances)
        left_dot, right_dot = _halves(matrices, slope)
        m = _outer(left + beta * left_dot, right) + beta * _outer(left, right_dot)
        m = self.gain(matrices, 1.0) * m
        return slope + m + _transpose(m)


class ExactLayer(GaussianLayer):
    """Σ⁺ = (I + B)Σ(I + B)ᵀ, B = αβ AΣP: positive definite for every step, quadratic in β.

    >>> matrices = Matrices(*[np.eye(1)] * 4)
    >>> float(ExactLayer(step=0.5)(matrices, 2 * np.eye(1))[0, 0])
    8.0
    """

    def __call__(self, matrices: Matrices, covariances: Any, beta: Any = 1.0) -> Any:
        left, right = _halves(matrices, covariances)
        left = self.gain(matrices, beta) * left
        m = _outer(left, right)
        bent = _outer(left @ (matrices.Q @ right), left)
        return covariances + m + _transpose(m) + bent

    def tangent(self, matrices: Matrices, covariances: Any, slope: Any, beta: Any) -> Any:
        a = self.gain(matrices, 1.0)
        left, _ = _halves(matrices, covariances)
        left_dot, _ = _halves(matrices, slope)
        forward = jnp.eye(covariances.shape[-1]) + a * beta * left @ matrices.Q
        forward_dot = a * (left + beta * left_dot) @ matrices.Q
        m = forward_dot @ covariances @ _transpose(forward)
        return forward @ slope @ _transpose(forward) + m + _transpose(m)


def _halves(matrices: Matrices, covariances: Any) -> tuple[Any, Any]:
    """AΣKᵀ and ΣQᵀ, both (…, d, d_k): no product is wider than d_k, which cuts the cost."""
    w, v, q, k = matrices
    # One wide product for both is faster than two narrow ones.
    both = covariances @ jnp.concatenate([k, q]).T
    return jnp.einsum("ij,...jk->...ik", w @ v, both[..., : len(k)]), both[..., len(k) :]


def _outer(left: Any, right: Any) -> Any:
    return jnp.einsum("...ik,...jk->...ij", left, right)


def _transpose(m: Any) -> Any:
    return jnp.swapaxes(m, -1, -2)


def random_covariances(count: int, dim: int, seed: int) -> Float[Array, "count dim dim"]:
    """Σ = GGᵀ/√d with standard normal G: eigenvalues between 0 and about 4√d.

    The scaling is that of the published experiment; Marchenko–Pastur's own would be GGᵀ/d.
    """
    key = jax.random.key(checks.seed(seed))
    g = jax.random.normal(key, (checks.integer("count", count, 1), dim, dim))
    return g @ _transpose(g) / np.sqrt(dim)


def random_matrices(dim: int, key_dim: int, seed: int, value_dim: int | None = None) -> Matrices:
    """Normal matrices whose entries have variance 1/columns, so that singular values stay ≤ 2."""
    value_dim = dim if value_dim is None else value_dim
    shapes = [(dim, value_dim), (value_dim, dim), (key_dim, dim), (key_dim, dim)]
    keys = jax.random.split(jax.random.key(checks.seed(seed)), 4)
    draw = lambda key, shape: jax.random.normal(key, shape) / np.sqrt(shape[1])
    return Matrices(*map(draw, keys, shapes))


def teach(
    layer: GaussianLayer, teacher: Matrices, covariances: Any, beta: float = 1.0, depth: int = 1
) -> Dataset:
    """What the teacher answers to each covariance after `depth` equal layers."""
    outputs = covariances
    for _ in range(depth):
        outputs = jax.jit(layer)(teacher, outputs, beta)
    return Dataset(covariances, outputs)


def propagate(
    layer: GaussianLayer, matrices: Matrices, covariances: Any, beta: Any, depth: int
) -> Any:
    """Σ_T after `depth` layers; `covariances` (…, d, d)."""
    one = lambda _, s: layer(matrices, s, beta)
    # The first layer stands outside of the loop: what does not depend on β is not repeated there
    # when many β are mapped over, and one layer needs no loop.
    return jax.lax.fori_loop(1, depth, one, one(0, covariances))


def propagate_with_slope(
    layer: GaussianLayer, matrices: Matrices, covariances: Any, beta: Any, depth: int
) -> tuple[Any, Any]:
    """Σ_T and its derivative G_T in β, each (…, d, d).

    Σ_{t+1} = F(Σ_t, β), and G_t = dΣ_t/dβ follows G_{t+1} = ∂_βF + ∂_ΣF[G_t], G_0 = 0: forward
    sensitivities, whose memory does not grow with the depth.
    """

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


def split(data: Dataset, share: float = 0.75, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Training and validation pairs, in an order drawn from `seed`."""
    count = len(data.inputs)
    order = np.random.default_rng(checks.seed(seed)).permutation(count)
    cut = round(share * count)
    if not 0 < cut < count:
        raise ValueError(
            f"share must leave pairs on both sides of the split; got {share} of {count} pairs: "
            "raise count or choose a share nearer 0.75."
        )
    inputs, targets = np.asarray(data.inputs), np.asarray(data.targets)
    first, rest = (Dataset(inputs[k], targets[k]) for k in (order[:cut], order[cut:]))
    return first, rest
