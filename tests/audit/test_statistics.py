"""Statistics of two samples against scikit-learn, SciPy and enumeration by hand."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from metastable.audit.statistics import (
    adjust_holm,
    auc,
    effect,
    item_q_values,
    permutation_p,
    proportion,
    roc,
    share_effect,
    tpr_at_fpr,
)
from metastable.audit.validity import calibration, resplit


def draw(seed, shift=1.0, sizes=(60, 120), ties=False):
    random = np.random.default_rng(seed)
    x, y = random.normal(shift, 1, sizes[0]), random.normal(0, 1, sizes[1])
    return (x.round(1), y.round(1)) if ties else (x, y)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_auc_and_curve_are_those_of_scikit_learn(seed, ties):
    x, y = draw(seed, ties=ties)
    labels, scores = np.repeat([1, 0], [len(x), len(y)]), np.concatenate([x, y])
    assert auc(x, y).mid == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
    false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
    ours = roc(x, y)
    np.testing.assert_allclose(ours[0], false, atol=1e-12)
    np.testing.assert_allclose(ours[1], true, atol=1e-12)
    for level in (0.01, 0.05, 0.1):
        expected = true[false <= level + 1e-12].max()
        assert tpr_at_fpr(x, y, level).mid == pytest.approx(expected, abs=1e-12)


def test_auc_interval_has_delongs_width_and_covers():
    """Width from the U-statistic's projections, by loops; coverage at normal shifts 1, where the
    area is Φ(1/√2)."""
    x, y = draw(0)
    found = auc(x, y)
    wins = [np.mean([(a > b) + 0.5 * (a == b) for b in y]) for a in x]
    losses = [np.mean([(a > b) + 0.5 * (a == b) for a in x]) for b in y]
    sd = np.sqrt(np.var(wins, ddof=1) / len(x) + np.var(losses, ddof=1) / len(y))
    z = np.log(found.mid / (1 - found.mid)) - np.log(found.low / (1 - found.low))
    assert z == pytest.approx(1.959964 * sd / (found.mid * (1 - found.mid)), rel=1e-6)
    truth = stats.norm.cdf(1 / np.sqrt(2))
    intervals = [auc(*draw(seed)) for seed in range(400)]
    covered = np.mean([one.low <= truth <= one.high for one in intervals])
    assert 0.92 <= covered <= 0.98  # 99.5 % binomial band of 0.95


def test_auc_without_overlap_keeps_an_exact_limit():
    """All of min(m, n) = 20 disjoint pairs succeed: 0.025^(1/20)."""
    found = auc(np.arange(20) + 100.0, np.arange(30.0))
    assert (found.mid, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025 ** (1 / 20))


@pytest.mark.parametrize(("hits", "trials"), [(0, 80), (1, 80), (40, 80), (80, 80), (3, 7)])
def test_proportions_are_clopper_and_pearsons(hits, trials):
    expected = stats.binomtest(hits, trials).proportion_ci(0.9, method="exact")
    found = proportion(hits, trials, 0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_levels_that_cannot_be_seen_are_refused():
    x, y = draw(0, sizes=(80, 80))
    with pytest.raises(ValueError, match="at least 100 control documents"):
        tpr_at_fpr(x, y, 0.01)
    with pytest.raises(ValueError, match="at least 1000 control documents"):
        tpr_at_fpr(x, np.concatenate([y, y]), 0.001)
    assert tpr_at_fpr(x, y, 1 / 80).mid >= 0


def test_permutation_p_is_exact_on_a_hand_made_case():
    """Of C(6, 3) = 20 ways to choose three of 1, 2, 3, 4, 5, 9 those with a sum of at least
    9 + 5 + 3 = 17 are {9,5,4} and {9,5,3}: p = 2/20. Ties count."""
    assert permutation_p([9.0, 5.0, 3.0], [1.0, 2.0, 4.0]) == 0.1
    # {1,1} against {0,0,1}: sums ≥ 2 arise in C(3,2) = 3 of C(5,2) = 10 ways.
    assert permutation_p([1.0, 1.0], [0.0, 0.0, 1.0]) == 0.3
    assert permutation_p([1.0, 1.0], [1.0, 1.0]) == 1.0


def test_drawn_p_values_approach_the_exact_one():
    """C(13, 6) = 1716 relabellings, enumerated here as well."""
    x, y = draw(1, shift=0.7, sizes=(6, 7))
    pooled = np.concatenate([x, y])
    sums = np.array([pooled[list(c)].sum() for c in combinations(range(13), 6)])
    exact = np.mean(sums >= x.sum() - 1e-12)
    assert permutation_p(x, y, draws=2000) == pytest.approx(exact, abs=1e-12)
    drawn = [permutation_p(x, y, draws=1000, seed=seed) for seed in range(20)]
    deviation = np.sqrt(exact * (1 - exact) / 1000 / 20)
    assert np.mean(drawn) == pytest.approx((1000 * exact + 1) / 1001, abs=4 * deviation)
    assert permutation_p([50.0] * 10, [0.0] * 10, draws=99) == 0.01  # (0 + 1)/(99 + 1)


@pytest.mark.parametrize("sizes", [(30, 40), (150, 150)])
def test_relabellings_are_those_of_shuffled_values(sizes):
    """Oracle: the values themselves, shuffled by the same generator; the larger in parts."""
    x, y = draw(5, shift=0.2, sizes=sizes)
    pooled = np.concatenate([x, y])
    random = np.random.default_rng([7, 2])
    mixed = random.permuted(np.broadcast_to(pooled, (9999, len(pooled))), axis=1)
    beyond = np.sum(mixed[:, : len(x)].sum(1) >= x.sum() - 1e-9)
    assert permutation_p(x, y, seed=7) == (beyond + 1) / 10_000


# Counts of two groups, and limits of method 10 in table II of Newcombe, Stat. Med. 17 (1998) 873.
NEWCOMBE = [
    ((56, 70), (48, 80), 0.0524, 0.3339),
    ((9, 10), (3, 10), 0.1705, 0.8090),
    ((6, 7), (2, 7), 0.0582, 0.8062),
    ((5, 56), (0, 29), -0.0381, 0.1926),
    ((0, 10), (0, 20), -0.1611, 0.2775),
    ((10, 10), (0, 20), 0.6791, 1.0),
    ((10, 10), (0, 10), 0.6075, 1.0),
]


@pytest.mark.parametrize(("one", "two", "low", "high"), NEWCOMBE)
def test_limits_of_a_difference_of_shares_as_published(one, two, low, high):
    x, y = ([1.0] * hits + [0.0] * (size - hits) for hits, size in (one, two))
    told = share_effect(x, y)
    assert (told.low, told.high) == pytest.approx((low, high), abs=5e-5)
    # Of two values the area is (1 + p − q)/2.
    area = auc(x, y)
    assert (2 * area.low - 1, 2 * area.high - 1) == pytest.approx((told.low, told.high))


@pytest.mark.parametrize("rates", [(0.02, 0.0), (0.1, 0.0), (0.3, 0.02), (0.9, 0.0)])
def test_areas_of_documents_that_come_out_or_not_hold_the_truth(rates):
    """Coverage by enumeration of both binomials, 25 documents a side: at least 95 % less 3."""
    size, held = 25, 0.0
    chances = [stats.binom.pmf(np.arange(size + 1), size, rate) for rate in rates]
    for k, j in np.ndindex(size + 1, size + 1):
        if (chance := chances[0][k] * chances[1][j]) > 1e-9:
            area = auc([1.0] * k + [0.0] * (size - k), [1.0] * j + [0.0] * (size - j))
            held += chance * (area.low <= (1 + rates[0] - rates[1]) / 2 <= area.high)
    assert held >= 0.92


def test_p_values_are_uniform_under_the_null():
    """500 re-splits of 80 non-members: KS p > 0.01, rejections at 5 % inside the 99 % band."""
    values = np.random.default_rng(3).normal(size=80)
    found = resplit(values, splits=500, draws=399, seed=1)
    assert calibration(found)[0] > 0.01
    low, high = stats.binom.ppf([0.005, 0.995], 500, 0.05)
    assert low <= np.sum(np.array(found) <= 0.05) <= high


def test_calibration_sees_p_values_that_are_too_small():
    found = np.random.default_rng(0).uniform(size=500) ** 2
    both, small = calibration(found.tolist())
    assert both < 1e-6 and small < 1e-6
    assert calibration((found**0.25).tolist())[1] > 0.5  # too large is safe


def test_holm_by_its_definition():
    p = [0.001, 0.2, 0.013, 0.04, 0.013]
    order = sorted(range(5), key=lambda k: p[k])
    expected, worst = [0.0] * 5, 0.0
    for rank, k in enumerate(order):
        worst = max(worst, min(1.0, (5 - rank) * p[k]))
        expected[k] = worst
    assert adjust_holm(p) == pytest.approx(expected)


def test_effect_is_scipys_bca():
    x, y = draw(5, shift=1.0, sizes=(40, 50))
    found = effect(x**2, y**2, resamples=4000, seed=0)
    other = stats.bootstrap(
        (x**2, y**2),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        n_resamples=4000,
        rng=np.random.default_rng(99),
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=0.06)
    assert effect([1.0, 1.0], [0.0, 0.0]).to_list() == [1.0, 1.0, 1.0]


def test_q_values_by_counting():
    x, y = np.array([5.0, 0.5, 3.0, -1.0]), np.array([0.0, 1.0, 2.0, 0.5])
    p = [Fraction(1 + sum(b >= a for b in y), 5) for a in x]
    assert p == [Fraction(1, 5), Fraction(4, 5), Fraction(1, 5), Fraction(1)]
    ordered = sorted(p)
    expected = [min(ordered[j] * 4 / (j + 1) for j in range(4) if ordered[j] >= one) for one in p]
    assert item_q_values(x, y) == pytest.approx([float(q) for q in expected])


def test_named_items_are_mostly_members():
    """At q ≤ 0.2 the share of non-members among the named, averaged, stays below 0.2."""
    shares = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        x = random.normal(size=80)
        x[:40] += 3
        named = item_q_values(x, random.normal(size=80)) <= 0.2
        shares.append(named[40:].sum() / max(named.sum(), 1))
    assert np.mean(shares) <= 0.2


def test_samples_must_be_numbers():
    with pytest.raises(ValueError, match="control must be an array with 1 non-empty"):
        auc([1.0], [])
    with pytest.raises(ValueError, match="protected must be finite"):
        permutation_p([np.nan, 1.0], [1.0])
