"""The dense sum in single precision, and blocks of any size, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.fields.sums import Kernel
from tests import oracles


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("zonal", [True, False])
def test_blocks_of_any_size_in_both_precisions(zonal, dtype):
    rng = np.random.default_rng(0)
    x, w = oracles.unit(rng.normal(size=(100, 5))), rng.uniform(0.1, 1.0, 100)
    w[3] = 0.0
    values = rng.normal(size=(100, 2))
    p, log_mass = oracles.weighted_softmax(30.0 * x @ x.T, w)
    kernel = Kernel(
        jnp.asarray(30.0),
        jnp.asarray(x, dtype),
        jnp.asarray(x, dtype),
        jnp.log(jnp.asarray(w, dtype)),
        zonal=zonal,
        own=zonal,
    )
    for block in (33, 101):
        attend = jax.jit(lambda k, v, b=block: ms.Dense(b).attend(k, v))
        got = attend(kernel, jnp.asarray(values, dtype))
        for a, b in zip(got, (log_mass, p @ values), strict=True):
            assert a.dtype == dtype
            assert np.max(np.abs(a - b)) < 100 * np.finfo(dtype).eps * np.max(np.abs(b))


def test_forward_derivatives_are_those_of_the_plain_formula():
    """Against the softmax written out, differentiated by JAX; blocks recompute their logits."""
    x = np.random.default_rng(0).normal(size=(40, 5))
    query = np.random.default_rng(1).normal(size=(5, 5))

    def blocked(q):
        return ms.SelfAttention(1.0, query=q).velocity(
            ms.Points(x, on_sphere=False), sum=ms.Dense(block=16)
        )

    def plain(q):
        return jax.nn.softmax((x @ q.T) @ x.T, axis=1) @ x

    for direction in np.random.default_rng(2).normal(size=(5, 5, 5)):
        found = jax.jvp(blocked, (query,), (direction,))[1]
        assert np.abs(found - jax.jvp(plain, (query,), (direction,))[1]).max() < 1e-12
