"""Attention at β = ∞, against brute force, small steps, and finite but large β."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import metastable as ms
from tests.flows.test_staircase import staircase

SA, USA = ms.SelfAttention(1.0), ms.SelfAttention(1.0, normalized=False)


def hardmax(measure, field, horizon=math.inf, *, radius=1e-6, frames=101):
    return ms.flow(measure, field, horizon, stepper=ms.Hardmax(radius), frames=frames)


def weighted(count, dim, seed):
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, count)
    return ms.Points(ms.uniform(count, dim, seed=seed).points, weights)


def brute_force(measure, power):
    """Merge the closest pair again and again, in plain loops; (angles, final point)."""
    tokens = [
        (np.asarray(x), float(w)) for x, w in zip(measure.points, measure.weights, strict=True)
    ]
    angles = []
    while len(tokens) > 1:
        pairs = [(i, j) for i in range(len(tokens)) for j in range(i)]
        gap = lambda p: np.linalg.norm(tokens[p[0]][0] - tokens[p[1]][0])
        i, j = min(pairs, key=gap)
        (x, a), (y, b) = tokens[i], tokens[j]
        phi = 2 * math.asin(gap((i, j)) / 2)
        tangent = (y - np.dot(x, y) * x) / np.linalg.norm(y - np.dot(x, y) * x)
        turn = phi * b**power / (a**power + b**power)
        angles.append(phi)
        tokens[j] = math.cos(turn) * x + math.sin(turn) * tangent, a + b
        del tokens[i]
    return np.array(angles), tokens[0][0]


@pytest.mark.parametrize("dim", [2, 3, 10])
@pytest.mark.parametrize("field, power", [(SA, 2), (USA, 1)])
def test_on_the_sphere_the_closest_pair_merges(dim, field, power):
    start = weighted(25, dim, seed=dim)
    run = hardmax(start, field)
    angles, end = brute_force(start, power)
    assert run.mergers.angles == pytest.approx(angles, abs=1e-12)
    assert np.asarray(run.frames[-1].points)[0] == pytest.approx(end, abs=1e-11)
    shift = 0 if field.normalized else 1
    assert run.mergers.log_waits == pytest.approx(1 - np.cos(angles) - shift, abs=1e-12)
    assert np.array_equal(run.mergers.log_times, np.maximum.accumulate(run.mergers.log_waits))
    assert np.array_equal(run.times, run.log_times) and run.outcome.name == "done"
    for frame in run.frames:
        rows = run.mergers.labels(frame.count)
        assert np.bincount(rows, start.weights) == pytest.approx(
            np.asarray(frame.weights), abs=1e-14
        )


@pytest.mark.parametrize("normalized", [True, False])
def test_two_masses_meet_where_large_beta_lets_them(normalized):
    """The meeting point tends to the limit like 1/√β: the last stretch is a collapse."""
    start = ms.Points([[1.0, 0.0], [0.0, 1.0]], [0.3, 0.7])
    limit = hardmax(start, ms.SelfAttention(1.0, normalized=normalized)).frames[-1]
    share = 0.7**2 / (0.3**2 + 0.7**2) if normalized else 0.7
    assert float(limit.angles[0]) == pytest.approx(share * math.pi / 2, abs=1e-14)
    off = []
    for beta in (100.0, 10_000.0):
        end = staircase(start, ms.SelfAttention(beta, normalized=normalized)).frames[-1]
        off.append(abs(float(end.angles[0] - limit.angles[0])))
    if normalized:
        assert off[1] < 0.01 and off[0] / off[1] == pytest.approx(10, rel=0.1)
    else:
        assert max(off) < 1e-8  # USA forces are opposite at every β


def test_merge_order_and_times_are_the_limit_of_large_beta():
    start = weighted(10, 3, seed=2)
    limit = hardmax(start, SA).mergers
    for beta in (1e3, 1e4):
        mergers = staircase(start, ms.SelfAttention(beta)).mergers
        assert np.array_equal(mergers.first, limit.first)
        assert np.array_equal(mergers.second, limit.second)
        # A meeting point is O(β^{−1/2}) from its limit, and the later exponents feel it.
        off = np.abs(mergers.log_times / beta - limit.log_times).max()
        assert off < 0.5 / math.sqrt(beta)


def test_antipodal_clusters_rest():
    run = hardmax(ms.polygon(2), SA)
    assert run.frames[-1].count == 2 and "antipodal" in run.outcome.message


def small_steps(z, form, times, dt=1e-4):
    """ż_i = z_argmax − z_i in steps of dt, exact while no argmax changes."""
    z, out = z.copy(), []
    for k in range(round(times[-1] / dt) + 1):
        if np.any(np.abs(k * dt - np.array(times)) < dt / 2):
            out.append(z.copy())
        z += (1 - math.exp(-dt)) * (z[np.argmax(z @ form @ z.T, axis=1)] - z)
    return out


@pytest.mark.parametrize("seed", [3, 5])
@pytest.mark.parametrize("symmetric", [True, False])
def test_in_space_every_token_follows_its_argmax(seed, symmetric):
    """A ring, where most targets move themselves; small steps err by the length of one."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, 30), 1 + 0.3 * rng.uniform(-1, 1, 30)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    # Not symmetric, but with a positive symmetric part.
    query = np.eye(2) if symmetric else np.array([[1.0, 0.3], [-0.3, 1.2]])
    field = ms.Rescaled(ms.SelfAttention(1.0, query=query))
    times = [0.3, 1.0, 2.5]
    run = hardmax(ms.Points(points, on_sphere=False), field, 2.5, frames=times)
    assert run.times.tolist() == [0.0, *times]
    assert run.statistics["events"] >= 2  # changes of argmax; nothing has been absorbed yet
    for frame, expected in zip(run.frames[1:], small_steps(points, query.T, times), strict=True):
        assert np.asarray(frame.points) == pytest.approx(expected, abs=1e-3)


