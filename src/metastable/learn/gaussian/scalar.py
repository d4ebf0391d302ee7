"""Learning one number β: the whole loss from one pass over the data, then steps that cost nothing.

The student's answer is a polynomial in β with matrices as coefficients: of degree 1 for the
truncated layer (the loss is exactly quadratic), 2 for the exact layer (quartic), and higher for
several layers. The residual of a sample, a vector with d² entries, therefore moves in the span of a
few vectors; a triangular factor R of these keeps all its norms, loss(β) = |R u(β)|²/d² with the
polynomials u, and no later iteration touches the data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.teacher import (
    Dataset,
    GaussianLayer,
    Matrices,
    TruncatedLayer,
    loss_and_slope,
    propagate,
)

MOST = 128  # polynomials, at which an interpolation gives up


class ScalarLoss(eqx.Module):
    """The mean squared error as a function of β, |R u(β)|² averaged over samples.

    - `factors` (N, k, k): R of each sample, divided by d.
    - `total` (k, k): R of all samples together.
    - `span`: the interval on which the Chebyshev polynomials u live. A polynomial of exactly known
      degree (`exact`) may be left; an interpolated one may not.
    """

    factors: Float[Array, "samples k k"]
    total: Float[Array, "k k"]
    span: tuple[float, float] = eqx.field(static=True)
    exact: bool = eqx.field(static=True)

    def residual(self, beta: Any, sample: Any = None) -> Any:
        """A vector with k entries whose squared norm is the loss, of one sample or of all."""
        factor = self.total if sample is None else self.factors[sample]
        return factor @ _polynomials(beta, self.span, factor.shape[0])

    def __call__(self, beta: Any, sample: Any = None) -> Any:
        return jnp.sum(self.residual(beta, sample) ** 2)


def scalar_loss(
    layer: GaussianLayer,
    matrices: Matrices,
    data: Dataset,
    depth: int = 1,
    span: tuple[float, float] = (-0.05, 1.05),
    tolerance: float = 1e-11,
) -> ScalarLoss:
    """Read the data once and return the loss of a student with `depth` layers and unknown β.

    One layer is exact. Deeper students are interpolated at Chebyshev points of `span`, whose number
    doubles until value and slope agree with forward sensitivities at points in between, relative to
    `tolerance` times the largest of each.
    """
    checks.integer("depth", depth, 1)
    if depth == 1:
        count = 2 if isinstance(layer, TruncatedLayer) else 3
        return _factorize(layer, matrices, data, 1, span, count)
    probes = span[0] + (span[1] - span[0]) * np.array([0.0, 0.237, 0.619, 0.971, 1.0])
    direct = np.transpose([loss_and_slope(layer, matrices, data, depth, b) for b in probes])
    allowed = tolerance * np.abs(direct).max(1, keepdims=True)
    count = 16
    while count <= MOST:
        loss = _factorize(layer, matrices, data, depth, span, count)
        curve = np.array(jax.jit(jax.vmap(jax.value_and_grad(loss)))(probes))
        if np.all(np.abs(curve - direct) <= allowed):
            return loss
        count *= 2
    raise ValueError(
        f"span must be short enough for {MOST} polynomials to follow the loss of {depth} layers; "
        f"got {span}: shorten it, or lower depth or step."
    )


def _factorize(
    layer: GaussianLayer, matrices: Matrices, data: Dataset, depth: int, span: Any, count: int
) -> ScalarLoss:
    angles = np.pi * (np.arange(count) + 0.5) / count
    betas = span[0] + (span[1] - span[0]) * (1 + np.cos(angles)) / 2
    transform = 2.0 / count * np.cos(np.outer(angles, np.arange(count)))
    transform[:, 0] /= 2
    factors = _factors(layer, matrices, data, depth, jnp.asarray(betas), jnp.asarray(transform))
    stacked = factors.reshape(-1, count) / np.sqrt(len(factors))
    return ScalarLoss(factors, jnp.linalg.qr(stacked, mode="r"), span, depth == 1)


@eqx.filter_jit
def _factors(layer, matrices, data, depth, betas, transform):
    dim = data.inputs.shape[-1]

    def one(pair):
        ends = jax.vmap(lambda beta: propagate(layer, matrices, pair.inputs, beta, depth))(betas)
        residuals = (ends - pair.targets).reshape(betas.size, -1) / dim
        return jnp.linalg.qr((transform.T @ residuals).T, mode="r")

    return jax.lax.map(one, Dataset(jnp.asarray(data.inputs), jnp.asarray(data.targets)))


def _polynomials(beta: Any, span: tuple[float, float], count: int) -> Any:
    """Chebyshev polynomials T_0 … T_{count−1} at β, with `span` moved to [−1, 1]."""
    x = (2 * beta - span[0] - span[1]) / (span[1] - span[0])
    values = [jnp.ones_like(x), x]
    while len(values) < count:
        values.append(2 * x * values[-1] - values[-2])
    return jnp.stack(values[:count])


class ScalarPath(NamedTuple):
    """Iterates of a descent: `betas` (steps + 1,) and the `losses` (steps,) met on the way."""

    betas: np.ndarray
    losses: np.ndarray


Update = Callable[[ScalarLoss, Any, Any], tuple[Any, Any]]


def gradient_descent(rate: float) -> Update:
    """β ← β − rate · L′(β)."""
    return _descent(rate, lambda loss, step: ())


def stochastic_descent(rate: float, seed: int = 0) -> Update:
    """The same with the slope of one sample, drawn by seed and step; its loss is that sample's."""
    key = jax.random.key(checks.seed(seed))

    def sample(loss, step):
        return (jax.random.randint(jax.random.fold_in(key, step), (), 0, len(loss.factors)),)

    return _descent(rate, sample)


