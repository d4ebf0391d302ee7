"""Claims over many runs: exact laws from SciPy, ends and symmetries known from theory."""

import math

import numpy as np
import pytest
from scipy import stats

import metastable as ms
from metastable.comparison import in_share
from metastable.comparison.case import about
from metastable.comparison.pooling import pool
from metastable.core.verdict import decide, judge, not_applicable, sampled
from metastable.measures import Gaussian

LEVEL = 0.01


def claim(case):
    """Rows are given to `pool` by hand."""


def pooled(rows, claims=(claim,), tried=None):
    judged = {seed: [[row] if row else []] for seed, row in enumerate(rows)}
    return pool(claims, judged, tried or len(rows))


def fixed(holds):
    return decide(holds, "it holds", "mine", "yes", "yes" if holds else "no", "")


def chance(p):
    return sampled("it holds", "mine", 1.0, 1.1, p)


def test_one_run_that_contradicts_is_enough_and_is_named():
    (row,) = pooled([fixed(k != 7) for k in range(20)])
    assert (row.verdict, row.observed) == ("disagree", "19 of 20 runs")
    assert row.reason == "seed 7: expected yes, observed no"
    (row,) = pooled([fixed(True)] * 20)
    assert (row.verdict, row.observed) == ("agree", "20 of 20 runs")
    low = stats.binomtest(20, 20).proportion_ci(method="wilson").low
    assert f"so in {math.floor(1000 * low) / 10:g} % of all starts at least" in row.reason


def test_what_was_not_tested_is_said():
    rows = [fixed(True), not_applicable("it holds", "mine", "too short"), None]
    (row,) = pooled(rows, tried=5)
    assert (row.verdict, row.observed) == ("agree", "1 of 1 runs")
    assert "4 of 5 not tested (too short)" in row.reason
    (row,) = pooled(rows[1:])
    assert (row.verdict, row.reason) == ("not applicable", "too short")
    (row,) = pooled([None, None])
    assert (row.verdict, row.claim) == ("not applicable", "claim")


@pytest.mark.parametrize("p", [[0.5] * 30, [0.001] + [0.3] * 29, [0.004] * 5 + [0.5] * 95])
def test_rows_of_chance_follow_the_exact_binomial_law(p):
    (row,) = pooled([chance(value) for value in p])
    low = sum(value < LEVEL for value in p)
    exact = stats.binomtest(low, len(p), LEVEL, alternative="greater").pvalue
    assert row.p == pytest.approx(min(1.0, 2 * min(exact, len(p) * min(p))))
    assert row.verdict == ("disagree" if row.p < LEVEL else "agree")
    assert row.observed == f"{len(p) - low} of {len(p)} runs"


def test_an_honest_page_seldom_carries_a_false_disagree():
    """Independent uniform p and fair shares: more than 1 % of pages at a chance of 1e−5 only."""
    rng, pages, alarms = np.random.default_rng(0), 1500, 0
    fair = in_share(at_least=0.3, at_most=0.3)(lambda case: None)
    for _ in range(pages):
        p, holds = rng.random((25, 2)), rng.random(25) < 0.3
        judged = {
            k: [[chance(p[k, 0])], [chance(p[k, 1])], [fixed(bool(holds[k]))]] for k in range(25)
        }
        alarms += any(row.verdict == "disagree" for row in pool([claim, claim, fair], judged, 25))
    assert alarms <= stats.binom.isf(1e-5, pages, LEVEL)


def test_a_wrong_law_is_noticed():
    """p as if the error were a third of what it is: |z| > 3·2.58/… in a known share of runs."""
    z = stats.norm.isf(0.005)
    share = 2 * stats.norm.sf(z / 2)  # of runs with p < 0.01, where errors are twice as large
    rng = np.random.default_rng(1)
    p = 2 * stats.norm.sf(np.abs(2 * rng.normal(size=60)))
    assert stats.binom.sf(stats.binom.isf(1e-3, 60, LEVEL), 60, share) > 0.99
    assert pooled([chance(value) for value in p])[0].verdict == "disagree"


@pytest.mark.parametrize(
    ("limits", "side"),
    [({"at_least": 0.9}, "less"), ({"at_most": 0.4}, "greater"), ({"at_least": 0.5}, "less")],
)
def test_a_share_is_tested_by_the_exact_binomial_law(limits, side):
    marked = in_share(**limits)(lambda case: None)
    (row,) = pooled([fixed(k < 13) for k in range(20)], [marked])
    (value,) = limits.values()
    exact = stats.binomtest(13, 20, value, alternative=side).pvalue
    assert row.p == pytest.approx(exact) and row.observed == "13 of 20 runs"
    assert row.verdict == ("disagree" if exact < LEVEL else "agree")


