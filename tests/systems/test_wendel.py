"""Wendel's probability against linear programs on random tokens; the claims draw more of them.

Source: Wendel, Math. Scand. 11 (1962); slides Theorem 6 with the sum started at k = 0.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import metastable as ms
from metastable.observe import hemisphere
from metastable.theory.hemisphere import wendel_exact, wendel_probability


def shares_a_hemisphere(points: np.ndarray) -> bool:
    """Whether ⟨x_i,u⟩ ≥ 1 for all i has a solution u: a linear program without objective."""
    count, dim = points.shape
    found = linprog(np.zeros(dim), A_ub=-points, b_ub=-np.ones(count), bounds=(None, None))
    assert found.status in (0, 2)  # solved, or infeasible
    return found.status == 0


def standard_score(tokens: int, dim: int, draws: int) -> float:
    """(observed − expected)/σ for the share of draws in one hemisphere."""
    random = np.random.default_rng(1000 * dim + tokens)
    hits = 0
    for _ in range(draws):
        measure = ms.from_array(random.normal(size=(tokens, dim)))
        inside = shares_a_hemisphere(np.asarray(measure.points))
        assert inside == bool(hemisphere(measure))
        hits += inside
    p = wendel_probability(dim=dim, tokens=tokens)
    score = (hits / draws - p) / np.sqrt(p * (1 - p) / draws)
    print(f"n={tokens} d={dim}: {hits / draws:.4f} ({p:.4f}), {score:+.2f} σ")
    return score


@pytest.mark.parametrize("tokens, dim", [(6, 3), (8, 3), (16, 8)])
def test_share_of_random_starts_in_a_hemisphere(tokens, dim):
    assert abs(standard_score(tokens, dim, draws=150)) < 3.3


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 100, 400])
def test_twice_as_many_tokens_as_dimensions_give_exactly_one_half(dim):
    assert wendel_exact(dim=dim, tokens=2 * dim) == Fraction(1, 2)
    assert wendel_probability(dim=dim, tokens=2 * dim) == 0.5
