"""Experiments beyond the published ones: learning from tokens, and steering a Gaussian."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import optax

from metastable.core import checks
from metastable.core.numerics import jax
from metastable.learn.gaussian.matrices import gauge_error
from metastable.learn.gaussian.scalar import gauss_newton, scalar_loss
from metastable.learn.gaussian.steering import bures_wasserstein, steer
from metastable.learn.gaussian.teacher import (
    ExactLayer,
    Matrices,
    random_covariances,
    random_matrices,
    split,
)
from metastable.learn.gaussian.tokens import prompt_pairs, sample_covariances, token_loss
from metastable.learn.lesson import Curves, Lesson, at
from metastable.learn.training import Gradient, train
from metastable.measures.gaussian import Gaussian

__all__ = ["beta_error", "learn_steering", "learn_tokens"]


def learn_tokens(
    dim: int = 4,
    key_dim: int = 2,
    samples: int = 40,
    tokens: int = 64,
    step: float = 0.5,
    steps: int = 3000,
    seed: int = 1,
    checkpoint: str | Path | None = None,
) -> Lesson:
    """All four matrices from prompts through genuine softmax attention, by Adam.

    Also β from the covariances of prompts of growing length, whose error falls like 1/√n.
    """
    teacher, student = (random_matrices(dim, key_dim, s) for s in (seed, seed + 1))
    covariances = random_covariances(samples, dim, seed + 2) / np.sqrt(dim)
    data, held = split(prompt_pairs(teacher, covariances, tokens, step, seed), seed=seed)
    schedule = optax.cosine_decay_schedule(1e-2, steps)
    training = train(
        student,
        Gradient(token_loss(step), optax.adam(schedule)),
        data,
        steps=steps,
        validation=held,
        checkpoint=checkpoint,
        title="tokens",
    )
    counts = np.array([2**k for k in range(5, 11)])
    errors = np.array([beta_error(teacher, covariances, n, step, seed) for n in counts])
    slope = float(np.polyfit(np.log(counts), np.log(errors), 1)[0])
    error = gauge_error(training.parameters, teacher)
    facts = {
        "dimension d": dim,
        "d_k": key_dim,
        "prompts": samples,
        "tokens": tokens,
        "step ε": step,
        "seed": seed,
        "first loss": at(training.losses, 0),
        "last loss": at(training.losses, -1),
        "validation loss": at(training.validation, -1),
        "error of WV, of KᵀQ, of both": error._asdict(),
        "slope of the error of β in n": slope,
        "seconds in steps": at(training.seconds, -1),
    }
    taken = np.arange(1, training.losses.size + 1)
    curves = {
        "loss": Curves(
            "step",
            "mean squared error",
            {
                "training": (taken, training.losses),
                "validation": (training.checks, training.validation),
            },
            caption="Learning W, V, Q and K from tokens that softmax attention has moved.",
        ),
        "beta": Curves(
            "tokens per prompt n",
            "|β − 1|, median over prompts",
            {
                "from sample covariances": (counts, errors),
                "1/√n": (counts, errors[0] * np.sqrt(counts[0] / counts)),
            },
            caption="What is lost with the tokens: β found from the covariances of n tokens.",
        ),
    }
    return Lesson("matrices from tokens", facts, curves, training.outcome)


def beta_error(teacher: Matrices, covariances: Any, tokens: int, step: float, seed: int) -> float:
    """Median over prompts of |β − 1|, with β by Gauss–Newton from one prompt's covariances."""
    data = sample_covariances(prompt_pairs(teacher, covariances, tokens, step, seed))
    loss, update = scalar_loss(ExactLayer(step), teacher, data), gauss_newton()

    def find(factor):
        single = dataclasses.replace(loss, total=factor)
        return jax.lax.fori_loop(0, 20, lambda k, beta: update(single, beta, k)[0], 1.0)

    return float(np.median(np.abs(jax.jit(jax.vmap(find))(loss.factors) - 1)))


def learn_steering(
    dim: int = 3,
    rank: int | None = None,
    layers: int = 8,
    effort: float = 0.01,
    steps: int = 3000,
    seed: int = 1,
    checkpoint: str | Path | None = None,
) -> Lesson:
    """Carry one random Gaussian to another of equal rank by matrices that change with depth."""
    rank = dim if rank is None else checks.integer("rank", rank, 1)
    random = np.random.default_rng(checks.seed(seed))
    start, goal = (
        Gaussian.from_factor(
            random.standard_normal(dim),
            (np.eye(dim) + random.standard_normal((dim, dim)) / 2)[:, :rank],
        )
        for _ in range(2)
    )
    found = steer(start, goal, layers, effort, steps, checkpoint)
    whole = bures_wasserstein(start, goal)
    facts = {
        "dimension d": dim,
        "rank": rank,
        "layers": layers,
        "effort λ": effort,
        "seed": seed,
        "distance at the start": whole,
        "distance at the end": float(found.distances[-1]),
        "λW/(1+λ)": effort * whole / (1 + effort),
        "action": found.action,
        "W²/(1+λ)²": (whole / (1 + effort)) ** 2,
        "seconds in steps": at(found.training.seconds, -1),
    }
    times = np.asarray(found.run.times)
    straight = whole * (1 - times / (1 + effort))
    lines = {"learned path": (times, found.distances), "geodesic": (times, straight)}
    caption = "Bures–Wasserstein distance to the goal along the path."
    curves = {"distance": Curves("depth t", "distance to the goal", lines, caption=caption)}
    return Lesson("steering a Gaussian", facts, curves, found.training.outcome)
