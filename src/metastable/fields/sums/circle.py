"""Attention on the circle in O(n): one non-uniform FFT each way."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from metastable.core.numerics import jnp
from metastable.fields.sums import zonal
from metastable.fields.sums.kernel import Kernel, Sum


class CircleSum(Sum):
    """Σ_j w_j e^{β cos(φ_i−θ_j)} v_j on the circle by its Fourier series, in O(n + K log K).

    e^{β cos φ} = Σ_k I_k(β) e^{ikφ}: the charges go to Fourier modes |k| ≤ `degree` by a type-1
    transform, are multiplied by I_k(β), and come back at the places by a type-2 transform.

    `tolerance` bounds the error of e^{−β}Σ relative to the total mass: the relative error at a
    place is that divided by the share e^{−β}Σ_j w_j k_ij it sees, which is at least its own mass.
    Use `CircleSum.reaching(beta)` to tie the degree to the largest β the sum will meet.
    """

    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-13)

    def __check_init__(self) -> None:
        zonal.check(2, self.degree, self.tolerance)

    @classmethod
    def reaching(cls, beta: Any, tolerance: float = 1e-13) -> CircleSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        return cls(zonal.degree_for(beta, 2, tolerance), tolerance)

    @property
    def name(self) -> str:
        return f"circle NUFFT, degree {self.degree}, tolerance {self.tolerance:.0e}"

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        import jax_finufft

        def convolve(charges: Array, c: Array) -> Array:
            theta = jnp.arctan2(kernel.right[:, 1], kernel.right[:, 0])
            phi = theta if kernel.own else jnp.arctan2(kernel.left[:, 1], kernel.left[:, 0])
            modes = jax_finufft.nufft1(
                2 * self.degree + 1, zonal.pack_harmonics(charges), theta, iflag=-1, eps=eps
            )
            coefficients = modes * jnp.concatenate([c[:0:-1], c])
            back = jax_finufft.nufft2(coefficients, phi, iflag=1, eps=eps)
            return zonal.unpack_harmonics(back, charges.shape[1])

        # Half of the tolerance is for the series, an eighth for each transform, the rest spare.
        eps = max(self.tolerance / 8, 1e-14 if values.dtype == jnp.float64 else 1e-6)
        return zonal.attend(
            convolve, kernel, values, dim=2, degree=self.degree, tolerance=self.tolerance
        )
