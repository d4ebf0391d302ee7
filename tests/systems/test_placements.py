"""Placement of the normalisation (THEORY §9) against its scalar ODE, and its late-time exponent."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from tests import oracles

N, BETA = 4, 1.0
START = ms.orthogonal(N, N).euclidean()
# The truncation error of fixed steps is relative to the gap between tokens, which becomes tiny.
FIXED = ms.Fixed(0.05)
TIGHT = ms.Adaptive(rtol=1e-11, atol=1e-13)

still = lambda along, size: 0.0
# placement, s(r, ‖A‖, t), ṙ(⟨θ,A⟩, ‖A‖), the late variable u(t), the slope of log(1−γ) in u, times.
PLACEMENTS = {
    "post": (ms.PostNorm(), lambda r, a, t: 1.0, still, lambda t: t, -2, (6.0, 12.0)),
    "pre": (ms.PreNorm(), lambda r, a, t: r, lambda c, a: c, np.log, -2, (500.0, 2000.0)),
    "peri": (ms.PeriNorm(), lambda r, a, t: r * a, lambda c, a: c / a, np.log, -2, (500.0, 2000.0)),
    "nGPT": (ms.NGPT(alpha=0.5), lambda r, a, t: 2 * a, still, lambda t: t, -1, (12.0, 24.0)),
    "sqrt": (ms.DepthSqrt(), lambda r, a, t: np.sqrt(t + 1), still, np.sqrt, -4, (80.0, 120.0)),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_placement_follows_its_equiangular_ode_and_exponent(name):
    placement, scale, growth, late, slope, window = PLACEMENTS[name]
    field = ms.Block(ms.SelfAttention(BETA), placement)
    frames = np.concatenate([np.linspace(0.1, 4.0, 21), np.geomspace(*window, 5)])
    stepper = TIGHT if placement.moves_radius else FIXED
    run = ms.flow(START, field, horizon=window[1], frames=frames, stepper=stepper)
    r = np.linalg.norm(run.points, axis=-1)
    theta = run.points / r[..., None]
    i, j = np.triu_indices(N, 1)
    # ‖θ_i−θ_j‖²/2 keeps the digits of 1−γ that the inner product loses.
    gap = 0.5 * ((theta[:, i] - theta[:, j]) ** 2).sum(-1)
    early = run.times <= 4.0
    expected = oracles.placed_equiangular(run.times[early], N, BETA, scale, growth)
    assert np.abs(1 - gap[early] - expected[:, :1]).max() < 1e-8
    assert np.abs(r[early] - expected[:, 1:]).max() < 1e-8
    tail = run.times >= window[0]
    measured = np.polyfit(late(run.times[tail]), np.log(gap[tail].mean(1)), 1)[0]
    # Corrections of relative order r(0)/t (pre, peri), 1/(2t) (sqrt) and e^{−2t} are below 1 %.
    assert measured == pytest.approx(slope, rel=0.01)
