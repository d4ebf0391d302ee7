"""Steering tokens: targets reached for N = 2…20, on the sphere and in space; perturbed prompts."""

import numpy as np
import pytest

from metastable.learn.control.measures import amplification, perturbed_errors
from metastable.learn.control.steering import Plant, steer_tokens
from metastable.learn.control.steering_experiment import random_tokens

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("on_sphere", [True, False], ids=["sphere", "space"])
@pytest.mark.parametrize("count", [2, 8, 20])
def test_tokens_reach_their_targets(count, on_sphere):
    """Error ≤ 1e−3 by the adaptive solver; perturbed prompts as the Jacobian says."""
    # Paths in space are longer, and steps must be finer for the adaptive solver to agree.
    substeps = 8 if on_sphere else 16
    plant = Plant(6, neurons=16, pieces=3, on_sphere=on_sphere, substeps=substeps)
    x, y = (random_tokens(count, 6, seed, on_sphere) for seed in (1, 2))
    found = steer_tokens(x, y, plant, steps=40, progress=False)
    gain = amplification(found, x)
    e0, small, large = perturbed_errors(found, x, y, [0.0, 1e-3, 0.1], draws=64)
    print(f"{count} tokens, {found}; amplification {gain:.2f}, error at δ = 0.1: {large:.3f}")
    assert found.errors.max() <= 1e-3
    assert small == pytest.approx(np.hypot(e0, 1e-3 * gain), rel=0.1)
