"""Growth of one mode from a quiet start of 20 000 tokens, against λ_ℓ.

Source: THEORY §1 (Funk–Hecke at the uniform measure); dominant modes as in arXiv:2410.23228.
"""

from __future__ import annotations

import pytest

from tests.systems.test_growth import BETAS, growth_error

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dim, tolerance", [(2, 1e-4), (3, 1e-2)])
def test_a_single_mode_grows_at_its_rate(dim, tolerance, beta, normalized):
    assert abs(growth_error(dim, 20_000, beta, normalized)) < tolerance
