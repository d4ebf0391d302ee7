"""Merging runs, against the two-cluster quadrature, unmerged flows and sums in many digits."""

from __future__ import annotations

import math
from typing import ClassVar

import diffrax
import equinox as eqx
import mpmath
import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage

import metastable as ms
from metastable.core.numerics import jnp
from metastable.fields.sums import Dense
from metastable.flows.mergers import Ledger
from metastable.flows.solvers import arclength, merging
from metastable.flows.solvers.arclength import Motion
from metastable.flows.solvers.merging import MergingFlow, find_collapsed, merge_collapsed
from metastable.theory.pairs import closing_speed, log_merge_time, merge_time


def staircase(measure, field, horizon=math.inf, *, radius=None, stepper=None, **how):
    """A merging run, to the last cluster unless there is a horizon."""
    merging = ms.Merging(radius, stepper or ms.Adaptive())
    return ms.flow(measure, field, horizon, stepper=merging, **how)


def pair(angle, masses=(0.5, 0.5), dim=2):
    points = np.zeros((2, dim))
    points[:, 0] = 1, math.cos(angle)
    points[1, 1] = math.sin(angle)
    return ms.Points(points, masses)


def angle_of(measure):
    x, y = np.asarray(measure.points)
    return 2 * math.asin(np.linalg.norm(x - y) / 2)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("beta", [5.0, 10.0, 20.0, 30.0])
def test_two_clusters_reach_0999_at_the_time_of_the_quadrature(beta, normalized):
    near = math.acos(0.999)
    for masses in ((0.5, 0.5), (0.2, 0.8)):
        case = dict(masses=masses, normalized=normalized)
        time = merge_time(math.pi / 2, beta, **case)
        field = ms.SelfAttention(beta, normalized=normalized)
        run = staircase(pair(math.pi / 2, masses), field, frames=[time])
        assert run.times[1] == time and run.frames[1].count == 2
        late = (angle_of(run.frames[1]) - near) / abs(closing_speed(near, beta, **case))
        assert abs(late) < 1e-9 * time


@pytest.mark.parametrize("beta", [100.0, 400.0, 1000.0])
def test_merger_times_beyond_doubles_are_exact_logarithms(beta):
    run = staircase(pair(3.0, (0.3, 0.7)), ms.SelfAttention(beta))
    event = run.mergers[0]
    expected = log_merge_time(3.0, beta, until=event.angle, masses=(0.3, 0.7))
    assert event.log_time == pytest.approx(expected, abs=1e-9)
    assert event.masses == pytest.approx((0.3, 0.7), rel=1e-15)
    with np.errstate(over="ignore"):
        assert run.times[-1] == pytest.approx(np.exp(expected), rel=1e-8)  # infinite past β = 354


def test_exponentially_small_speeds_keep_their_digits():
    """Against the definition of SA in 1000 digits; the speeds go down to e^−1550."""
    beta, w = 1000.0, np.array([0.1, 0.2, 0.3, 0.4])
    theta = np.array([0.0, 0.65, 2.2, 4.9])
    points = np.stack([np.cos(theta), np.sin(theta)], axis=1)
    with mpmath.workdps(1000):
        x, v = mpmath.matrix(points), mpmath.matrix(4, 2)
        for i in range(4):
            k = [w[j] * mpmath.exp(beta * mpmath.fdot(x[i, :], x[j, :])) for j in range(4)]
            mean = [mpmath.fdot(k, x[:, c]) / sum(k) for c in range(2)]
            along = mpmath.fdot(mean, x[i, :]) / mpmath.fdot(x[i, :], x[i, :])
            v[i, :] = mpmath.matrix([[mean[c] - along * x[i, c] for c in range(2)]])
        size = mpmath.norm(v)
        log_speed, direction = float(mpmath.log(size)), np.array((v / size).tolist(), float)
    parts = jnp.asarray(w), jnp.asarray(beta), jnp.asarray(1e-7), ms.Adaptive(), None
    motion = Motion(ms.SelfAttention(beta), *parts)
    got_log, got = eqx.filter_jit(motion.velocity)(jnp.asarray(points))
    assert float(got_log) == pytest.approx(log_speed, abs=1e-11)
    assert np.asarray(got) == pytest.approx(direction, rel=1e-11, abs=1e-300)


