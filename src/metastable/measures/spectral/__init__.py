"""Functions on spheres as coefficients of harmonics, and the grids that turn them into values."""

from __future__ import annotations

from functools import lru_cache

from metastable.core.numerics import jax
from metastable.measures.spectral.basis import Basis
from metastable.measures.spectral.circle import CircleBasis
from metastable.measures.spectral.sphere import SphereBasis
from metastable.measures.spectral.zonal import ZonalBasis

__all__ = ["Basis", "CircleBasis", "SphereBasis", "ZonalBasis", "basis_for"]


@lru_cache(maxsize=32)
def basis_for(dim: int, degree: int, zonal: bool) -> Basis:
    """The harmonics of S^{d−1} up to `degree`: all of them for d = 2 and 3, or the zonal ones."""
    with jax.ensure_compile_time_eval():  # tables must be arrays also when first asked for in a jit
        if zonal:
            return ZonalBasis.build(dim, degree)
        return CircleBasis.build(degree) if dim == 2 else SphereBasis.build(degree)
