"""The GPU kernels, run as programs on the CPU (interpret mode), against brute force."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.fields.sums.fused import fused_sums
from metastable.fields.sums.gpu import FusedSum
from tests import oracles


def brute(x, w, beta, at, values):
    k = np.exp(beta * (at @ x.T - 1)) * w
    return k.sum(1), k @ values


@pytest.mark.parametrize(("axes", "half"), [(2, False), (3, False), (20, False), (20, True)])
def test_kernels_sum_all_pairs(axes, half):
    """Neither tokens nor places fill the last tile; one mass is zero."""
    rng = np.random.default_rng(axes)
    x, at = oracles.unit(rng.normal(size=(300, axes))), oracles.unit(rng.normal(size=(150, axes)))
    w = rng.uniform(0.1, 1.0, 300) / 300
    w[7] = 0.0
    values = rng.normal(size=(300, axes + 1))
    with np.errstate(divide="ignore"):
        got = fused_sums(9.0, at, x, np.log(w), values, half=half, interpret=True)
    for a, b in zip(got, brute(x, w, 9.0, at, values), strict=True):
        assert a.dtype == np.float32
        assert np.linalg.norm(a - b) < (2e-2 if half else 3e-6) * np.linalg.norm(b)


def test_the_same_call_serves_every_device_and_kernel():
    rng = np.random.default_rng(0)
    x = oracles.unit(rng.normal(size=(50, 3)))
    w = rng.uniform(0.1, 1.0, 50)
    measure = ms.Points(x, w)
    expected = oracles.project(x, oracles.attention(x, measure.weights, 4.0))
    field = ms.SelfAttention(4.0)
    fallback, emulated = FusedSum(), FusedSum(interpret=True)
    assert np.max(np.abs(field.velocity(measure, sum=fallback) - expected)) < 1e-12
    assert np.max(np.abs(field.velocity(measure, sum=emulated) - expected)) < 1e-6
    causal = ms.SelfAttention(4.0, causal=True)
    difference = causal.velocity(measure, sum=emulated) - causal.velocity(measure)
    assert np.max(np.abs(difference)) < 1e-14


def test_too_many_axes_are_refused():
    x = np.eye(300)[:4]
    with pytest.raises(ValueError, match="at most 256 axes"):
        fused_sums(1.0, x, x, np.zeros(4), x, interpret=True)
