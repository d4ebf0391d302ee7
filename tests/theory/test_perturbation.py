"""Growth rates beside a feed-forward layer, against collocation, quadrature and an ODE solver."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from metastable.theory.perturbation import (
    balanced_strength,
    forced_growth,
    perturbed_rates,
    pinning_strength,
    rate_shift,
    tearing_strength,
)


def collocation(beta, strength, wells, nodes=63):
    """The balanced density and the spectrum around it, on a grid, by quadrature and FFT."""
    theta = 2 * np.pi * np.arange(nodes) / nodes
    W = np.exp(beta * np.cos(theta[:, None] - theta)) / (beta * nodes)  # ∫ W(θ − θ′) h(θ′) dθ′/2π
    waves = np.fft.fftfreq(nodes, 1 / nodes)
    D = np.real(np.fft.ifft(1j * waves[:, None] * np.fft.fft(np.eye(nodes), axis=0), axis=0))
    # W∗ρ + ε cos mθ constant, mass one: solved on the waves 0 and m, which are all there are.
    c = np.cos(wells * theta)
    rho = 1 - strength * c / ((W @ c)[0])
    assert np.ptp(W @ rho + strength * c) < 1e-10
    values = np.linalg.eigvals(-D @ np.diag(rho) @ D @ W)
    return rho, np.sort(values.real)[::-1]


@pytest.mark.parametrize(("beta", "wells", "share"), [(3.0, 2, 0.5), (5.0, 3, 0.9), (1.5, 1, 0.3)])
def test_rates_against_collocation(beta, wells, share):
    critical = balanced_strength(beta, wells, normalized=False)
    rho, values = collocation(beta, share * critical, wells)
    assert rho.min() == pytest.approx(1 - share, abs=2e-3)  # the grid misses the lowest place
    assert perturbed_rates(beta, share, wells, 8) == pytest.approx(values[:8], rel=1e-8)


@pytest.mark.parametrize(("wells", "mode", "order"), [(4, 2, 2), (3, 2, 4), (2, 3, 3)])
def test_leading_order(wells, mode, order):
    """What is left falls with a higher power of s: at least 2 after first, 3 after second order."""

    def left(share):
        exact = perturbed_rates(3.0, share, wells, 14)
        upper = rate_shift(3.0, share, wells, mode)[1]
        return np.min(np.abs(exact - upper))

    assert np.log2(left(0.04) / left(0.02)) > order - 0.2


def test_the_largest_rate_only_grows():
    largest = [perturbed_rates(5.0, s, 3, 1)[0] for s in np.linspace(0, 1, 11)]
    assert np.all(np.diff(largest) > 0)


def test_forced_growth_is_the_forced_ode():
    rate, strength, wells, start = 0.7, 0.01, 3, 0.02 - 0.01j
    source = strength * wells**2 / 2
    run = solve_ivp(lambda t, h: rate * h + source, (0, 4), [start], rtol=1e-11, atol=1e-13)
    assert forced_growth(rate, strength, wells, start, 4.0) == pytest.approx(run.y[0, -1], rel=1e-9)


def test_thresholds():
    """ε_c = λ_m/m² with the published rates 18.5961 (USA) and 0.682678 (SA) at β = 5, m = 3."""
    assert balanced_strength(5.0, 3) == pytest.approx(0.682678 / 9, rel=1e-6)
    assert balanced_strength(5.0, 3, normalized=False) == pytest.approx(18.5961 / 9, rel=1e-5)
    assert pinning_strength(5.0, 3, 100) == pytest.approx(0.2 * balanced_strength(5.0, 3))
    assert tearing_strength(3) == pytest.approx(1 / 9)


def test_refusals():
    with pytest.raises(ValueError, match="share must lie in"):
        perturbed_rates(3.0, 1.5, 2, 4)
    with pytest.raises(ValueError, match="wells must be"):
        balanced_strength(3.0, 0)
    with pytest.raises(ValueError, match="beta must be"):
        rate_shift(0.0, 0.1, 2, 1)
