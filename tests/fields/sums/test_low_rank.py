"""The low-rank sum against brute-force sums over all pairs: bound, gradient and refusals."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import Dense, Kernel
from metastable.fields.sums import pivots as choice
from metastable.fields.sums.low_rank import LowRankSum
from metastable.fields.sums.pivots import SIZES, find_pivots
from tests import oracles

EPS = np.finfo(float).eps


def clustered(rng, tokens, dim, clusters, spread):
    centres = oracles.unit(rng.normal(size=(clusters, dim)))
    near = centres[rng.integers(clusters, size=tokens)]
    return oracles.unit(near + spread * rng.normal(size=(tokens, dim)))


def brute(beta, left, right, weights, values):
    """log Σ_j w_j e^{β⟨x_i,y_j⟩} and the weighted mean, term by term."""
    logits = beta * left @ right.T
    top = logits.max(axis=1, keepdims=True)
    k = np.exp(logits - top) * weights
    mass = k.sum(axis=1)
    return top[:, 0] + np.log(mass), (k @ values) / mass[:, None]


def kernel(beta, left, right, weights, own=False):
    with np.errstate(divide="ignore"):
        column = jnp.asarray(np.log(weights))
    arrays = jnp.asarray(left), jnp.asarray(right)
    return Kernel(jnp.asarray(float(beta)), *arrays, column=column, zonal=True, own=own)


SHAPES = [(40, 2), (150, 3), (90, 8), (150, 64)]


@eqx.filter_jit
def answer(sum, asked, values):
    """The mean and its bound; one compilation a shape."""
    return sum.attend(asked, values)[1], sum.bound(asked, values)


def random_case(rng, tokens, dim):
    """Tokens, some of them without mass, clustered or not, and places that are theirs or others."""
    beta = float(rng.choice([0.1, 1.0, 4.0, 9.0, 30.0, 100.0]))
    spread = 10 ** rng.uniform(-5, 0)
    right = clustered(rng, tokens, dim, int(rng.integers(1, 6)), spread)
    weights = rng.exponential(size=tokens) ** 3
    weights[rng.random(tokens) < rng.uniform(0, 0.6)] = 0.0
    weights[0] = 1.0
    weights /= weights.sum()
    own = rng.random() < 0.7
    left = right if own else clustered(rng, 30, dim, 3, spread)
    return beta, left, right, weights, own


@pytest.mark.parametrize(("tokens", "dim"), SHAPES)
def test_errors_stay_below_the_bound(tokens, dim):
    """200 random cases in all; the bound is a theorem, so nothing is added but rounding."""
    low = loose = 0
    rng = np.random.default_rng([tokens, dim])
    for _ in range(50):
        beta, left, right, weights, own = random_case(rng, tokens, dim)
        values = rng.normal(size=(tokens, 3))
        expected = brute(beta, left, right, weights, values)[1]
        found = find_pivots(right, beta, weights, 24).indices
        indices = np.zeros(24, int)  # one shape of pivots for all: padded
        indices[: len(found)] = found
        asked = kernel(beta, left, right, weights, own)
        got, bound = map(
            np.asarray, answer(LowRankSum(indices, len(found)), asked, jnp.asarray(values))
        )
        off, known = np.linalg.norm(got - expected, axis=1), np.isfinite(bound)
        # The oracle itself rounds logits, of size β, and sums of `tokens` values.
        rounding = 20 * EPS * (beta + tokens) * np.abs(values).max()
        assert np.all(off[known] <= bound[known] + rounding)
        low += bound.max() < 1e-6
        loose += not bound.max() < 1.0
    assert low >= 5 and loose >= 2  # both kinds of cases were met


def test_the_bound_is_met_by_an_error_it_must_cover():
    """Two tokens at angle φ, one pivot: R_22 = 1 − G², G = e^{β(cos φ − 1)}, in closed form."""
    beta, angle = 4.0, 0.7
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    sum, asked = LowRankSum([0]), kernel(beta, x, x, np.array([0.5, 0.5]), own=True)
    g = np.exp(beta * (np.cos(angle) - 1))
    residual = np.asarray(sum.residual(asked)[1])
    np.testing.assert_allclose(residual, [0.0, 1 - g**2], atol=1e-12)
    # Ĝ_22 = G², and all other entries are exact.
    mass, mean = sum.attend(asked, jnp.asarray(x))
    np.testing.assert_allclose(mass, beta + np.log([0.5 * (1 + g), 0.5 * (g + g**2)]), atol=1e-12)
    np.testing.assert_allclose(mean[1], (g * x[0] + g**2 * x[1]) / (g + g**2), atol=1e-12)


def test_rank_that_is_not_low_is_refused():
    rng = np.random.default_rng(0)
    x = oracles.unit(rng.normal(size=(400, 8)))
    assert LowRankSum.reaching(1e-6, x, 9.0) is None
    tight = clustered(rng, 400, 8, 3, 1e-3)
    assert LowRankSum.reaching(1e-6, tight, 9.0) is not None
    assert LowRankSum.reaching(1e-6, tight, 9.0, most=2) is None


def test_hopeless_searches_end_early():
    x = oracles.unit(np.random.default_rng(0).normal(size=(3000, 32)))
    found = find_pivots(x, 9.0, np.full(3000, 1 / 3000), 375, hopeless=1e-4)
    assert len(found.indices) <= 64
    assert found.traces[-1][1] > 0.5  # tr(G − Ĝ)/n ≥ 1 − r λ_max/n, and λ_max ≪ n here


def test_pivots_are_distinct_and_their_residual_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    x = clustered(rng, 150, 6, 4, 0.1)
    found = find_pivots(x, 9.0, np.full(150, 1 / 150), 40)
    assert len(set(found.indices.tolist())) == len(found.indices) == 40
    g = np.exp(9.0 * (x @ x.T - 1))
    assert list(found.residuals) == [16, 32, 40]
    for size, residual in found.residuals.items():
        s = found.indices[:size]
        exact = 1 - np.einsum("ij,ji->i", g[:, s] @ np.linalg.inv(g[np.ix_(s, s)]), g[s])
        np.testing.assert_allclose(residual, exact, atol=1e-9)


def test_pairs_are_the_exponentials_of_one_evaluation():
    """n r where they are kept for the way back; 2 n r + r² where not, and for other places."""
    sum = LowRankSum(np.arange(48))
    assert sum.pairs(1000, 48, symmetric=True) == 48_000
    assert sum.pairs(1000, 48, symmetric=False) == 96_000 + 48**2
    assert sum.pairs(2_000_000, 48, symmetric=True) == 2 * 96_000_000 + 48**2


def test_pivots_of_a_gpu_are_those_of_a_cpu(monkeypatch):
    """The same choice in JAX, whose arrays keep their shape; padding is never chosen."""
    rng = np.random.default_rng(7)
    x = np.concatenate([clustered(rng, 300, 6, 5, 0.05), np.eye(1, 6).repeat(50, axis=0)])
    weights = np.r_[rng.uniform(0.5, 1, 300), np.zeros(50)]
    host = find_pivots(x, 9.0, weights, 100, real=300)
    monkeypatch.setattr(choice, "_OnHost", choice._OnDevice)
    device = find_pivots(x, 9.0, weights, 100, real=300)
    assert device.indices.tolist() == host.indices.tolist() and host.indices.max() < 300
    assert list(device.residuals) == list(host.residuals)
    for size, residual in host.residuals.items():
        np.testing.assert_allclose(device.residuals[size], residual, atol=1e-12)
    np.testing.assert_allclose(device.traces, host.traces, atol=1e-12)


def test_heavy_tokens_are_pivots_first():
    rng = np.random.default_rng(0)
    x = oracles.unit(rng.normal(size=(100, 16)))
    weights = np.full(100, 1e-3)
    weights[[7, 70]] = 1.0
    assert set(find_pivots(x, 20.0, weights, 2).indices) == {7, 70}


@pytest.mark.parametrize("count", [5, 16, 17, 40])
def test_every_count_of_pivots_gives_the_same_as_a_sum_of_that_size(count):
    rng = np.random.default_rng(1)
    x = clustered(rng, 120, 5, 3, 0.05)
    pivots = find_pivots(x, 9.0, np.ones(120), 40).indices
    asked, values = kernel(9.0, x, x, np.full(120, 1 / 120), own=True), jnp.asarray(x)
    padded = LowRankSum(pivots, count).attend(asked, values)
    alone = LowRankSum(pivots[:count]).attend(asked, values)
    # δ = 1e−13 bounds the condition number, and rounding is that of two orders of summation.
    for a, b in zip(padded, alone, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)
    assert count == 5 or SIZES[0] == 16


def test_many_rows_are_computed_again_instead_of_kept(monkeypatch):
    from metastable.fields.sums import low_rank

    rng = np.random.default_rng(1)
    x = clustered(rng, 1300, 4, 3, 0.02)
    weights = np.full(1300, 1 / 1300)
    expected = brute(9.0, x, x, weights, x)
    sum = LowRankSum(find_pivots(x, 9.0, weights, 64).indices)
    for limits in (low_rank.KEPT, {"cpu": 0}):
        monkeypatch.setattr(low_rank, "KEPT", limits)
        got = sum.attend(kernel(9.0, x, x, weights, own=True), jnp.asarray(x))
        np.testing.assert_allclose(got[1], expected[1], atol=1e-9)
        np.testing.assert_allclose(got[0], expected[0], atol=1e-9)


@pytest.mark.parametrize("apart", [0.0, 0.1])
def test_queries_and_keys_of_any_norm(apart):
    """Nearby queries and keys differ by `apart`: the further, the more the keys' pivots miss."""
    rng = np.random.default_rng(5)
    x = clustered(rng, 200, 6, 3, 0.01)
    key = rng.normal(size=(6, 6))
    q, k = x @ (key + apart * rng.normal(size=(6, 6))).T, x @ key.T
    sum = LowRankSum(find_pivots(k, 0.5, np.exp(0.25 * (k**2).sum(1)), 64).indices)
    expected = brute(0.5, q, k, np.full(200, 1 / 200), x)[1]
    asked = kernel(0.5, q, k, np.full(200, 1 / 200))
    got, bound = answer(sum, asked, jnp.asarray(x))
    off = np.linalg.norm(np.asarray(got) - expected, axis=1)
    assert np.all(off <= np.asarray(bound))
    assert float(bound.max()) < 1e-3  # it says something


