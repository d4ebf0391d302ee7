"""All four matrices in the published setting: d = 64, d_k = 36, 500 epochs, ε = rate = 0.1."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.learn.gaussian.experiments import learn_matrices
from metastable.learn.spec import GaussianMatrices

pytestmark = pytest.mark.claim


def falls_steadily(losses, epochs=25):
    """Whether the mean loss of each 25 epochs is below that of the 25 before."""
    return bool(np.all(np.diff(losses.reshape(-1, epochs).mean(axis=1)) < 0))


@pytest.fixture(scope="module")
def plain():
    return learn_matrices(GaussianMatrices(landscape=True))


def test_sgd_falls_steadily(plain):
    losses = plain.figures["loss"].lines["training"][1]
    assert losses.size == 500 and falls_steadily(losses)
    assert plain.facts["fell by"] > 2


def test_the_plateau_of_sgd_is_a_saddle(plain):
    """Not a local minimum, as had been supposed: the loss curves down, far beyond the gauge."""
    found = [value for name, value in plain.facts.items() if "landscape" in name]
    for place in found:
        assert place["verdict"] == "saddle"
        assert place["lowest eigenvalue"] < -0.05 * place["highest eigenvalue"]


def test_single_pairs_fall_steadily_and_further(plain):
    """B = 1 takes 225 steps in an epoch where B = 32 takes 8, at the same rate."""
    found = learn_matrices(GaussianMatrices(batch=1))
    losses = found.figures["loss"].lines["training"][1]
    assert losses.size == 500 and falls_steadily(losses)
    assert losses[-1] < plain.figures["loss"].lines["training"][1][-1]


def test_adam_ends_far_below_sgd_in_fewer_epochs_and_recovers_the_teacher(plain):
    """`benchmarks/gaussian.py` compares the two at equal time."""
    found = learn_matrices(GaussianMatrices(optimizer="adam", epochs=350))
    assert found.facts["validation loss"] < plain.facts["validation loss"] / 1000
    error = found.facts["error of WV, of KᵀQ, of both"]
    assert error["value"] < 0.01 and error["score"] < 0.01
