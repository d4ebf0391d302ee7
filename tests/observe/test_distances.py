import itertools
import sys

import numpy as np
import ot
import pytest
from scipy.optimize import linprog

from metastable.measures import Points, gaussian_points, polygon, simplex, uniform, von_mises_fisher
from metastable.observe import (
    order_parameter,
    sinkhorn,
    sliced_wasserstein,
    sobolev_distance,
    wasserstein,
)


def circle(angles, weights=None):
    return Points(np.stack([np.cos(angles), np.sin(angles)], axis=1), weights)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_circle_against_linear_programming(order):
    # POT's exact solver on the arc-length cost is the oracle.
    rng = np.random.default_rng(order)
    for trial in range(30):
        n, m = rng.integers(1, 12, 2)
        a, b = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, 2 * np.pi, m)
        if trial % 3 == 0:  # shared and repeated places
            b = np.concatenate([a, a, b])
        v, w = rng.uniform(0.01, 1, a.size), rng.uniform(0.01, 1, b.size)
        if trial % 4 == 0:
            v[:], w[:] = 1, 1
        gap = np.abs(a[:, None] - b)
        gap = np.minimum(gap, 2 * np.pi - gap)
        exact = ot.emd2(v / v.sum(), w / w.sum(), gap**order) ** (1 / order)
        assert wasserstein(circle(a, v), circle(b, w), order) == pytest.approx(exact, abs=1e-12)


def test_circle_of_many_tokens():
    # Rotating a measure by t < π/n moves each token of the n-gon by t.
    n, t = 4000, 3e-4
    turned = circle(2 * np.pi * np.arange(n) / n + t)
    for order in (1, 2):
        assert wasserstein(polygon(n), turned, order) == pytest.approx(t, rel=1e-9)
    # Nearest of k points, from the uniform density: W_2² = (π/k)²/3.
    fine = wasserstein(polygon(3000), polygon(3))
    assert fine == pytest.approx(np.pi / 3 / np.sqrt(3), rel=1e-5)


def test_line_and_sliced_against_pot():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(30, 1)), rng.normal(size=(40, 1))
    v, w = rng.uniform(size=30), rng.uniform(size=40)
    first, second = Points(x, v, on_sphere=False), Points(y, w, on_sphere=False)
    for order in (1, 2):
        exact = ot.emd2_1d(
            x[:, 0], y[:, 0], v / v.sum(), w / w.sum(), metric="minkowski", p=order
        ) ** (1 / order)
        assert wasserstein(first, second, order) == pytest.approx(exact, rel=1e-10)
        assert sliced_wasserstein(first, second, order, 3) == pytest.approx(exact, rel=1e-10)
    # In R^d two points at distance r have SW_2 = r/√d.
    ends = Points([[0.0] * 5], on_sphere=False), Points([[2.0, 0, 0, 0, 0]], on_sphere=False)
    assert sliced_wasserstein(*ends, projections=20000) == pytest.approx(2 / np.sqrt(5), rel=0.02)


def test_entropic_tends_to_the_exact_cost():
    first, second = uniform(60, 3, seed=1), von_mises_fisher(50, [1.0, 0.0, 0.0], 5.0, seed=2)
    angles = np.arccos(np.clip(np.asarray(first.points @ second.points.T), -1, 1))
    v, w = np.asarray(first.weights), np.asarray(second.weights)
    for order in (1, 2):
        exact = ot.emd2(v, w, angles**order) ** (1 / order)
        found = [sinkhorn(first, second, order, e) for e in (0.3, 0.1, 0.03)]
        gaps = np.array(found) - exact
        assert (gaps > 0).all() and (np.diff(gaps) < 0).all() and gaps[-1] < 0.02 * exact
        plan = ot.sinkhorn(v, w, angles**order, 0.1, stopThr=1e-12, numItermax=20000)
        entropic = np.sum(plan * angles**order) ** (1 / order)
        assert found[1] == pytest.approx(entropic, rel=1e-5)


@pytest.mark.parametrize("sizes", [(30, 20), (20, 30), (3, 90)])
def test_entropic_defaults_and_small_regularisation_converge(sizes):
    """Uniform tokens on S³ against POT's linear program; the gap is at most ε log n in cost."""
    first, second = uniform(sizes[0], 4, seed=1), uniform(sizes[1], 4, seed=2)
    angles = np.arccos(np.clip(np.asarray(first.points @ second.points.T), -1, 1))
    exact = ot.emd2(np.asarray(first.weights), np.asarray(second.weights), angles**2)
    for regularization in (0.01, 1e-3, 1e-5):
        cost = sinkhorn(first, second, regularization=regularization) ** 2
        assert -1e-8 < cost - exact < regularization * np.log(90)
    assert sinkhorn(first, second) ** 2 - exact < 0.01 * np.log(90)


def angles_between(x, y):
    """Angles by arctan2 of ‖x−y‖ and ‖x+y‖, a formula of its own."""
    apart, along = x[:, None] - y, x[:, None] + y
    return 2 * np.arctan2(np.linalg.norm(apart, axis=2), np.linalg.norm(along, axis=2))


