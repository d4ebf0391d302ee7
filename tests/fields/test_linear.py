"""Linear attention against brute force, as a potential, and along a flow it solves."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.fields.zonal import potential_of
from tests import oracles
from tests.fields.cases import arrays, error, matrices, places, velocity, weighted


def weights_of(x, at, query, key, features):
    left, right = oracles.apply(query, at), oracles.apply(key, x)
    if features == "elu":
        lift = lambda u: np.where(u > 0, u, np.expm1(u)) + 1
        left, right = lift(left), lift(right)
    return left @ right.T


@pytest.mark.parametrize(
    ("features", "normalized"), [("plain", False), ("elu", False), ("elu", True)]
)
def test_velocity_is_the_weighted_sum(features, normalized):
    m, at = weighted(57, 3), places(3)
    x, w = arrays(m)
    query, key, value = matrices(3)
    field = ms.LinearAttention(query, key, value, features, normalized)
    for rows, where in ((x, None), (at, at)):
        k = weights_of(x, rows, query, key, features) * w
        k = k / k.sum(1, keepdims=True) if normalized else k
        expected = oracles.project(rows, k @ oracles.apply(value, x))
        assert error(velocity(field, m, at=where), expected) < 1e-12


def test_plain_attention_is_the_gradient_flow_of_a_square():
    m = weighted(57, 4)
    field = ms.LinearAttention(query=2.0, value=-0.5)
    same = ms.Potential(lambda s: -0.5 * s**2)
    assert error(velocity(field, m), np.asarray(velocity(same, m))) < 1e-13
    assert float(potential_of(field)(0.5)) == pytest.approx(-0.125)  # pyright: ignore


def test_on_the_circle_it_is_kuramoto_of_doubled_angles():
    m = weighted(41, 2)
    x, w = arrays(m)
    theta = np.arctan2(x[:, 1], x[:, 0])
    rate = -0.5 * np.array([np.sum(w * np.sin(2 * (a - theta))) for a in theta])
    expected = rate[:, None] * np.stack([-x[:, 1], x[:, 0]], axis=1)
    assert error(velocity(ms.LinearAttention(), m), expected) < 1e-13


def test_many_tokens_follow_the_order_of_a_mean_field():
    """theory.axial_order, whose equation is Ott and Antonsen's, by an image of the uniform grid."""
    n, start = 400, 0.2
    turn = 2 * np.pi * (np.arange(n) + 0.5) / n
    y = np.stack([np.cos(turn), (1 - start) / (1 + start) * np.sin(turn)], axis=1)
    run = ms.flow(ms.Points(oracles.unit(y)), ms.LinearAttention(), 4.0, frames=9, progress=False)
    angles = [np.asarray(frame.angles) for frame in run.frames]
    seen = [abs(np.mean(np.exp(2j * a))) for a in angles]
    assert np.abs(np.array(seen) - ms.theory.axial_order(run.times, start)).max() < 1e-9


def test_plain_features_are_not_normalised():
    with pytest.raises(ValueError, match=r"normalized needs positive features.*'elu'"):
        ms.LinearAttention(normalized=True)
    with pytest.raises(ValueError, match="features must be 'plain' or 'elu'; got 'relu'"):
        ms.LinearAttention(features="relu")  # pyright: ignore
