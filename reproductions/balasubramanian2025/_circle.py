"""USA with noise on the circle in plain Fourier coefficients; nothing here is the library's."""

from __future__ import annotations

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import iv


def weights(beta: float, most: int) -> np.ndarray:
    """w_k = I_k(β)/β for k = 0..most, the coefficients of W = e^{β cos}/β."""
    return iv(np.arange(most + 1), beta) / beta


def defect(a: np.ndarray, w: np.ndarray, kappa: float) -> np.ndarray:
    """k a_k − κ Σ_j j w_j a_j a_{k−j} for k = 1..K; complex a_0..a_K, a_{−k} = conj a_k."""
    most = len(a) - 1
    whole = np.r_[np.conj(a[:0:-1]), a]
    drift = np.r_[-(np.arange(most, 0, -1) * w[most:0:-1]), np.arange(most + 1) * w[: most + 1]]
    product = np.convolve(drift * whole, whole)
    return np.arange(1, most + 1) * a[1:] - kappa * product[2 * most + 1 : 3 * most + 1]


def jacobian(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """d defect/d a without the first term and κ, for real even a: rows and columns 1..K."""
    most = len(a) - 1
    k = np.arange(1, most + 1)
    at = lambda index: np.where(np.abs(index) <= most, a[np.minimum(np.abs(index), most)], 0)
    force = k * w[1 : most + 1]
    forced = lambda index: np.sign(index) * np.where(
        np.abs(index) <= most, (np.arange(most + 1) * w[: most + 1] * a)[
            np.minimum(np.abs(index), most)], 0)  # fmt: skip
    minus, plus = k[:, None] - k[None], k[:, None] + k[None]
    # a_j and a_{−j} move together: j w_j (a_{k−j} − a_{k+j}), and the same with the roles swapped.
    return force[None] * (at(minus) - at(plus)) + forced(minus) + forced(plus)


def solve(a: np.ndarray, w: np.ndarray, kappa: float) -> np.ndarray:
    """Newton's method on the quadratic system, real even a."""
    a = np.array(a, float)
    degrees = np.diag(np.arange(1.0, len(a)))
    for _ in range(60):
        step = np.linalg.solve(degrees - kappa * jacobian(a, w), defect(a, w, kappa))
        a[1:] -= step
        if np.max(np.abs(step)) < 1e-14:
            break
    return a


def rates(a: np.ndarray, w: np.ndarray, kappa: float) -> np.ndarray:
    """Eigenvalues of the equation linearised at real even a, all modes −K..K but 0, largest first.

    ∂_t a_k = −k²a_k/κ + k Σ_j j w_j a_j a_{k−j}.
    """
    most = len(a) - 1
    k = np.r_[np.arange(-most, 0), np.arange(1, most + 1)]
    long = np.r_[a, np.zeros(most)]
    band = toeplitz(long)[: 2 * most + 1, : 2 * most + 1]  # a_{k−j} over −K..K
    w_of = w[np.abs(k)]
    keep = np.r_[np.arange(most), np.arange(most + 1, 2 * most + 1)]
    inside = band[np.ix_(keep, keep)]
    force = np.r_[0.0, np.arange(1, most + 1) * w[1 : most + 1] * a[1:], np.zeros(most)]
    difference = k[:, None] - k[None]
    forced = np.sign(difference) * force[np.abs(difference)]
    matrix = -np.diag(k**2.0) / kappa + k[:, None] * (inside * (k * w_of)[None] + forced)
    return np.sort(np.linalg.eigvals(matrix).real)[::-1]