def _descent(rate: float, sample: Callable[[ScalarLoss, Any], tuple[Any, ...]]) -> Update:
    def update(loss, beta, step):
        value, slope = jax.value_and_grad(loss)(beta, *sample(loss, step))
        return beta - rate * slope, value

    return update


def newton() -> Update:
    """β ← β − L′/L″: one step for the truncated layer, whose loss is quadratic."""

    def update(loss, beta, step):
        value, slope = jax.value_and_grad(loss)(beta)
        return beta - slope / jax.hessian(loss)(beta), value

    return update


def gauss_newton() -> Update:
    """β ← β − ⟨r, r′⟩/⟨r′, r′⟩ with the residual r: quadratic convergence, as the teacher fits."""

    def update(loss, beta, step):
        residual, slope = jax.jvp(loss.residual, (beta,), (jnp.ones_like(beta),))
        return beta - residual @ slope / (slope @ slope), residual @ residual

    return update


def descend(loss: ScalarLoss, update: Update, steps: int, start: float = 0.0) -> ScalarPath:
    """Iterate `update` from `start`; each step costs O(k²), whatever the data were."""
    checks.integer("steps", steps, 1)
    betas, values = map(np.asarray, _iterate(loss, update, jnp.asarray(start, jnp.float64), steps))
    betas = np.concatenate([[start], betas])
    low, high = loss.span
    outside = ~((betas >= low) & (betas <= high))
    if not loss.exact and outside.any():
        where = int(np.argmax(outside))
        raise ValueError(
            f"the descent must stay in the span {loss.span} of its loss; got β = "
            f"{betas[where]:.3g} at step {where}: lower the rate or widen the span."
        )
    return ScalarPath(betas, values)


@eqx.filter_jit
def _iterate(loss: ScalarLoss, update: Update, start: Array, steps: int) -> tuple[Array, Array]:
    def one(beta, step):
        new, value = update(loss, beta, step)
        return new, (new, value)

    return jax.lax.scan(one, start, jnp.arange(steps))[1]