@pytest.mark.parametrize(
    "dim, field, horizon",
    [
        (2, ms.SelfAttention(9.0), 60.0),
        (3, ms.SelfAttention(4.0, normalized=False), 2.0),
        (
            3,
            ms.SelfAttention(3.0, query=np.diag([1.0, 0.5, 2.0]), key=np.diag([1.0, 2.0, 0.5])),
            40.0,
        ),
        (3, ms.SelfAttention(3.0, value=[[2.0, 0.3, 0], [-0.3, 1.5, 0], [0, 0, 1.0]]), 8.0),
    ],
)
def test_merging_changes_nothing_up_to_the_first_plateau(dim, field, horizon):
    start = ms.uniform(30, dim, seed=3)
    tight = ms.Adaptive(rtol=1e-11, atol=1e-11)
    apart = ms.flow(start, field, horizon, stepper=tight, frames=[horizon / 2, horizon])
    merged = staircase(start, field, horizon, frames=[horizon / 2, horizon])
    assert merged.frames[-1].count < 15
    for one, other in zip(apart.frames[1:], merged.frames[1:], strict=True):
        rows = merged.mergers.labels(other.count)
        assert np.abs(np.asarray(other.points)[rows] - np.asarray(one.points)).max() < 2e-5
    found = ms.clusters(apart.frames[-1], angle=1e-3)
    assert found.count == merged.frames[-1].count
    assert np.sort(found.masses) == pytest.approx(np.sort(merged.frames[-1].weights), abs=1e-14)


def test_weights_change_by_no_more_than_the_bound_when_two_tokens_merge():
    """β(β+1)r²/8, by brute force over places, separations and masses."""
    rng = np.random.default_rng(0)
    for beta in (1.0, 9.0, 100.0):
        r = 1e-2 / beta
        x = np.array([[math.cos(r / 2), math.sin(r / 2)], [math.cos(r / 2), -math.sin(r / 2)]])
        worst = 0.0
        for a in rng.uniform(0.05, 0.5, 10):
            w = np.array([a, 1 - a])
            mean = w @ x / np.linalg.norm(w @ x)
            at = np.linspace(0, 2 * np.pi, 400)
            places = np.stack([np.cos(at), np.sin(at)])
            before = np.logaddexp.reduce(beta * (x @ places) + np.log(w)[:, None], axis=0)
            worst = max(worst, np.abs(np.expm1(before - beta * (mean @ places))).max())
        bound = beta * (beta + 1) * r**2 / 8
        assert 0.2 * bound < worst < 1.01 * bound


@pytest.fixture(scope="module")
def run():
    weights = np.random.default_rng(1).uniform(0.5, 1.5, 60)
    start = ms.Points(ms.uniform(60, 2, seed=5).points, weights)
    return staircase(start, ms.SelfAttention(100.0))


def test_the_genealogy_is_a_tree_that_agrees_with_the_frames(run):
    mergers, start = run.mergers, run.frames[0]
    assert run.outcome.name == "done" and len(mergers) == 59 and mergers.counts[-1] == 0 + 1
    assert is_valid_linkage(mergers.linkage)
    assert sorted([*mergers.first, *mergers.second]) == list(range(118))
    assert np.all(np.diff(mergers.log_times) >= 0) and np.isfinite(mergers.log_times).all()
    assert mergers.masses[-1].sum() == pytest.approx(1.0, abs=1e-14)
    mass = dict(enumerate(np.asarray(start.weights)))
    for event in mergers:
        assert event.masses == pytest.approx((mass[event.first], mass[event.second]), abs=1e-15)
        mass[event.becomes] = sum(event.masses)
        assert event.angle <= run.statistics["radius"]
    for frame in run.frames:
        rows = mergers.labels(frame.count)
        assert np.bincount(rows, start.weights) == pytest.approx(
            np.asarray(frame.weights), abs=1e-14
        )
        assert float(jnp.sum(frame.weights)) == pytest.approx(1.0, abs=1e-14)
        assert np.linalg.norm(frame.points, axis=1) == pytest.approx(1.0, abs=1e-15)
    with pytest.raises(ValueError, match="count must lie between 1 and 60"):
        mergers.labels(61)


