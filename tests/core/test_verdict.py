"""The judge of all verdict rows: |observed − expected| against the tolerance it was given."""

import math

import pytest
from scipy import stats

from metastable.core.verdict import judge, settle

# By hand: 3 % of 200 is 6; what lies within a part in a thousand of the border is decided too.
RELATIVE = [
    (200.0, 200.0, "agree"),
    (200.0, 205.99, "agree"),
    (200.0, 194.01, "agree"),
    (200.0, 206.01, "disagree"),
    (200.0, 193.99, "disagree"),
    (200.0, 0.0, "disagree"),
    (200.0, -200.0, "disagree"),
    (-200.0, -205.99, "agree"),
    (-200.0, -206.01, "disagree"),
    (-200.0, -193.99, "disagree"),
    (0.0, 0.0, "agree"),
    (0.0, 1e-300, "disagree"),
]
ABSOLUTE = [
    (1.0, 1.0499, "agree"),
    (1.0, 0.9501, "agree"),
    (1.0, 1.0501, "disagree"),
    (1.0, 0.9499, "disagree"),
    (1e6, 1e6 + 0.06, "disagree"),
    (0.0, -0.0501, "disagree"),
]


@pytest.mark.parametrize(("expected", "observed", "verdict"), RELATIVE)
def test_a_relative_tolerance_is_a_share_of_what_was_expected(expected, observed, verdict):
    row = judge("a", "b", expected, observed, relative=0.03)
    assert (row.verdict, row.tolerance) == (verdict, "3 %")
    assert (row.expected, row.observed) == (expected, observed)


@pytest.mark.parametrize(("expected", "observed", "verdict"), ABSOLUTE)
def test_an_absolute_tolerance_is_the_same_everywhere(expected, observed, verdict):
    row = judge("a", "b", expected, observed, absolute=0.05)
    assert (row.verdict, row.tolerance) == (verdict, "0.05")


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_agrees(odd):
    for expected, observed in ((1.0, odd), (odd, 1.0), (odd, odd)):
        assert judge("a", "b", expected, observed, relative=0.1).verdict == "disagree"
        assert judge("a", "b", expected, observed, absolute=0.1).verdict == "disagree"


def test_a_standard_error_makes_it_a_matter_of_chance():
    """Two standard errors: p = 4.55 %, from SciPy's normal law; without one there is no row."""
    row = judge("a", "b", 2.0, 2.5, error=0.25)
    assert row.p == pytest.approx(2 * stats.norm.sf(2.0), rel=1e-12)
    assert (row.verdict, row.error) == ("agree", 0.25)
    assert settle([judge("a", "b", 2.0, 3.0, error=0.25)])[0].verdict == "disagree"
    for none in (0.0, -1.0, math.nan, math.inf):
        assert judge("a", "b", 2.0, 2.5, error=none).verdict == "not applicable"
    for odd in (math.nan, math.inf):
        assert settle([judge("a", "b", 2.0, odd, error=0.25)])[0].verdict == "disagree"
