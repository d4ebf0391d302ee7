"""Order against noise: continuous or discontinuous, found by continuation and seen in the PDE.

Source: arXiv:2606.05140 for USA (K_# = κ_#/2); SA is measured, and its local part derived, in
`theory.branches.first_bend`.
"""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.measures import Density
from metastable.theory.branches import branch_in_kappa, transition
from metastable.theory.interaction import attention_interaction
from metastable.theory.noise import critical_kappa, transition_order, tricritical_beta
from metastable.theory.spectrum import growth_rates
from metastable.theory.stationary import stationary_density
from tests.theory.densities import Circle

pytestmark = pytest.mark.claim

LOOSE = {"method": "LSODA", "rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_usa_branches_bend_back_exactly_above_the_tricritical_beta(dim):
    star = tricritical_beta(dim)
    factors = [0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 1.01, 1.02, 1.05, 1.1, 1.3, 2.0, 4.0]
    ratios = []
    for beta in star * np.array(factors):
        found = transition(beta, dim, normalized=False)
        assert found.kind == transition_order(beta, dim, normalized=False), beta
        ratios.append(found.kappa_ordered / found.kappa_uniform)
        if found.kind == "discontinuous":
            assert found.kappa_ordered < found.kappa_equal < found.kappa_uniform
    assert np.all(np.diff(ratios[7:]) < 0)  # the further above β_*, the wider the hysteresis


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_softmax_branches_do_not_bend_back(dim):
    for beta in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0):
        branch = branch_in_kappa(beta, dim, until=3.0)
        assert not branch.turns and not branch.ties, beta
        assert np.all(np.diff(branch.kappas) > 0) and np.all(np.diff(branch.alignments) > 0)
        assert branch.ending == "it has left the range asked for"
        # Not even from a concentrated start is there order below κ_#.
        flow = attention_interaction(beta, dim)
        for factor in (0.5, 0.9, 0.98):
            state = stationary_density(flow, factor * branch.kappas[0])
            assert abs(state.alignment) < 1e-6, (beta, factor)


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize(("dim", "beta"), [(2, 6.0), (3, 1.5), (3, 5.0), (8, 4.0)])
def test_ordered_states_beyond_the_fold_are_stable_in_every_direction(dim, beta, normalized):
    branch = branch_in_kappa(beta, dim, normalized=normalized, until=1.5)
    fold = branch.turns[0][2].alignment if branch.turns else 0.0
    for state in branch.states[1:]:
        ordered = state.alignment > fold
        assert (state.growth_rates(0)[0] < 0) == ordered
        turning, second = state.growth_rates(1)[:2]
        assert abs(turning) < 1e-8 * abs(second) and second < 0
        if dim > 2:
            assert all(state.growth_rates(sector)[0] < 0 for sector in (2, 3))


@pytest.mark.parametrize("factor", [0.88, 0.93, 1.02])
def test_hysteresis_in_the_pde(factor):
    # Circle, USA, β = 5: the fold is at 0.897 κ_#, where the ordered state ends.
    beta = 5.0
    kappa = factor * float(critical_kappa(beta, 2, normalized=False))
    pde = Circle(beta, False, kappa, size=64)
    cosine = np.cos(pde.theta)
    ends = []
    for start in (1 + 0.02 * cosine, np.exp(8 * cosine) / np.mean(np.exp(8 * cosine))):
        ends.append(np.mean(cosine * pde.flow(start, 40.0, **LOOSE)))
    state = stationary_density(attention_interaction(beta, 2, normalized=False), kappa)
    expected = {0.88: (0.0, 0.0), 0.93: (0.0, state.alignment), 1.02: (state.alignment,) * 2}
    np.testing.assert_allclose(ends, expected[factor], atol=1e-6)
    assert factor == 0.88 or state.alignment > 0.7


@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
def test_the_density_flow_comes_to_rest_at_the_stationary_states(dim, normalized):
    # USA between its fold and κ_#, where both ends exist; SA above κ_#, where only order is stable.
    beta = 4.0
    found = transition(beta, dim, normalized=normalized)
    middle = (found.kappa_equal + found.kappa_uniform) / 2
    kappa = 1.5 * found.kappa_uniform if normalized else middle
    state = stationary_density(attention_interaction(beta, dim, normalized=normalized), kappa)
    field = ms.SelfAttention(beta=beta, normalized=normalized) + ms.Noise(kappa=kappa)
    slowest = growth_rates(beta, dim, 1, normalized=normalized, kappa=kappa)[0]
    horizon = 16 / min(abs(slowest), -state.growth_rates()[0])
    for concentration, end in (
        (0.05, state.alignment if normalized else 0.0),
        (10.0, state.alignment),
    ):
        start = Density.von_mises_fisher(np.eye(dim)[0], concentration, zonal=True)
        run = ms.flow(start, field, horizon=horizon, frames=[0.0, horizon])
        seen = float(run.frames[-1].coefficients[1]) / np.sqrt(dim)
        # Distance left: e^{−16}; the flow's own tolerance, 1e−10 a step, leaves as much.
        assert seen == pytest.approx(end, abs=1e-6)


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
def test_the_pde_relaxes_at_the_slowest_rate(normalized):
    beta = 4.0
    kappa = 1.3 * float(critical_kappa(beta, 2, normalized=normalized))
    state = stationary_density(attention_interaction(beta, 2, normalized=normalized), kappa)
    rate = state.growth_rates()[0]
    pde = Circle(beta, normalized, kappa, size=96)
    rest = state.density(np.cos(pde.theta))
    once = pde.flow(rest * (1 + 1e-4 * np.cos(pde.theta)) / (1 + 1e-4 * state.alignment), 6 / -rate)
    later = pde.flow(once, 1 / -rate)
    gap = lambda f: np.mean((f - rest) * np.cos(pde.theta))
    assert np.log(gap(later) / gap(once)) == pytest.approx(-1, abs=2e-3)
