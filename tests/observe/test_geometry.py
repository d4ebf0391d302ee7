import numpy as np
import pytest
from scipy.optimize import linprog

from metastable.measures import Points, gaussian_points, orthogonal, polygon, uniform
from metastable.observe import hemisphere, hull, hull_contains, hyperplanes, leaders


def free(points, weights=None):
    return Points(np.asarray(points, float), weights, on_sphere=False)


def test_vertices_of_a_cube_among_inner_points():
    corners = np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    rng = np.random.default_rng(0)
    inside = rng.uniform(0.01, 0.99, (30, 3))
    found = hull(free(np.concatenate([inside, corners])))
    assert sorted(found.vertices) == list(range(30, 38))
    assert found.volume == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 4, 8])
def test_vertices_are_the_supporting_points(dim):
    # A vertex is the unique maximiser of some linear form; many random forms find most of them.
    measure = gaussian_points(25, dim, seed=dim)
    rng = np.random.default_rng(1)
    found = set((np.asarray(measure.points) @ rng.normal(size=(dim, 20000))).argmax(axis=0))
    assert found <= set(hull(measure).vertices)
    assert hull_contains(hull(measure), measure.points).all()
    corners = hull(measure).points
    outside = corners.mean(axis=0) + 1.1 * (corners - corners.mean(axis=0))
    assert not hull_contains(hull(measure), outside).any()
    small = hull(free(1 + 1e-9 * np.asarray(measure.points)))
    assert small.vertices.tolist() == hull(measure).vertices.tolist()


def test_degenerate_hulls():
    assert hull(free([[1.0, 2.0]])).dim == 0
    assert hull(free([[1.0, 2.0]] * 4)).vertices.tolist() == [0]
    segment = hull(free([[0.0, 0.0], [2.0, 2.0], [1.0, 1.0], [0.0, 0.0]]))
    assert segment.vertices.tolist() == [0, 1] and segment.dim == 1
    assert segment.volume == pytest.approx(np.sqrt(8))
    assert hull_contains(segment, [[0.5, 0.5], [0.5, 0.6], [3, 3]]).tolist() == [True, False, False]
    flat = hull(polygon(5, dim=4))
    assert (flat.dim, len(flat.vertices)) == (2, 5)
    assert flat.volume == pytest.approx(2.5 * np.sin(2 * np.pi / 5), rel=1e-12)
    ghost = hull(free([[0.0], [1.0], [9.0]], [1, 1, 0]))
    assert ghost.vertices.tolist() == [0, 1]


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-12])
def test_hulls_of_collapsing_tokens_stay_nested(scale):
    outer = 1 + scale * np.asarray(gaussian_points(40, 3, seed=2).points)
    inner = outer.mean(axis=0) + 0.999 * (outer - outer.mean(axis=0))
    assert hull_contains(hull(free(outer)), inner).all()


def test_hyperplanes_of_three_levels():
    rng = np.random.default_rng(3)
    levels = np.array([-2.0, 0.0, 3.0])
    labels = rng.integers(0, 3, 40)
    across = rng.normal(size=(40, 2))
    values = levels[labels] + 1e-4 * rng.uniform(-1, 1, 40)
    found = hyperplanes(free(np.column_stack([across, values])), [0, 0, 1])
    np.testing.assert_allclose(found.levels, levels, atol=1e-4)
    assert (found.labels == labels).all() and 0 < found.spread < 2.1e-4
    # No levels at all: three are returned and the spread shows that they do not fit.
    spread = hyperplanes(free(np.linspace(0, 1, 50)[:, None]), [1.0])
    assert spread.count == 3 and spread.spread > 0.1
    assert hyperplanes(free([[1.0, 2.0]]), [1, 1]).levels.tolist() == [3.0]


def test_leaders_by_brute_force():
    rng = np.random.default_rng(4)
    q, k = rng.normal(size=(2, 3, 3))
    measure = gaussian_points(20, 3, seed=5)
    x = np.asarray(measure.points)
    expected = [max(range(20), key=lambda j: (q @ x[i]) @ (k @ x[j])) for i in range(20)]
    assert leaders(measure, q, k).tolist() == expected
    ghost = free([[1.0], [5.0], [2.0]], [1, 0, 1])
    assert leaders(ghost).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("dim", "tokens"), [(2, 4), (3, 6), (3, 10)])
def test_wendel(dim, tokens):
    # Wendel's formula: ½ at n = 2d and 0.0898438 for (3, 10); 400 trials, 3.5 standard errors.
    p = {(2, 4): 0.5, (3, 6): 0.5, (3, 10): 0.08984375}[dim, tokens]
    hits = sum(bool(hemisphere(uniform(tokens, dim, seed=s))) for s in range(400))
    assert abs(hits / 400 - p) < 3.5 * np.sqrt(p * (1 - p) / 400)


def test_hemisphere_direction_and_margin():
    found = hemisphere(orthogonal(3, 3))
    # By symmetry u = (1,1,1)/√3.
    assert found.margin == pytest.approx(1 / np.sqrt(3), rel=1e-9)
    assert (np.asarray(orthogonal(3, 3).points) @ found.direction > 0).all()
    for measure in (polygon(2), polygon(3), Points([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])):
        assert not hemisphere(measure) and hemisphere(measure).margin == 0
    assert hemisphere(Points([[1.0, 0.0], [-1.0, 0.0]], [1, 0]))
    assert hemisphere(Points([[1.0, 0.0]])).margin == pytest.approx(1)


def margin_by_programming(x):
    """max m with ⟨x_i,u⟩ ≥ m, ‖u‖_∞ ≤ 1: positive iff a hemisphere exists; made a unit vector."""
    count, dim = x.shape
    found = linprog(
        np.append(np.zeros(dim), -1.0),
        A_ub=np.column_stack([-x, np.ones(count)]),
        b_ub=np.zeros(count),
        bounds=[(-1, 1)] * dim + [(None, None)],
    )
    u = found.x[:dim]
    return (x @ u).min() / max(np.linalg.norm(u), 1e-300)


@pytest.mark.parametrize(("dim", "tokens"), [(2, 3), (3, 5), (3, 40), (20, 35), (20, 50)])
def test_hemisphere_against_linear_programming(dim, tokens):
    seen = set()
    for seed in range(8):
        for tilt in (0.0, 5.0):
            x = np.random.default_rng(seed).normal(size=(tokens, dim))
            x[:, 0] += tilt
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            lower, found = margin_by_programming(x), hemisphere(Points(x))
            assert bool(found) == (lower > 1e-9)
            assert found.margin >= lower - 1e-9
            seen.add(bool(found))
            # Largest possible: no nearby direction does better.
            nearby = found.direction + 1e-3 * np.random.default_rng(1).normal(size=(200, dim))
            nearby /= np.linalg.norm(nearby, axis=1, keepdims=True)
            assert not found or (x @ nearby.T).min(axis=0).max() <= found.margin + 1e-12
    assert seen == {True, False}


def test_messages():
    with pytest.raises(
        ValueError, match=r"functional must be a vector of length 3; got shape \(2,\)"
    ):
        hyperplanes(gaussian_points(4, 3), [1, 2])
    with pytest.raises(ValueError, match=r"points must have 3 columns"):
        hull_contains(hull(gaussian_points(6, 3)), [[1.0, 2.0]])
