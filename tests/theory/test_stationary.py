"""Stationary densities with noise against exact states, the PDE's own flux and dense Jacobians."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive, roots_gegenbauer

from metastable.theory.branches import (
    branch_in_beta,
    branch_in_kappa,
    first_bend,
    phase_diagram,
    transition,
    unique_kappa,
)
from metastable.theory.interaction import attention_interaction
from metastable.theory.noise import critical_kappa, tricritical_beta
from metastable.theory.stationary import Stationary, stationary_density
from tests.theory.densities import Circle

FLOWS = pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])


def state_at(beta, dim, factor, normalized):
    """The ordered state at κ = factor·κ_#."""
    kappa = factor * float(critical_kappa(beta, dim, normalized=normalized))
    return stationary_density(attention_interaction(beta, dim, normalized=normalized), kappa)


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("factor", [1.05, 2.0, 10.0])
def test_the_linear_kernel_has_exact_states(dim, factor):
    # β = 0: f ∝ e^{κms} (von Mises–Fisher) with m = I_{d/2}(κm)/I_{d/2−1}(κm).
    kappa = factor * dim
    excess = lambda m: ive(dim / 2, kappa * m) / ive(dim / 2 - 1, kappa * m) - m
    m = brentq(excess, 1e-3, 1.0, xtol=1e-15)
    state = stationary_density(attention_interaction(0.0, dim), kappa)
    assert state.alignment == pytest.approx(m, rel=1e-11)
    s = np.linspace(-1, 1, 5)
    ratio = state.density(s) / state.density(1.0)
    np.testing.assert_allclose(ratio, np.exp(kappa * m * (s - 1)), rtol=1e-9)


@FLOWS
@pytest.mark.parametrize(("beta", "factor"), [(1.0, 1.5), (5.0, 1.02), (5.0, 2.0), (12.0, 1.3)])
def test_the_flux_of_the_circle_pde_vanishes(beta, factor, normalized):
    state = state_at(beta, 2, factor, normalized)
    pde = Circle(beta, normalized, state.kappa, size=256)
    f = state.density(np.cos(pde.theta))
    assert f.mean() == pytest.approx(1, abs=1e-13)
    assert state.alignment == pytest.approx(np.mean(f * np.cos(pde.theta)), abs=1e-12)
    scale = np.max(np.abs(pde.derivative(f))) / state.kappa
    assert scale > 0.1 / state.kappa
    assert np.max(np.abs(pde.flux(f))) < 1e-10 * scale


@FLOWS
@pytest.mark.parametrize(("dim", "beta"), [(3, 4.0), (8, 6.0)])
def test_zonal_states_solve_their_equation_with_a_dense_kernel(dim, beta, normalized):
    state = state_at(beta, dim, 1.4, normalized)
    s, w = roots_gegenbauer(200, dim / 2 - 1)
    if dim == 3:  # ⟨x,y⟩ = ss′ + √(1−s²)√(1−s′²) u, u the cosine around the axis
        u = np.cos(np.pi * (np.arange(80) + 0.5) / 80)
        v = np.full(80, 1 / 80)
    else:
        u, v = roots_gegenbauer(80, (dim - 1) / 2 - 1)
    w, v = w / w.sum(), v / v.sum()
    r = np.sqrt(1 - s**2)
    inner = (s[:, None] * s)[..., None] + (r[:, None] * r)[..., None] * u
    kernel = np.exp(beta * inner) @ v
    f = state.density(s)
    z = kernel @ (w * f)
    exponent = state.kappa / beta * (np.log(z) if normalized else z)
    expected = np.exp(exponent - exponent.max())
    expected /= w @ expected
    np.testing.assert_allclose(f, expected, rtol=1e-8, atol=1e-10)
    assert state.alignment > 0.2


@FLOWS
@pytest.mark.parametrize("beta", [2.0, 5.0])
def test_rates_against_a_dense_jacobian_of_the_circle_pde(beta, normalized):
    state = state_at(beta, 2, 1.3, normalized)
    size = 96
    pde = Circle(beta, normalized, state.kappa, size=size)
    f, h = state.density(np.cos(pde.theta)), 1e-6
    columns = [
        (pde.change(0, f + h * e) - pde.change(0, f - h * e)) / (2 * h) for e in np.eye(size)
    ]
    jacobian = np.array(columns).T
    flip = np.eye(size)[-np.arange(size) % size]
    for sector, side in ((0, 1), (1, -1)):
        part = (np.eye(size) + side * flip) / 2
        dense = np.sort(np.linalg.eigvals(part @ jacobian @ part).real)
        found = state.growth_rates(sector)
        # The projection and the cut modes add zeros to the dense spectrum: look for ours in it.
        gaps = np.min(np.abs(dense[:, None] - found[:5]), axis=0)
        np.testing.assert_allclose(gaps, 0, atol=2e-6 * abs(found[4]))
        nonzero = dense[np.abs(dense) > 1e-6 * abs(found[4])]
        top = found[np.abs(found) > 1e-6 * abs(found[4])]
        assert top[0] == pytest.approx(nonzero.max(), rel=1e-6)


