import importlib

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastable.core.numerics import jax, jnp
from metastable.measures import Points, gaussian_points, polygon, simplex, uniform
from metastable.observe import energy, log_potential, order_parameter
from metastable.observe.pairs import BLOCK, padded

energy_module = importlib.import_module("metastable.observe.energy")  # the function hides it


def brute(points, weights, beta, matrix=None):
    """E_β by mpmath at 50 digits, term by term."""
    mp.mp.dps = 50
    x = mp.matrix(np.asarray(points).tolist())
    w = [mp.mpf(float(c)) for c in weights]
    m = mp.matrix(np.eye(x.cols).tolist() if matrix is None else matrix.tolist())
    gram = x * m.T * x.T
    n = range(x.rows)
    total = mp.fsum(w[i] * w[j] * mp.exp(beta * gram[i, j]) for i in n for j in n)
    return total / (2 * mp.mpf(beta))


@pytest.mark.parametrize("beta", [-3.0, 9.0, 300.0])
@pytest.mark.parametrize("dim", [2, 7])
def test_against_mpmath(beta, dim):
    rng = np.random.default_rng(dim)
    measure = Points(uniform(9, dim, seed=dim).points, rng.uniform(0.1, 1, 9))
    matrix = rng.normal(size=(dim, dim)) / dim
    for m in (None, matrix):
        expected = brute(measure.points, measure.weights, beta, m)
        assert float(energy(measure, beta, m)) == pytest.approx(float(expected), rel=1e-12)
        scaled = expected * 2 * beta * mp.exp(-beta)
        assert float(energy(measure, beta, m, scaled=True)) == pytest.approx(
            float(scaled), rel=1e-12
        )


def test_exact_configurations():
    # Published values: simplex [e^β+(n−1)e^{−β/(n−1)}]/(2βn); 7-gon at β = 3: 0.8149561.
    beta, n = 2.0, 5
    expected = (np.exp(beta) + (n - 1) * np.exp(-beta / (n - 1))) / (2 * beta * n)
    assert float(energy(simplex(n - 1), beta)) == pytest.approx(expected, rel=1e-13)
    assert float(energy(polygon(7), 3.0)) == pytest.approx(0.8149561, abs=5e-8)


def test_scaled_never_overflows_and_jumps_at_a_merger():
    # At large β only coincident tokens interact: 2βe^{−β}E = Σ (cluster mass)².
    apart = Points([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], [0.2, 0.3, 0.5])
    merged = Points([[1.0, 0.0], [-1.0, 0.0]], [0.5, 0.5])
    before, after = (float(energy(m, 1e5, scaled=True)) for m in (apart, merged))
    assert before == pytest.approx(0.04 + 0.09 + 0.25, rel=1e-9)
    assert after - before == pytest.approx(2 * 0.2 * 0.3, rel=1e-9)


def test_limit_at_zero_beta():
    measure = Points(uniform(20, 3, seed=1).points, np.arange(1.0, 21.0))
    matrix = np.diag([1.0, -2.0, 0.5])
    for m in (None, matrix):
        limit = float(energy(measure, 0.0, m))
        small = 1e-4
        near = float(energy(measure, small, m)) - 1 / (2 * small)
        # E_β − 1/2β = ½⟨Mm,m⟩ + (β/4)·mean⟨Mx,y⟩² + …
        s = np.asarray(measure.points) @ (np.eye(3) if m is None else m).T @ measure.points.T
        next_order = small / 4 * float(measure.weights @ (s**2) @ measure.weights)
        assert near - next_order == pytest.approx(limit, abs=3e-8)
    assert limit == pytest.approx(0.5 * float(jnp.vdot(matrix @ mean(measure), mean(measure))))
    assert float(energy(measure, 0.0, scaled=True)) == pytest.approx(1.0, rel=1e-14)


def mean(measure):
    return measure.weights @ measure.points


def test_gradient_in_tokens_weights_and_beta():
    measure, beta = uniform(40, 3, seed=2), 4.0
    value = lambda x, b: energy(measure.at(x), b)
    by_token, by_beta = jax.grad(value, (0, 1))(measure.points, beta)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    kernel = np.exp(beta * x @ x.T)
    # ∂E/∂x_i = w_i Σ_j w_j e^{β⟨x_i,x_j⟩} x_j (both slots count), ∂E/∂β by the product rule.
    np.testing.assert_allclose(by_token, w[:, None] * (kernel @ (w[:, None] * x)), rtol=1e-12)
    expected = w @ (kernel * (x @ x.T) / (2 * beta) - kernel / (2 * beta**2)) @ w
    assert float(by_beta) == pytest.approx(expected, rel=1e-12)


