"""Learning from tokens instead of covariances: prompts through genuine softmax attention.

Tokens tell more than covariances do: each one's displacement is seen, so that WV and KᵀQ are found
with their scales. Their sample covariances tell less: a layer of n tokens is the Gaussian layer up
to an error of order 1/√n, and so is what is learned from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.core.result import Answer
from metastable.learn.curves import Curves, losses, make_answer
from metastable.learn.gaussian.matrices import gauge_error, matrix_residuals
from metastable.learn.gaussian.scalar import gauss_newton, scalar_loss
from metastable.learn.gaussian.teacher import (
    Dataset,
    ExactLayer,
    Matrices,
    random_covariances,
    random_matrices,
    split,
)
from metastable.learn.spec import GaussianTokens
from metastable.learn.training import adam, last, options_in, train


def attend_prompts(matrices: Matrices, tokens: Any, step: float) -> Any:
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
    return Dataset(prompts, attend_prompts(teacher, prompts, step))


def sample_covariances(data: Dataset) -> Dataset:
    """What is left of prompts when their tokens are forgotten: covariances before and after."""

    def covariances(x: Any) -> Any:
        centred = x - jnp.mean(x, axis=1, keepdims=True)
        return jnp.swapaxes(centred, 1, 2) @ centred / x.shape[1]

    return Dataset(covariances(data.inputs), covariances(data.targets))


def token_residuals(step: float) -> Callable[[Matrices, Dataset], Any]:
    """Errors of the student's tokens (N, n, d), whose squares sum to `token_loss`."""
    return matrix_residuals(lambda matrices, tokens: attend_prompts(matrices, tokens, step))


def token_loss(step: float) -> Callable[[Matrices, Dataset], Any]:
    """Mean squared error per coordinate of the student's tokens."""
    errors = token_residuals(step)
    return lambda matrices, data: jnp.sum(errors(matrices, data) ** 2)


def learn_tokens(
    spec: GaussianTokens, checkpoint: Path | None = None, progress: bool | None = None
) -> Answer:
    """Carry out a `GaussianTokens`: all four matrices from prompts, by Adam.

    Also β from the covariances of prompts of growing length, whose error falls like 1/√n.
    """
    seed, step = spec.seed, spec.step
    teacher, student = (random_matrices(spec.dim, spec.key_dim, s) for s in (seed, seed + 1))
    covariances = random_covariances(spec.samples, spec.dim, seed + 2) / np.sqrt(spec.dim)
    data, held = split(prompt_pairs(teacher, covariances, spec.tokens, step, seed), seed=seed)
    method = adam(token_loss(step), 1e-2, spec.steps)
    options: dict[str, Any] = options_in(checkpoint, "training", progress) | {"title": "tokens"}
    training = train(student, method, data, steps=spec.steps, validation=held, **options)
    counts = np.array([2**k for k in range(5, 11)])
    errors = np.array([beta_error(teacher, covariances, n, step, seed) for n in counts])
    slope = float(np.polyfit(np.log(counts), np.log(errors), 1)[0])
    error = gauge_error(training.parameters, teacher)
    facts = {
        "dimension d": spec.dim,
        "d_k": spec.key_dim,
        "prompts": spec.samples,
        "tokens": spec.tokens,
        "step ε": step,
        "seed": seed,
        "first loss": last(training.losses, 0),
        "last loss": last(training.losses),
        "validation loss": last(training.validation),
        "error of WV, of KᵀQ, of both": error._asdict(),
        "slope of the error of β in n": slope,
        "seconds in steps": last(training.seconds),
    }
    caption = "Learning W, V, Q and K from tokens that softmax attention has moved."
    law = counts, errors[0] * np.sqrt(counts[0] / counts)
    lines = {"from sample covariances": (counts, errors), "1/√n": law}
    lost = "What is lost with the tokens: β found from the covariances of n tokens."
    axes = "tokens per prompt n", "|β − 1|, median over prompts"
    figures = {
        "loss": losses(training, caption, "mean squared error"),
        "beta": Curves(*axes, lines, caption=lost),
    }
    sentence = (
        f"W, V, Q and K from tokens: {error.product:.3g} away from the teacher; β from their "
        f"covariances errs by n^{slope:.2f}."
    )
    return make_answer(sentence, facts, figures, training.outcome)


def beta_error(teacher: Matrices, covariances: Any, tokens: int, step: float, seed: int) -> float:
    """Median over prompts of |β − 1|, with β by Gauss–Newton from one prompt's covariances."""
    data = sample_covariances(prompt_pairs(teacher, covariances, tokens, step, seed))
    loss, update = scalar_loss(ExactLayer(step), teacher, data), gauss_newton()

    def find(factor):
        single = dataclasses.replace(loss, total=factor)
        return jax.lax.fori_loop(0, 20, lambda k, beta: update(single, beta, k)[0], 1.0)

    return float(np.median(np.abs(jax.jit(jax.vmap(find))(loss.factors) - 1)))
