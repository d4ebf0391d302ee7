"""Linear attention and state-space layers in closed form, against SciPy and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import nquad, quad, solve_ivp

from metastable import theory


@pytest.mark.parametrize("axes", [[1.0, 4.0], [1.0, 1e4], [3.0, 3.0]])
def test_moments_on_the_circle_are_shares_of_the_axes(axes):
    """∫ b sin²/(a cos² + b sin²) dφ/2π = √b/(√a + √b), here by SciPy's quadrature."""
    a, b = axes
    inside = lambda p: b * np.sin(p) ** 2 / (a * np.cos(p) ** 2 + b * np.sin(p) ** 2) / (2 * np.pi)
    expected = 4 * quad(inside, 0, np.pi / 2, epsabs=1e-12, limit=400)[0]
    assert theory.image_moments(axes)[1] == pytest.approx(expected, abs=1e-9)
    assert theory.image_moments(axes)[1] == pytest.approx(np.sqrt(b) / sum(np.sqrt(axes)), abs=1e-9)


def test_moments_on_the_sphere_are_an_integral_over_it():
    lam = np.array([0.5, 1.0, 3.0])

    def inside(z, p):
        y = np.array([np.sqrt(1 - z * z) * np.cos(p), np.sqrt(1 - z * z) * np.sin(p), z])
        return lam[2] * z * z / (lam @ y**2) / (4 * np.pi)

    expected = 8 * nquad(inside, [[0, 1], [0, np.pi / 2]])[0]
    assert theory.image_moments(lam)[2] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("dim", [3, 8, 40])
def test_moments_add_to_one(dim):
    lam = np.exp(np.random.default_rng(dim).normal(size=dim) * 3)
    assert theory.image_moments(lam).sum() == pytest.approx(1.0, abs=1e-9)


def test_order_on_the_circle_solves_its_equation():
    times = np.linspace(0, 12, 7)
    way = solve_ivp(lambda _, s: s * (1 - s**2) / 2, (0, 12), [0.03], "DOP853", times, rtol=1e-12,
                    atol=1e-14)  # fmt: skip
    assert np.abs(theory.axial_order(times, 0.03) - way.y[0]).max() < 1e-11


def test_the_flow_of_axes_is_the_order_on_the_circle():
    times = np.linspace(0, 12, 7)
    start = 0.03
    axes = [1.0, ((1 + start) / (1 - start)) ** 2]
    seen = theory.image_flow(times, axes)
    assert np.abs(seen[:, 1] - seen[:, 0] - theory.axial_order(times, start)).max() < 1e-7


def test_projective_ratios_know_nothing_of_a_linear_map():
    rng = np.random.default_rng(3)
    for dim in (2, 3, 5):
        x = rng.normal(size=(dim + 4, dim))
        moved = x @ rng.normal(size=(dim, dim)).T * rng.uniform(0.5, 2, (dim + 4, 1))
        bent = moved + 0.1 * moved**2
        ratios = [theory.projective_ratios(a) for a in (x, moved, bent)]
        assert np.abs(ratios[1] - ratios[0]).max() < 1e-11
        assert np.abs(ratios[2] - ratios[0]).max() > 0.01
    with pytest.raises(ValueError, match="points must be 5 at least in dimension 3; got 4"):
        theory.projective_ratios(rng.normal(size=(4, 3)))


def test_the_follower_solves_its_equation():
    rate = 0.3 * 0.5 * np.exp(-1.2 * 0.7 * 0.5)
    way = solve_ivp(lambda _, a: -rate * np.sin(a) * np.cos(a), (0, 30), [2.0], "DOP853",
                    [0, 10, 30], rtol=1e-12, atol=1e-13)  # fmt: skip
    seen = theory.follower_angle([0, 10, 30], 2.0, 1.2, masses=(0.3, 0.7), step=0.5)
    assert np.abs(seen - way.y[0]).max() < 1e-9


@pytest.mark.parametrize("sink", [-40.0, 0.0, 3.0])
def test_a_sink_adds_the_clocks_of_both_attentions(sink):
    """t(γ) = t_SA(γ) + e^s t_USA(γ), each by SciPy's quadrature of its rate."""
    for time in (0.7, 6.0):
        reached = float(theory.sink_cosine(time, 2.0, 8, sink))
        waits = [
            quad(lambda g, n=n: 1 / theory.equiangular_rate(g, 2.0, 8, normalized=n), 0, reached)[0]
            for n in (True, False)
        ]
        assert waits[0] + np.exp(sink) * waits[1] == pytest.approx(time, rel=1e-9)
    plain = theory.equiangular_cosine([0.7, 6.0], 2.0, 8)
    if sink < -30:
        assert np.abs(theory.sink_cosine([0.7, 6.0], 2.0, 8, sink) - plain).max() < 1e-11
