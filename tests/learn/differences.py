"""Gradients against finite differences, for everything that is trained."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jax


def check_gradient(objective, parameters, batch):
    """Central differences of fourth order along random directions, to 1e-5 of the derivative."""
    flat, rebuild = jax.flatten_util.ravel_pytree(parameters)
    value = jax.jit(lambda flat: objective(rebuild(flat), batch))
    gradient = np.asarray(jax.jit(jax.grad(value))(flat))
    rng = np.random.default_rng(2)
    for _ in range(3):
        direction = rng.standard_normal(flat.size)
        h = 1e-4
        ends = [float(value(flat + s * h * direction)) for s in (-2, -1, 1, 2)]
        difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * h)
        assert gradient @ direction == pytest.approx(difference, rel=1e-5)
