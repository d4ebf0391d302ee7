"""Attention with any query and key in at most three dimensions, by a Gaussian kernel, in O(n)."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields.sums import zonal
from metastable.fields.sums.kernel import Kernel, Sum


class GaussianSum(Sum):
    """Σ_j k_ij v_j for log k_ij = β⟨Qx_i,Ky_j⟩ + row_i + column_j with at most three axes.

    With u = √β Qx and v = √β Ky, ⟨u,v⟩ = −‖u−v‖²/2 + ‖u‖²/2 + ‖v‖²/2: a Gaussian between charges
    that carry e^{‖v‖²/2}. The Gaussian is made periodic at a distance where its images are below
    the tolerance, and summed by a non-uniform FFT each way.

    - `radius`: all coordinates of u and v lie in [−radius, radius]; others give NaN.
    - `tolerance` bounds the error of Σ_j q_j e^{−‖u−v_j‖²/2} relative to the total charge Σ_j q_j,
      q_j = e^{‖v_j‖²/2 + column_j}. Keys of unequal norm cost digits: a row whose mass comes from
      keys smaller than the largest by Δ‖v‖² loses a factor e^{Δ/2}. Rows that see no more than
      the error give NaN; compare with the dense sum before you trust it with norms that vary.
    """

    radius: float = eqx.field(static=True, converter=float)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-11)

    def __check_init__(self) -> None:
        checks.positive("radius", self.radius)
        checks.positive("tolerance", self.tolerance)

    @property
    def name(self) -> str:
        return f"Gaussian NUFFT, {self.modes} modes per axis, tolerance {self.tolerance:.0e}"

    @property
    def _reach(self) -> float:
        """Where e^{−r²/2} falls to the tolerance, with a reserve for several axes and images."""
        return math.sqrt(2 * math.log(64 / self.tolerance))

    @property
    def period(self) -> float:
        return 2 * self.radius + self._reach

    @property
    def modes(self) -> int:
        return 2 * math.ceil(self.period * self._reach / (2 * math.pi)) + 1

    def attend(
        self, kernel: Kernel, values: Float[Array, "n v"]
    ) -> tuple[Float[Array, " m"], Float[Array, "m v"]]:
        import jax_finufft

        axes = kernel.left.shape[1]
        if axes > 3 or kernel.biases:
            raise ValueError(
                "a Gaussian sum serves at most 3 axes without mask or position; got "
                f"{axes} axes and {len(kernel.biases)} positional schemes: use Dense()."
            )
        dtype = values.dtype
        root = jnp.sqrt(kernel.beta).astype(dtype)
        u, v = root * kernel.left, root * kernel.right
        log_charge = kernel.column + jnp.sum(v * v, axis=1) / 2
        top = jnp.max(log_charge)
        charge = jnp.exp(log_charge - top)
        charges = charge[:, None] * jnp.concatenate([jnp.ones((len(v), 1), dtype), values], axis=1)

        eps = max(self.tolerance / 8, 1e-14 if dtype == jnp.float64 else 1e-6)
        scale = 2 * math.pi / self.period
        k = scale * np.arange(-(self.modes // 2), self.modes // 2 + 1)
        line = math.sqrt(2 * math.pi) / self.period * np.exp(-(k**2) / 2)
        spectrum = jnp.asarray(_outer(line, axes), dtype)
        modes = jax_finufft.nufft1(
            (self.modes,) * axes, zonal.pack_harmonics(charges), *(scale * v).T, iflag=-1, eps=eps
        )
        back = jax_finufft.nufft2(modes * spectrum, *(scale * u).T, iflag=1, eps=eps)
        total = zonal.unpack_harmonics(back, charges.shape[1])

        inside = jnp.maximum(jnp.max(jnp.abs(u)), jnp.max(jnp.abs(v))) <= self.radius
        seen = total[:, :1] > self.tolerance * jnp.sum(charge)
        mass = jnp.where(inside & seen, total[:, :1], jnp.nan)
        log_mass = jnp.log(mass[:, 0]) + top + jnp.sum(u * u, axis=1) / 2
        return (log_mass if kernel.row is None else log_mass + kernel.row), total[:, 1:] / mass


def _outer(line: np.ndarray, axes: int) -> Any:
    product = line
    for _ in range(axes - 1):
        product = product[..., None] * line
    return product
