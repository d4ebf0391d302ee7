"""The gradient written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from metastable.core.numerics import jax, jnp
from metastable.core.verdict import judge
from metastable.learn.gaussian.experiments import PUBLISHED
from metastable.learn.gaussian.matrices import matrix_residuals
from metastable.learn.gaussian.teacher import (
    Dataset,
    GaussianLayer,
    Matrices,
    random_covariances,
    random_matrices,
    teach,
)
from metastable.report.figures.plain import plot_bars, plot_lines
from metastable.reproduce.entry import Entry
from metastable.reproduce.finding import Finding, holds

ENTRY = Entry(
    title="The gradient written by hand",
    places=["Listing 6, the gradients"],
    claim=(
        "The chain rule gives the gradient of A = WV as α(GX′ + GY′), from which those of W "
        "and V follow."
    ),
    method=(
        "The listing's four gradients in NumPy against automatic differentiation, and descent "
        "with either."
    ),
    known="disagree",
    correction="The second term is GY, without the transpose; the gradients of Q and K are right.",
    subject="Gaussian",
    basis="text",
    limits="One draw at d = 32, d_k = 18, 60 covariances.",
    planted="_listed * 1.01",
    settings={"dim": 32, "key_dim": 18, "samples": 60, "epochs": 60},
    fast={"dim": 16, "key_dim": 9, "samples": 24, "epochs": 30},
)


def listing_gradient(*, dim: int, key_dim: int, samples: int, epochs: int) -> Finding:
    """The hand-written gradients of Listing 6 against automatic differentiation."""
    teacher, student = (random_matrices(dim, key_dim, seed) for seed in (1, 2))
    data = teach(PUBLISHED, teacher, random_covariances(samples, dim, 3))
    errors = matrix_residuals(PUBLISHED)
    loss = lambda m: jnp.sum(errors(m, data) ** 2)
    right = jax.jit(jax.grad(loss))(student)
    off = {
        name: [
            float(np.linalg.norm(a - b) / np.linalg.norm(b))
            for a, b in zip(_listed(PUBLISHED, student, data, repaired), right, strict=True)
        ]
        for name, repaired in (("as printed, Y′", False), ("with Y", True))
    }
    printed, repaired = off.values()
    cosine = _cosine(_listed(PUBLISHED, student, data, False)[:2], right[:2])
    loss = jax.jit(loss)
    losses = {name: [] for name in off}
    for name, path in losses.items():
        now = Matrices(*map(np.asarray, student))
        for _ in range(epochs):
            gradient = _listed(PUBLISHED, now, data, name == "with Y")
            path.append(float(loss(now)))
            now = Matrices(*(m - 0.5 * g for m, g in zip(now, gradient, strict=True)))
    rows = [
        judge("gradients of W and V as printed: larger relative error", "Listing 6, line 55", 0.0,
              max(printed[:2]), absolute=1e-9),
        judge("the same with Y instead of Y′", "derived", 0.0, max(repaired[:2]), absolute=1e-9),
        judge("gradients of Q and K as printed: larger relative error",
              "Listing 6, lines 58 to 62", 0.0, max(printed[2:]), absolute=1e-9),
        holds("the printed one still points downhill, which hides the slip: cosine with the right",
              "Listing 6", 0 < cosine < 0.99, "between 0 and 0.99", cosine),
    ]  # fmt: skip
    bars = plot_bars(
        list(Matrices._fields),
        {name: np.maximum(each, 1e-17).tolist() for name, each in off.items()},
        "matrix", "relative error of the gradient",
        f"Hand-written gradients against automatic differentiation, d = {dim}, d_k = {key_dim}.",
        log=True,
    )  # fmt: skip
    curves = plot_lines(
        {name: (np.arange(epochs), path) for name, path in losses.items()}, "step",
        "mean squared error", "Gradient descent with either gradient from one start.", log="y",
        lines=True,
    )  # fmt: skip
    return Finding(rows, {"gradients": bars, "descent": curves})


def _listed(
    layer: GaussianLayer, matrices: Matrices, data: Dataset, repaired: bool
) -> list[np.ndarray]:
    """Mean gradients over all pairs in the listing's formulas; `repaired` puts Y in place of Y′."""
    w, v, q, k = map(np.asarray, matrices)
    alpha, dim = layer.gain(matrices, 1.0), len(w)
    a, total = w @ v, [np.zeros_like(m) for m in (w, v, q, k)]
    for s, target in zip(np.asarray(data.inputs), np.asarray(data.targets), strict=True):
        x, y = s @ k.T @ q @ s, s @ q.T @ k @ s
        g = 2 / dim**2 * (s + alpha * (a @ x + y @ a.T) - target)
        grad_a = alpha * (g @ x.T + g @ (y if repaired else y.T))
        grad_q = alpha * (k @ s @ a.T @ g @ s + (s @ g @ a @ s @ k.T).T)
        grad_k = 2 * alpha * (s @ a.T @ g @ s @ q.T).T
        parts = (grad_a @ v.T, w.T @ grad_a, grad_q, grad_k)
        total = [old + new for old, new in zip(total, parts, strict=True)]
    return [part / len(data.inputs) for part in total]


def _cosine(one: Any, two: Any) -> float:
    """Cosine between two lists of matrices, each taken as one vector."""
    a, b = (np.concatenate([np.ravel(m) for m in each]) for each in (one, two))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
