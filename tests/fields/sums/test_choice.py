"""The choice of a sum: what it serves, that it keeps its word, and when it stays dense."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax
from metastable.fields import field as field_module
from metastable.fields.sums import choice
from metastable.fields.sums.causal import CausalSum
from metastable.fields.sums.choice import check_sum, choose_sum
from metastable.fields.sums.dense import Dense
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum
from metastable.fields.sums.zonal import degree_for
from tests import oracles

NEAR = np.array([[1.0, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 1.0]])


def served(dim):
    """Fields a fast sum exists for, and the kind chosen for 50 000 tokens."""
    fast = CircleSum if dim == 2 else SphereSum
    plain = ms.SelfAttention(25.0)
    return [
        (plain, fast),
        (ms.SelfAttention(25.0, value=-1.0, normalized=False) + ms.Noise(kappa=9.0), fast),
        (ms.MultiHead([plain, ms.SelfAttention(30.0, value=NEAR[:dim, :dim])]), fast),
        (ms.SelfAttention(9.0, causal=True), CausalSum),
        (ms.SelfAttention(2.0, query=NEAR[:dim, :dim]), GaussianSum),
    ]


@pytest.mark.parametrize("dim", [2, 3])
def test_fast_sums_are_chosen_and_keep_the_tolerance(dim):
    measure = ms.uniform(tokens=50_000, dim=dim, seed=1)
    for field, kind in served(dim):
        sum = choose_sum(measure, field)
        assert type(sum) is kind, field
    for field, _ in served(dim)[3:]:  # the others differ in the values they carry
        assert check_sum(choose_sum(measure, field), measure, field, sample=32) < 1e-9


@pytest.mark.parametrize("dim", [2, 3])
def test_few_tokens_are_summed_densely_and_some_by_matrix_products(dim):
    for field, _ in served(dim):
        assert type(choose_sum(ms.uniform(tokens=100, dim=dim), field)) is Dense
    some = ms.uniform(tokens=1500, dim=dim)
    assert type(choose_sum(some, ms.SelfAttention(2.0))) is HarmonicSum


def test_what_has_no_fast_sum_is_summed_densely():
    circle, sphere = ms.uniform(tokens=50_000, dim=2), ms.uniform(tokens=50_000, dim=3)
    stretched = np.diag([1.0, 0.1, 3.0])
    fields = [
        ms.SelfAttention(2.0, causal=True, position=ms.Alibi(0.1)),
        ms.SelfAttention(2.0, query=NEAR[:2, :2], causal=True),
        ms.Schedule(lambda t: ms.SelfAttention(1 + t)),
        ms.Potential(lambda s: s**2),
        ms.Kuramoto(),
        ms.SinkhornAttention(2.0),
        ms.SelfAttention(20.0, query=-1.0),  # rows look away from themselves: no digits left
    ]
    for field in fields:
        assert type(choose_sum(circle, field)) is Dense, field
    assert type(choose_sum(sphere, ms.SelfAttention(9.0, key=stretched))) is Dense
    assert type(choose_sum(ms.uniform(tokens=50_000, dim=9), ms.SelfAttention(2.0))) is Dense
    assert type(choose_sum(circle.euclidean(), ms.SelfAttention(2.0))) is Dense
    crowd = ms.Points(circle.points, times=np.zeros(50_000))
    assert type(choose_sum(crowd, ms.SelfAttention(2.0, causal=True))) is Dense
    # The degrees of so large a β would outgrow the tables of the sphere.
    assert type(choose_sum(sphere, ms.SelfAttention(1e4))) is Dense


@pytest.mark.parametrize("dim", [4, 5, 6, 7, 8])
def test_many_tokens_in_more_dimensions_take_the_harmonic_sum_and_keep_the_tolerance(dim):
    beta = 4.0 if dim <= 6 else 1.0
    field, few = ms.SelfAttention(beta), ms.uniform(tokens=200, dim=dim, seed=1)
    assert type(choose_sum(few, field, 1e-4)) is Dense
    assert type(choose_sum(ms.uniform(tokens=10**6, dim=dim), field, 1e-4)) is HarmonicSum
    crowd = ms.uniform(tokens=131_072, dim=dim)
    chosen = choose_sum(crowd, field, 1e-4)
    assert type(chosen) is HarmonicSum
    assert check_sum(chosen, few, field) < 1e-4


def test_a_tolerance_that_rounding_forbids_is_summed_densely():
    # In d = 8 and at β = 9 tokens spread evenly see 7e−7 of the mass: 2e−14 of it is 3e−8 of that.
    crowd = ms.uniform(tokens=10**6, dim=8)
    assert type(choose_sum(crowd, ms.SelfAttention(2.0), 1e-11)) is Dense
    # Degrees for β = 60 in powers of ⟨x,y⟩ leave no digits, and those of β = 9 in d = 8 no memory.
    assert type(choose_sum(ms.uniform(tokens=10**6, dim=4), ms.SelfAttention(60.0))) is Dense
    assert type(choose_sum(crowd, ms.SelfAttention(9.0), 1e-3)) is Dense
    single = ms.Points(np.asarray(crowd.points[:50_000, :4]), on_sphere=False, dtype=np.float32)
    assert type(choose_sum(single.directions(), ms.SelfAttention(4.0), 1e-10)) is Dense


def test_causal_attention_in_more_dimensions():
    crowd, field = ms.uniform(tokens=50_000, dim=4), ms.SelfAttention(4.0, causal=True)
    assert type(choose_sum(crowd, field, 1e-6)) is CausalSum
    assert type(choose_sum(ms.uniform(tokens=100, dim=4), field, 1e-6)) is Dense


def test_choice_inside_a_transformation_depends_on_shapes_alone():
    measure = ms.uniform(tokens=50_000, dim=2)

    def kind(points, field):
        kinds.append(type(choose_sum(measure.at(points), field)))
        return points

    kinds, field = [], ms.SelfAttention(25.0)
    jax.eval_shape(lambda x: kind(x, field), measure.points)
    jax.eval_shape(lambda beta: kind(measure.points, ms.SelfAttention(beta)), 25.0)  # unknown β
    assert kinds == [CircleSum, Dense]


def test_a_coarse_sum_is_found_out():
    measure, field = ms.uniform(tokens=2000, dim=2, seed=2), ms.SelfAttention(9.0)
    coarse = check_sum(CircleSum.reaching(9.0, 1e-2), measure, field)
    assert 1e-4 < coarse < 1 and check_sum(Dense(), measure, field) < 1e-13


def test_without_finufft_the_harmonic_sum_serves(monkeypatch):
    monkeypatch.setattr(choice, "_has_nufft", lambda: False)
    measure, field = ms.uniform(tokens=20_000, dim=3), ms.SelfAttention(9.0)
    assert type(choose_sum(measure, field)) is HarmonicSum
    assert type(choose_sum(measure, ms.SelfAttention(2.0, query=NEAR))) is Dense


@pytest.mark.skipif(importlib.util.find_spec("jax_finufft") is None, reason="needs jax-finufft")
def test_importing_the_package_does_not_import_finufft():
    code = "import sys, metastable.fields; print('jax_finufft' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def chosen(monkeypatch):
    """The names of the sums that `velocity` chose."""
    names, choose = [], field_module.choose_sum

    def recorded(*args):
        names.append(choose(*args).name)
        return choose(*args)

    monkeypatch.setattr(field_module, "choose_sum", recorded)
    return names


def test_the_velocity_of_many_tokens_takes_the_fast_sum_and_agrees_with_the_dense_one(chosen):
    for dim in (2, 3):
        crowd = ms.uniform(3000, dim, seed=2)
        for field in (ms.SelfAttention(9.0), ms.SelfAttention(9.0, normalized=False)):
            fast = np.asarray(field.velocity(crowd))
            assert "harmonic" in chosen[-1] or "NUFFT" in chosen[-1]
            # A sum errs by 1e−12 of the unprojected vector, e^β of it for USA, over the share seen.
            size = np.abs(
                oracles.attention(
                    np.asarray(crowd.points),
                    np.asarray(crowd.weights),
                    9.0,
                    normalized=field.normalized,
                )
            ).max()
            dense = np.asarray(field.velocity(crowd, sum=ms.Dense()))
            assert 0 < np.abs(fast - dense).max() < 1e-11 * size


def test_velocities_of_few_tokens_other_places_and_traced_ones_are_dense(chosen):
    field, crowd = ms.SelfAttention(9.0), ms.uniform(1500, 2, seed=2)
    places = np.asarray(crowd.points[:5])
    dense = field.velocity(crowd, sum=ms.Dense())
    assert np.array_equal(
        field.velocity(ms.Points(places)), field.velocity(ms.Points(places), sum=ms.Dense())
    )
    assert np.abs(field.velocity(crowd, at=places) - dense[:5]).max() < 1e-14
    traced = jax.jit(lambda x: field.velocity(ms.Points(x)))(crowd.points)
    assert np.abs(traced - dense).max() < 1e-14
    assert chosen == []


def test_a_token_beyond_the_reach_of_a_fast_sum_gets_its_dense_velocity():
    # A token of hardly any mass sees the crowd by e^{20(−0.8−1)} = 2e−16, below any tolerance.
    points = np.array([[1.0, 0.0]] * 1999 + [[-0.8, 0.6]])
    alone = ms.Points(points, np.array([1.0] * 1999 + [1e-22]))
    velocity = np.asarray(ms.SelfAttention(20.0).velocity(alone))
    own, crowd = 1e-22 / 1999, np.exp(-36.0)
    tangent = np.array([1.0, 0.0]) + 0.8 * points[-1]
    np.testing.assert_allclose(velocity[-1], crowd / (own + crowd) * tangent, rtol=1e-12)


@pytest.mark.parametrize("beta", [1e7, 1e18, 1e150, 1e308])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_beta_beyond_every_series_is_summed_densely(beta, dim):
    crowd = ms.uniform(10_000, dim)
    assert choose_sum(crowd, ms.SelfAttention(beta)).name == "dense"
    assert choose_sum(crowd, ms.SelfAttention(beta, causal=True)).name == "dense"
    assert choose_sum(crowd, ms.SelfAttention(2.0, query=beta, key=beta)).name == "dense"


def test_a_series_for_an_endless_beta_is_refused():
    with pytest.raises(ValueError, match=r"beta must be at most 4\.1943e\+06.*got 1e\+18.*Dense"):
        degree_for(1e18, 2, 1e-10)
    with pytest.raises(ValueError, match=r"degree must be at most 2048 in dimension 2; got 5000"):
        HarmonicSum(2, 5000)
