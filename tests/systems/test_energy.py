"""The energy identity dE/dt = ∫‖v‖² (Z) dμ, integrated along a run, to 1e−6."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import simpson

import metastable as ms
from tests import oracles

BETA = 2.0
START = ms.Points(ms.uniform(12, 3, seed=8).points, np.random.default_rng(0).uniform(0.5, 2, 12))
W = np.asarray(START.weights)
ROOT = np.random.default_rng(2).normal(size=(3, 3))
SYMMETRIC = (ROOT + ROOT.T) / np.linalg.norm(ROOT + ROOT.T, 2)  # eigenvalues of both signs

CASES = {
    "SA": (True, None),
    "USA": (False, None),
    "SA, V = QᵀK symmetric": (True, SYMMETRIC),
    "USA, V = QᵀK symmetric": (False, SYMMETRIC),
}


@pytest.mark.parametrize("name", CASES)
def test_energy_grows_by_the_dissipation(name):
    normalized, matrix = CASES[name]
    field = ms.SelfAttention(BETA, query=matrix, value=matrix, normalized=normalized)
    stepper = ms.Adaptive(rtol=1e-11, atol=1e-11)
    run = ms.flow(START, field, horizon=2.0, frames=241, stepper=stepper)

    def dissipation(x):
        a = oracles.attention(x, W, BETA, matrix, None, matrix, normalized)
        squares = (oracles.project(x, a) ** 2).sum(1)
        z = np.exp(BETA * oracles.apply(matrix, x) @ x.T) @ W
        return W @ (squares * z if normalized else squares)

    e = np.array([oracles.energy(x, W, BETA, matrix) for x in run.points])
    rate = np.array([dissipation(x) for x in run.points])
    gained = np.array([simpson(rate[: k + 1], x=run.times[: k + 1]) for k in range(2, 241, 2)])
    # Simpson at h = 1/120 is good to about 1e−8 here.
    assert np.abs(e[2::2] - e[0] - gained).max() < 1e-6
    assert e[-1] - e[0] > 0.05 and (np.diff(e) > -1e-12).all()
    observed = float(ms.energy(run.frames[-1], BETA, matrix))
    assert observed == pytest.approx(e[-1], rel=1e-12)
