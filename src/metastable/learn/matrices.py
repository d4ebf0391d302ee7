"""Learning all four matrices from pairs of covariances, and what such pairs can tell about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from metastable import checks
from metastable.learn.teacher import Dataset, Layer, Matrices
from metastable.learn.training import Training
from metastable.numerics import jnp

__all__ = ["GaugeError", "epoch_losses", "gauge_error", "matrix_loss", "minibatches", "residuals"]


def matrix_loss(layer: Layer) -> Callable[[Matrices, Dataset], Any]:
    """The student's mean squared error per entry, (1/Nd²) Σ_i ‖Σ̂_i − Σ_i‖²_F, to be trained."""

    def loss(matrices: Matrices, data: Dataset) -> Any:
        squares = jnp.mean((layer(matrices, data.inputs) - data.targets) ** 2, axis=(1, 2))
        return jnp.average(squares, weights=data.weights)

    return loss


def residuals(layer: Layer) -> Callable[[Matrices, Dataset], Any]:
    """The errors whose squares sum to `matrix_loss`, (N, d, d), for least-squares methods."""

    def errors(matrices: Matrices, data: Dataset) -> Any:
        found = layer(matrices, data.inputs) - data.targets
        return found / np.sqrt(found.size)

    return errors


def minibatches(size: int) -> Callable[[Dataset, Any, Any], Dataset]:
    """Batches of `size` pairs in the order of the data, epoch after epoch, the last one shorter.

    The data are shuffled once, by `split`; a fixed order makes every epoch cost the same memory
    traffic and is the protocol of the published experiment.
    """
    checks.integer("size", size, 1)

    def draw(data: Dataset, key: Any, step: Any) -> Dataset:
        count = len(data.inputs)
        places = (step % -(-count // size)) * size + jnp.arange(size)
        weights = None if count % size == 0 else (places < count).astype(float)
        places = jnp.minimum(places, count - 1)
        return Dataset(data.inputs[places], data.targets[places], weights)

    return draw


def epoch_losses(training: Training, count: int, size: int) -> np.ndarray:
    """The mean loss met in each full epoch over `count` pairs in batches of `size`."""
    blocks = -(-count // size)
    shares = np.full(blocks, size / count)
    shares[-1] -= blocks * size / count - 1
    epochs = training.losses.size // blocks
    return training.losses[: epochs * blocks].reshape(epochs, blocks) @ shares


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
