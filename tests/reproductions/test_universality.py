"""Universality, shown: the sigmoid construction to ε, and an error that does not depend on n."""

from __future__ import annotations

import numpy as np
import pytest

from reproductions.ponti2025._measure_transformer import (
    MeasureTransformer,
    generalization,
    train_on_measures,
)
from reproductions.ponti2025._sigmoid_network import approximate, certify

pytestmark = pytest.mark.claim

# Functions on [−1, 1]² with range [−1, 1], and their Lipschitz constants.
FUNCTIONS = {
    "saddle": (lambda x: x[:, 0] * x[:, 1], 2**0.5),
    "wave": (lambda x: np.sin(2 * x[:, 0]) * np.cos(x[:, 1]), 2.0),
    "fold": (lambda x: np.abs(x[:, 0] + x[:, 1]) - 1, 2**0.5),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_three_quarters_step_iterated_reaches_every_tolerance(name):
    """Theorem 2.2 with Lemmas 2.3 to 2.5: certified for ε = 0.1 and 0.05, widths printed."""
    target, lipschitz = FUNCTIONS[name]
    built = approximate(target, 0.05)
    errors = np.array(built.errors)
    assert np.all(errors[1:] <= 0.75 * errors[:-1])
    for tolerance in (0.1, 0.05):
        network = built.after(tolerance).network
        proof = certify(network, target, lipschitz, tolerance)
        print(f"{name}, ε = {tolerance}: widths {network.widths}, {proof}")
        assert proof.bound <= tolerance


def test_a_transformer_on_measures_does_not_see_the_number_of_tokens():
    """Theorem 2.1 at n never seen: error at n = 100 000 within 1.2 of that at the training n."""
    network = MeasureTransformer.create(dim=1, outputs=3)
    trained = train_on_measures(network, tokens=32, steps=2000)
    result = generalization(trained.parameters, [8, 32, 1000, 10_000, 100_000], measures=16)
    print(trained, dict(zip(result.counts.tolist(), result.total.round(5).tolist(), strict=True)))
    assert result.total[1] < 0.03  # of targets of standard deviation about 0.5
    assert result.total[-1] <= 1.2 * result.total[1]
    assert np.all(result.errors[-1] <= 1.2 * result.errors[1])
