"""The whole staircase, from many uniform tokens to the one final cluster; and its limit β = ∞."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.cluster.hierarchy import cophenet
from scipy.stats import kendalltau

import metastable as ms
from metastable.fields.sums import choose_sum
from metastable.theory.pairs import log_merge_time
from tests.flows.test_staircase import staircase

pytestmark = pytest.mark.claim


def merged_run(tokens, dim, beta, seed=0):
    start, field = ms.uniform(tokens, dim, seed=seed), ms.SelfAttention(beta)
    return staircase(start, field, sum=choose_sum(start, field, 1e-12))


@pytest.mark.parametrize(
    "tokens, dim, beta",
    [(100_000, 2, 9.0), (100_000, 2, 25.0), (100_000, 2, 100.0), (20_000, 3, 9.0)],
)
def test_many_tokens_become_one_in_few_evaluations(tokens, dim, beta):
    run = merged_run(tokens, dim, beta)
    assert run.frames[-1].count == 1 and len(run.mergers) == tokens - 1
    assert run.statistics["evaluations"] < 20_000
    assert abs(run.mergers.masses[-1].sum() - 1) < 1e-12
    # The last two clusters, from their angle when the last but one merger left them.
    two = next(frame for frame in run.frames if frame.count == 2)
    x, y = np.asarray(two.points)
    angle = 2 * math.asin(np.linalg.norm(x - y) / 2)
    event = run.mergers[-1]
    expected = log_merge_time(angle, beta, until=event.angle, masses=tuple(np.asarray(two.weights)))
    assert event.log_wait == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("beta", [400.0, 1000.0])
def test_times_beyond_doubles_are_logarithms(beta):
    run = merged_run(5000, 2, beta)
    assert run.frames[-1].count == 1 and np.isinf(run.times[-1])
    assert 0.5 * beta < run.log_times[-1] < 2 * beta + 5
    assert abs(run.mergers.masses[-1].sum() - 1) < 1e-12


@pytest.mark.parametrize("dim, tokens", [(2, 1000), (3, 600)])
def test_merged_and_unmerged_runs_share_the_first_plateau(dim, tokens):
    start, field, horizon = ms.uniform(tokens, dim, seed=1), ms.SelfAttention(9.0), 60.0
    stepper = ms.Adaptive(rtol=1e-10, atol=1e-10)
    apart = ms.flow(start, field, horizon, stepper=stepper, frames=2).frames[-1]
    merged = staircase(start, field, horizon, sum=ms.Dense(), stepper=stepper, frames=[horizon])
    end = merged.frames[-1]
    assert ms.clusters(apart, angle=1e-3).count == end.count < 12
    rows = merged.mergers.labels(end.count)
    assert np.abs(np.asarray(end.points)[rows] - np.asarray(apart.points)).max() < 1e-8


@pytest.mark.parametrize("dim", [2, 3])
def test_the_error_of_merging_falls_with_the_square_of_the_radius(dim):
    start, field = ms.uniform(400, dim, seed=2), ms.SelfAttention(9.0)

    def end(radius):
        stepper = ms.Adaptive(rtol=1e-10, atol=1e-10)
        run = staircase(start, field, radius=radius, stepper=stepper)
        return np.asarray(run.frames[-1].points)[0], run.log_times[-1]

    exact, log_time = end(1e-6)
    off = {r: np.abs(end(r)[0] - exact).max() for r in (1e-2, 1e-3, 1e-4, 1e-5)}
    assert off[1e-2] < 1e-3 and off[1e-3] < 1e-5 and off[1e-4] < 1e-7 and off[1e-5] < 1e-9
    assert abs(end(1e-5)[1] - log_time) < 1e-6


def unions(mergers):
    """The set of starting tokens behind each merger, in order."""
    members = {k: frozenset([k]) for k in range(mergers.tokens)}
    for event in mergers:
        members[event.becomes] = members[event.first] | members[event.second]
    return [members[mergers.tokens + k] for k in range(len(mergers))]


def order(mergers):
    """When each pair of tokens came together, by the rank of the merger."""
    tree = mergers.linkage
    tree[:, 2] = np.arange(len(mergers))
    return cophenet(tree)


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_the_merge_order_approaches_hardmax(dim):
    """Twelve clusters of random masses, six starts: rank correlation rises to 1 with β."""
    betas = (3.0, 30.0, 300.0, 1e5)
    tau = {beta: [] for beta in betas}
    for seed in range(6):
        masses = np.random.default_rng(seed).uniform(0.5, 1.5, 12)
        start = ms.Points(ms.uniform(12, dim, seed=seed).points, masses)
        limit = ms.flow(start, ms.SelfAttention(1.0), math.inf, stepper=ms.Hardmax()).mergers
        for beta in betas:
            mergers = staircase(start, ms.SelfAttention(beta)).mergers
            tau[beta].append(kendalltau(order(mergers), order(limit)).statistic)
        assert unions(mergers) == unions(limit)  # at the largest β
        # Meeting points are O(β^{−1/2}) from their limits, and later exponents feel it.
        assert np.abs(mergers.log_times / 1e5 - limit.log_times).max() < 1 / math.sqrt(1e5)
    means = [np.mean(tau[beta]) for beta in betas]
    assert means == sorted(means) and means[-1] == 1.0