def test_waits_add_up_to_times(run):
    """t_k = Σ_{j≤k} wait_j, in logarithms."""
    total = np.logaddexp.accumulate(run.mergers.log_waits)
    assert total == pytest.approx(run.mergers.log_times, abs=1e-12)


def test_the_energy_climbs_a_staircase_of_height_one(run):
    """2βe^{−β}E never falls, ends at 1, and jumps by 2α_iα_j (arXiv:2410.06833)."""
    energies = np.array([float(ms.energy(frame, 100.0, scaled=True)) for frame in run.frames])
    assert np.all(np.diff(energies) > -1e-13)
    assert energies[-1] == pytest.approx(1.0, abs=1e-13)
    level = float(np.sum(np.asarray(run.frames[0].weights) ** 2)) + np.cumsum(run.mergers.jumps)
    counts = [frame.count for frame in run.frames]
    for count in (5, 4, 3, 2):
        plateau = energies[counts.index(count)]  # the frame at the merger
        assert plateau == pytest.approx(level[run.mergers.counts.tolist().index(count)], abs=1e-5)


def test_frames_stay_few_and_hold_every_late_merger(run):
    counts = [frame.count for frame in run.frames]
    assert len(counts) <= 101 and set(range(1, 9)) <= set(counts)
    for count in range(1, 9):
        event = run.mergers[60 - count - 1]
        assert run.log_times[counts.index(count)] == event.log_time
    few = staircase(run.frames[0], run.field, frames=8)
    assert 4 <= len(few.frames) <= 8 and few.frames[-1].count == 1
    assert few.log_times[-1] == pytest.approx(run.log_times[-1], abs=1e-6)


def test_rotations_permutations_and_solvers_change_nothing():
    start, field = ms.uniform(20, 2, seed=8), ms.SelfAttention(60.0)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(2, 2)))[0]
    order = np.random.default_rng(3).permutation(20)
    moved = ms.Points(np.asarray(start.points)[order] @ turn.T)
    one, two = staircase(start, field), staircase(moved, field)
    other = staircase(start, field, stepper=ms.Adaptive(solver=diffrax.Tsit5()))
    # The moment of a merger is sharp to a few times of collapse: early ones differ by that.
    late = one.mergers.log_times > math.log(1e8)
    assert late.sum() >= 2
    for run in (two, other):
        assert np.abs(run.mergers.times - one.mergers.times)[~late].max() < 5
        assert run.mergers.log_times[late] == pytest.approx(one.mergers.log_times[late], abs=1e-6)
    ends = [np.asarray(run.frames[-1].points)[0] for run in (one, two, other)]
    assert turn @ ends[0] == pytest.approx(ends[1], abs=1e-7)
    assert ends[2] == pytest.approx(ends[0], abs=1e-7)


def test_given_times_are_met_exactly_and_the_end_follows():
    start, field = ms.uniform(12, 2, seed=0), ms.SelfAttention(10.0)
    times = [0.5, 3.0, 1e3, 1e30]
    run = staircase(start, field, frames=times)
    whole = staircase(start, field)
    assert run.times.tolist()[:4] == [0.0, 0.5, 3.0, 1e3] and run.times[-1] == 1e30
    assert run.times[-2] == pytest.approx(whole.times[-1], rel=1e-6)
    early = ms.flow(
        start, field, 3.0, frames=[0.5, 3.0], stepper=ms.Adaptive(rtol=1e-12, atol=1e-12)
    )
    assert np.asarray(run.frames[2].points) == pytest.approx(early.points[-1], abs=1e-8)


