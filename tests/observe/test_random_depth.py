"""Exponents and ends of tokens under random weights, against the theory of pairs."""

import pytest

import metastable as ms
from metastable.observe.random_depth import how_tokens_end, pair_exponent
from metastable.theory.random_depth import PairDiffusion


@pytest.mark.parametrize("opposite", [False, True])
@pytest.mark.parametrize("field", [ms.RandomValue(1.0), ms.RandomValue(1.0, orthogonal=True)])
def test_exponents_are_those_of_the_diffusion(field, opposite):
    """Orthogonal weights have the same limit; 4 standard errors, of 2 to 10 %."""
    pair = PairDiffusion(1.0, 4)
    exact = pair.antipodal_exponent if opposite else pair.consensus_exponent
    how = {"step": 0.02, "samples": 300, "horizon": 4.0, "seed": 3}
    for layers in (False, True):
        found = pair_exponent(field, 4, opposite, layers=layers, **how)
        assert abs(found.rate - exact) < 4 * found.error
        assert found.error < 0.1


def test_two_orthogonal_tokens_end_opposite_as_often_as_predicted():
    ends = how_tokens_end(ms.RandomValue(2.0), 2, 3, samples=800, step=0.02, orthogonal=True)
    low, high = ends.opposite.interval
    middle, half = (low + high) / 2, (high - low) / 2
    assert abs(PairDiffusion(2.0, 3).antipodal_chance() - middle) < 2 * half
    assert ends.undecided.hits == 0 and ends.together.hits + ends.opposite.hits == 800


def test_three_tokens_cannot_stay_opposite():
    """Groups of 1 and 2 see means of unequal length, and W moves them apart."""
    ends = how_tokens_end(ms.RandomValue(2.0), 3, 3, samples=100, step=0.02, horizon=150.0)
    assert ends.opposite.hits == 0 and ends.together.value > 0.9
