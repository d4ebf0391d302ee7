"""Errors planted in the solver change the verdicts of entries on tokens of the sphere."""

from __future__ import annotations

import pytest

from reproductions.valente2024.energy_monotone import energy_monotone
from reproductions.valente2024.many_heads import many_heads
from reproductions.valente2024.orthogonal_tokens import orthogonal_tokens
from reproductions.valente2024.permutations import permutations
from reproductions.valente2024.unnormalised_gradient import unnormalised_gradient
from reproductions.valente2024.weighted_gradient import weighted_gradient
from tests.reproductions.planting import hotter, hurried, leaning, verdicts

CASES = {
    "equiangular, β": (hotter, lambda: orthogonal_tokens(tokens=4, betas=[3.0], horizon=2.0)),
    "equiangular, clock": (hurried, lambda: orthogonal_tokens(tokens=4, betas=[3.0], horizon=2.0)),
    "energy": (hotter, lambda: energy_monotone(tokens=6, dim=3, beta=3.0, horizon=2.0)),
    "gradient": (hotter, lambda: unnormalised_gradient(tokens=6, dim=3, betas=[2.0])),
    "weighted gradient": (hotter, lambda: weighted_gradient(tokens=6, dim=3, betas=[2.0])),
    "heads": (hotter, lambda: many_heads(tokens=6, dim=4, beta=2.0, heads=2)),
    "permutations": (leaning, lambda: permutations(tokens=6, dim=3, beta=2.0, horizon=1.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_planted_error_flips_the_verdict(name, monkeypatch):
    wrong, entry = CASES[name]
    assert verdicts(entry, wrong, monkeypatch) == (True, False)
