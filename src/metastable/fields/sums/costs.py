"""What each sum costs: a few measured constants, from which the choice is made.

Microseconds of one evaluation of n tokens in float64 on two cores of an AMD EPYC (Zen 4), measured
by `python benchmarks/run.py crossover`; `Device` says how another device differs. They need to be
right to a factor of about 1.5 where two costs cross, and nowhere else. All pairs use both cores and
harmonics mostly one, so that another program beside doubles the former alone: what stands here for
pairs lies between an idle and a busy machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Pairs(NamedTuple):
    """Microseconds of a pair of tokens, and of each of its axes."""

    pair: float
    axis: float


class Device(NamedTuple):
    """How fast a device is: the smallest evaluation, pairs, and factors on the CPU's features."""

    start: float
    dense: Pairs  # the sphere with identity query and key: each pair once, no running maximum
    general: Pairs  # all other kernels
    fused: Pairs | None = None  # the kernel in float32, of which a CPU has none
    harmonic: float = 1.0  # waves of the circle and S²
    moments: float = 1.0  # monomials, d ≥ 4
    token: float = 0.0  # of each token, beside its pairs


CPU = Device(30.0, Pairs(6e-4, 7e-5), Pairs(3.4e-3, 7e-5), token=0.3)


def dense_cost(tokens: int, axes: int, zonal: bool = True, device: Device = CPU) -> float:
    pair, axis = device.dense if zonal else device.general
    return device.start + tokens * device.token + tokens**2 * (pair + axis * axes)


def fused_cost(tokens: int, axes: int, device: Device) -> float:
    """Tiles of the tensor cores have sixteen axes at least; infinite where there is no kernel."""
    if device.fused is None:
        return math.inf
    return device.start + tokens**2 * (device.fused.pair + device.fused.axis * max(axes, 16))


def low_rank_cost(tokens: int, rank: int, axes: int, device: Device = CPU) -> float:
    """Kernel columns of the pivots, and a Cholesky factor; on a GPU as of a square kernel."""
    if device is CPU:
        return 60 + tokens * rank * (4.6e-3 + 1.5e-4 * axes) + 2.5e-5 * rank**3
    pair, axis = device.general
    return 3 * device.start + tokens * rank * (pair + axis * axes) + 1e-7 * rank**3


def pivots_cost(tokens: int, rank: int, device: Device = CPU) -> float:
    """Of choosing so many pivots: columns, and products of their rows."""
    each = 1e-4 if device is CPU else 1e-7
    return low_rank_cost(tokens, rank, 0, device) + each * tokens * rank**2


def harmonic_cost(tokens: int, dim: int, degree: int) -> float:
    if dim == 2:
        return 36 + tokens * (0.015 + 0.006 * degree)
    if dim == 3:
        return 40 + 8 * degree + tokens * (0.2 + 6.5e-4 * degree**2)
    return 150 + _smoothing(dim, degree) + tokens * (0.4 + 1.8e-4 * _products(dim, degree))


def _products(dim: int, degree: int) -> int:
    """Pairs of a monomial and a channel that a token is multiplied with, d ≥ 4."""
    features = math.comb(degree + dim - 1, dim - 1) + math.comb(degree + dim - 2, dim - 1)
    return round({4: 2.0, 5: 1.5}.get(dim, 1.0) * features) * (dim + 1)


def _smoothing(dim: int, degree: int) -> float:
    """From moments to series: all monomials up to the degree, along each axis, up and down."""
    return 1e-3 * 2 * dim * (dim + 1) * math.comb(degree + dim, dim)


def nufft_cost(tokens: int, dim: int, degree: int, tolerance: float) -> float:
    width = 1 - math.log10(tolerance)  # grid points per axis on which a token is spread
    if dim == 2:
        return 700 + tokens * (0.06 + 0.0125 * width)
    return 1100 + 0.015 * degree**3 + tokens * (0.1 + 0.0035 * width**2)


def gaussian_cost(tokens: int, axes: int, modes: int, tolerance: float) -> float:
    width = 1 - math.log10(tolerance)
    return 1100 + 0.3 * modes**axes + tokens * (0.2 + 0.0015 * width**axes)


def causal_cost(tokens: int, dim: int, degree: int) -> float:
    if dim == 2:
        return 100 + tokens * (0.8 + 0.005 * degree)
    if dim == 3:
        return 100 + tokens * (1.5 + 0.0035 * degree**2)
    each = 3.0 + 1.8e-4 * _products(dim, degree) + _smoothing(dim, degree) / 512
    return 300 + tokens * each