def directions(rng, count, dim):
    x = rng.normal(size=(count, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("dim", [2, 3, 7])
def test_equal_tokens_against_every_permutation(dim, order):
    """Oracle: the cheapest of all n! pairings, on the sphere and in R^d."""
    rng = np.random.default_rng(10 * dim + order)
    for n in range(1, 7):
        x, y = directions(rng, n, dim), directions(rng, n, dim)
        for on_sphere in (True, False):
            if not on_sphere:
                x, y = 3 * rng.normal(size=(2, n, dim))
            gaps = angles_between(x, y) if on_sphere else np.linalg.norm(x[:, None] - y, axis=2)
            pairings = itertools.permutations(range(n))
            least = min(np.mean(gaps[np.arange(n), list(p)] ** order) for p in pairings)
            measures = (Points(z, on_sphere=on_sphere) for z in (x, y))
            assert wasserstein(*measures, order) == pytest.approx(least ** (1 / order), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("dim", [3, 5])
def test_weighted_tokens_against_a_linear_program(dim, order):
    """Oracle: the transport problem written out as a linear program and solved by HiGHS."""
    rng = np.random.default_rng(dim + 10 * order)
    for n, m in ((1, 4), (4, 1), (3, 5), (6, 6), (8, 5)):
        x, y = directions(rng, n, dim), directions(rng, m, dim)
        v, w = rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, m)
        v, w = v / v.sum(), w / w.sum()
        rows = np.kron(np.eye(n), np.ones(m))
        columns = np.kron(np.ones(n), np.eye(m))
        for on_sphere in (True, False):
            gaps = angles_between(x, y) if on_sphere else np.linalg.norm(x[:, None] - y, axis=2)
            solved = linprog(
                (gaps**order).ravel(),
                A_eq=np.concatenate([rows, columns]),
                b_eq=np.concatenate([v, w]),
                method="highs",
            )
            found = wasserstein(
                Points(x, v, on_sphere=on_sphere), Points(y, w, on_sphere=on_sphere), order
            )
            assert found == pytest.approx(solved.fun ** (1 / order), rel=1e-8)


def test_masses_are_multiplicities_in_every_dimension():
    x, y = uniform(5, 4, seed=1), uniform(10, 4, seed=2)
    twice = Points(np.repeat(np.asarray(x.points), 2, axis=0))
    # The left side goes by POT, the right by assignment.
    assert wasserstein(x, y) == pytest.approx(wasserstein(twice, y), rel=1e-12)
    assert wasserstein(x, twice) == pytest.approx(0, abs=1e-12)


def test_without_pot_only_what_needs_it_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)  # as if it were not installed
    assert wasserstein(uniform(3, 3), uniform(3, 3)) == 0.0
    assert wasserstein(uniform(3, 3), Points([[1.0, 0.0, 0.0]])) > 0
    with pytest.raises(ValueError, match=r"needs the package POT: install the extra \[transport\]"):
        wasserstein(uniform(3, 3), uniform(4, 3))


def test_odd_but_legal_measures():
    one, ghost = circle([0.3]), circle([0.3, 2.0], [1.0, 0.0])
    for distance in (
        wasserstein,
        sinkhorn,
        sliced_wasserstein,
        lambda a, b: sobolev_distance(a, 1.0, b),
    ):
        assert distance(one, ghost) == pytest.approx(0, abs=1e-8)
        assert distance(one, circle([0.3, 0.3, 0.3])) == pytest.approx(0, abs=1e-8)
    with pytest.raises(ValueError, match=r"regularization must be larger .* raise it"):
        sinkhorn(uniform(20, 3), uniform(20, 3, seed=1), regularization=1e-4, iterations=5)


def test_sobolev_closed_form_on_the_circle():
    # s = 1: Σ_{k≥1} 2cos(kθ)/(1+k²) = π cosh(π−θ)/sinh π − 1 for 0 ≤ θ ≤ 2π.
    rng = np.random.default_rng(6)
    a, w = rng.uniform(0, 2 * np.pi, 7), rng.uniform(0.1, 1, 7)
    w /= w.sum()
    kernel = np.pi * np.cosh(np.pi - np.abs(a[:, None] - a)) / np.sinh(np.pi) - 1
    found = sobolev_distance(circle(a, w), 1.0, highest=20000)
    # Left out: at most Σ_{k>K} 2/k² ≈ 2/K.
    assert found**2 == pytest.approx(w @ kernel @ w, abs=1e-4)


def test_sobolev_two_measures_and_other_dimensions():
    for dim in (2, 3, 5):
        first, second = uniform(20, dim, seed=1), uniform(30, dim, seed=2)
        # Only degree 1 kept: power d·‖m‖², factor (1 + (d−1))^{−s}.
        gap = np.asarray(first.weights @ first.points - second.weights @ second.points)
        expected = np.sqrt(dim * gap @ gap * float(dim) ** -1.5)
        assert sobolev_distance(first, 1.5, second, highest=1) == pytest.approx(expected, rel=1e-10)
        r = float(order_parameter(first))
        assert sobolev_distance(first, 1.5, highest=1) == pytest.approx(
            np.sqrt(dim * r**2 * float(dim) ** -1.5), rel=1e-10
        )
        assert sobolev_distance(first, 1.5, first, highest=8) == pytest.approx(0, abs=1e-7)
    # The 5-simplex is a 2-design: degrees 1 and 2 vanish.
    assert sobolev_distance(simplex(5), 1.0, highest=2) == pytest.approx(0, abs=1e-7)


def test_messages():
    with pytest.raises(ValueError, match=r"other must live where measure does"):
        wasserstein(polygon(3), polygon(3, dim=3))
    with pytest.raises(ValueError, match=r"the cost matrix needs .*: use sliced_wasserstein"):
        wasserstein(many := uniform(10**6, 3), many)
    with pytest.raises(ValueError, match=r"order must be >= 1 for a distance; got 0.5"):
        wasserstein(polygon(3), polygon(4), 0.5)
    with pytest.raises(ValueError, match=r"Use measure.directions"):
        sobolev_distance(gaussian_points(3, 3), 1.0)
