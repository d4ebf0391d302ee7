"""What each sum costs on a CPU: a few measured constants, from which the choice is made.

Measured by `python benchmarks/run.py crossover` on two cores of an AMD EPYC (Zen 4) in float64;
the constants are microseconds of one evaluation of n tokens. They need to be right to a factor of
about 1.5 where two costs cross, and nowhere else.
"""

from __future__ import annotations

import math


def dense_cost(tokens: int, axes: int, zonal: bool = True) -> float:
    """The zonal kernel needs each pair once, and no running maximum."""
    return 40 + tokens**2 * ((1.1e-3 if zonal else 3.4e-3) + 7e-5 * axes)


def harmonic_cost(tokens: int, dim: int, degree: int) -> float:
    if dim == 2:
        return 30 + tokens * (0.02 + 0.0085 * degree)
    return 100 + 0.015 * degree**3 + tokens * (0.22 + 0.0018 * degree**2)


def nufft_cost(tokens: int, dim: int, degree: int, tolerance: float) -> float:
    width = 1 - math.log10(tolerance)  # grid points per axis on which a token is spread
    if dim == 2:
        return 700 + tokens * (0.06 + 0.0125 * width)
    return 1100 + 0.015 * degree**3 + tokens * (0.1 + 0.0035 * width**2)


def gaussian_cost(tokens: int, axes: int, modes: int, tolerance: float) -> float:
    width = 1 - math.log10(tolerance)
    return 1100 + 0.3 * modes**axes + tokens * (0.2 + 0.0015 * width**axes)


def causal_cost(tokens: int, dim: int, degree: int) -> float:
    each = 0.8 + 0.005 * degree if dim == 2 else 1.5 + 0.0035 * degree**2
    return 100 + tokens * each
