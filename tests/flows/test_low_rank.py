"""Runs that go through a few tokens once clusters form, against the same runs over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jnp
from metastable.fields.sums import Dense
from metastable.fields.sums.low_rank import LowRankSum
from metastable.flows import drive
from metastable.flows.solvers import looks
from metastable.flows.solvers.ranks import Ranks
from tests import oracles

TOKENS, DIM, BETA = 600, 5, 4.0
FIELD = ms.SelfAttention(BETA)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tests are small: low ranks count as worth it here at any number of tokens."""
    monkeypatch.setattr(looks, "WORTH", 0.0)
    monkeypatch.setattr(looks, "PAYS", 2.0)


def clusters(tokens=TOKENS, dim=DIM, spread=0.02, seed=0):
    rng = np.random.default_rng(seed)
    centres = oracles.unit(rng.normal(size=(3, dim)))
    noise = spread * rng.normal(size=(tokens, dim))
    return ms.Points(oracles.unit(centres[np.arange(tokens) % 3] + noise))


def farthest(a, b):
    return max(
        np.abs(np.asarray(x.points) - np.asarray(y.points)).max()
        for x, y in zip(a.frames, b.frames, strict=True)
    )


def test_flow_chooses_it_by_itself_and_stays_with_the_dense_run():
    """Errors gathered are a tenth of the stepper's 1e−9; nearby paths part no faster than e^t."""
    start = clusters()
    run = ms.flow(start, FIELD, 3.0, frames=13)
    dense = ms.flow(start, FIELD, 3.0, frames=13, sum=Dense())
    assert run.statistics["sum"].startswith("dense, then low rank (")
    assert dense.statistics["sum"] == "dense" and "pairs" not in dense.statistics
    assert run.statistics["low_rank_refreshes"] > 0 and run.statistics["low_rank_repeats"] == 0
    assert 0 < run.statistics["low_rank_error"] <= 0.1 * 1e-9
    assert run.statistics["pairs"] < run.statistics["evaluations"] * TOKENS**2 / 2
    assert farthest(run, dense) < 1e-10 * math.exp(3.0)


def test_uniform_tokens_are_summed_over_all_pairs_to_the_bit():
    start = ms.uniform(TOKENS, 16, seed=1)
    run = ms.flow(start, FIELD, 0.5, frames=3)
    dense = ms.flow(start, FIELD, 0.5, frames=3, sum=Dense())
    assert run.statistics["sum"] == "dense"
    assert farthest(run, dense) == 0.0


def test_unequal_masses_and_tokens_without_any():
    rng = np.random.default_rng(3)
    start = clusters(seed=2)
    weights = rng.exponential(size=TOKENS) ** 3
    weights[::7] = 0.0
    start = ms.Points(start.points, weights)
    run = ms.flow(start, FIELD, 2.0, frames=3)
    assert "low rank" in run.statistics["sum"]
    assert farthest(run, ms.flow(start, FIELD, 2.0, frames=3, sum=Dense())) < 1e-10 * math.exp(2.0)


@pytest.mark.parametrize(
    "field",
    [
        ms.SelfAttention(BETA, normalized=False),
        ms.SelfAttention(2.0, query=np.diag([1, 2, 1, 1, 0.5]), key=np.diag([1, 2, 1, 1, 0.5])),
        ms.SelfAttention(BETA, value=np.diag([1.0, 1.0, 0.5, 0.5, -0.2])),
    ],
)
def test_other_attention_goes_the_same_way(field):
    start, horizon = clusters(), 1.5 if field.normalized else 1.5 * math.exp(-BETA)
    run = ms.flow(start, field, horizon, frames=3)
    assert "low rank" in run.statistics["sum"]
    dense = ms.flow(start, field, horizon, frames=3, sum=Dense())
    assert farthest(run, dense) < 1e-10 * math.exp(1.5 * BETA)  # unstable at a rate β at most


@pytest.mark.parametrize(
    "field", [ms.SelfAttention(BETA, causal=True), ms.SelfAttention(1.0) + ms.SelfAttention(2.0)]
)
def test_masks_and_several_means_are_left_to_the_dense_sum(field):
    run = ms.flow(clusters(), field, 0.2, frames=2)
    assert run.statistics["sum"] == "dense"


