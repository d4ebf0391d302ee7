"""Learning W, V, Q and K: gradients, the published loop, and what the data can tell."""

from __future__ import annotations

import numpy as np
import optax
import pytest

from metastable.core.numerics import jax, jnp
from metastable.learn.gaussian.landscape import stand
from metastable.learn.gaussian.matrices import (
    Epochs,
    gauge_error,
    matrix_loss,
    matrix_residuals,
)
from metastable.learn.gaussian.teacher import (
    Dataset,
    ExactLayer,
    Matrices,
    TruncatedLayer,
    random_covariances,
    random_matrices,
    teach,
)
from metastable.learn.training import Gradient, train
from tests.learn import listing

DIM, KEYS, STEP = 6, 3, 0.2
TEACHER, STUDENT = (random_matrices(DIM, KEYS, seed, value_dim=4) for seed in (0, 1))
DATA = teach(TruncatedLayer(STEP), TEACHER, random_covariances(7, DIM, seed=2))
ALPHA = STEP / np.sqrt(KEYS)


def published(repaired):
    """The mean of the published gradients over the data."""
    found = [
        listing.matrix_gradients(*map(np.asarray, STUDENT), s, t, ALPHA, repaired=repaired)[1]
        for s, t in zip(np.asarray(DATA.inputs), np.asarray(DATA.targets), strict=True)
    ]
    return Matrices(*[np.mean(each, axis=0) for each in zip(*found, strict=True)])


@pytest.mark.parametrize("layer", [TruncatedLayer(STEP), ExactLayer(STEP)])
def test_autodiff_equals_finite_differences_in_all_four_matrices(layer):
    loss = jax.jit(matrix_loss(layer))
    gradient = jax.grad(loss)(STUDENT, DATA)
    h = 1e-5
    for name in Matrices._fields:
        base = np.asarray(getattr(STUDENT, name))
        for place in np.ndindex(base.shape):
            ends = []
            for sign in (1, -1):
                moved = base.copy()
                moved[place] += sign * h
                ends.append(float(loss(STUDENT._replace(**{name: moved}), DATA)))
            slope = (ends[0] - ends[1]) / (2 * h)
            scale = float(jnp.abs(getattr(gradient, name)).max())
            assert abs(slope - float(getattr(gradient, name)[place])) < 1e-7 * max(scale, 1.0)


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("values", [4, 9])
@pytest.mark.parametrize("weights", [None, np.array([2.0, 0.0, 1.0, 1.0, 0.5, 1.0, 3.0])])
def test_the_written_gradient_is_that_of_autodiff(count, values, weights):
    """One pair and seven: A = WV is formed for the latter only. Oracle: autodiff of the layer."""
    layer, student = TruncatedLayer(STEP), random_matrices(DIM, KEYS, 3, value_dim=values)
    data = Dataset(*[x[:count] for x in DATA[:2]], None if weights is None else weights[:count])

    def plain(matrices, data):
        errors = jnp.mean((layer(matrices, data.inputs) - data.targets) ** 2, axis=(1, 2))
        return jnp.average(errors, weights=data.weights)

    loss = matrix_loss(layer)
    found, expected = (jax.jit(jax.value_and_grad(f))(student, data) for f in (loss, plain))
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.allclose(got, want, rtol=0, atol=1e-12 * float(jnp.abs(want).max()))
    found, expected = (
        jax.jit(jax.grad(lambda x, f=f: f(student, data._replace(inputs=x))))(data.inputs)
        for f in (loss, plain)
    )
    assert np.allclose(found, expected, rtol=0, atol=1e-14)


def test_data_in_single_precision_move_matrices_in_double():
    """Seven digits of the step, not of the matrices."""
    method = Gradient(matrix_loss(TruncatedLayer(STEP)), optax.sgd(0.1))
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), DATA)
    step = jax.jit(lambda data: method.step(STUDENT, method.init(STUDENT, data), data)[0])
    ends = [step(data) for data in (DATA, single)]
    for start, end, rough in zip(STUDENT, *ends, strict=True):
        assert rough.dtype == jnp.float64
        assert 0 < jnp.abs(rough - end).max() < 3e-6 * jnp.abs(end - start).max()


def test_the_published_gradient_is_wrong_in_w_and_v_and_a_transpose_repairs_it():
    """Y′ stands where Y belongs: dL/dA is α(GX′ + GY)."""
    gradient = jax.grad(matrix_loss(TruncatedLayer(STEP)))(STUDENT, DATA)
    printed, repaired = published(False), published(True)
    for name in Matrices._fields:
        exact = np.asarray(getattr(gradient, name))
        off = np.linalg.norm(getattr(printed, name) - exact) / np.linalg.norm(exact)
        assert off > 0.1 if name in "WV" else off < 1e-12, (name, off)
        assert np.allclose(getattr(repaired, name), exact, rtol=0, atol=1e-13)


def test_the_loop_is_the_published_one_with_the_gradient_repaired():
    """7 pairs in batches of 3: the last batch is shorter."""
    method = Gradient(matrix_loss(TruncatedLayer(STEP)), optax.sgd(0.1))
    matrices, losses = listing.matrix_epochs(
        STUDENT, np.asarray(DATA.inputs), np.asarray(DATA.targets), ALPHA, 0.1, 3, 4, repaired=True
    )
    whole = train(STUDENT, Epochs(method, 3), DATA, steps=4)
    for same, expected in zip(whole.parameters, matrices, strict=True):
        assert np.allclose(same, expected, rtol=0, atol=1e-12)
    assert np.allclose(whole.losses, losses, rtol=1e-12)


def test_residuals_are_the_roots_of_the_loss():
    layer = ExactLayer(STEP)
    total = float(jnp.sum(matrix_residuals(layer)(STUDENT, DATA) ** 2))
    assert total == pytest.approx(float(matrix_loss(layer)(STUDENT, DATA)), rel=1e-13)


def test_gauge_error_ignores_what_covariances_cannot_see():
    random = np.random.default_rng(3)
    x, y = random.standard_normal((4, 4)), random.standard_normal((KEYS, KEYS))
    w, v, q, k = map(np.asarray, TEACHER)
    same = Matrices(-2 * w @ x, np.linalg.solve(x, v), -y @ q / 2, np.linalg.solve(y.T, k))
    assert max(gauge_error(same, TEACHER)) < 1e-12
    for layer in (TruncatedLayer(STEP), ExactLayer(STEP)):
        assert float(matrix_loss(layer)(same, teach(layer, TEACHER, DATA.inputs))) < 1e-24


def test_gauge_error_is_the_distance_of_the_products():
    """Oracle: the Kronecker product itself."""
    a, p = STUDENT.W @ STUDENT.V, STUDENT.K.T @ STUDENT.Q
    b, q = TEACHER.W @ TEACHER.V, TEACHER.K.T @ TEACHER.Q
    expected = np.linalg.norm(np.kron(a, p) - np.kron(b, q)) / np.linalg.norm(np.kron(b, q))
    assert gauge_error(STUDENT, TEACHER).product == pytest.approx(float(expected), rel=1e-12)


def test_the_flat_directions_at_the_teacher_are_the_gauge():
    """W ↦ WX (d_v² directions), Q ↦ YQ (d_k²) and one scale: no more, so the rest is identified."""
    layer = TruncatedLayer(STEP)
    data = teach(layer, TEACHER, random_covariances(30, DIM, seed=4))
    found = stand(matrix_loss(layer), TEACHER, data)
    assert found.complete and found.verdict == "minimum"
    assert found.flat == 4**2 + KEYS**2 + 1