def test_gradients_in_tokens_values_and_beta_are_those_of_the_dense_sum():
    rng = np.random.default_rng(2)
    x = clustered(rng, 60, 4, 2, 0.02)
    weights, aim = np.full(60, 1 / 60), jnp.asarray(rng.normal(size=(60, 4)))
    sum = LowRankSum(find_pivots(x, 3.0, weights, 48).indices)

    def score(inputs, how):
        points, beta, values = inputs
        asked = eqx.tree_at(
            lambda k: (k.beta, k.left, k.right),
            kernel(3.0, x, x, weights, own=True),
            (beta, points, points),
        )
        log_mass, mean = how.attend(asked, values)
        return jnp.sum(aim * mean) + jnp.sum(log_mass)

    inputs = jnp.asarray(x), jnp.asarray(3.0), jnp.asarray(x)
    # The dense sum off its symmetric path: on it ‖x‖ = 1 is used, and the gradient is tangent only.
    got = jax.jit(jax.grad(lambda i: score(i, sum)))(inputs)
    expected = jax.jit(jax.grad(lambda i: score(i, Dense())))(inputs)
    project = lambda g: g - jnp.sum(g * x, axis=1, keepdims=True) * x
    np.testing.assert_allclose(project(got[0]), project(expected[0]), atol=1e-6)
    np.testing.assert_allclose(got[1], expected[1], atol=1e-6)
    np.testing.assert_allclose(got[2], expected[2], atol=1e-8)


def test_the_bound_is_infinite_for_rows_that_see_less_mass_than_the_error():
    x = oracles.unit(np.random.default_rng(0).normal(size=(300, 16)))
    asked = kernel(40.0, x, x, np.full(300, 1 / 300), own=True)
    sum = LowRankSum(np.arange(4))
    bound = np.asarray(sum.bound(asked, jnp.asarray(x)))
    off = (
        np.asarray(sum.attend(asked, jnp.asarray(x))[1])
        - brute(40.0, x, x, np.full(300, 1 / 300), x)[1]
    )
    wrong = np.linalg.norm(off, axis=1) > 0.1
    assert wrong.sum() > 100 and np.isinf(bound[wrong]).all()


def test_masks_and_wrong_pivots_are_refused_in_one_line():
    tokens = ms.uniform(30, 3)
    with pytest.raises(ValueError, match="no positional bias or mask; got Causal: use Dense"):
        ms.SelfAttention(1.0, causal=True).velocity(tokens, sum=LowRankSum([0, 1]))
    with pytest.raises(ValueError, match="pivots must be a row"):
        LowRankSum(np.zeros((2, 2), int))
