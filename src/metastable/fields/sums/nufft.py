"""Fast sums in O(n) by non-uniform FFTs: on the circle, on S², and with any query and key."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Complex, Float

from metastable.core import checks
from metastable.core.numerics import jnp
from metastable.fields.sums.harmonic import legendre_table, turned
from metastable.fields.sums.kernel import Attended, Kernel, Sum
from metastable.fields.sums.zonal import ZonalSum, degree_for


def _transforms() -> Any:
    """The package of non-uniform FFTs."""
    try:
        import jax_finufft
    except ImportError:
        raise ImportError(
            "this sum needs jax-finufft, which is not installed: pip install 'metastable[nufft]', "
            "or leave sum unset."
        ) from None
    return jax_finufft


class CircleSum(ZonalSum):
    """Σ_j w_j e^{β cos(φ_i−θ_j)} v_j on the circle by its Fourier series, in O(n + K log K).

    e^{β cos φ} = Σ_k I_k(β) e^{ikφ}: the charges go to Fourier modes |k| ≤ `degree` by a type-1
    transform, are multiplied by I_k(β), and come back at the places by a type-2 transform.

    `tolerance` bounds the error of e^{−β}Σ relative to the total mass: the relative error at a
    place is that divided by the share e^{−β}Σ_j w_j k_ij it sees, which is at least its own mass.
    Use `CircleSum.reaching(beta)` to tie the degree to the largest β the sum will meet.
    """

    kind: ClassVar[str] = "circle NUFFT"
    dim: ClassVar[int] = 2
    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-13)

    @classmethod
    def reaching(cls, beta: Any, tolerance: float = 1e-13) -> CircleSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        return cls(degree_for(beta, 2, tolerance), tolerance)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        jax_finufft = _transforms()

        def convolve(charges: Array, c: Array) -> Array:
            theta = jnp.arctan2(kernel.right[:, 1], kernel.right[:, 0])
            phi = theta if kernel.own else jnp.arctan2(kernel.left[:, 1], kernel.left[:, 0])
            modes = jax_finufft.nufft1(
                2 * self.degree + 1, pack_harmonics(charges), theta, iflag=-1, eps=eps
            )
            coefficients = modes * jnp.concatenate([c[:0:-1], c])
            back = jax_finufft.nufft2(coefficients, phi, iflag=1, eps=eps)
            return unpack_harmonics(back, charges.shape[1])

        eps = _accuracy(self.tolerance, values.dtype)
        return self.attend_by(convolve, kernel, values)


class SphereSum(ZonalSum):
    """Σ_j w_j e^{β⟨x_i,y_j⟩} v_j on S² by spherical harmonics, in O(n + K³).

    e^{β(s−1)} = Σ_ℓ c_ℓ (2ℓ+1) P_ℓ(s), and Y_ℓm is a trigonometric polynomial of degree ℓ in the
    polar angle and m in the azimuth. So one 2-D type-1 transform in the angles, a small matrix per
    m, and one type-2 transform back give the sum. This needs w² operations per token where the
    3-D transform of the Gaussian e^{−β‖x−y‖²/2} needs w³ (w ≈ 10 digits' worth).

    `tolerance` bounds the error of e^{−β}Σ relative to the total mass, as in `CircleSum`.
    """

    kind: ClassVar[str] = "sphere NUFFT"
    dim: ClassVar[int] = 3
    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-11)

    @classmethod
    def reaching(cls, beta: Any, tolerance: float = 1e-11) -> SphereSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        return cls(degree_for(beta, 3, tolerance), tolerance)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        jax_finufft = _transforms()

        def convolve(charges: Array, c: Array) -> Array:
            right = _angles(kernel.right)
            left = right if kernel.own else _angles(kernel.left)
            size = 2 * self.degree + 1
            modes = jax_finufft.nufft1(
                (size, size), pack_harmonics(charges), *right, iflag=-1, eps=eps
            )
            back = jax_finufft.nufft2(self._filter(modes, c), *left, iflag=1, eps=eps)
            return unpack_harmonics(back, charges.shape[1])

        eps = _accuracy(self.tolerance, values.dtype)
        return self.attend_by(convolve, kernel, values)

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


def _angles(x: Float[Array, "n 3"]) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Polar angle in [0, π] and azimuth."""
    p, q, r = turned(x).T
    return jnp.arctan2(jnp.hypot(p, q), r), jnp.arctan2(q, p)


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

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        jax_finufft = _transforms()

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

        eps = _accuracy(self.tolerance, dtype)
        scale = 2 * math.pi / self.period
        k = scale * np.arange(-(self.modes // 2), self.modes // 2 + 1)
        line = math.sqrt(2 * math.pi) / self.period * np.exp(-(k**2) / 2)
        spectrum = jnp.asarray(_outer(line, axes), dtype)
        modes = jax_finufft.nufft1(
            (self.modes,) * axes, pack_harmonics(charges), *(scale * v).T, iflag=-1, eps=eps
        )
        back = jax_finufft.nufft2(modes * spectrum, *(scale * u).T, iflag=1, eps=eps)
        total = unpack_harmonics(back, charges.shape[1])

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


def _accuracy(tolerance: float, dtype: Any) -> float:
    # Half of the tolerance is for the series, an eighth for each transform, the rest spare.
    return max(tolerance / 8, 1e-14 if dtype == jnp.float64 else 1e-6)


def pack_harmonics(channels: Float[Array, "n c"]) -> Complex[Array, "h n"]:
    """Two real channels as one complex one: a real kernel acts on both without mixing them."""
    even = jnp.pad(channels, ((0, 0), (0, channels.shape[1] % 2)))
    return (even[:, ::2] + 1j * even[:, 1::2]).T


def unpack_harmonics(packed: Complex[Array, "h m"], count: int) -> Float[Array, "m c"]:
    both = jnp.stack([packed.real, packed.imag], axis=1)  # (h, 2, m)
    return both.reshape(-1, packed.shape[1])[:count].T
