"""Wendel's probability against 2000 linear programs for each of eight sizes.

Source: Wendel, Math. Scand. 11 (1962); slides Theorem 6 with the sum started at k = 0.
"""

from __future__ import annotations

import pytest
from scipy.stats import chi2

from tests.systems.test_wendel import standard_score

pytestmark = pytest.mark.claim

SIZES = [(4, 2), (6, 2), (6, 3), (10, 3), (12, 4), (16, 8), (20, 8), (40, 16)]


def test_shares_of_random_starts_in_a_hemisphere():
    # One test over all sizes: a true formula fails it once in a thousand.
    total = sum(standard_score(tokens, dim, draws=2000) ** 2 for tokens, dim in SIZES)
    print(f"χ² = {total:.1f} over {len(SIZES)} sizes, p = {chi2.sf(total, len(SIZES)):.3f}")
    assert total < chi2.isf(1e-3, len(SIZES))
