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
from metastable.flows.solvers import ranks
from metastable.flows.solvers.ranks import Ranks
from tests import oracles

TOKENS, DIM, BETA = 600, 5, 4.0
FIELD = ms.SelfAttention(BETA)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tests are small: low ranks count as worth it here at any number of tokens."""
    monkeypatch.setattr(ranks, "WORTH", 0.0)
    monkeypatch.setattr(ranks, "PAYS", 2.0)


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
    assert run.statistics["low_rank_repeats"] == 1
    assert run.statistics["evaluations"] > dense.statistics["evaluations"]
    assert farthest(run, dense) == 0.0  # the one segment was done again over all pairs
    # Without the check the run would be wrong, and this test would see it.
    monkeypatch.setattr(Ranks, "holds", lambda *_, **__: True)
    monkeypatch.setattr(Ranks, "is_near", lambda *_, **__: True)
    assert farthest(ms.flow(start, field, 12.0, frames=2), dense) > 1e-4


def test_errors_are_measured_against_brute_force():
    start = clusters(spread=0.02)
    watch = Ranks(FIELD, start, Dense(), budget=1e-8)
    sum = watch.choose(start, 0.0, work=100)
    assert isinstance(sum, LowRankSum)
    x = np.asarray(start.points)
    exact = oracles.attention(x, np.full(TOKENS, 1 / TOKENS), BETA)
    got = FIELD.drift(start, ms.fields.field.Places(start.points, None, own=True), 0.0, sum)
    off = np.linalg.norm(np.asarray(got) - exact, axis=1)
    largest = np.linalg.norm(exact, axis=1).max()
    error = max(np.sqrt(np.mean(off**2)), off.max() / ranks.LONELY) / largest
    # The error is the residual of a matrix; rounding in its solution is that of δ = 1e−13.
    assert watch.began[1] == pytest.approx(error, rel=1e-2, abs=1e-12)
    assert error <= 1e-8
    # An error that stays adds Δt ε ‖a‖ to the positions: here an eighth of the budget, then all.
    step = 1e-8 / (8 * error * largest)
    assert watch.holds(start, step) and watch.error == pytest.approx(1e-8 / 8, rel=0.05)
    assert not watch.holds(start, 8 * step)
    assert watch.sum is watch.base and watch.counts["repeats"] == 1
    assert watch.choose(start, 0.0, work=100) is not watch.base
    assert not watch.is_near(ms.uniform(TOKENS, DIM, seed=9), 0.0)


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
    start = clusters(tokens=700, spread=0.2, seed=5)
    stepper = ms.Merging()
    run = ms.flow(start, FIELD, math.inf, stepper=stepper)
    dense = ms.flow(start, FIELD, math.inf, stepper=stepper, sum=Dense())
    said = run.statistics["sum"]
    assert said.startswith("dense, then low rank (") and said.endswith("), then exact pairs")
    assert run.frames[-1].count == dense.frames[-1].count == 1
    end, expected = (np.asarray(r.frames[-1].points) for r in (run, dense))
    # Mergers change positions by (β r)² of 1e−4, and the stepper by 2e−9 a step.
    assert np.abs(end - expected).max() < 1e-7
    few = 10  # clusters: their masses tell whether the same tokens met
    masses = [np.sort(r.mergers.masses[-few:], axis=1) for r in (run, dense)]
    np.testing.assert_allclose(*masses, atol=1e-12)
    assert run.mergers.log_times[-1] == pytest.approx(dense.mergers.log_times[-1], abs=1e-4)
