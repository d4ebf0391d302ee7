"""In-context maps: ⋄, push-forward, masks, and what they must not depend on.

Oracles: the definitions written out as sums in NumPy, exact W_1 (quantiles on the line, linear
programming in the plane), samples of a Gaussian, a fine trapezoidal rule.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metastable as ms
from metastable.measures.density import Density
from metastable.measures.gaussian import Gaussian
from metastable.observe.distances import wasserstein
from reproductions.ponti2025._in_context_maps import (
    Attention,
    MultiHeadAttention,
    Perceptron,
    continuity_bound,
)

N, M, D, HEADS = 6, 4, 2, 2
seeds = st.integers(0, 2**32 - 1)


def draw_heads(rng, dim=D, size=0.7):
    shapes = ((HEADS, 1, dim), (HEADS, 1, dim), (HEADS, 1, dim), (HEADS, dim, 1))
    return [size * rng.normal(size=shape) for shape in shapes]


def draw_perceptron(rng, dim=D, out=D):
    weights = [rng.normal(size=(5, dim)), rng.normal(size=(out, 5)) / 2]
    return Perceptron(weights, [rng.normal(size=5), rng.normal(size=out)])


def draw_measure(rng, times=False):
    when = rng.integers(0, 3, N) / 2 if times else None  # ties on purpose
    return ms.Points(rng.normal(size=(N, D)), rng.uniform(0.1, 1, N), when, on_sphere=False)


def attend(heads, x, w, at, times=None, now=None):
    """The definition, one place and one head at a time."""
    query, key, value, output = heads
    images = np.array(at, float)
    for i, place in enumerate(at):
        seen = np.ones(len(x)) if times is None else (times <= now[i]).astype(float)
        for q, k, v, o in zip(query, key, value, output, strict=True):
            e = w * seen * np.exp((x @ k.T) @ (q @ place))
            images[i] += o @ (e @ (x @ v.T) / e.sum()) if e.sum() > 0 else 0.0
    return images


@given(seed=seeds)
def test_attention_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    heads, measure, at = draw_heads(rng), draw_measure(rng), rng.normal(size=(M, D))
    x, w = np.asarray(measure.points), np.asarray(measure.weights)
    gamma = MultiHeadAttention(*heads)
    assert np.abs(gamma(measure, at) - attend(heads, x, w, at)).max() < 1e-12
    assert np.abs(gamma.push(measure).points - attend(heads, x, w, x)).max() < 1e-12


@given(seed=seeds)
def test_masked_attention_sees_the_measure_up_to_its_time(seed):
    rng = np.random.default_rng(seed)
    heads, measure, at = draw_heads(rng), draw_measure(rng, times=True), rng.normal(size=(M, D))
    x, w, s = (np.asarray(a) for a in (measure.points, measure.weights, measure.times))
    now = np.array([-1.0, 0.0, 0.5, 1.0])  # the first sees nothing
    gamma = MultiHeadAttention(*heads, causal=True)
    assert np.abs(gamma(measure, at, now) - attend(heads, x, w, at, s, now)).max() < 1e-12
    pushed = gamma.push(measure)
    assert np.abs(pushed.points - attend(heads, x, w, x, s, s)).max() < 1e-12
    assert np.array_equal(pushed.times, s) and np.array_equal(pushed.weights, measure.weights)


@pytest.mark.parametrize("masked", [False, True])
@given(seed=seeds)
def test_composition_is_associative_and_is_its_definition(masked, seed):
    """Both bracketings against (Γ_2 ⋄ Γ_1)(μ, x) = Γ_2(Γ_1(μ)_#μ, Γ_1(μ, x)), step by step."""
    rng = np.random.default_rng(seed)
    measure, at = draw_measure(rng, times=True), rng.normal(size=(M, D))
    now = rng.uniform(0, 1, M) if masked else None
    first, third = (MultiHeadAttention(*draw_heads(rng), causal=masked) for _ in range(2))
    second = draw_perceptron(rng)
    moved, places = measure, at
    for gamma in (first, second, third):
        moved, places = gamma.push(moved), gamma(moved, places, now)
    left, right = (third @ second) @ first, third @ (second @ first)
    for gamma in (left, right):
        assert np.abs(gamma(measure, at, now) - places).max() < 1e-12
        assert np.abs(gamma.push(measure).points - moved.points).max() < 1e-12


@pytest.mark.parametrize("masked", [False, True])
@given(seed=seeds)
def test_order_and_number_of_tokens_play_no_role(masked, seed):
    """Permuted, or with every token in three copies of uneven mass, the measure is the same."""
    rng = np.random.default_rng(seed)
    measure, at = draw_measure(rng, times=True), rng.normal(size=(M, D))
    now = rng.uniform(0, 1, M) if masked else None
    maps = [MultiHeadAttention(*draw_heads(rng), causal=masked) for _ in range(2)]
    gamma = maps[1] @ draw_perceptron(rng) @ maps[0]
    plain = gamma(measure, at, now)
    x, w, s = (np.asarray(a) for a in (measure.points, measure.weights, measure.times))
    order = rng.permutation(N)
    permuted = ms.Points(x[order], w[order], s[order], on_sphere=False)
    assert np.abs(gamma(permuted, at, now) - plain).max() < 1e-12
    shares = np.array([0.2, 0.5, 0.3])
    copies = ms.Points(
        np.repeat(x, 3, 0), np.outer(w, shares).ravel(), np.repeat(s, 3), on_sphere=False
    )
    assert np.abs(gamma(copies, at, now) - plain).max() < 1e-12
    pushed, many = gamma.push(measure).points, gamma.push(copies).points
    assert np.abs(many - np.repeat(pushed, 3, 0)).max() < 1e-12


@given(seed=seeds)
def test_a_push_forward_integrates_the_moved_test_function(seed):
    """∫ φ d(Γ_#μ) = ∫ φ(Γ(μ, x)) dμ(x)."""
    rng = np.random.default_rng(seed)
    measure = draw_measure(rng)
    gamma = draw_perceptron(rng, out=3) @ MultiHeadAttention(*draw_heads(rng))
    pushed, phi = gamma.push(measure), lambda x: np.cos(x).prod(axis=1)
    assert pushed.dim == 3
    moved = np.asarray(gamma(measure, measure.points))
    difference = pushed.weights @ phi(pushed.points) - measure.weights @ phi(moved)
    assert abs(difference) < 1e-13


def test_a_gaussian_is_the_limit_of_its_samples():
    """The closed form m + ΣAx against genuine softmax on samples: slope −1/2 in n."""
    rng = np.random.default_rng(0)
    start = Gaussian([0.3, -0.2], [[0.5, 0.1], [0.1, 0.3]])
    maps = [MultiHeadAttention(*draw_heads(rng, size=0.6)) for _ in range(2)]
    shift = Perceptron([0.8 * np.eye(2)], [np.array([0.1, 0.2])])
    gamma, at = maps[1] @ shift @ maps[0], rng.normal(size=(8, 2)) / 2
    exact = gamma(start, at)
    step_by_step = maps[1](shift.push(maps[0].push(start)), shift(start, maps[0](start, at)))
    assert np.abs(exact - step_by_step).max() < 1e-14
    counts, errors = np.array([50, 500, 2500]), []
    for n in counts:
        runs = [gamma(start.sample(n, seed), at) - exact for seed in range(12)]
        errors.append(np.sqrt(np.mean(np.square(runs))))
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    with pytest.raises(ValueError, match="affine"):
        draw_perceptron(rng).push(start)


def test_a_density_is_integrated_exactly():
    """Against a fine trapezoidal rule on the circle, and against 20 000 quiet tokens on S²."""
    gamma, at = Attention(ms.SelfAttention(3.0)), np.array([[1.0, 0.0], [0.0, -0.5]])
    density = Density.von_mises_fisher([0.6, 0.8], 2.0)
    angle = np.linspace(-np.pi, np.pi, 2001)[:-1]  # the trapezoidal rule converges geometrically
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mass = np.exp(circle @ (np.array([1.2, 1.6]) + 3 * at).T)
    exact = at + mass.T @ circle / mass.sum(axis=0)[:, None]
    assert np.abs(gamma(density, at) - exact).max() < 1e-12
    twice = (gamma @ gamma)(density, at)
    assert np.abs(twice - gamma(gamma.push(density), gamma(density, at))).max() < 1e-12
    ball = Density.von_mises_fisher([0.0, 0.6, 0.8], 2.0)
    at = np.array([[1.0, 0.0, 0.0]])
    assert np.abs(gamma(ball, at) - gamma(ball.to_points(20_000), at)).max() < 1e-5
    with pytest.raises(ValueError, match="to_points"):
        gamma(Density.uniform(4), np.zeros((1, 4)))


def test_continuity_in_w1_on_the_line_stays_below_its_bound():
    """Change over distance, exact W_1: below C for all pairs, and linear as the distance falls."""
    rng = np.random.default_rng(1)
    beta, q, k, v = 1.0, [[0.7]], [[0.5]], [[1.3]]
    bound = continuity_bound(beta, q, k, v, 1.0)
    gamma = Attention(ms.SelfAttention(beta, q, k, v))
    at = np.linspace(-1, 1, 9)[:, None]
    x, other = rng.uniform(-1, 1, (2, 40, 1))
    ratios = []
    for size in (1.0, 0.1, 0.01, 1e-3, 1e-4):
        start, end = (ms.Points(a, on_sphere=False) for a in (x, x + size * (other - x)))
        change = np.abs(gamma(start, at) - gamma(end, at)).max()
        ratios.append(change / wasserstein(start, end, order=1))
    assert 0 < max(ratios) < bound
    assert abs(ratios[-1] / ratios[-2] - 1) < 0.01  # differentiable along the way


def test_continuity_in_w1_in_the_plane_stays_below_its_bound():
    """W_1 by linear programming (POT), measures of different numbers of tokens."""
    ot = pytest.importorskip("ot")
    rng = np.random.default_rng(2)
    q, k, v = (0.6 * rng.normal(size=(2, 2)) for _ in range(3))
    bound, gamma = continuity_bound(1.0, q, k, v, 1.0), Attention(ms.SelfAttention(1.0, q, k, v))
    disc = lambda n: (
        np.sqrt(rng.uniform(size=(n, 1)))
        * np.asarray(ms.uniform(n, 2, seed=int(rng.integers(1000))).points)
    )
    at, worst = disc(20), 0.0
    for _ in range(10):
        x, y = disc(5), disc(9)
        distance = ot.emd2([], [], ot.dist(x, y, "euclidean"))
        first, second = (gamma(ms.Points(a, on_sphere=False), at) for a in (x, y))
        worst = max(worst, np.linalg.norm(first - second, axis=1).max() / distance)
    assert 0.1 * np.linalg.norm(v, 2) < worst < bound


def test_masked_maps_jump_where_a_token_crosses_the_time():
    """Space-time W_1 → 0 while the change stays: no continuity in time to be had."""
    x, at, gamma = (
        np.array([[0.0], [1.0]]),
        np.zeros((1, 1)),
        Attention(ms.SelfAttention(0.0, causal=True)),
    )
    for gap in (1e-1, 1e-4, 1e-8):
        before = ms.Points(x, times=[0.0, 0.5], on_sphere=False)
        after = ms.Points(x, times=[0.0, 0.5 + gap], on_sphere=False)
        assert abs(gamma(before, at, [0.5]) - gamma(after, at, [0.5])).item() == 0.5


def test_refusals():
    rng = np.random.default_rng(0)
    gamma = MultiHeadAttention(*draw_heads(rng))
    with pytest.raises(ValueError, match="at must hold points of dimension 2"):
        gamma(draw_measure(rng), np.zeros((3, 3)))
    with pytest.raises(ValueError, match="times"):
        MultiHeadAttention(*draw_heads(rng), causal=True)(draw_measure(rng), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="Points"):
        gamma(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="at must be given"):
        gamma(Gaussian([0.0, 0.0], 1.0))
    with pytest.raises(ValueError, match="one entry per head"):
        MultiHeadAttention(*draw_heads(rng)[:3], np.ones((1, D, 1)))
    with pytest.raises(ValueError, match="one entry per layer"):
        Perceptron([np.eye(2)], [])
