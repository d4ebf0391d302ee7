"""Grenier's expansion against the density flow: the error of order N falls like δ^{N+1}.

Source: arXiv:2410.23228 (Grenier's scheme for the mean-field transformer); recursion derived in
`theory.grenier`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import metastable as ms
from metastable.flows.steppers import Adaptive
from metastable.measures import Density
from metastable.theory.grenier import expand
from metastable.theory.interaction import attention_interaction

pytestmark = pytest.mark.claim


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize(("dim", "beta"), [(2, 5.0), (3, 3.0), (8, 6.0)])
def test_error_falls_with_the_power_after_the_order(dim, beta, normalized, order):
    pattern, axis = None, np.eye(dim)[0]
    if dim == 2:
        pattern, axis = 0.3 - 0.4j, None
    elif dim == 3:
        pattern, axis = np.random.default_rng(0).standard_normal(5) / 4, None
    way_out = expand(
        attention_interaction(beta, dim, normalized=normalized), order, pattern=pattern
    )
    field = ms.SelfAttention(beta=beta, normalized=normalized)
    horizon = math.log(5) / way_out.rate
    size = way_out.orders.shape[1]
    errors = []
    for delta in (0.004, 0.008, 0.016):
        run = ms.flow(
            Density(way_out.at(delta), dim, axis=axis),
            field,
            horizon=horizon,
            stepper=Adaptive(rtol=1e-13, atol=1e-15),
            frames=[0.0, horizon],
        )
        end = np.array(run.frames[-1].coefficients)
        end[:size] -= way_out.at(delta, horizon)
        errors.append(np.linalg.norm(end))
    slopes = np.diff(np.log2(errors))
    print(dim, normalized, order, "slopes", slopes)
    np.testing.assert_allclose(slopes, order + 1, atol=0.2)
