"""Zonal free energy by plain quadrature: nothing here comes from the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import eval_chebyt, eval_gegenbauer, roots_chebyt, roots_gegenbauer


@dataclass(frozen=True)
class Functional:
    """F[f] = (1/κ)∫f log f − ½∬W df df less that of uniform, zonal f on a Gauss grid of S^{d−1}.

    P_ℓ(1) = 1; a zonal f has W∗f = Σ N_ℓ c_ℓ (∫f P_ℓ) P_ℓ/β.
    """

    beta: float
    dim: int
    nodes: np.ndarray
    weights: np.ndarray
    table: np.ndarray
    kernel: np.ndarray

    @classmethod
    def of(cls, beta: float, dim: int, degree: int = 24, count: int = 80) -> Functional:
        alpha = dim / 2 - 1
        s, w = roots_gegenbauer(count, alpha) if dim > 2 else roots_chebyt(count)
        one = lambda ell: eval_gegenbauer(ell, alpha, 1.0) if dim > 2 else 1.0
        at = lambda ell: eval_gegenbauer(ell, alpha, s) if dim > 2 else eval_chebyt(ell, s)
        table = np.array([at(ell) / one(ell) for ell in range(degree + 1)])
        w = w / w.sum()
        spread = table**2 @ w  # 1/N_ℓ
        kernel = table @ (w * np.exp(beta * s)) / spread / beta
        return cls(beta, dim, s, w, table, kernel)

    def moments(self, f: np.ndarray) -> np.ndarray:
        """∫f P_ℓ."""
        return self.table @ (self.weights * f)

    def potential(self, f: np.ndarray) -> np.ndarray:
        """W∗f less its mean: W = Σ kernel_ℓ P_ℓ, kernel_ℓ = N_ℓ c_ℓ/β."""
        part = self.kernel * self.moments(f)
        return part[1:] @ self.table[1:]

    def energy(self, f: np.ndarray, kappa: float) -> float:
        f = f / (self.weights @ f)
        entropy = self.weights @ (f * np.log(np.maximum(f, 1e-300)))
        return float(entropy / kappa - 0.5 * (self.kernel[1:] @ self.moments(f)[1:] ** 2))

    def settle(self, f: np.ndarray, kappa: float, sweeps: int = 4000) -> np.ndarray:
        """The end of f ← e^{κW∗f}/∫, which lowers F at every sweep."""
        for _ in range(sweeps):
            log_f = kappa * self.potential(f)
            new = np.exp(log_f - log_f.max())
            new /= self.weights @ new
            if np.max(np.abs(new - f)) < 1e-12:
                break
            f = new
        return new
