"""The sigmoid construction, lemma by lemma.

Oracles: the statements of the lemmas, the network written out with exponentials, dense sampling.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproductions.ponti2025._separation import enclose, separate, sigmoid, threshold
from reproductions.ponti2025._sigmoid_network import SigmoidNetwork, approximate, certify


def grid(count):
    axis = np.linspace(-1, 1, count)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)


def saddle(x):
    return x[:, 0] * x[:, 1]


@pytest.fixture(scope="module")
def built():
    return approximate(saddle, 0.2, grid=65)


@given(x0=st.floats(-5, 5), gap=st.floats(0.01, 5), eps=st.floats(1e-6, 0.49))
def test_a_neuron_separates_two_numbers(x0, gap, eps):
    """Lemma 2.3, with the monotonicity that its second part claims."""
    s, t = threshold(x0, x0 + gap, eps, 1 - eps)
    x = x0 + np.linspace(-3, 3, 301) * gap
    y = 1 / (1 + np.exp(-(s + t * x)))
    assert np.all(y[x <= x0] <= eps * (1 + 1e-9))
    assert np.all(y[x >= x0 + gap] >= (1 - eps) * (1 - 1e-9))


@given(seed=st.integers(0, 2**32 - 1), eps=st.floats(0.01, 0.3))
def test_a_layer_separates_a_point_from_a_set(seed, eps):
    """Lemma 2.4 literally: F_j < ε/N at the point, so Σ F_j < ε there, and > 1 − ε on the set."""
    rng = np.random.default_rng(seed)
    a, others = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, (30, 2))
    u, r = enclose(a, others)
    s, t = threshold(0.0, r, eps / len(u) / 2, 1 - eps / 2)
    g = lambda x: sigmoid(s + t * ((x - a) @ u.T)).sum(axis=-1)
    assert g(a) < eps and np.all(g(others) > 1 - eps)


def test_three_layers_separate_two_sets():
    """Lemma 2.5 on a ring around a disc and a bar, neither of which is convex in the other."""
    points = grid(49)
    x, y = points[..., 0], points[..., 1]
    radius = np.hypot(x, y)
    high = (np.abs(radius - 0.7) < 0.12) & ~((x > 0) & (np.abs(y) < 0.3))
    low = (radius < 0.35) | (radius > 1.05)
    part, height = separate(points, high, low, np.zeros_like(x), np.random.default_rng(0))
    assert height[low].max() <= 1 / 6 + 1e-12 and height[high].min() >= 5 / 6 - 1e-12
    z = points.reshape(-1, 2)
    for weight, bias in zip((part.first, part.second, part.third), part.biases, strict=True):
        z = 1 / (1 + np.exp(-(weight @ z.T + bias[:, None]).T))
    assert np.abs(z[:, 0] - height.ravel()).max() < 1e-10


def test_each_step_lowers_the_error_to_three_quarters(built):
    errors = np.array(built.errors)
    assert errors[0] == 1.0 and errors[-1] <= 0.85 * 0.2
    assert np.all(errors[1:] <= 0.75 * errors[:-1])
    assert built.network.widths[2] == len(built.parts) == len(errors) - 1
    points = grid(65).reshape(-1, 2)
    assert abs(np.abs(built.network(points) - saddle(points)).max() - errors[-1]) < 1e-12
    early = built.after(0.4)
    assert np.abs(early.network(points) - saddle(points)).max() <= 0.85 * 0.4


def test_it_is_a_network_of_sigmoids(built):
    network = built.network
    x = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    z = x.T
    for weight, bias in zip(network.weights[:-1], network.biases[:-1], strict=True):
        z = 1 / (1 + np.exp(-(weight @ z + bias[:, None])))
    z = network.weights[-1] @ z + network.biases[-1][:, None]
    assert np.abs(network(x) - z[0]).max() < 1e-11


def test_local_constants_bound_every_difference(built):
    network, rng = built.network, np.random.default_rng(1)
    centres, radius = rng.uniform(-1, 1, (40, 2)), 0.02
    value, slope = network.bounds(centres, radius)
    for _ in range(50):
        step = rng.normal(size=(40, 2))
        step *= radius * rng.uniform(size=(40, 1)) / np.linalg.norm(step, axis=1, keepdims=True)
        moved = np.abs(network(centres + step) - value)
        assert np.all(moved <= slope * np.linalg.norm(step, axis=1) + 1e-12)
    global_constant = np.linalg.norm(network.weights[0], axis=1)
    for weight in network.weights[1:]:
        global_constant = abs(weight) @ global_constant / 4
    assert np.median(slope) < 0.01 * global_constant[0]


def test_a_restricted_network_is_the_same_function_with_fewer_neurons(built):
    centre, radius = np.array([0.4, -0.3]), 0.05
    local = built.network.restricted(centre, radius)
    step = np.random.default_rng(2).uniform(-1, 1, (200, 2)) * radius / np.sqrt(2)
    assert np.abs(local(centre + step) - built.network(centre + step)).max() < 1e-12
    assert local.widths[0] < built.network.widths[0]


def test_the_certificate_holds_and_fails_where_it_should(built):
    proof = certify(built.network, saddle, 2**0.5, 0.2)
    x = np.random.default_rng(3).uniform(-1, 1, (20000, 2))
    assert proof.seen <= proof.bound <= 0.2
    assert np.abs(built.network(x) - saddle(x)).max() <= proof.bound
    assert certify(built.network, saddle, 2**0.5, 0.1).bound == np.inf  # the error is larger
    assert certify(built.network, saddle, 2**0.5, 0.2, cells=2000).bound == np.inf


def test_other_rectangles_and_constants():
    low, high = (2.0, -1.0), (3.0, 4.0)
    line = lambda x: 3 * x[:, 0] - x[:, 1]
    built = approximate(line, 1.0, low, high, grid=65)
    assert certify(built.network, line, 10**0.5, 1.0, low, high).bound <= 1.0
    flat = approximate(lambda x: np.full(len(x), 2.0), 0.1, grid=9)
    assert flat.network(np.zeros((3, 2))).tolist() == [2.0, 2.0, 2.0]


def test_refusals(built):
    with pytest.raises(ValueError, match="low must lie below high"):
        approximate(saddle, 0.1, (0, 0), (0, 1))
    with pytest.raises(ValueError, match="tolerance must be > 0"):
        approximate(saddle, 0.0)
    with pytest.raises(ValueError, match="finite"):
        approximate(lambda x: np.where(x[:, 0] > 0.5, np.inf, 0.0), 0.1, grid=9)
    with pytest.raises(ValueError, match="tolerance must be at least"):
        built.after(0.01)
    assert SigmoidNetwork(
        (np.ones((1, 2)), np.ones((1, 1))), (np.zeros(1), np.zeros(1))
    ).widths == (1,)
