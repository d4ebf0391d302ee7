"""Two tokens under random heads of no temperature among uniform tokens, in plain NumPy."""

from __future__ import annotations

import numpy as np


def seen_directions(x: np.ndarray, factors: int, rng: np.random.Generator) -> np.ndarray:
    """A x/‖A x‖ with A a product of square Gaussian matrices, common to all tokens: (s, n, d).

    Only products of a matrix with the span of the tokens are drawn: those are as random.
    """
    for _ in range(factors):
        # x = T Q with T lower triangular and rows of Q orthonormal, so that x Wᵀ ~ T Z.
        triangle = np.linalg.cholesky(x @ x.transpose(0, 2, 1) + 1e-12 * np.eye(x.shape[1]))
        x = triangle @ rng.standard_normal(x.shape)
        x /= np.linalg.norm(x, axis=2, keepdims=True)
    return x


def overlap_later(
    dim: int, rho: float, horizon: float, steps: int, samples: int, factors: int = 2, seed: int = 0
) -> np.ndarray:
    """Cosine of two tokens after layers x ← N(x + √h Z m), Z of variance 1, in the time `horizon`.

    With values of variance 1/d that time counts in units of d; m is as in `seen_directions`.
    """
    rng = np.random.default_rng(seed)
    x = np.zeros((samples, 2, dim))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, 1] = 1.0, rho, np.sqrt(1 - rho**2)
    for _ in range(steps):
        seen = seen_directions(x, factors, rng)
        gram = seen @ seen.transpose(0, 2, 1) + 1e-12 * np.eye(2)
        x = x + np.sqrt(horizon / steps) * np.linalg.cholesky(gram) @ rng.standard_normal(x.shape)
        x /= np.linalg.norm(x, axis=2, keepdims=True)
    return np.sum(x[:, 0] * x[:, 1], axis=1)


def correction(dim: int, rho: float, samples: int, factors: int, seed: int = 0) -> np.ndarray:
    """Samples whose mean is c in E cos = ρ + c (ρ³ − ρ)/d, for so many Gaussian factors.

    What is linear in the fluctuations has mean zero and is taken off, factor by factor.
    """
    rng, mean_zero, now = np.random.default_rng(seed), 0.0, np.full(samples, rho)
    for _ in range(factors):
        z = rng.standard_normal((2, samples, dim))
        z[1] = now[:, None] * z[0] + np.sqrt(1 - now**2)[:, None] * z[1]
        a, b, c = ((z[i] * z[j]).sum(axis=1) / dim for i, j in ((0, 0), (0, 1), (1, 1)))
        mean_zero = mean_zero + b - now - now / 2 * (a - 1) - now / 2 * (c - 1)
        now = b / np.sqrt(a * c)
    return (now - rho - mean_zero) * dim / (rho**3 - rho)