def test_in_space_the_softmax_flow_tends_to_it():
    start = ms.gaussian_points(15, 2, seed=3)
    limit = hardmax(start, ms.Rescaled(SA), 1.0, frames=[1.0]).frames[-1]
    off = []
    for beta in (1e2, 1e4):
        end = ms.flow(start, ms.Rescaled(ms.SelfAttention(beta)), 1.0, frames=2).frames[-1]
        off.append(np.abs(np.asarray(end.points) - np.asarray(limit.points)).max())
    assert off[1] < 2e-3 and off[1] < off[0] / 20


def test_in_space_a_pair_follows_its_exponential():
    """z_2 goes for z_1, which rests: z_2(t) = z_1 + (z_2 − z_1)e^{−λt}; absorbed at the radius."""
    start = ms.Points([[2.0, 0.0], [0.5, 0.5]], [0.25, 0.75], on_sphere=False)
    field = ms.Rescaled(ms.SelfAttention(1.0, value=3.0))
    run = hardmax(start, field, frames=[0.2], radius=1e-5)
    expected = np.array([2.0, 0.0]) + np.array([-1.5, 0.5]) * math.exp(-0.6)
    assert np.asarray(run.frames[1].points)[1] == pytest.approx(expected, abs=1e-14)
    event = run.mergers[0]
    assert event.log_time == pytest.approx(math.log(math.log(math.hypot(1.5, 0.5) / 1e-5) / 3))
    assert event.angle == pytest.approx(1e-5, rel=1e-9) and event.masses == (0.25, 0.75)
    assert np.asarray(run.frames[-1].points).tolist() == [[2.0, 0.0]]


def test_in_space_a_switch_comes_at_its_exact_time():
    """Token 2 goes for token 1, which goes for token 0 at rest: z_1 = L + (m−L)e^{−t} and
    z_2 = L + e^{−t}[(i−L) + t(m−L)], until ⟨z_2, L−z_1⟩ = 0; then z_2 goes for L itself.
    """
    L, m, i = np.array([2.0, 0.0]), np.array([0.9, 0.9]), np.array([-0.1, 0.5])
    path = lambda t: L + math.exp(-t) * ((i - L) + t * (m - L))
    switch = brentq(lambda t: path(t) @ (L - m), 0, 5, xtol=1e-15)
    start = ms.Points([L, m, i], on_sphere=False)
    run = hardmax(start, ms.Rescaled(SA), frames=[switch, switch + 0.5])
    after = L + (path(switch) - L) * math.exp(-0.5)
    assert np.asarray(run.frames[1].points)[2] == pytest.approx(path(switch), abs=1e-13)
    assert np.asarray(run.frames[2].points)[2] == pytest.approx(after, abs=1e-13)
    assert run.statistics["events"] == 3 and run.frames[-1].count == 1


@pytest.mark.parametrize(
    "measure, change, message",
    [
        (ms.uniform(4, 3), dict(field=ms.SelfAttention(1.0, value=-1)), "positive multiples"),
        (
            ms.uniform(4, 3),
            dict(field=ms.SelfAttention(1.0, query=np.diag([1.0, 2, 3]))),
            "positive",
        ),
        (ms.uniform(4, 3), dict(horizon=3.0), "no meaning at beta = inf"),
        (ms.uniform(4, 3), dict(frames=[1.0]), "no meaning at beta = inf"),
        (ms.gaussian_points(4, 2), dict(field=SA), "needs Rescaled"),
        (ms.gaussian_points(4, 2), dict(field=ms.Rescaled(ms.SelfAttention(1.0, query=-1))), "≥ 0"),
        (ms.uniform(4, 3), dict(horizon=-1.0), "horizon must be > 0"),
        (ms.uniform(4, 3), dict(radius=0.0), "radius must be > 0"),
    ],
)
def test_refusals(measure, change, message):
    with pytest.raises(ValueError, match=message):
        hardmax(measure, **(dict(field=SA) | change))