def test_tokens_in_one_place_merge_at_once_and_equilibria_are_said_to_rest():
    field = ms.SelfAttention(9.0)
    double = staircase(ms.Points([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), field)
    assert double.mergers[0][:2] == (0, 2) and double.mergers[0].log_time == -math.inf
    assert double.mergers[1].log_time > 0
    square = staircase(ms.polygon(4), field)
    assert square.outcome.name == "done" and "No token moves" in square.outcome.message
    assert len(square.mergers) == 0 and square.frames[-1].count == 4
    alone = staircase(ms.Points([[1.0, 0.0]]), field)
    assert alone.outcome.name == "done" and alone.frames[-1].count == 1


def test_repelled_tokens_never_merge():
    field = ms.SelfAttention(4.0, value=-1)
    start = ms.uniform(20, 2, seed=1)
    run = staircase(start, field, 5.0, frames=[5.0])
    apart = ms.flow(start, field, 5.0, frames=2)
    assert len(run.mergers) == 0
    assert np.asarray(run.frames[-1].points) == pytest.approx(apart.points[-1], abs=1e-6)


def test_groups_are_closing_in_and_no_wider_than_the_radius():
    """3000 tokens, denser than the radius, on a flow that contracts here and expands there."""
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(-1, 1, 3000), 1e-2
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    speed = -np.sin(np.pi * angle)  # towards 0, away from ±1
    u = speed[:, None] * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    label = find_collapsed(x, u, np.full(3000, 1 / 3000), radius, turn=3)
    sizes = np.bincount(label)
    assert label[0] == 0 and np.array_equal(np.unique(label), np.arange(len(sizes)))
    for k in np.flatnonzero(sizes > 1):
        group = angle[label == k]
        assert np.ptp(group) <= radius and np.abs(group).max() < 0.5 + radius
    assert np.mean(sizes[label][np.abs(angle) < 0.45] > 1) > 0.95


@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_near_tokens_in_many_axes_are_those_of_brute_force(spread):
    """Scattered ones, and a cluster so tight that its projections are all near each other."""
    rng = np.random.default_rng(1)
    x = spread * rng.normal(size=(400, 30))
    x[200:210] = x[:10] + 1e-5 * rng.normal(size=(10, 30))
    away = rng.normal(size=(10, 30))  # too far apart in all axes, though near in a few
    x[210:220] = x[10:20] + 1.5e-4 * away / np.linalg.norm(away, axis=1, keepdims=True)
    radius = 4e-3 if spread < 1 else 1e-4
    gap = np.linalg.norm(x[:, None] - x, axis=2)
    expected = {tuple(pair) for pair in np.argwhere(np.triu(gap <= radius, 1)).tolist()}
    assert len(expected) >= 10
    assert {tuple(sorted(pair)) for pair in merging._near(x, radius).tolist()} == expected


def test_equal_rows_share_a_label_even_where_checksums_meet(monkeypatch):
    rows = np.array([[0.0, 3.0], [-1e9, 7.0], [0.0, 3.0], [-1e9, 6.0]])
    label = merging._same_rows(rows)
    assert label[0] == label[2] and len(set(label.tolist())) == 3

    class Zeros:
        def integers(self, most, size):
            return np.full(size, -1) // 2  # 2 · (−1) + 1 = −1: (0, 3) and (3, 0) meet

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Zeros())
    label = merging._same_rows(np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 3.0]]))
    assert label[0] == label[2] != label[1]


class Counted(Dense):
    """A dense sum that counts how often it is traced."""

    traces: ClassVar[list] = []

    def attend(self, kernel, values):
        self.traces.append(values.shape)
        return super().attend(kernel, values)


def test_merging_compiles_once_per_size(monkeypatch):
    sizes, pairwise = [], arclength._pairwise

    def counted(motion, x):
        sizes.append(x.shape[0])
        return pairwise(motion, x)

    monkeypatch.setattr(arclength, "_pairwise", counted)
    # An odd tolerance, so that nothing compiled before is used again.
    stepper = ms.Adaptive(rtol=2.1e-7, atol=2e-7, solver=diffrax.Tsit5())
    run = staircase(
        ms.uniform(600, 2, seed=0), ms.SelfAttention(9.0), sum=Counted(), stepper=stepper
    )
    assert run.frames[-1].count == 1 and "dense, then exact" in run.statistics["sum"]
    shapes = [shape for shape in Counted.traces if shape != (600, 2)]  # those are shape checks
    assert set(shapes) == {(640, 2)} and {32} <= set(sizes) <= {512, 128, 32}
    assert max(map(shapes.count, shapes)) <= 3 and max(map(sizes.count, sizes)) <= 3


