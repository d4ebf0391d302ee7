"""The overlap estimate: coverage on synthetic evidence whose overlap is known."""

import numpy as np
import pytest
from scipy import stats

from metastable.audit.overlap import _beta_binomial, estimate_overlap


def draw(overlap, seed, shift=8.0, size=80):
    """Protected, control, and known members: normal evidence, members `shift` deviations up."""
    random = np.random.default_rng([seed, round(100 * overlap)])
    members = round(overlap * size)
    protected = random.normal(size=size)
    protected[:members] += shift
    return protected, random.normal(size=size), random.normal(shift, 1, size)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("shift", [8.0, 3.5])
@pytest.mark.parametrize("overlap", [0.0, 0.1, 0.5, 0.9])
def test_intervals_cover_the_truth(overlap, shift, known):
    """A 90 % interval covers in at least 17 of 20 seeds, as 9 in 10 do with chance 0.87."""
    covered = excluded = 0
    for seed in range(20):
        protected, control, members = draw(overlap, seed, shift)
        found = estimate_overlap(protected, control, members if known else None).interval
        covered += found.low <= overlap <= found.high
        excluded += found.low > 0
        assert 0 <= found.low <= found.mid <= found.high <= 1
    assert covered >= 17
    if overlap >= 0.1 and shift == 8.0:
        assert excluded == 20


def test_the_lower_limit_holds_whatever_members_look_like():
    """Half the members look exactly like controls: what is found can only be too small."""
    beyond = 0
    for seed in range(40):
        protected, control, _ = draw(0.5, seed)
        protected[:20] -= 8.0
        beyond += estimate_overlap(protected, control).interval.low > 0.5
    assert beyond == 0


def test_known_members_tell_what_their_absence_hides():
    """The same with members known to look so: the true positive rate of a half is accounted for."""
    covered = 0
    for seed in range(20):
        protected, control, members = draw(0.5, seed)
        protected[:20] -= 8.0
        members[:40] -= 8.0
        found = estimate_overlap(protected, control, members)
        covered += found.interval.low <= 0.5 <= found.interval.high
        assert 0.4 < found.true_positive_rate < 0.6
    assert covered >= 17


def test_known_members_that_do_not_stand_out_say_nothing():
    found = estimate_overlap([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.5, 0.6, 0.7])
    assert found.interval.to_list() == [0.0, 0.0, 1.0] and "nothing" in found.assumption


@pytest.mark.parametrize(("trials", "a", "b"), [(0, 1, 5), (7, 1, 80), (80, 41, 40), (30, 0.5, 9)])
def test_beta_binomials_are_scipys(trials, a, b):
    expected = stats.betabinom(trials, a, b).pmf(np.arange(trials + 1))
    np.testing.assert_allclose(_beta_binomial(trials, a, b), expected, rtol=1e-9)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="reach must lie"):
        estimate_overlap([1.0], [1.0], reach=1.0)
    with pytest.raises(ValueError, match="control must be finite"):
        estimate_overlap([1.0], [np.inf])
