"""Learning all four matrices from pairs of covariances, and what such pairs can tell about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.teacher import Dataset, GaussianLayer, Matrices, TruncatedLayer
from metastable.learn.training import Method


def matrix_loss(layer: GaussianLayer) -> Callable[[Matrices, Dataset], Any]:
    """The student's mean squared error per entry, (1/Nd²) Σ_i ‖Σ̂_i − Σ_i‖²_F, to be trained.

    It computes in the precision of the data, whatever that of the matrices: data in single
    precision train matrices in double about twice as fast, with steps exact to seven digits.
    """

    def plain(matrices: Matrices, data: Dataset) -> Any:
        squares = jnp.mean((layer(matrices, data.inputs) - data.targets) ** 2, axis=(1, 2))
        return jnp.average(squares, weights=data.weights)

    def forward(matrices: Matrices, data: Dataset) -> tuple[Any, Any]:
        value, gradient = _truncated_gradient(layer, matrices, data)
        return value, (matrices, data, gradient)

    def backward(kept: Any, weight: Any) -> tuple[Any, Any]:
        matrices, data, gradient = kept
        _, pull = jax.vjp(lambda data: plain(matrices, data), data)  # costs nothing where unused
        return jax.tree.map(lambda g: weight * g, gradient), pull(weight)[0]

    function = plain
    if isinstance(layer, TruncatedLayer):
        function = jax.custom_vjp(plain)
        function.defvjp(forward, backward)

    def loss(matrices: Matrices, data: Dataset) -> Any:
        data = jax.tree.map(jnp.asarray, data)
        return function(jax.tree.map(lambda m: jnp.asarray(m, data.inputs.dtype), matrices), data)

    return loss


def _truncated_gradient(
    layer: GaussianLayer, matrices: Matrices, data: Dataset
) -> tuple[Any, Matrices]:
    """Loss and gradient of the truncated layer, in two thirds of the time autodiff takes.

    With S = ΣKᵀ, R = ΣQᵀ, L = αAS and the symmetric error E = Σ + LRᵀ + RLᵀ − Σ*, dL = ER and
    dR = EL up to one factor: 20d²d_k operations a pair, all of them matrix products. Derived here;
    the tests compare it with autodiff.
    """
    w, v, q, k = matrices
    pairs, targets, weights = data
    count, dim, _ = pairs.shape
    gain = layer.gain(matrices, 1.0)
    # Kept transposed, (pairs, d_k, d): A then multiplies from the right, all pairs in one product.
    # Products with one matrix on the left run best as one small product a pair.
    each = lambda m: jnp.broadcast_to(m, (count, *m.shape))
    flat = lambda m: m.reshape(-1, m.shape[-1])
    s, r = each(k) @ pairs, each(q) @ pairs
    # A = WV pays off unless a batch holds fewer columns than A.
    few = 2 * count * len(v) * len(k) < dim * (len(v) + count * len(k))
    vs = flat(s) @ v.T if few else flat(s)
    a = w if few else w @ v
    left = (gain * vs @ a.T).reshape(s.shape)
    m = jnp.einsum("nki,nkj->nij", left, r)
    error = pairs - targets + m + jnp.swapaxes(m, 1, 2)
    weighed = error
    if weights is not None:
        weighed = error * (weights * (count / jnp.sum(weights))).astype(error.dtype)[:, None, None]
    value = jnp.vdot(weighed, error) / (count * dim**2)
    scale = 4 / (count * dim**2)
    d_left, d_r = flat(scale * gain * (r @ weighed)), scale * (left @ weighed)
    d_a, d_vs = d_left.T @ vs, d_left @ a
    d_w, d_v = (d_a, d_vs.T @ flat(s)) if few else (d_a @ v.T, w.T @ d_a)
    d_s = (d_vs @ v if few else d_vs).reshape(s.shape)
    d_q, d_k = jnp.sum(d_r @ pairs, axis=0), jnp.sum(d_s @ pairs, axis=0)
    return value, Matrices(d_w, d_v, d_q, d_k)


@dataclasses.dataclass(frozen=True)
class Epochs:
    """Steps of `train` that are whole epochs: `method` on one batch of `size` pairs after another.

    Batches come in the order of the data, the last one shorter, and an epoch is one compiled loop.
    The data are shuffled once, by `split`; that is the protocol of the published experiment. The
    loss of an epoch is the mean loss that its pairs met.
    """

    method: Method
    size: int

    def __post_init__(self) -> None:
        checks.integer("size", self.size, 1)

    def loss(self, parameters: Any, batch: Dataset, /) -> Any:
        return self.method.loss(parameters, batch)

    def init(self, parameters: Any, batch: Dataset) -> Any:
        return self.method.init(parameters, jax.tree.map(lambda x: x[: self.size], batch))

    def step(self, parameters: Any, state: Any, batch: Dataset) -> tuple[Any, Any, Any]:
        count = len(batch.inputs)
        full, rest = divmod(count, self.size)
        inner, fixed = eqx.partition(state, eqx.is_array)

        def one(carry, start, size):
            # One batch is cut out at a time: reshaping the data would copy all of them.
            cut = lambda x: jax.lax.dynamic_slice_in_dim(x, start, size)
            state = eqx.combine(carry[1], fixed)
            moved, state, loss = self.method.step(carry[0], state, jax.tree.map(cut, batch))
            return (moved, eqx.filter(state, eqx.is_array)), loss

        whole = lambda carry, start: one(carry, start, self.size)
        starts = self.size * jnp.arange(full)
        carry, losses = jax.lax.scan(whole, (parameters, inner), starts)
        total = self.size * jnp.sum(losses)
        if rest:
            carry, last = one(carry, full * self.size, rest)
            total = total + rest * last
        return carry[0], eqx.combine(carry[1], fixed), total / count


def matrix_residuals(layer: Callable[[Matrices, Any], Any]) -> Callable[[Matrices, Dataset], Any]:
    """The errors whose squares sum to `matrix_loss`, (N, d, d), for least-squares methods.

    `layer(matrices, inputs)` may be any map: the squares sum to the mean squared error.
    """

    def errors(matrices: Matrices, data: Dataset) -> Any:
        missed = layer(matrices, data.inputs) - data.targets
        return missed / np.sqrt(missed.size)

    return errors


class GaugeError(NamedTuple):
    """How far a student is from its teacher in what covariances can tell.

    - `value`: distance of A/‖A‖ from the teacher's, A = WV, up to one sign shared with `score`.
    - `score`: the same for P = KᵀQ.
    - `product`: ‖A⊗P − A*⊗P*‖/‖A*⊗P*‖, which includes the scale.
    """

    value: float
    score: float
    product: float


def gauge_error(student: Matrices, teacher: Matrices) -> GaugeError:
    """Compare two heads by what they do to covariances, not by their four matrices.

    W ↦ WX, V ↦ X⁻¹V and Q ↦ YQ, K ↦ Y⁻ᵀK change nothing, so only A = WV and P = KᵀQ count. And
    both layers of `teacher.py` see A and P through AΣP alone: cA and P/c are one layer too. Means
    (m⁺ = m + εA(I + ΣP/√d_k)m) or tokens would tell the scale; covariances do not. All distances
    are relative to Frobenius norms. Derived here; the test counts the flat directions of the loss.

    >>> one = Matrices(*[np.eye(2)] * 4)
    >>> max(gauge_error(Matrices(3 * one.W, one.V, one.Q / 3, one.K), one)) < 1e-15
    True
    """
    pairs = zip(_products(student), _products(teacher), strict=True)
    (a, goal_a), (p, goal_p) = [(m / np.linalg.norm(m), g / np.linalg.norm(g)) for m, g in pairs]
    sign = 1.0 if np.sum(a * goal_a) + np.sum(p * goal_p) >= 0 else -1.0
    value, score = np.linalg.norm(sign * a - goal_a), np.linalg.norm(sign * p - goal_p)
    sizes = [np.prod([np.linalg.norm(m) for m in _products(one)]) for one in (student, teacher)]
    scale = sizes[0] / sizes[1]
    # 1 − cos cos′ from the chords: 1 − cos = chord²/2 does not cancel for near neighbours.
    u, v = value**2 / 2, score**2 / 2
    product = np.sqrt((scale - 1) ** 2 + 2 * scale * (u + v - u * v))
    return GaugeError(float(value), float(score), float(product))


def _products(matrices: Matrices) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(matrices.W @ matrices.V), np.asarray(matrices.K.T @ matrices.Q)