def test_blocks_of_rows_agree_with_one_product():
    measure = uniform(2100, 3, seed=3)
    assert measure.count**2 > 2 * BLOCK
    x = np.asarray(measure.points)
    expected = np.exp(7 * (x @ x.T - 1)).mean()
    assert float(energy(measure, 7.0, scaled=True)) == pytest.approx(expected, rel=1e-12)
    gradient = jax.grad(lambda p: energy(measure.at(p), 7.0, scaled=True))(measure.points)
    some = np.exp(7 * (x[:3] @ x.T - 1)) @ x * 14 / 2100**2
    np.testing.assert_allclose(gradient[:3], some, rtol=1e-11)


@pytest.mark.parametrize(("dim", "beta"), [(2, 9.0), (3, 9.0), (4, 2.0), (5, 1.0), (9, 4.0)])
def test_the_energy_of_many_tokens_by_the_chosen_sum(dim, beta, monkeypatch):
    """Against all pairs in NumPy; masses unequal and one of them zero."""
    weights = np.random.default_rng(dim).uniform(0.1, 1.0, 5001)
    weights[17] = 0.0
    measure = Points(uniform(5001, dim, seed=1).points, weights)
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    chosen, choose = [], energy_module.choose_sum
    monkeypatch.setattr(
        energy_module, "choose_sum", lambda *a: chosen.append(choose(*a)) or chosen[-1]
    )
    expected = w @ np.exp(beta * (x @ x.T - 1)) @ w
    assert float(energy(measure, beta, scaled=True)) == pytest.approx(expected, rel=1e-10)
    full = expected * np.exp(beta) / (2 * beta)
    assert float(energy(measure, beta)) == pytest.approx(full, rel=1e-10)
    if dim in (2, 3, 9):  # between, what is cheapest depends on the machine
        assert (chosen[0].name == "dense") == (dim == 9)


def test_many_tokens_that_hardly_see_each_other_fall_back_to_all_pairs():
    # The light token sees 1e−20 of the mass, less than a fast sum can tell.
    points = np.array([[1.0, 0.0]] * 2999 + [[-1.0, 0.0]])
    measure = Points(points, np.array([1.0] * 2999 + [3e-17]))
    light = 1e-20
    expected = 1 - 2 * light + 2 * light * np.exp(-60.0)
    assert float(energy(measure, 30.0, scaled=True)) == pytest.approx(expected, rel=1e-13)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 8), st.integers(0, 1000), st.floats(0.0, 20.0))
def test_weights_are_multiplicities(n, seed, beta):
    copies = np.random.default_rng(seed).integers(1, 4, n)
    points = np.asarray(uniform(n, 3, seed=seed).points)
    weighted, repeated = Points(points, copies), Points(np.repeat(points, copies, axis=0))
    for observe in (lambda m: energy(m, beta, scaled=True), order_parameter):
        assert float(observe(weighted)) == pytest.approx(float(observe(repeated)), abs=1e-13)


def test_odd_but_legal_measures():
    one = Points([[0.6, 0.8]])
    assert float(energy(one, 2.0)) == pytest.approx(np.exp(2) / 4)
    ghost = Points([[0.6, 0.8], [-1.0, 0.0]], [1.0, 0.0])
    assert float(energy(ghost, 2.0)) == pytest.approx(np.exp(2) / 4)
    far = Points(1e3 * np.asarray(gaussian_points(5, 2).points), on_sphere=False)
    assert np.isposinf(float(energy(far, 1.0)))
    assert np.isfinite(log_potential(far, 1.0)).all()


def test_log_potential_elsewhere_and_padding():
    measure, places = uniform(11, 4, seed=5), uniform(3, 4, seed=6).points
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    expected = np.log(np.exp(2 * (places @ matrix.T) @ measure.points.T).mean(axis=1))
    np.testing.assert_allclose(log_potential(measure, 2.0, places, matrix), expected, rtol=1e-13)
    points, weights = padded(measure.points, measure.weights)
    assert len(points) == len(weights) == 16 and weights.sum() == pytest.approx(1)


def test_messages():
    with pytest.raises(ValueError, match=r"matrix must be a 3 x 3 .* got shape \(2, 2\)"):
        energy(uniform(4, 3), 1.0, np.eye(2))
    with pytest.raises(ValueError, match="beta must be a finite real number; got nan"):
        energy(uniform(4, 3), float("nan"))