@in_share(at_least=0.5, at_most=0.5)
def goes_right(case):
    """One token under V = diag(1, 0.9) goes to the pole of its side: by symmetry 1/2 go right."""
    x = case.run.frames[-1].points[0, 0]
    return decide(bool(x > 0), "the token goes right", "symmetry", "right", float(x), "")


def test_claims_over_an_ensemble():
    """The pole is that of the start: tan θ decays as e^{−0.1t} (linear flow of one token)."""

    def angle_decays(case):
        first, last = (
            np.abs(frame.points[0]) for frame in (case.run.frames[0], case.run.frames[-1])
        )
        expected = first[1] / first[0] * math.exp(-0.1 * case.times[-1])
        return judge("tan θ decays as e^(−0.1t)", "linear", 0.0, last[1] / last[0] - expected,
                     absolute=1e-5)  # fmt: skip

    def always_right(case):
        return goes_right(case)

    how = dict(samples=20, frames=2, claims=[angle_decays, goes_right, always_right])
    field = ms.SelfAttention(1.0, value=np.diag([1.0, 0.9]))
    start = lambda seed: ms.uniform(1, 2, seed=seed)
    result = ms.ensemble(start, field, 50.0, **how)
    firsts = np.array([start(seed).points[0, 0] for seed in range(20)])
    right = int(np.sum(firsts > 0))
    decay, share, always = result.verdicts.rows
    assert (decay.verdict, decay.observed) == ("agree", "20 of 20 runs")
    p = [stats.binomtest(right, 20, 0.5, alternative=side).pvalue for side in ("less", "greater")]
    assert share.verdict == "agree" and share.p == pytest.approx(min(1.0, 2 * min(p)))
    assert (always.verdict, always.observed) == ("disagree", f"{right} of 20 runs")
    assert f"seed {int(np.argmax(firsts < 0))}: " in always.reason
    assert result.sentence == "20 starts; 2 of 3 claims agree, but not: the token goes right."
    wrong = ms.SelfAttention(1.0, value=np.diag([1.0, 0.8]))  # another rate: the claim must fail
    assert ms.ensemble(start, wrong, 50.0, **how).verdicts.rows[0].verdict == "disagree"


def test_a_share_is_nothing_that_one_run_could_test():
    run = ms.flow(ms.uniform(1, 2), ms.SelfAttention(1.0, value=np.diag([1.0, 0.9])), 5.0)
    row = ms.compare(run, claims=[goes_right]).rows[-1]
    assert row.verdict == "not applicable" and "ms.ensemble" in row.reason
    with pytest.raises(ValueError, match=r"0 <= at_least <= at_most <= 1; got 0.9 and 0.5"):
        in_share(at_least=0.9, at_most=0.5)


def test_starts_that_end_early_are_not_tested():
    """A Gaussian of variance s under V = I is infinite at t = 1/(2βs) (arXiv:2501.18322)."""
    wide = about(Gaussian)(lambda case: fixed(True))
    start = lambda seed: Gaussian([0.0, 1.0], 0.5 + seed)
    result = ms.ensemble(start, ms.SelfAttention(1.0), 0.5, samples=3, frames=2, claims=[wide])
    (row,) = result.verdicts.rows
    assert row.observed == "1 of 1 runs" and "2 of 3 not tested" in row.reason


def test_claims_see_noisy_runs_and_mergers():
    """Rows of the library itself, as claims: honest runs of a field agree with its own theory."""
    from metastable.comparison.claims import follows_field, noise_strength

    noisy = ms.SelfAttention(1.0) + ms.Noise(10.0)
    start = lambda seed: ms.uniform(12, 2, seed=seed)
    result = ms.ensemble(start, noisy, 1.0, samples=4, frames=31, claims=[noise_strength])
    assert [row.verdict for row in result.verdicts.rows] == ["agree"]
    assert result.verdicts.rows[0].p is not None
    merging = ms.ensemble(
        start, ms.SelfAttention(4.0), math.inf, samples=3, stepper=ms.Merging(), frames=21,
        claims=[follows_field],
    )  # fmt: skip
    assert all(row.verdict == "agree" for row in merging.verdicts.rows)