@FLOWS
@pytest.mark.parametrize(("dim", "beta"), [(2, 5.0), (3, 4.0), (8, 4.0)])
def test_turning_an_ordered_state_costs_nothing(dim, beta, normalized):
    state = state_at(beta, dim, 1.3, normalized)
    scale = abs(state.growth_rates(1)[1])
    assert abs(state.growth_rates(1)[0]) < 1e-10 * scale
    assert state.growth_rates(0)[0] < 0 and state.growth_rates(1)[1] < 0
    if dim > 2:
        assert state.growth_rates(2)[0] < 0


@FLOWS
@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("beta", [1.0, 5.0])
def test_uniform_loses_stability_at_critical_kappa(dim, beta, normalized):
    # The eigenvalue changes sign where the closed form says, and the branch starts there.
    flow = attention_interaction(beta, dim, normalized=normalized)
    uniform = np.eye(flow.degree + 1)[0]
    top = lambda kappa: Stationary(flow, kappa, uniform, 64).growth_rates()[0]
    expected = float(critical_kappa(beta, dim, normalized=normalized))
    found = brentq(top, 0.5 * expected, 2 * expected, xtol=1e-12 * expected)
    assert found == pytest.approx(expected, rel=1e-9)
    branch = branch_in_kappa(beta, dim, normalized=normalized, until=1.02)
    parabola = np.polyfit(branch.alignments[1:4] ** 2, branch.kappas[1:4], 2)
    assert parabola[-1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_usa_branches_bend_back_exactly_above_the_tricritical_beta(dim):
    star = tricritical_beta(dim)
    below, above = (2.3, 2.6) if dim == 2 else (0.95 * star, 1.05 * star)
    assert below < star < above
    smooth = branch_in_kappa(below, dim, normalized=False)
    assert not smooth.turns and np.all(np.diff(smooth.kappas) > 0)
    assert np.all(smooth.rates()[1:] < 0)
    bent = branch_in_kappa(above, dim, normalized=False)
    ((_, fold, at_fold),) = bent.turns
    assert fold < bent.kappas[0] and fold == pytest.approx(bent.kappas.min(), rel=1e-4)
    # Unstable from the start to the fold, stable beyond; at the fold one rate is zero.
    before = bent.alignments < at_fold.alignment
    assert np.all(bent.rates()[1:][before[1:]] > 0) and np.all(bent.rates()[~before] < 0)
    rates = at_fold.growth_rates()
    assert abs(rates[0]) < 1e-6 * abs(rates[1])


@FLOWS
@pytest.mark.parametrize("dim", [2, 3, 8, 64])
def test_first_bend_against_the_branch(dim, normalized):
    for beta in (0.5, 1.2, 3.0):
        branch = branch_in_kappa(beta, dim, normalized=normalized, until=1.01)
        m = branch.alignments[1:3] ** 2
        bend = (branch.kappas[1:3] / branch.kappas[0] - 1) / m
        limit = (bend[0] * m[1] - bend[1] * m[0]) / (m[1] - m[0])
        assert limit == pytest.approx(first_bend(beta, dim, normalized=normalized), abs=2e-4)


def test_first_bend_changes_sign_at_the_tricritical_beta_for_usa_only():
    for dim in (2, 3, 8, 64):
        star = brentq(lambda beta, dim=dim: first_bend(beta, dim, normalized=False), 0.5, 5.0)
        assert star == pytest.approx(tricritical_beta(dim), rel=1e-10)
        beta = np.r_[0.0, np.geomspace(1e-6, 1e5, 200)]
        assert np.all(first_bend(beta, dim) > 0)
        for both in (True, False):
            limit = first_bend(0.0, dim, normalized=both)
            assert limit == pytest.approx(dim / (dim + 2), rel=1e-14)


def test_only_uniform_rests_below_the_contraction_bound_for_softmax():
    beta = np.r_[0.0, np.geomspace(1e-3, 300, 100)]
    for dim in (2, 3, 8, 64):
        gap = critical_kappa(beta, dim) - unique_kappa(beta)
        assert np.all(gap > 0)
        assert gap[-1] == pytest.approx((dim - 1) / 2, rel=0.1)
    # Hilbert's metric, max − min of log(f/g), shrinks by κ tanh(β)/β in each sweep.
    rng, b = np.random.default_rng(0), 1.5
    theta = 2 * np.pi * np.arange(64) / 64
    kernel = np.exp(b * np.cos(theta[:, None] - theta))
    kappa = 0.95 * float(unique_kappa(b))
    for _ in range(50):
        f, g = np.exp(rng.standard_normal((2, 64)) * rng.uniform(0.1, 5))
        before, after = np.log(f / g), kappa / b * np.log((kernel @ f) / (kernel @ g))
        assert np.ptp(after) <= kappa * math.tanh(b) / b * np.ptp(before)


@FLOWS
@pytest.mark.parametrize("beta", [1.5, 6.0])
def test_free_energy_is_critical_at_its_states(beta, normalized):
    state = state_at(beta, 2, 1.2, normalized)
    theta, kappa = 2 * np.pi * np.arange(256) / 256, state.kappa
    kernel = np.exp(beta * np.cos(theta[:, None] - theta)) / 256

    def energy(f):  # by plain sums, for any density
        f = f / f.mean()
        pairs = np.mean(f * (kernel @ f))
        if normalized:
            q = 1 + beta / kappa
            return (2 / q * math.log(np.mean(f**q)) - math.log(pairs)) / (2 * beta)
        return np.mean(f * np.log(f)) / kappa - pairs / (2 * beta)

    f = state.density(np.cos(theta))
    value = energy(f) - energy(np.ones(256))
    assert state.free_energy == pytest.approx(value, rel=1e-9)
    for wave in (np.cos(theta), np.sin(2 * theta), np.cos(3 * theta)):
        slope = (energy(f * (1 + 1e-4 * wave)) - energy(f * (1 - 1e-4 * wave))) / 2e-4
        assert abs(slope) < 1e-6 * abs(value)


def test_free_energies_are_equal_at_the_transition():
    beta, flow = 4.0, attention_interaction(4.0, 2, normalized=False)
    found = transition(beta, 2, normalized=False)
    assert found.kind == "discontinuous"
    assert found.kappa_ordered < found.kappa_equal < found.kappa_uniform
    energy = lambda kappa: stationary_density(flow, kappa).free_energy
    assert energy(found.kappa_equal * 1.001) < 0 < energy(found.kappa_equal * 0.999)
    assert stationary_density(flow, found.kappa_equal).alignment == pytest.approx(found.jump)
    # Below the fold the sweep from a point mass finds no ordered state; above it does.
    assert stationary_density(flow, found.kappa_ordered * 0.99).alignment < 1e-6
    assert stationary_density(flow, found.kappa_ordered * 1.01).alignment > 0.4


def test_phase_diagram_lists_each_beta():
    table = phase_diagram([2.0, 3.0], 2, normalized=False)
    assert [row.kind for row in table] == ["continuous", "discontinuous"]
    assert [row.beta for row in table] == [2.0, 3.0]
    assert table[0].jump == 0 and table[0].kappa_equal == table[0].kappa_uniform


@pytest.mark.parametrize(("kappa", "normalized"), [(1.0, False), (5.0, True)])
def test_branches_in_beta_pass_through_the_same_states(kappa, normalized):
    branch = branch_in_beta(kappa, 2, normalized=normalized, until=1.5)
    start = critical_kappa(branch.betas[0], 2, normalized=normalized)
    assert start == pytest.approx(kappa, rel=1e-12)
    middle = len(branch.states) // 2
    beta, found = branch.betas[middle], branch.states[middle]
    other = stationary_density(attention_interaction(beta, 2, normalized=normalized), kappa)
    assert found.alignment == pytest.approx(other.alignment, rel=1e-9)
    # More order on the side where uniform is unstable: larger β for USA, smaller for SA.
    assert (branch.betas[-1] < branch.betas[0]) == normalized


def test_branches_of_higher_modes():
    # On the circle mode k makes k equal clusters, whose merging keeps them unstable.
    branch = branch_in_kappa(5.0, 2, mode=3, until=1.5)
    f = branch.states[-1]
    assert branch.kappas[0] == pytest.approx(5 * ive(0, 5.0) / ive(3, 5.0), rel=1e-12)
    assert abs(f.alignment) < 1e-12 and f.coefficients[3] > 0.3
    theta = np.linspace(0, 1, 5)
    third = f.density(np.cos(theta + 2 * np.pi / 3))
    np.testing.assert_allclose(f.density(np.cos(theta)), third, rtol=1e-9)
    assert np.all(branch.rates() > 0)
    # Degree 2 on S² is transcritical: its two sides go to different sides of κ_2.
    ends = [branch_in_kappa(4.0, 3, mode=2, sign=s, until=1.05) for s in (1, -1)]
    assert ends[0].kappas[1] < ends[0].kappas[0] and ends[1].kappas[1] > ends[1].kappas[0]


def test_bad_arguments_are_named():
    flow = attention_interaction(1.0, 2)
    for call, name in [
        (lambda: stationary_density(flow, 0.0), "kappa"),
        (lambda: stationary_density(attention_interaction(5.0, 2), 1e6), "nodes resolve"),
        (lambda: branch_in_kappa(1.0, 2, mode=0), "mode"),
        (lambda: branch_in_beta(1.0, 2), "above 2"),
        (lambda: branch_in_beta(3.0, 2, normalized=False), "below 2"),
        (lambda: transition(-1.0, 2), "beta"),
    ]:
        with pytest.raises(ValueError, match=name):
            call()
