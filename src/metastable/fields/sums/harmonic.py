"""Attention on spheres up to S⁷ by harmonic features: matrix products only, on any device."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from metastable.core import checks
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import monomials
from metastable.fields.sums.dense import blocks
from metastable.fields.sums.kernel import Attended, Kernel
from metastable.fields.sums.zonal import ZonalSum, degree_for


class HarmonicSum(ZonalSum):
    """Σ_j w_j e^{β⟨x_i,y_j⟩} v_j in d = 2, …, 8 by the kernel's harmonics, O(n K^{d−1}).

    For d = 2 and 3 the series of `CircleSum` and `SphereSum`, with the waves of the angles
    tabulated block by block and summed by matrix products; for many tokens or a large β the
    non-uniform FFT is faster. From d = 4 on harmonics are kept as monomials (`monomials`),
    C(K+d−1, d−1) + C(K+d−2, d−1) of them: 2870 for d = 4, β = 9 at a tolerance of 1e−8. There β can
    be about 30 at most, before signs cost too many digits. The sum needs JAX alone, so it also runs
    on GPUs, and works under `vmap` and `grad`.

    `tolerance` bounds the error of e^{−β}Σ relative to the total mass, as in `CircleSum`.
    """

    kind: ClassVar[str] = "harmonic"
    dim: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True, converter=float, default=1e-13)
    block: int | None = eqx.field(static=True, default=None)  # None: what the cache likes

    def __check_init__(self) -> None:
        if self.block is not None:
            checks.integer("block", self.block, 1)

    @classmethod
    def reaching(cls, beta: Any, dim: int, tolerance: float = 1e-13) -> HarmonicSum:
        """The smallest sum that serves all inverse temperatures up to `beta`."""
        return cls(dim, degree_for(beta, dim, tolerance), tolerance)

    def attend(self, kernel: Kernel, values: Float[Array, "n v"]) -> Attended:
        gather, smooth, scatter = features(self.dim, self.degree)
        block = self.block or (2048 if self.dim <= 3 else 256 if self.dim <= 5 else 128)

        def convolve(charges: Array, c: Array) -> Array:
            @jax.checkpoint
            def add(moments: Any, part: tuple[Array, Array]) -> tuple[Any, None]:
                return jax.tree.map(jnp.add, moments, gather(*part)), None

            size = min(block, charges.shape[0])
            parts = blocks(kernel.right, size, fill=None), blocks(charges, size)
            moments = jax.lax.scan(add, no_moments(gather, *parts), parts)[0]
            series = smooth(moments, c)
            back = jax.checkpoint(lambda x: scatter(x, series))
            total = jax.lax.map(back, blocks(kernel.left, size, fill=None))
            return total.reshape(-1, total.shape[-1])[: kernel.left.shape[0]]

        return self.attend_by(convolve, kernel, values)


def features(dim: int, degree: int) -> tuple[Callable, Callable, Callable]:
    """How charges become moments, moments a series, and a series values at places.

    `gather(x, charges)`, `smooth(moments, c)` and `scatter(x, series)`; all are linear in the
    charges, so that moments of parts add. Moments are an array, or a tuple of them.
    """
    if dim > 3:
        return monomials.features(dim, degree)
    if dim == 2:
        return partial(_gather_circle, degree=degree), _smooth_circle, _scatter_circle
    return partial(_gather_sphere, degree=degree), _smooth_sphere, _scatter_sphere


def no_moments(gather: Callable, x: Float[Array, "k b d"], charges: Float[Array, "k b c"]) -> Any:
    """Moments of nothing, to which those of blocks are added."""
    shapes = jax.eval_shape(lambda x, q: gather(x[0], q[0]), x, charges)
    return jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)


def _waves(turn: Array, degree: int) -> tuple[Array, Array]:
    """cos kθ and sin kθ for k = 0..degree, shape (b, degree + 1), from e^{iθ}, by doubling."""
    turn, powers = turn[:, None], jnp.ones_like(turn)[:, None]
    while powers.shape[1] <= degree:
        more = powers[:, : degree + 1 - powers.shape[1]] * turn
        powers, turn = jnp.concatenate([powers, more], axis=1), turn * turn
    return powers.real, powers.imag


# On the circle moments have shape (2, K+1, c): cosine or sine, degree, channel.


def _circle_waves(x: Array, degree: int) -> tuple[Array, Array]:
    return _waves(jax.lax.complex(x[:, 0], x[:, 1]), degree)


def _gather_circle(x: Array, charges: Array, degree: int) -> Array:
    return jnp.stack([wave.T @ charges for wave in _circle_waves(x, degree)])


def _smooth_circle(moments: Array, c: Array) -> Array:
    return moments * jnp.where(np.arange(c.size) > 0, 2 * c, c)[:, None]


def _scatter_circle(x: Array, series: Array) -> Array:
    cos, sin = _circle_waves(x, series.shape[1] - 1)
    return cos @ series[0] + sin @ series[1]


# On the sphere moments have shape (2, K+1, 2, H, c): even or odd order, degree k of the wave in the
# polar angle (cosines for even orders, sines for odd ones), cosine or sine of the azimuth, order,
# channel. K is rounded up to an odd number, so that there are H = (K+1)/2 orders of each parity.


def _sphere_waves(x: Array, degree: int) -> tuple[Array, Array]:
    """Polar waves (2, b, K+1) and azimuthal waves (2, b, 2, H)."""
    p, q, r = turned(x).T
    distance = jnp.hypot(p, q)
    polar = jnp.stack(_waves(jax.lax.complex(r, distance), degree))
    waves = jnp.stack(_waves(jax.lax.complex(p, q) / distance, degree), axis=1)  # (b, 2, K+1)
    return polar, jnp.stack([waves[:, :, ::2], waves[:, :, 1::2]])


def _gather_sphere(x: Array, charges: Array, degree: int) -> Array:
    polar, azimuth = _sphere_waves(x, degree | 1)
    return jnp.einsum("sbk,sbtmc->sktmc", polar, azimuth[..., None] * charges[:, None, None, :])


def _smooth_sphere(moments: Array, c: Array) -> Array:
    degree = moments.shape[1] - 1
    table = legendre_table(degree)[:, :, : c.size]
    by_parity = jnp.asarray(np.stack([table[::2], table[1::2]]), c.dtype)  # (s, m, k, ℓ)
    twice = np.full((2, degree // 2 + 1), 2.0)
    twice[0, 0] = 1.0  # orders m and −m share a cosine, m = 0 stands alone
    inner = jnp.einsum("smkl,sktmc->smltc", by_parity, moments)
    return jnp.einsum("smkl,sm,l,smltc->sktmc", by_parity, jnp.asarray(twice, c.dtype), c, inner)


def _scatter_sphere(x: Array, series: Array) -> Array:
    polar, azimuth = _sphere_waves(x, series.shape[1] - 1)
    return jnp.einsum("sbtmc,sbtm->bc", jnp.einsum("sbk,sktmc->sbtmc", polar, series), azimuth)


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
