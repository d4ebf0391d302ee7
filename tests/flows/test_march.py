"""The plain loop behind runs: its steps are those of diffrax, its ends those of brute force."""

import diffrax
import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.flows.solvers import steps
from metastable.flows.solvers.steps import march

START, FIELD = ms.uniform(12, 3, seed=1), ms.SelfAttention(2.0)


def test_equal_steps_are_those_of_brute_force():
    """Heun's method by hand, the last of its steps cut at the horizon."""

    def v(x):
        return np.asarray(FIELD.velocity(ms.Points(x / np.linalg.norm(x, axis=1, keepdims=True))))

    x, t = np.asarray(START.points), 0.0
    while t < 1 - 1e-12:
        h = min(0.07, 1 - t)
        k = v(x)
        x = x + h / 2 * (k + v(x + h * k))
        x, t = x / np.linalg.norm(x, axis=1, keepdims=True), t + h
    run = ms.flow(START, FIELD, 1.0, stepper=ms.Fixed(0.07, solver=diffrax.Heun()))
    assert run.statistics["steps"] == 15
    np.testing.assert_allclose(np.asarray(run.frames[-1].points), x, atol=1e-13)


@pytest.mark.parametrize("few", [0, steps.FEW_NUMBERS])
@pytest.mark.parametrize("solver", [diffrax.Dopri8(), diffrax.Tsit5(), diffrax.Bosh3()])
def test_adaptive_steps_are_those_of_diffrax(solver, few, monkeypatch):
    """Large arrays and small ones."""
    monkeypatch.setattr(steps, "FEW_NUMBERS", few)
    matrix = jnp.array([[0.0, 1.0], [-9.0, -0.4]])
    velocity = lambda t, y: y @ matrix.T + jnp.sin(5 * t)
    y, ts = jnp.array([[1.0, 0.0], [0.3, 2.0]]), jnp.array([0.7, 2.0, 3.1])
    done = jax.jit(
        lambda y: march(velocity, solver, (1e-7, 1e-7), y, 0.0, ts, 0.5, most=1000, held=False)
    )(y)
    expected = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: velocity(t, y)), solver, 0.0, 3.1, 0.5, y,
        saveat=diffrax.SaveAt(ts=ts), stepsize_controller=diffrax.PIDController(1e-7, 1e-7),
    )  # fmt: skip
    assert int(done.steps) == int(expected.stats["num_accepted_steps"]) and bool(done.reached)
    assert int(done.attempts) == int(expected.stats["num_steps"])
    np.testing.assert_allclose(done.frames, expected.ys, atol=1e-12)


def test_a_loop_that_ends_early_says_so():
    grows = lambda t, y: y**2  # infinite at t = 1
    ts = jnp.array([0.5, 2.0])
    how = {"most": 10_000, "held": False}
    done = march(grows, diffrax.Tsit5(), (1e-8, 1e-8), jnp.ones((1, 1)), 0.0, ts, 0.1, **how)
    assert not bool(done.reached) and int(done.attempts) < 10_000
    assert np.isfinite(done.frames[0]).all() and np.isinf(done.frames[1]).all()
    few = march(
        grows, diffrax.Tsit5(), (1e-8, 1e-8), jnp.ones((1, 1)), 0.0, ts, 0.1, most=3, held=False
    )
    assert int(few.attempts) == 3 and not bool(few.reached)
