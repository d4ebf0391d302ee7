"""Learning from tokens instead of covariances: prompts through genuine softmax attention.

Tokens tell more than covariances do: each one's displacement is seen, so that WV and KᵀQ are found
with their scales. Their sample covariances tell less: a layer of n tokens is the Gaussian layer up
to an error of order 1/√n, and so is what is learned from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.teacher import Dataset, Matrices

__all__ = ["attend", "prompt_pairs", "sample_covariances", "token_loss", "token_residuals"]


def attend(matrices: Matrices, tokens: Any, step: float) -> Any:
    """x_i ← x_i + ε WV Σ_j softmax_j(⟨Qx_i, Kx_j⟩/√d_k) x_j for prompts, `tokens` (…, n, d).

    The same as a layer of `SelfAttention`, for many short prompts at once.
    """
    w, v, q, k = matrices
    logits = jnp.einsum("...ik,...jk->...ij", tokens @ q.T, tokens @ k.T) / np.sqrt(q.shape[0])
    return tokens + step * jax.nn.softmax(logits) @ tokens @ (w @ v).T


def prompt_pairs(
    teacher: Matrices, covariances: Any, tokens: int, step: float, seed: int = 0
) -> Dataset:
    """Prompts of `tokens` centred normal tokens, one per covariance, and the teacher's answers.

    `inputs` and `targets` are (N, n, d); the tokens of a pair correspond to each other.
    """
    checks.integer("tokens", tokens, 2)
    roots = jnp.linalg.cholesky(jnp.asarray(covariances))
    count, dim, _ = roots.shape
    normal = jax.random.normal(jax.random.key(checks.seed(seed)), (count, tokens, dim))
    prompts = normal @ jnp.swapaxes(roots, 1, 2)
    return Dataset(prompts, attend(teacher, prompts, step))


def sample_covariances(data: Dataset) -> Dataset:
    """What is left of prompts when their tokens are forgotten: covariances before and after."""

    def covariances(x: Any) -> Any:
        centred = x - jnp.mean(x, axis=1, keepdims=True)
        return jnp.swapaxes(centred, 1, 2) @ centred / x.shape[1]

    return Dataset(covariances(data.inputs), covariances(data.targets))


def token_residuals(step: float) -> Callable[[Matrices, Dataset], Any]:
    """Errors of the student's tokens (N, n, d), whose squares sum to `token_loss`."""

    def errors(matrices: Matrices, data: Dataset) -> Any:
        found = attend(matrices, data.inputs, step) - data.targets
        return found / np.sqrt(found.size)

    return errors


def token_loss(step: float) -> Callable[[Matrices, Dataset], Any]:
    """Mean squared error per coordinate of the student's tokens."""
    errors = token_residuals(step)
    return lambda matrices, data: jnp.sum(errors(matrices, data) ** 2)
