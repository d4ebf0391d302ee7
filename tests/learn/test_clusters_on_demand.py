"""Clusters on demand: the loss and its gradient, counting, resuming, theory's choice of β."""

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.learn.control.clusters import (
    Demand,
    chosen_beta,
    count_clusters,
    miss,
    success,
    wanted_loss,
)
from metastable.measures import uniform
from tests.learn.interruption import slope_error


def test_the_loss_vanishes_for_full_polygons_alone():
    corners = 2 * np.pi * np.arange(4) / 4
    full = np.repeat(corners, 5) + 0.3
    assert float(wanted_loss(jnp.asarray(full), 4)) == pytest.approx(0, abs=1e-12)
    lone = jnp.zeros(20)  # |μ̂_j| = 1 for all j
    assert float(wanted_loss(lone, 4)) == pytest.approx(3)
    uneven = jnp.asarray(np.r_[np.repeat(corners[:3], 5), np.full(10, corners[3])])
    assert float(wanted_loss(uneven, 4)) > 0.01
    assert float(wanted_loss(jnp.asarray(full), 2)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("free", ["heads", "layer"])
def test_the_gradient_is_that_of_finite_differences(free):
    demand = Demand(3, tokens=12, horizon=3.0, free=free, steps=6)
    starts = jnp.stack([uniform(12, 2, seed=s).points for s in (1, 2)])
    loss = jax.jit(lambda heads: miss(demand, heads, starts))
    assert slope_error(loss, demand.first(4.0), size=1e-6) < 1e-5


def test_wilsons_interval():
    """Published example (Newcombe 1998): 81 of 263 gives 0.2553 to 0.3662."""
    counts = np.array([2] * 81 + [1] * 182)
    assert np.round(success(counts, 2), 4).tolist() == [0.308, 0.2553, 0.3662]


def test_a_strong_layer_makes_its_number_of_clusters():
    demand = Demand(4, tokens=32, free="layer", steps=40)
    strong = demand.first()._replace(strength=jnp.asarray(0.1))
    assert set(count_clusters(demand, strong, starts=4)) == {4}


def test_linear_theory_chooses_a_beta_where_its_mode_dominates():
    """Dominant modes on the circle: β = 5 has mode 3 (published)."""
    beta, chance = chosen_beta(3, 1000, samples=200)
    assert 4 < beta < 6.5 and 0.7 < chance < 0.95


def test_refusals():
    with pytest.raises(ValueError, match="free must be one of beta, value, heads, layer"):
        Demand(3, free="everything")
