"""Observables through depth on configurations whose answer is known."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import metastable as ms
from metastable.models.clock import fit_clock
from metastable.models.depthwise import count_changes, depthwise, energy_drops
from metastable.models.representation import (
    first_token,
    intrinsic_dimension,
    linear_cka,
    top_coordinate_share,
)
from metastable.theory.equiangular import equiangular_cosine


def as_run(*states, sphere=True, **statistics):
    frames = tuple(
        ms.Points(x / np.linalg.norm(x, axis=1, keepdims=True))
        if sphere
        # raw states keep their lengths
        else ms.Points(x, on_sphere=False)
        for x in map(np.asarray, states)
    )
    outcome = ms.Outcome("done", "made")
    return ms.Trajectory(np.arange(len(frames)) * 1.0, frames, "layers", outcome, statistics)


def test_a_hand_made_run_is_counted_right():
    """Four orthogonal tokens; two meet; then all. Every number below is exact."""
    e = np.eye(5)
    start, pair, one = e[:4], e[[0, 0, 2, 3]], e[[0, 0, 0, 0]]
    table = depthwise(as_run(start, pair, one, pair))
    assert table.mean_cosine == pytest.approx([0, 1 / 6, 1, 1 / 6])
    assert table.mass[:, 1] == pytest.approx([0, 1 / 6, 1, 1 / 6])
    assert table.clusters.tolist() == table.gram_rank.tolist() == [4, 3, 1, 3]
    assert table.modes.tolist() == [4, 3, 1, 3]
    assert table.merges.tolist() == [0, 1, 2, 0] and table.splits.tolist() == [0, 0, 0, 2]
    assert table.effective_rank[[0, 2]] == pytest.approx([4, 1])
    assert table.residual[[0, 2]] == pytest.approx([np.sqrt(3) / 2, 0], abs=1e-7)
    expected = [(4 + 12 * np.exp(-b)) / 16 for b in (1.0, 5.0)]
    assert table.energy[0] == pytest.approx(expected)
    assert table.energy_violations == {"1": 1, "5": 1}  # the last step only
    assert table.histogram.sum(axis=1) == pytest.approx(1)
    assert np.isnan(table.dimension[2])  # one point has no dimension
    assert table.to_dict()["energy_violations"]["1"] == 1


def test_quick_tables_leave_out_what_is_slow():
    table = depthwise(as_run(np.eye(5)[:4], np.eye(5)[[0, 0, 2, 3]]), thorough=False)
    assert table.chosen.size == table.gram_rank.size == table.cka.size == 0


@pytest.mark.parametrize("seed", range(5))
def test_merges_and_splits_account_for_the_count(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 30), rng.integers(0, 7, 30)
    merges, splits = count_changes(a, b)
    assert len(np.unique(a)) - merges + splits == len(np.unique(b))


def test_energy_drops_ignore_rounding():
    assert energy_drops(np.array([1.0, 1.0 - 1e-8, 2.0, 1.5])).tolist() == [3]


def test_cka_against_the_centred_gram_matrices():
    """HSIC written out with the centring matrix: another form of the same number."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((15, 4)), rng.standard_normal((15, 7))
    H = np.eye(15) - 1 / 15
    hsic = lambda a, b: np.trace(a @ a.T @ H @ b @ b.T @ H)
    expected = hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))
    assert linear_cka(x, y) == pytest.approx(expected)
    turned = x @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert linear_cka(x, 3 * turned + 1) == pytest.approx(1)


@pytest.mark.parametrize("dim", [2, 5])
def test_intrinsic_dimension_of_a_gaussian_inside_many_axes(dim):
    """Known dimension; the estimator's standard deviation is dim/√n, three of them allowed."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, dim)) @ np.linalg.qr(rng.standard_normal((40, dim)))[0].T
    found = intrinsic_dimension(ms.Points(x, on_sphere=False))
    assert found == pytest.approx(dim, abs=3 * dim / np.sqrt(1500) + 0.1)
    twice = ms.Points(np.concatenate([x, x]), on_sphere=False)
    assert intrinsic_dimension(twice) == pytest.approx(found)  # coincident tokens count once
    assert pdist(x).min() > 0


def test_top_coordinates_against_a_loop_over_pairs():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 4)) + np.array([3, 0, 0, 0])
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    carried = [
        sum(u[i, k] * u[j, k] for i in range(6) for j in range(6) if i != j) for k in range(4)
    ]
    expected = np.sort(np.abs(carried))[-1] / np.sum(np.abs(carried))
    assert top_coordinate_share(ms.Points(u), 1) == pytest.approx(expected)


def test_a_giant_first_token_is_found_and_its_rank_told():
    """One token a thousand times longer: rank near 1 with it, that of the others without."""
    x = np.eye(6)
    giant = x.copy()
    giant[0] *= 1000
    run = as_run(x, giant, x, sphere=False, first="kept")
    found = first_token(run)
    assert found.found and found.states == (1, 1) and found.ratios[1] == pytest.approx(1000)
    assert found.ranks_without == pytest.approx([5, 5, 5]) and found.ranks[0] == pytest.approx(6)
    assert found.ranks[1] < 1.1 and "first-token effect in states 1 to 1" in str(found)
    still = first_token(as_run(x, x, sphere=False, first="kept"))
    assert not still.found and "no first-token effect" in str(still)
    with pytest.raises(ValueError, match="keep lengths"):
        first_token(as_run(x, x))
    with pytest.raises(ValueError, match="first token"):
        first_token(dataclasses.replace(run, statistics={"first": "left out"}))


@pytest.mark.parametrize(("beta", "rate"), [(1.0, 0.3), (4.0, 0.8)])
def test_the_clock_of_theory_itself_is_recovered(beta, rate):
    """Cosines made by γ_β at a known rate from a known start."""
    layers = np.arange(25.0)
    cosines = equiangular_cosine(0.7 + rate * layers, beta, tokens=40)
    found = fit_clock(layers, cosines, tokens=40)
    assert found.beta == beta and found.rate == pytest.approx(rate, rel=1e-2)
    assert found.start == pytest.approx(0.7, abs=1e-3) and found.error < 1e-3
