"""A feed-forward layer against attention: runs of tokens against the perturbed growth rates."""

import numpy as np
import pytest

from metastable.core.numerics import jax, jnp
from metastable.fields import SelfAttention
from metastable.flows import flow
from metastable.learn.control.feedforward import map_feedforward, well_layer
from metastable.measures import Points, polygon
from metastable.theory.perturbation import (
    balanced_strength,
    forced_growth,
    perturbed_rates,
    pinning_strength,
)
from metastable.theory.spectrum import growth_rates

pytestmark = pytest.mark.claim


def circle(theta):
    return jnp.stack([jnp.cos(theta), jnp.sin(theta)], axis=-1)


@pytest.mark.parametrize(("beta", "wells", "share"), [(3.0, 2, 0.6), (5.0, 3, 0.5), (3.0, 4, 0.3)])
def test_tokens_in_balance_rest_and_leave_at_the_perturbed_rates(beta, wells, share):
    """Tokens at the quantiles of 1 − s cos mθ: no velocity, and the spectrum of theory (USA)."""
    strength = share * balanced_strength(beta, wells, normalized=False)
    n = 240
    grid = np.linspace(0, 2 * np.pi, 20_001)
    mass = grid - share * np.sin(wells * grid) / wells
    theta = jnp.asarray(np.interp(2 * np.pi * (np.arange(n) + 0.5) / n, mass, grid))
    field = SelfAttention(beta, normalized=False) + well_layer(strength, wells)

    def velocity(theta):
        x = circle(theta)
        v = field.velocity(Points(x))
        return v[:, 1] * x[:, 0] - v[:, 0] * x[:, 1]

    alone = SelfAttention(beta, normalized=False).velocity(Points(circle(theta)))
    assert np.abs(velocity(theta)).max() < 0.01 * np.abs(alone).max()
    found = np.sort(np.linalg.eigvals(np.asarray(jax.jacfwd(velocity)(theta))).real)[::-1]
    expected = perturbed_rates(beta, share, wells, 4)
    print(beta, wells, share, found[:4], expected)
    assert found[:4] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("beta", "wells"), [(5.0, 3), (5.0, 1), (9.0, 4)])
def test_a_layer_feeds_its_mode_as_the_forced_growth_says(beta, wells):
    """From evenly spread tokens, SA clock: μ̂_m(t) within 2 % while it is small."""
    rate = growth_rates(beta, 2, wells)[wells - 1]
    strength = 1e-3 * balanced_strength(beta, wells)
    field = SelfAttention(beta) + well_layer(strength, wells)
    run = flow(polygon(64), field, 4.0, frames=[0.0, 2.0, 4.0], progress=False)
    for time, frame in zip((2.0, 4.0), run.frames[1:], strict=True):
        seen = np.mean(np.exp(-1j * wells * np.asarray(frame.angles)))
        assert seen == pytest.approx(forced_growth(rate, strength, wells, 0.0, time), rel=0.02)


def test_the_map_turns_where_theory_says():
    """β = 5, three wells: chance below the pinning strength, wells from there to ε_c and beyond."""
    tokens = 128
    pinning, balance = pinning_strength(5.0, 3, tokens), balanced_strength(5.0, 3)
    strengths = [pinning / 10, pinning, balance]
    found = map_feedforward([5.0], strengths, 3, tokens=tokens, starts=24, progress=False)
    print(found.counts, found.alone, found.aligned)
    weak, moved, ruled = found.aligned[0]
    assert weak < 0.45 and 0.6 < moved < 0.95 and ruled > 0.95
    assert abs(found.counts[0, 0] - found.alone[0]) < 0.25  # kept
    assert found.counts[0, 2] == 3  # replaced
