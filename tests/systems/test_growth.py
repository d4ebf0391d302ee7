"""Growth of one mode from a quiet start, against λ_ℓ; the claims run the same at full size.

Quiet: tokens are quantiles of the perturbed density, so that no sampling noise hides the mode.
Source: arXiv:2410.23228 (circle, dominant modes); `theory.spectrum` (Funk–Hecke, any sphere).
"""

from __future__ import annotations

import diffrax
import numpy as np
import pytest
from scipy.special import eval_legendre

import metastable as ms
from metastable.observe import modes
from metastable.theory.spectrum import dominant_mode, growth_rates

BETAS = (1.0, 5.0, 20.0)
# Second-order terms are ε² on the circle and ε on S² (P_ℓ² contains P_ℓ); Fibonacci lattices
# leave an amplitude of about 1e−5 in high degrees at n = 2000, which needs the larger ε.
CIRCLE_EPSILON, SPHERE_EPSILON = 1e-4, 1e-2


def quiet_circle(tokens: int, mode: int) -> ms.Points:
    """Quantiles of the density (1 + ε cos kθ)/2π."""
    uniform = 2 * np.pi * (np.arange(tokens) + 0.5) / tokens
    theta = uniform
    for _ in range(20):  # a contraction with factor ε
        theta = uniform - CIRCLE_EPSILON / mode * np.sin(mode * theta)
    return ms.Points(np.column_stack([np.cos(theta), np.sin(theta)]))


def quiet_sphere(tokens: int, degree: int) -> ms.Points:
    """A Fibonacci lattice whose heights are quantiles of the zonal density 1 + ε P_ℓ(z)."""
    index = np.arange(tokens) + 0.5
    uniform = 2 * index / tokens - 1
    z = uniform
    for _ in range(20):
        primitive = eval_legendre(degree + 1, z) - eval_legendre(degree - 1, z)
        z = uniform - SPHERE_EPSILON * primitive / (2 * degree + 1)
    longitude = np.pi * (1 + np.sqrt(5)) * index
    radius = np.sqrt(1 - z * z)
    return ms.Points(np.column_stack([radius * np.cos(longitude), radius * np.sin(longitude), z]))


def growth_error(dim: int, tokens: int, beta: float, normalized: bool) -> float:
    """Relative error of the measured growth rate of the dominant mode."""
    mode = dominant_mode(beta, dim)
    expected = float(growth_rates(beta, dim, mode, normalized=normalized)[-1])
    start = quiet_circle(tokens, mode) if dim == 2 else quiet_sphere(tokens, mode)
    # A quarter of an e-folding: one step of order 5, with an error of 1e−8. All pairs, because a
    # sum by harmonics would assume the expansion that is to be tested.
    run = ms.flow(
        start,
        ms.SelfAttention(beta, normalized=normalized),
        horizon=0.25 / expected,
        sum=ms.Dense(),
        frames=2,
        stepper=ms.Adaptive(solver=diffrax.Tsit5()),
    )
    which = mode if dim == 2 else mode * mode + mode  # the zonal harmonic of this degree
    before, after = (modes(frame, mode)[which].real for frame in run.frames)
    measured = np.log(after / before) / run.times[-1]
    print(f"d={dim} n={tokens} β={beta:g} {run.clock} mode {mode}: {measured:.8g} ({expected:.8g})")
    return measured / expected - 1


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize("dim, tolerance", [(2, 1e-4), (3, 1e-2)])
def test_a_single_mode_grows_at_its_rate(dim, tolerance, normalized):
    for beta in BETAS:
        assert abs(growth_error(dim, 2000, beta, normalized)) < tolerance
