"""Attention with normalised positions against brute force, in specs and along a flow."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter

import metastable as ms
from metastable.fields.build import build_field
from metastable.fields.retrieval import PositionalAttention
from metastable.fields.spec import FieldSpec
from tests import oracles
from tests.fields.cases import arrays, error, places, velocity, weighted

S = np.random.default_rng(5).permutation(60).astype(float) / 2  # unsorted, not integers
AWAY = np.array([0.0, 2.2, 7.0, 7.0, 29.0])


def drift(x, w, beta, slope, rows, times, causal, width, sinks):
    gap = times[:, None] - S
    seen = (gap >= 0) | (not causal)
    if width is not None:
        seen &= (np.abs(gap) < width) | (sinks > S)
    pull = np.where(seen, w * np.exp(-slope * np.abs(gap)), 0.0)
    mass = pull.sum(1, keepdims=True)
    pull = pull / np.where(mass > 0, mass, 1.0)
    return oracles.project(rows, (pull * np.exp(beta * rows @ x.T)) @ x)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("width", "sinks"), [(None, 0), (3.0, 2)])
def test_velocity_is_the_weighted_sum(causal, width, sinks):
    m = weighted(60, 3, times=S)
    x, w = arrays(m)
    field = PositionalAttention(1.5, 0.3, causal, width, sinks)
    assert field.clock == "USA"
    for rows, times, at in [(x, S, None), (places(3), AWAY, ms.Points(places(3), times=AWAY))]:
        expected = drift(x, w, 1.5, 0.3, rows, times, causal, width, sinks)
        assert error(velocity(field, m, at=at), expected) < 1e-12


def test_many_tokens_take_the_sum_that_flow_would_choose():
    m = ms.uniform(tokens=1500, dim=2, seed=2)
    field = PositionalAttention(2.0)
    assert error(field.velocity(m), np.asarray(field.velocity(m, sum=ms.Dense()))) < 1e-9


def test_specs_know_it():
    described = TypeAdapter(FieldSpec).validate_python(
        {"kind": "positional_attention", "beta": 2.0, "slope": 0.25, "width": 4.0}
    )
    built = build_field(described, 3)
    m = weighted(60, 3, times=S)
    same = PositionalAttention(2.0, 0.25, width=4.0)
    assert np.array_equal(built.velocity(m), same.velocity(m))
    with pytest.raises(ValueError, match="beta"):
        TypeAdapter(FieldSpec).validate_python({"kind": "positional_attention", "beta": -1.0})


def test_places_without_times_are_refused():
    m = ms.uniform(tokens=4, dim=3)
    with pytest.raises(ValueError, match="needs their times"):
        PositionalAttention(1.0).velocity(m, at=places(3))


@pytest.mark.parametrize("heads", [1, 2])
def test_a_run_moves_like_angles(heads):
    from metastable.core.numerics import jnp
    from metastable.observe.retrieval import (
        flow_circle,
        force_waves,
        position_bias,
        position_weights,
    )

    start = ms.uniform(tokens=6, dim=2, seed=4)
    field = PositionalAttention(1.0, slope=2 / 6)
    biases, betas, outputs = [position_bias(6, 2.0)], [1.0], [1.0]
    if heads == 2:
        field = ms.fields.MultiHead([field, PositionalAttention(3.0, width=2.5)], [0.5, 0.25])
        biases, betas, outputs = [*biases, position_bias(6, width=2.5)], [1.0, 3.0], [0.5, 0.25]
    run = ms.flow(start, field, horizon=1.0, frames=2)
    pull = jnp.asarray([position_weights(bias) for bias in biases])
    force = force_waves(betas, jnp.float64, outputs)
    angles = flow_circle(start.angles[:, None], pull, force, 1 / 128, 128)[:, 0]
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert np.abs(np.asarray(run.frames[-1].points) - turned).max() < 1e-6
