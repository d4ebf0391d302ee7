"""Random stacks against brute force, against themselves, and against the overlap maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from metastable.models.own.random_stack import _overlaps, random_stack
from metastable.theory.propagation import RandomBlock, finite_width, gradient_norms, propagate


def test_overlaps_are_those_of_the_gram_matrix():
    x = np.random.default_rng(0).standard_normal((7, 5)) + 1
    gram, off = x @ x.T / 5, ~np.eye(7, dtype=bool)
    size = np.sqrt(np.diag(gram))
    expected = [np.diag(gram).mean(), gram[off].mean(), (gram / np.outer(size, size))[off].mean()]
    assert _overlaps(torch.tensor(x)) == pytest.approx(expected)


def test_seeds_decide():
    block = RandomBlock(tokens=8, placement="peri", activation="gelu")
    one, two = (random_stack(block, 16, 2, seeds=2, heads=2)["q"] for _ in range(2))
    assert np.array_equal(one, two) and not np.array_equal(one[0], one[1])
    other = random_stack(block, 16, 2, seeds=2, heads=2, seed=1)["q"]
    assert not np.array_equal(one, other) and one.shape == (2, 3)
    with pytest.raises(ValueError, match="multiple of heads"):
        random_stack(block, 15, 1, heads=2)


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("placement", ["none", "pre", "post", "peri"])
def test_squares_and_overlaps_follow_the_maps(placement, heads):
    """Mean of 24 networks of width 192 within four standard errors and an O(1/d) bias."""
    block = RandomBlock(
        tokens=32, placement=placement, attention=0.6, mlp=0.4, beta=1.5, weight=1.1, value=1.3
    )
    found = random_stack(block, 192, 4, heads=heads, correlation=0.3, seeds=24, seed=3)
    path = propagate(block, 4, correlation=0.3)
    expected = {"q": path.square, "p": path.square - path.gap, "correlation": path.correlation}
    for name, curve in expected.items():
        mean, error = found[name].mean(0), found[name].std(0) / np.sqrt(24)
        assert np.all(np.abs(mean - curve) < 4 * error + 2 / 192 * curve), name


def test_perceptron_keeps_its_scale():
    """ReLU without a skip: q' = σ_w⁴ q/2; 300 networks tell 2 %."""
    block = RandomBlock(tokens=16, placement="none", attention=0.0, skip=0.0, weight=1.3)
    found = random_stack(block, 64, 1, seeds=300)["q"][:, 1]
    assert found.mean() == pytest.approx(1.3**4 / 2, rel=0.02)


def test_spread_of_seeds_is_foretold():
    block = RandomBlock(tokens=48, placement="post", attention=0.4, mlp=0.0)
    rho = random_stack(block, 64, 12, correlation=0.2, seeds=200)["correlation"]
    mean, spread = finite_width(block, 64, 12, correlation=0.2)
    limit = propagate(block, 12, correlation=0.2).correlation
    assert rho.std(0) == pytest.approx(spread, rel=0.2)
    error = rho.std(0)[-1] / np.sqrt(200)
    assert abs(rho[:, -1].mean() - mean[-1]) < 3 * error
    assert limit[-1] - mean[-1] > 2 * error  # the bias is there to be seen


@pytest.mark.parametrize(
    ("placement", "beta", "activation"),
    [("pre", 3.0, "tanh"), ("post", 1.0, "relu"), ("peri", 3.0, "gelu")],
)
def test_gradients_follow_the_backward_map(placement, beta, activation):
    """By autograd, at β where queries and keys carry much of the gradient."""
    block = RandomBlock(
        tokens=48, placement=placement, beta=beta, activation=activation, attention=0.7, mlp=0.5
    )
    found = random_stack(block, 192, 4, correlation=0.2, seeds=16, gradients=True)["gradient"]
    expected = gradient_norms(block, 4, correlation=0.2)
    error = found.std(0) / 4
    assert np.all(np.abs(found.mean(0) - expected) < 4 * error + 0.04 * expected)
    flat = gradient_norms(RandomBlock(**{**vars(block), "beta": 1e-3}), 4, correlation=0.2)
    if beta > 1:  # without the paths through queries and keys it would not agree
        assert expected[0] - flat[0] > 8 * error[0]


@pytest.mark.parametrize("depth", [1, 2])
def test_each_path_of_the_gradient_counts(depth):
    """Few tokens, no skip: values, queries and keys weigh alike, and gradients overlap."""
    block = RandomBlock(tokens=4, placement="pre", beta=1.5, mlp=0.0, skip=0.0)
    found = random_stack(block, 192, depth, correlation=0.6, seeds=150, gradients=True)["gradient"]
    expected = gradient_norms(block, depth, correlation=0.6)
    error = found.std(0) / np.sqrt(150)
    assert np.all(np.abs(found.mean(0) - expected) < 3 * error + 0.02 * expected)
