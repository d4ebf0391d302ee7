"""Clocks that tick e^β times faster: a density must move however short the horizon is."""

from __future__ import annotations

import numpy as np

import metastable as ms


def test_density_moves_in_a_tiny_unnormalised_clock():
    beta = 40.0
    start = ms.Density.mode(dim=2, degree=1, amplitude=1e-3)
    field = ms.SelfAttention(beta, normalized=False, value=-1.0)
    rate = -ms.theory.growth_rates(beta, 2, 1, normalized=False)[0]
    run = ms.flow(start, field, float(1 / abs(rate)), frames=2)
    end = np.abs(np.asarray(run.frames[-1].coefficients))[1]
    assert run.outcome.name == "done"
    np.testing.assert_allclose(end, 1e-3 * np.exp(-1), rtol=1e-3)