def test_step_limit_and_interrupt_keep_what_there_is(monkeypatch):
    start, field = ms.uniform(20, 2, seed=8), ms.SelfAttention(25.0)
    run = staircase(start, field, stepper=ms.Adaptive(max_steps=80))
    assert run.outcome.name == "step_limit" and "max_steps" in run.outcome.message
    assert 1 < run.frames[-1].count < 20 and run.log_times[-1] > -math.inf
    advance, calls = MergingFlow.advance, []

    def stop_at_the_tenth(self):
        calls.append(0)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return advance(self)

    monkeypatch.setattr(MergingFlow, "advance", stop_at_the_tenth)
    run = staircase(start, field)
    assert run.outcome.name == "interrupted" and "frames so far are kept" in run.outcome.message
    assert len(run.frames) > 3


def test_a_run_survives_storage(tmp_path):
    run = staircase(pair(3.0), ms.SelfAttention(400.0))
    assert np.isinf(run.times[-1])
    back = ms.Trajectory.load(run.save(tmp_path / "run.zarr"))
    assert np.array_equal(back.times, run.times) and np.array_equal(back.log_times, run.log_times)
    for column in ("first", "second", "masses", "angles", "log_times", "log_waits"):
        assert np.array_equal(getattr(back.mergers, column), getattr(run.mergers, column))
    assert [frame.count for frame in back.frames] == [frame.count for frame in run.frames]
    assert "e^79" in repr(run) and "from 2 tokens to 1" in repr(run)
    still = staircase(ms.polygon(4), ms.SelfAttention(9.0))
    assert len(ms.Trajectory.load(still.save(tmp_path / "still.zarr")).mergers) == 0


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(field=ms.SelfAttention(1.0, causal=True)), "without mask or positions"),
        (dict(field=ms.Kuramoto()), "needs a SelfAttention field"),
        (dict(measure=ms.gaussian_points(4, 2)), "tokens on the sphere"),
        (dict(measure=ms.Points([[1.0, 0.0], [0.0, 1.0]], [1, 0])), "positive weights"),
        (dict(horizon=0.0), "horizon must be > 0"),
        (dict(field=ms.SelfAttention(1.0, value=-1)), "horizon must be finite"),
        (dict(frames=1), "frames must be an integer >= 2"),
        (dict(frames=[-1.0]), "frames must be times between 0"),
        (dict(stepper=ms.Adaptive(solver=diffrax.Kvaerno5())), "explicit Runge–Kutta"),
        (dict(radius=1e-9), "radius must be at least 100"),
    ],
)
def test_refusals(change, message):
    case = dict(measure=ms.uniform(4, 2), field=ms.SelfAttention(1.0)) | change
    with pytest.raises(ValueError, match=message):
        staircase(**case)


def test_a_merged_token_lies_at_the_weighted_mean_of_its_parts():
    masses = np.array([0.5, 0.1, 0.3, 0.1])
    angles = np.array([0.0, 0.02, 2.0, 0.05])  # the third is elsewhere and stays
    x = np.stack([np.cos(angles), np.sin(angles), np.zeros(4)], axis=1)
    ledger = Ledger(masses)
    merged = merge_collapsed(x, np.array([0, 0, 1, 0]), ledger, 0.0, 0.0)
    # By hand: (0.5 x_0 + 0.1 x_1 + 0.1 x_3) / 0.7, back on the sphere.
    centre = sum(w * a for w, a in zip(masses[[0, 1, 3]], x[[0, 1, 3]], strict=True)) / 0.7
    np.testing.assert_allclose(merged[0], centre / np.linalg.norm(centre), rtol=0, atol=1e-15)
    assert np.array_equal(merged[1], x[2])
    np.testing.assert_allclose(ledger.masses, [0.7, 0.3], rtol=1e-15)
    # The angle of the mean is 0.01 to third order: (0.1·0.02 + 0.1·0.05)/0.7; unweighted 0.0233.
    assert math.atan2(merged[0, 1], merged[0, 0]) == pytest.approx(0.01, abs=1e-5)
