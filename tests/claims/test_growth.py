"""Growth of one mode from a quiet start of 20 000 tokens, against λ_ℓ.

Source: arXiv:2410.23228 (circle, dominant modes); `theory.spectrum` (Funk–Hecke, any sphere).
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