def test_tokens_that_move_apart_are_noticed_and_the_segment_is_done_again(monkeypatch):
    """Repulsion spreads clusters of 1e−4 over the sphere, where their pivots are too few."""
    start, field = clusters(spread=1e-4), ms.SelfAttention(9.0, value=-1.0)
    run = ms.flow(start, field, 12.0, frames=2)
    dense = ms.flow(start, field, 12.0, frames=2, sum=Dense())
    assert run.statistics["low_rank_repeats"] == 2  # the second with pivots ten times as good
    assert run.statistics["evaluations"] > dense.statistics["evaluations"]
    assert farthest(run, dense) == 0.0  # the one segment was done again over all pairs
    # Without the check the run would be wrong, and this test would see it.
    monkeypatch.setattr(Ranks, "holds", lambda *_, **__: True)
    monkeypatch.setattr(Ranks, "is_near", lambda *_, **__: True)
    assert farthest(ms.flow(start, field, 12.0, frames=2), dense) > 1e-4


def true_error(start, sum):
    x = np.asarray(start.points)
    exact = oracles.attention(x, np.full(len(x), 1 / len(x)), BETA)
    got = FIELD.drift(start, ms.fields.field.Places(start.points, None, own=True), 0.0, sum)
    off = np.linalg.norm(np.asarray(got) - exact, axis=1)
    largest = np.linalg.norm(exact, axis=1).max()
    return max(np.sqrt(np.mean(off**2)), off.max() / looks.LONELY) / largest, largest


def test_errors_are_measured_against_brute_force():
    """An estimate plus two standard errors: above the error in 97.7 %, were it normal."""
    ratios = []
    for seed in range(20):
        start = clusters(spread=0.01 + 0.001 * seed, seed=seed)
        watch = Ranks(FIELD, start, Dense(), budget=1e-8)
        sum = watch.choose(start, 0.0, work=100)
        assert isinstance(sum, LowRankSum)
        ratios.append(watch.began[1] / true_error(start, sum)[0])
        assert watch.began[1] <= 1e-8
    assert np.sum(np.array(ratios) >= 1) >= 17 and min(ratios) > 0.8
    assert np.median(ratios) < 1.4


