"""Invariants for any measure: energy, symmetries, masses, the sphere.

All examples have 8 tokens in R^8, so that one compilation serves them: fewer tokens are masses of
zero, a lower dimension is a subspace, and β is a traced number.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metastable as ms
from tests import oracles

N = D = 8
STEPS = ms.Fixed(0.05)


@st.composite
def measures(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    tokens, dim = draw(st.integers(1, N)), draw(st.integers(2, D))
    rng = np.random.default_rng(seed)
    x = np.zeros((N, D))
    x[:, :dim] = rng.normal(size=(N, dim))
    weights = np.where(np.arange(N) < tokens, rng.uniform(0.05, 1, N), 0.0)
    return ms.Points(oracles.unit(x), rng.permutation(weights))


betas = st.floats(0.01, 12.0)
SIGNS = {"attraction": None, "repulsion": -1.0}


@eqx.filter_jit
def velocity(field, measure):
    return field.velocity(measure)


def energies(run, beta):
    w = np.asarray(run.frames[0].weights)
    return np.array([oracles.energy(x, w, beta) for x in run.points])


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("sign", SIGNS)
@given(measure=measures(), beta=betas)
def test_energy_climbs_for_attraction_and_falls_for_repulsion(sign, normalized, measure, beta):
    field = ms.SelfAttention(beta, value=SIGNS[sign], normalized=normalized)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    force = oracles.attention(x, w, beta, normalized=False)  # the gradient of E, per unit of mass
    terms = w * (force * np.asarray(velocity(field, measure))).sum(1)
    slope, scale = terms.sum(), np.exp(2 * beta)
    assert slope * (1 if sign == "attraction" else -1) >= -1e-13 * scale


@pytest.mark.parametrize("sign", SIGNS)
@given(measure=measures(), beta=betas)
@settings(max_examples=8)
def test_energy_is_monotone_along_flows(sign, measure, beta):
    run = ms.flow(measure, ms.SelfAttention(beta, value=SIGNS[sign]), 1.0, frames=13)
    steps = np.diff(energies(run, beta)) * (1 if sign == "attraction" else -1)
    assert run.outcome.name == "done"
    assert steps.min() >= -1e-8 * np.exp(beta)
    assert np.abs(np.linalg.norm(run.points, axis=-1) - 1).max() < 1e-12


@given(measure=measures(), beta=betas, seed=st.integers(0, 1000))
def test_velocities_turn_and_permute_with_the_tokens(measure, beta, seed):
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    order = rng.permutation(N)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    field = ms.SelfAttention(beta)
    v = np.asarray(velocity(field, measure))
    turned = velocity(field, ms.Points(x @ rotation.T, w))
    assert np.abs(np.asarray(turned) - v @ rotation.T).max() < 1e-12
    permuted = velocity(field, ms.Points(x[order], w[order]))
    assert np.abs(np.asarray(permuted) - v[order]).max() < 1e-13
    assert np.abs((x * v).sum(1)).max() < 1e-14  # tangent


@given(measure=measures(), beta=betas, seed=st.integers(0, 1000))
@settings(max_examples=5)
def test_flows_turn_and_permute_with_the_tokens(measure, beta, seed):
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    order = rng.permutation(N)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    field = ms.SelfAttention(beta)
    last = lambda m: ms.flow(m, field, 1.0, frames=2, stepper=STEPS).points[-1]
    both = last(ms.Points((x @ rotation.T)[order], w[order]))
    assert np.abs(both - (last(measure) @ rotation.T)[order]).max() < 1e-10


@given(measure=measures(), beta=betas, share=st.floats(0, 1))
def test_a_split_token_acts_as_one(measure, beta, share):
    x, w = np.array(measure.points), np.array(measure.weights)
    x[1] = x[0]
    total = w[0] + w[1]
    for normalized in (True, False):
        field = ms.SelfAttention(beta, normalized=normalized)
        w[0], w[1] = total, 0.0
        one = np.asarray(velocity(field, ms.Points(x, w)))
        w[0], w[1] = share * total, (1 - share) * total
        two = np.asarray(velocity(field, ms.Points(x, w)))
        assert np.abs(one - two).max() < 1e-13 * np.exp(beta)
