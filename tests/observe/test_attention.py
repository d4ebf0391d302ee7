import numpy as np
import pytest

from metastable.measures import Points, gaussian_points, uniform
from metastable.observe import attention, attention_entropy, attention_rank


def test_rows_against_the_definition():
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 5, 3))
    measure = Points(uniform(7, 3).points, rng.uniform(0.1, 1, 7))
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    kernel = w * np.exp(1.7 * (x @ q.T) @ (x @ k.T).T)
    expected = kernel / kernel.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(attention(measure, 1.7, q, k), expected, rtol=1e-12)
    causal = np.tril(kernel)
    causal /= causal.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(attention(measure, 1.7, q, k, causal=True), causal, rtol=1e-12)


def test_masses_are_multiplicities():
    x = np.asarray(uniform(4, 3).points)
    weighted = attention(Points(x, [3, 1, 1, 1]), 2.0)
    repeated = attention(Points(x[[0, 0, 0, 1, 2, 3]]), 2.0)
    np.testing.assert_allclose(weighted[0, 0], repeated[0, :3].sum(), rtol=1e-13)
    np.testing.assert_allclose(weighted[:, 1:], repeated[[0, 3, 4, 5], 3:], rtol=1e-13)


def test_causal_uses_times_and_survives_massless_tokens():
    measure = Points(uniform(3, 2).points, times=[2.0, 1.0, 3.0])
    p = np.asarray(attention(measure, 1.0, causal=True))
    assert (p > 0).tolist() == [[True, True, False], [False, True, False], [True, True, True]]
    ghost = Points(uniform(3, 2).points, [0.0, 1.0, 1.0])
    p = np.asarray(attention(ghost, 1.0, causal=True))
    assert p[0].tolist() == [1.0, 0.0, 0.0]
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-14)


def test_large_logits_stay_stochastic():
    p = np.asarray(attention(gaussian_points(30, 2, scale=1e4), 1.0))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-13)


def test_rank_and_entropy():
    rng = np.random.default_rng(1)
    low = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 20))
    assert attention_rank(low) == 3
    assert attention_rank(np.eye(6)) == 6
    # β = 0 attends to masses: rank 1 and the entropy of the weights.
    measure = Points(uniform(4, 3).points, [1, 2, 3, 4])
    p = attention(measure, 0.0)
    w = np.array([0.1, 0.2, 0.3, 0.4])
    assert attention_rank(p) == 1
    np.testing.assert_allclose(attention_entropy(p), -np.sum(w * np.log(w)), rtol=1e-13)


def test_message():
    with pytest.raises(ValueError, match=r"query must be .* 3 columns .* got shape \(3, 2\)"):
        attention(uniform(4, 3), 1.0, query=np.ones((3, 2)))
