"""Repelling tokens (V = −I): the best of 20 random starts reaches the exact minimal energy.

Source: Cohn and Kumar, J. AMS 20 (2007), Theorem 1.2. No polish: the flow alone.
"""

from __future__ import annotations

import pytest

from tests.systems.test_repulsion import relative_excess

pytestmark = pytest.mark.claim

CASES = [(2, n) for n in range(3, 9)] + [(3, 4), (3, 6), (3, 12), (4, 5), (4, 8)]


@pytest.mark.parametrize("dim, tokens", CASES)
def test_repulsion_reaches_the_exact_energy(dim, tokens):
    # Triangles relax slowest, at rates of order e^{−3β/2}.
    excess = relative_excess(dim, tokens, starts=20, horizon=2000.0)
    assert -1e-13 < excess[0] < 1e-10