def test_errors_on_a_gpu_are_those_on_a_cpu(monkeypatch):
    """JAX in the place of NumPy, padding included."""
    start = clusters(spread=0.02)
    x = np.concatenate([np.asarray(start.points), np.eye(1, DIM).repeat(40, axis=0)])
    padded = ms.Points.unchecked(
        jnp.asarray(x), jnp.r_[np.asarray(start.weights), np.zeros(40)], massless=False
    )
    found = []
    for host in (True, False):
        monkeypatch.setattr(looks, "_on_host", lambda host=host: host)
        look = looks.Look(FIELD, padded, 0.0, TOKENS)
        *_, pivots = look.search(64)
        sample, columns = look.draw(pivots), look.columns(pivots.indices)
        found.append([look.error(columns, rank, sample) for rank in (16, 48)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_one_token_far_from_all_pivots_is_among_those_looked_at():
    """With two tokens of each cluster as pivots a lone one is off by nearly all of its field."""
    start = clusters(spread=1e-4)
    x = np.asarray(start.points).copy()
    x[377] = -x[0]
    start = ms.Points(x)
    look = looks.Look(FIELD, start, 0.0, 0)
    *_, found = look.search(6)
    kept = found.indices[found.indices != 377]
    held = [np.where(np.arange(TOKENS) == 377, 1.0, 1e-8)]
    sample = look.draw(found._replace(indices=kept, residuals=dict(enumerate(held))))
    assert 377 in sample.rows
    error = look.error(look.columns(kept), len(kept), sample)
    assert error == pytest.approx(true_error(start, LowRankSum(kept))[0], rel=0.5)


def test_the_mean_square_of_a_sample():
    """Exact where chances go by the squares; over all tokens, evenly, it is the mean itself."""
    off = np.random.default_rng(1).exponential(size=40)
    chance = off**2 / np.sum(off**2)
    rows, draws = np.array([3, 8, 21]), np.array([4, 1, 2])
    sample = looks.Sample(rows, draws, chance[rows])
    assert sample.mean_square(off[rows], 40) == pytest.approx(np.mean(off**2), rel=1e-12)
    every = looks.Sample(np.arange(40), np.ones(40, int), np.full(40, 1 / 40))
    upper = np.mean(off**2) + 2 * math.sqrt(np.var(off**2) * 40 / 39 / 40)
    assert every.mean_square(off, 40) == pytest.approx(upper, rel=1e-12)


def test_an_error_that_stays_adds_to_the_positions_until_the_budget_is_spent():
    """Δt ε ‖a‖ a segment: here an eighth of the budget, then all."""
    start = clusters(spread=0.02)
    watch = Ranks(FIELD, start, Dense(), budget=1e-8)
    error, largest = true_error(start, watch.choose(start, 0.0, work=100))
    assert watch.began[1] == pytest.approx(error, rel=0.5)
    step = 1e-8 / (8 * watch.began[1] * largest)
    assert watch.holds(start, step) and watch.error == pytest.approx(1e-8 / 8, rel=0.05)
    assert not watch.holds(start, 8 * step)
    assert watch.sum is watch.base and watch.counts["repeats"] == 1
    before = watch.began[1]
    assert watch.choose(start, 0.0, work=100) is not watch.base  # again, with more pivots
    assert watch.began[1] <= 0.1 * before and watch.holds(start, step)
    assert watch.choose(start, 0.0, work=100) is not watch.base
    assert not watch.is_near(ms.uniform(TOKENS, DIM, seed=9), 0.0)
    watch.choose(start, 0.0, work=100)
    assert not watch.is_near(ms.uniform(TOKENS, DIM, seed=9), 0.0)
    assert watch.choose(start, 0.0, work=100) is watch.base  # all pairs, for this segment
    assert watch.holds(start, step) and watch.choose(start, 0.0, work=100) is not watch.base


def test_a_resumed_run_gives_the_same_bits(tmp_path):
    start = clusters(seed=4)
    whole = ms.flow(start, FIELD, 2.0, frames=25)
    assert "low rank" in whole.statistics["sum"]
    path, seen = tmp_path / "run.npz", []
    stopped = lambda: len(seen) >= 12
    for frame in drive(start, FIELD, 2.0, frames=25, checkpoint=path, stopped=stopped):
        seen.append(frame)
    assert 12 <= len(seen) < 25
    resumed = ms.flow(start, FIELD, 2.0, frames=25, checkpoint=path)
    assert farthest(whole, resumed) == 0.0
    same = [key for key in whole.statistics if key != "seconds"]
    assert [whole.statistics[k] for k in same] == [resumed.statistics[k] for k in same]


def test_traced_runs_are_dense():
    import jax

    start = clusters(tokens=40)
    last = lambda x: ms.flow(start.at(x), FIELD, 0.5, frames=2, sum=None).frames[-1].points
    plain = ms.flow(start, FIELD, 0.5, frames=2, sum=Dense()).frames[-1].points
    np.testing.assert_allclose(jax.jit(last)(jnp.asarray(start.points)), plain, atol=1e-12)


def test_merging_runs_end_in_the_same_cluster_after_the_same_mergers():
    """Beyond 512 tokens the low-rank sum is used; the steps differ, the tree and the end do not."""
    # Three clusters, each a point long before two of them meet. Which of the tokens inside one of
    # them comes first is chance: their looks come at other times.
    centres = np.repeat(np.eye(3, DIM), (150, 200, 350), axis=0)
    noise = 0.2 * np.random.default_rng(5).normal(size=centres.shape)
    start, field, stepper = (
        ms.Points(oracles.unit(centres + noise)),
        ms.SelfAttention(9.0),
        ms.Merging(),
    )
    run = ms.flow(start, field, math.inf, stepper=stepper)
    dense = ms.flow(start, field, math.inf, stepper=stepper, sum=Dense())
    said = run.statistics["sum"]
    assert said.startswith("dense, then low rank (") and said.endswith("), then exact pairs")
    assert run.frames[-1].count == dense.frames[-1].count == 1
    end, expected = (np.asarray(r.frames[-1].points) for r in (run, dense))
    # Mergers change positions by (β r)² of 1e−4, and the stepper by 2e−9 a step.
    assert np.abs(end - expected).max() < 1e-7
    masses = [np.sort(r.mergers.masses[-2:], axis=1) for r in (run, dense)]
    np.testing.assert_allclose(*masses, atol=1e-12)
    assert masses[0][1].sum() == pytest.approx(1) and masses[0][0].sum() < 0.99  # of clusters
    # A merger is noticed at the end of a step, and here steps take up to 0.5 of t = 346.
    assert run.mergers.log_times[-1] == pytest.approx(dense.mergers.log_times[-1], abs=0.5 / 346)
