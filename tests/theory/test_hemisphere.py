"""Wendel's formula against linear programming, big integers and symmetry."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import linprog

from metastable.theory.hemisphere import (
    log_wendel_probability,
    wendel_exact,
    wendel_probability,
)


@pytest.mark.parametrize(
    ("n", "d", "value"), [(10, 2, 0.0195313), (10, 3, 0.0898438), (32, 8, 0.00166345)]
)
def test_known_values(n, d, value):
    assert wendel_probability(dim=d, tokens=n) == pytest.approx(value, rel=1e-5)


def test_circle_and_limits():
    assert wendel_exact(dim=2, tokens=12) == Fraction(12, 2**11)
    assert wendel_exact(dim=5, tokens=5) == wendel_exact(dim=9, tokens=3) == 1
    assert wendel_exact(dim=1, tokens=6) == Fraction(1, 32)


@pytest.mark.parametrize("d", [1, 3, 500, 501, 1000, 500_000])
def test_exactly_one_half(d):
    assert wendel_probability(dim=d, tokens=2 * d) == 0.5


def test_monte_carlo_by_linear_programming():
    # Tokens share an open hemisphere iff some w has ⟨x_i, w⟩ ≥ 1 for all i.
    n, d, trials = 8, 3, 600
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(trials):
        x = rng.normal(size=(n, d))
        hits += linprog(np.zeros(d), -x, -np.ones(n), bounds=(None, None)).status == 0
    p = wendel_probability(dim=d, tokens=n)
    assert p == 29 / 128
    assert abs(hits / trials - p) < 3.5 * math.sqrt(p * (1 - p) / trials)


@pytest.mark.parametrize(
    ("n", "d"), [(100, 3), (1000, 250), (1001, 499), (5000, 1200), (2000, 1999), (100, 80)]
)
def test_logarithm_against_integers(n, d):
    exact = wendel_exact(dim=d, tokens=n)
    with mp.workdps(60):
        expected = mp.log(mp.mpf(exact.numerator)) - mp.log(mp.mpf(exact.denominator))
    assert log_wendel_probability(dim=d, tokens=n) == pytest.approx(
        float(expected), rel=1e-14, abs=1e-300
    )


def test_a_million_tokens():
    # d = 3 by hand: (1 + m + m(m−1)/2) 2^{−m}
    m = 10**6 - 1
    expected = math.log(1 + m + m * (m - 1) // 2) - m * math.log(2)
    assert log_wendel_probability(dim=3, tokens=m + 1) == pytest.approx(expected, rel=1e-15)
    # near the middle the binomial is normal: two standard deviations, with continuity correction
    d = 499_000
    z = (d - 0.5 - m / 2) / math.sqrt(m / 4)
    assert wendel_probability(dim=d, tokens=m + 1) == pytest.approx(
        math.erfc(-z / 2**0.5) / 2, rel=1e-5
    )
    assert log_wendel_probability(dim=m + 1, tokens=m + 1) == 0
    assert log_wendel_probability(dim=600_000, tokens=m + 1) <= 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="tokens and dim"):
        wendel_probability(dim=3, tokens=0)
