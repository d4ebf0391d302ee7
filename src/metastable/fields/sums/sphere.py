"""Attention on S² in O(n): non-uniform FFTs in the two angles of the doubled sphere."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Complex, Float

from metastable.core.numerics import jnp
from metastable.fields.sums import zonal
from metastable.fields.sums.kernel import Kernel, Sum


class SphereSum(Sum):
    """Σ_j w_j e^{β⟨x_i,y_j⟩} v_j on S² by spherical harmonics, in O(n + K³).

    e^{β(s−1)} = Σ_ℓ c_ℓ (2ℓ+1) P_ℓ(s), and Y_ℓm is a trigonometric polynomial of degree ℓ in the
    polar angle and m in the azimuth. So one 2-D type-1 transform in the angles, a small matrix per
    m, and one type-2 transform back give the sum. This needs w² operations per token where the
    3-D transform of the Gaussian e^{−β‖x−y‖²/2} needs w³ (w ≈ 10 digits' worth).

    `tolerance` bounds the error of e^{−β}Σ relative to the total mass, as in `CircleSum`.
    """

    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-11)

    def __check_init__(self) -> None:
        zonal.check(3, self.degree, self.tolerance)

    @classmethod
    def reaching(cls, beta: Any, tolerance: float = 1e-11) -> SphereSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        return cls(zonal.degree_for(beta, 3, tolerance), tolerance)

    @property
    def name(self) -> str:
        return f"sphere NUFFT, degree {self.degree}, tolerance {self.tolerance:.0e}"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        import jax_finufft

        def convolve(charges: Array, c: Array) -> Array:
            right = _angles(kernel.right)
            left = right if kernel.own else _angles(kernel.left)
            size = 2 * self.degree + 1
            modes = jax_finufft.nufft1(
                (size, size), zonal.pack_harmonics(charges), *right, iflag=-1, eps=eps
            )
            back = jax_finufft.nufft2(self._filter(modes, c), *left, iflag=1, eps=eps)
            return zonal.unpack_harmonics(back, charges.shape[1])

        eps = max(self.tolerance / 8, 1e-14 if values.dtype == jnp.float64 else 1e-6)
        return zonal.attend(
            convolve, kernel, values, dim=3, degree=self.degree, tolerance=self.tolerance
        )

    def _filter(self, modes: Complex[Array, "h t p"], c: Array) -> Complex[Array, "h t p"]:
        """From the modes of the charges to those of the sum: cosines or sines in the polar angle.

        Y_ℓm holds cosines of the polar angle for even m and sines for odd m.
        """
        table = jnp.asarray(legendre_table(self.degree), c.dtype)  # (m, k, ℓ)
        down, up = modes[:, self.degree :: -1], modes[:, self.degree :]  # k = 0, −1, …; 0, 1, …
        odd = np.arange(-self.degree, self.degree + 1) % 2 == 1
        folded = jnp.where(odd, 1j * (up - down), up + down) / 2
        # Orders m and −m share a table: side by side, so that it is read once.
        both = jnp.stack([folded[..., self.degree :], folded[..., self.degree :: -1]])
        inner = jnp.einsum("mkl,shkm->shlm", table, both)
        both = jnp.einsum("mkl,l,shlm->shkm", table, c, inner)
        smooth = jnp.concatenate([both[1, ..., :0:-1], both[0]], axis=-1)
        half = smooth / 2
        plus, minus = jnp.where(odd, -1j * half, half), jnp.where(odd, 1j * half, half)
        # At k = 0 the two halves are one mode; an odd order has no sine there.
        middle = jnp.where(odd, 0.0, smooth)[:, :1]
        return jnp.concatenate([minus[:, :0:-1], middle, plus[:, 1:]], axis=1)


@lru_cache(maxsize=8)
def legendre_table(degree: int) -> np.ndarray:
    """a[m, k, ℓ]: the part of Y_ℓm in the polar angle, Σ_k a cos kθ (m even) or sin kθ (m odd).

    Orthonormal for the uniform probability measure: Σ_m |Y_ℓm|² = 2ℓ+1.
    """
    count = 2 * degree + 2
    theta = 2 * np.pi * np.arange(count) / count
    cos, sin = np.cos(theta), np.sin(theta)
    table = np.zeros((degree + 1, degree + 1, degree + 1))
    start = np.ones(count)  # the function of degree ℓ = m, then upwards in ℓ
    for m in range(degree + 1):
        if m:
            start = start * sin * np.sqrt((2 * m + 1) / (2 * m))
        before, now = np.zeros(count), start
        for ell in range(m, degree + 1):
            f = np.fft.rfft(now) / count
            wave = f.real if m % 2 == 0 else -f.imag
            table[m, :, ell] = wave[: degree + 1] * np.where(np.arange(degree + 1) > 0, 2, 1)
            scale = np.sqrt((4 * (ell + 1) ** 2 - 1) / ((ell + 1) ** 2 - m**2))
            lower = np.sqrt((ell**2 - m**2) / (4 * ell**2 - 1)) if ell else 0.0
            before, now = now, scale * (cos * now - lower * before)
    return table


def turned(x: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """The points after a fixed rotation that brings no coordinate axis or diagonal to a pole.

    The azimuth has no derivative at the poles, and people place tokens on axes.
    """
    a, b = 0.7, 1.9
    z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    return x @ jnp.asarray(y @ z, x.dtype).T


def _angles(x: Float[Array, "n 3"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Polar angle in [0, π] and azimuth."""
    p, q, r = turned(x).T
    return jnp.arctan2(jnp.hypot(p, q), r), jnp.arctan2(q, p)
