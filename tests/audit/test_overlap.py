"""The overlap: lower limits hold on synthetic evidence whose overlap is known."""

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
@pytest.mark.parametrize("shift", [0.5, 1.0, 8.0])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 1.0])
def test_limits_hold_also_where_little_was_learned(overlap, shift, known):
    """Misses of a 95 % limit at most 3 points above 5 %: of 100 draws, 16 by chance in 1 of 1000.

    At a shift of half a deviation (area 0.64) every interval with an upper limit that assumes what
    members look like misses: only known members give one.
    """
    missed = above = 0
    for seed in range(100):
        protected, control, members = draw(overlap, seed, shift, size=30)
        found = estimate_overlap(protected, control, members if known else None)
        above += found.low > 0
        missed += found.low > overlap
        if known and found.high is not None:
            missed += found.high < overlap
    assert missed <= stats.binom.ppf(0.999, 100, 0.08)
    if overlap == 1.0 and shift == 8.0:
        assert above == 100


def test_without_known_members_nothing_limits_from_above():
    protected, control, _ = draw(1.0, 0, 0.5)
    found = estimate_overlap(protected, control)
    assert found.mid is None and found.high is None and "lower limit only" in found.basis


def test_the_lower_limit_holds_whatever_members_look_like():
    """Half the members look exactly like controls: what is found can only be too small."""
    beyond = 0
    for seed in range(40):
        protected, control, _ = draw(0.5, seed)
        protected[:20] -= 8.0
        beyond += estimate_overlap(protected, control).low > 0.5
    assert beyond == 0


def test_known_members_tell_what_their_absence_hides():
    """The same with members known to look so: the true positive rate of a half is accounted for."""
    covered = 0
    for seed in range(20):
        protected, control, members = draw(0.5, seed)
        protected[:20] -= 8.0
        members[:40] -= 8.0
        found = estimate_overlap(protected, control, members)
        covered += found.low <= 0.5 <= found.high
    assert covered >= 17  # fewer in 1 of 60 where 95 % cover


def test_known_members_that_do_not_stand_out_say_nothing():
    found = estimate_overlap([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.5, 0.6, 0.7])
    assert (found.low, found.mid, found.high) == (0.0, None, 1.0) and "nothing" in found.basis


@pytest.mark.parametrize(("trials", "a", "b"), [(0, 1, 5), (7, 1, 80), (80, 41, 40), (30, 0.5, 9)])
def test_beta_binomials_are_scipys(trials, a, b):
    expected = stats.betabinom(trials, a, b).pmf(np.arange(trials + 1))
    np.testing.assert_allclose(_beta_binomial(trials, a, b), expected, rtol=1e-9)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="confidence must lie"):
        estimate_overlap([1.0], [1.0], confidence=1.0)
    with pytest.raises(ValueError, match="control must be finite"):
        estimate_overlap([1.0], [np.inf])
