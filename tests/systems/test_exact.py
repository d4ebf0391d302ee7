"""Exactly solvable motions: equiangular tokens, two clusters, masses as multiplicities."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from tests import oracles

TIGHT = ms.Adaptive(rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("normalized", "horizon"), [(True, 7.0), (False, 1.5)], ids=["SA", "USA"])
def test_orthogonal_tokens_stay_equiangular(normalized, horizon):
    # THEORY §3; the oracle is the scalar ODE by DOP853 at 1e−13.
    n, beta = 8, 3.0
    field = ms.SelfAttention(beta, normalized=normalized)
    run = ms.flow(ms.orthogonal(n, 16, seed=1), field, horizon, stepper=TIGHT)
    gamma = oracles.equiangular(run.times, n, beta, normalized)
    assert gamma[-1] > 0.999
    inner = np.einsum("tid,tjd->tij", run.points, run.points)[:, ~np.eye(n, dtype=bool)]
    assert np.abs(inner - gamma[:, None]).max() < 1e-8


def on_circle(angles):
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize("normalized", [True, False])
def test_two_unequal_clusters_follow_the_two_body_problem(normalized):
    beta, masses, angle = 4.0, (0.3, 0.7), 2.0
    start = ms.Points(on_circle(np.array([0.0, angle])), masses)
    run = ms.flow(start, ms.SelfAttention(beta, normalized=normalized), 8.0, stepper=TIGHT)
    theta = np.unwrap(np.arctan2(run.points[..., 1], run.points[..., 0]), axis=0)
    phi = theta[:, 1] - theta[:, 0]
    expected = oracles.two_clusters(run.times, beta, masses, angle, normalized)
    assert np.abs(phi - expected).max() < 1e-8
    if not normalized:  # pair forces are equal and opposite: the centre of mass stays
        assert np.abs(theta @ masses - theta[0] @ masses).max() < 1e-8


@pytest.mark.parametrize("normalized", [True, False])
def test_masses_are_multiplicities(normalized):
    x = np.asarray(ms.uniform(4, 3, seed=6).points)
    counts = np.array([3, 1, 2, 1])
    field = ms.SelfAttention(2.0, normalized=normalized)
    steps = ms.Fixed(0.05)
    merged = ms.flow(ms.Points(x, counts), field, 3.0, frames=4, stepper=steps).points
    repeated = ms.flow(ms.Points(x.repeat(counts, 0)), field, 3.0, frames=4, stepper=steps).points
    assert np.abs(merged.repeat(counts, 1) - repeated).max() < 1e-10


def test_three_clusters_on_a_ring_balance():
    # Equal masses at the corners of a regular polygon feel no force, at any temperature.
    run = ms.flow(ms.polygon(3), ms.SelfAttention(1.0), 3.0, stepper=ms.Layers())
    assert np.abs(run.points[-1] - run.points[0]).max() < 1e-15


def test_infinite_temperature_is_kuramoto():
    start = ms.uniform(6, 3, seed=4)
    steps = ms.Fixed(0.05)
    sa, kuramoto = (
        ms.flow(start, field, 2.0, frames=2, stepper=steps).points
        for field in (ms.SelfAttention(0.0), ms.Kuramoto())
    )
    assert np.abs(sa - kuramoto).max() < 1e-14
