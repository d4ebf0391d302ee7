"""The compiler computes what NumPy computes, at our shapes.

jax 0.10.2 silently miscompiled vmapped small matrix-vector products followed by a reduction above
16 384 rows (jax-ml/jax issue 39103); it is excluded in pyproject.toml. This reproducer stays.
"""

from importlib.metadata import version

import numpy as np
import pytest

from metastable.cli.doctor import compiler_is_sound
from metastable.core.numerics import jax, jnp


def test_the_miscompiling_release_is_not_installed():
    assert version("jax") not in {"0.10.2", "0.11.0", "0.11.1"}


@pytest.mark.parametrize("rows", [16_384, 16_385, 20_000])
def test_jit_agrees_with_numpy_on_many_rows(rows):
    assert compiler_is_sound(rows)


def test_jit_agrees_with_numpy_on_random_rows():
    random = np.random.default_rng(0)
    tokens, operator = random.standard_normal((20_000, 3)), random.standard_normal((3, 3))
    compiled = jax.jit(lambda x, v: jax.vmap(lambda row: v @ row)(x).sum(0))
    expected = (tokens @ operator.T).sum(0)
    np.testing.assert_allclose(compiled(tokens, operator), expected, rtol=1e-10)


def test_double_precision_is_on():
    assert jnp.ones(1).dtype == jnp.float64
    assert jax.config.jax_default_matmul_precision == "highest"
