"""Derivatives of doubly stochastic attention where its scalings are found at once."""

from __future__ import annotations

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.observe.equilibria import equilibrium
from reproductions.open_questions.sinkhorn_one_cluster import fastest, scaled_rates


def test_jacobian_of_a_ring_is_that_of_the_closed_form() -> None:
    groups, beta = 3, 2.0
    field = ms.SinkhornAttention(beta)
    expected = scaled_rates(beta, groups).max()
    assert equilibrium(ms.polygon(groups), field).rate == pytest.approx(expected, rel=1e-9)
    assert fastest(field, groups) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("plain", [True, False])
def test_both_modes_of_differentiation_agree_with_differences(plain: bool) -> None:
    random = np.random.default_rng(2)
    query, key = (None, None) if plain else random.standard_normal((2, 3, 3))
    field = ms.SinkhornAttention(1.2, query, key)
    x = random.standard_normal((5, 3))
    x /= np.linalg.norm(x, axis=1)[:, None]

    def moved(y):
        return jnp.sum(field.velocity(ms.Points(x).at(y)) * jnp.arange(15.0).reshape(5, 3))

    along = random.standard_normal(x.shape)
    difference = (moved(x + 1e-5 * along) - moved(x - 1e-5 * along)) / 2e-5
    assert jax.jvp(moved, (jnp.asarray(x),), (jnp.asarray(along),))[1] == pytest.approx(
        float(difference), rel=1e-6
    )
    assert float(jnp.sum(jax.grad(moved)(jnp.asarray(x)) * along)) == pytest.approx(
        float(difference), rel=1e-6
    )


def test_too_few_iterations_are_no_velocity() -> None:
    field = ms.SinkhornAttention(3.0, np.diag([1.0, 2.0]), iterations=2)
    assert np.isnan(np.asarray(field.velocity(ms.uniform(4, 2, 0)))).all()
