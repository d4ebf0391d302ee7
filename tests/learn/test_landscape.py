"""Saddle, slope or minimum: on functions whose Hessian is known."""

from __future__ import annotations

import numpy as np
import pytest

from metastable.core.numerics import jnp
from metastable.learn.gaussian import landscape
from metastable.learn.gaussian.landscape import stand

CURVES = jnp.asarray([-2.0, 0.0, 1.0, 4.0])


def bowl(x, curves):
    return 1.0 + 0.5 * jnp.sum(curves * x**2)


@pytest.mark.parametrize(
    "curves, at, verdict",
    [(CURVES, 0.0, "saddle"), (CURVES[1:], 0.0, "minimum"), (CURVES[1:], 1.0, "slope")],
)
def test_verdicts(curves, at, verdict):
    found = stand(bowl, jnp.full(curves.shape, at), curves)
    assert found.verdict == verdict and found.flat == 1
    assert np.allclose(found.eigenvalues, curves, atol=1e-12)
    assert found.gradient == pytest.approx(at * float(jnp.linalg.norm(curves)))


def test_a_gauge_is_no_saddle():
    """L = (xy − c)²/2 does not change along xy = const. At x = y > √c its Hessian has the negative
    eigenvalue c − x², which is −‖g‖/‖θ‖, and yet every minimum is straight ahead."""
    gauge = lambda p, goal: 0.5 * (p[0] * p[1] - goal) ** 2
    found = stand(gauge, jnp.asarray([1.2, 1.2]), jnp.asarray(1.3))
    assert found.bend == pytest.approx(0.14) and found.eigenvalues[0] == pytest.approx(-0.14)
    assert found.descending == 0 and found.verdict == "slope"


def test_lanczos_finds_the_ends_that_the_whole_spectrum_has(monkeypatch):
    curves = jnp.asarray(np.random.default_rng(0).uniform(-1, 3, 300)).at[:2].set([-5.0, 9.0])
    whole = stand(bowl, jnp.ones(300), curves)
    monkeypatch.setattr(landscape, "DENSE", 10)
    ends = stand(bowl, jnp.ones(300), curves, ends=3)
    assert whole.complete and not ends.complete and ends.verdict == "saddle"
    assert np.allclose(ends.eigenvalues[[0, -1]], [-5.0, 9.0], rtol=1e-3)
    assert ends.gradient == pytest.approx(whole.gradient)
