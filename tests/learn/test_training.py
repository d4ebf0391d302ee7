"""The training loop: steps, batches, resuming, and every way to end."""

from __future__ import annotations

import numpy as np
import optax
import optimistix
import pytest

from metastable.core.checkpoint import Checkpoint
from metastable.core.numerics import jax, jnp
from metastable.learn.training import Gradient, LeastSquares, train

GOAL = jnp.asarray([1.0, -2.0, 3.0])


def loss(parameters, batch):
    return jnp.mean((batch @ parameters["x"] - batch @ GOAL) ** 2)


def draw(data, key, step):
    return data[jax.random.randint(jax.random.fold_in(key, step), (4,), 0, len(data))]


def problem(rate=0.05):
    data = jnp.asarray(np.random.default_rng(0).standard_normal((30, 3)))
    return {"x": jnp.zeros(3)}, Gradient(loss, optax.adam(rate)), data


def same(one, other):
    return (
        np.array_equal(one.parameters["x"], other.parameters["x"])
        and np.array_equal(one.losses, other.losses)
        and np.array_equal(one.validation, other.validation)
        and np.array_equal(one.checks, other.checks)
    )


def test_it_learns_and_keeps_its_history():
    run = train(*problem(), steps=600, draw=draw, every=100, seed=3)
    assert np.allclose(run.parameters["x"], GOAL, atol=1e-3) and run.outcome.name == "done"
    assert run.losses.shape == (600,) and run.checks.tolist() == [100, 200, 300, 400, 500, 600]
    assert run.validation[-1] < 1e-5 < run.validation[0] and np.all(np.diff(run.seconds) > 0)


def test_batches_depend_on_seed_and_step_alone():
    """Oracle: the same batches drawn by hand, one gradient step each."""
    parameters, _, data = problem()
    run = train(parameters, Gradient(loss, optax.sgd(0.1)), data, steps=7, draw=draw, seed=5)
    x = parameters
    for step in range(7):
        batch = draw(data, jax.random.key(5), step)
        assert run.losses[step] == pytest.approx(float(loss(x, batch)), rel=1e-12)
        x = jax.tree.map(lambda a, g: a - 0.1 * g, x, jax.grad(loss)(x, batch))
    assert np.allclose(run.parameters["x"], x["x"], atol=1e-14)
    other = train(parameters, Gradient(loss, optax.sgd(0.1)), data, steps=7, draw=draw, seed=6)
    assert not np.allclose(other.losses, run.losses)


@pytest.fixture(scope="module")
def whole():
    return train(*problem(), steps=50, draw=draw, every=10)


def test_a_run_cut_short_goes_on_with_the_same_bits(whole, tmp_path, monkeypatch):
    saves = []
    save = Checkpoint.save

    def cut(self, state):
        save(self, state)
        saves.append(int(state["step"]))
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", cut)
    file = tmp_path / "state.npz"
    first = train(*problem(), steps=50, draw=draw, every=10, checkpoint=file)
    assert first.outcome.name == "interrupted" and "step 20" in first.outcome.message
    second = train(*problem(), steps=50, draw=draw, every=10, checkpoint=file)
    assert saves == [10, 20, 30, 40, 50]
    assert same(second, whole)


def test_a_finished_run_can_be_extended_and_another_problem_is_refused(whole, tmp_path):
    """Stopping between two looks must not shift the later ones."""
    file = tmp_path / "state.npz"
    train(*problem(), steps=25, draw=draw, every=10, checkpoint=file)
    for change in ("rate", "seed", "data", "loss"):
        parameters, method, data = problem(0.06 if change == "rate" else 0.05)
        if change == "data":
            data = data + 1.0
        if change == "loss":
            method = Gradient(lambda p, b: 2 * loss(p, b), method.optimizer)
        how = {"draw": draw, "every": 10, "seed": int(change == "seed"), "checkpoint": file}
        with pytest.raises(ValueError, match="belongs to another run"):
            train(parameters, method, data, steps=50, **how)
    longer = train(*problem(), steps=50, draw=draw, every=10, checkpoint=file)
    assert np.array_equal(longer.parameters["x"], whole.parameters["x"])
    assert np.array_equal(longer.losses, whole.losses)
    assert longer.checks.tolist() == [10, 20, 25, 30, 40, 50]


def test_divergence_is_an_outcome_and_keeps_the_last_good_parameters():
    parameters, _, data = problem()
    run = train(parameters, Gradient(loss, optax.sgd(3.0)), data, steps=400, draw=draw, every=4)
    assert run.outcome.name == "diverged" and "Lower the learning rate" in run.outcome.message
    assert np.all(np.isfinite(run.parameters["x"])) and run.losses.size < 400


def test_early_stop():
    parameters, _, data = problem()
    method = Gradient(loss, optax.sgd(0.1))
    run = train(parameters, method, data, steps=10_000, every=50, patience=3)
    assert run.outcome.name == "early_stop" and run.losses.size < 5_000


def test_time_limit():
    run = train(*problem(), steps=10**7, draw=draw, every=10, seconds=1e-6)
    assert run.outcome.name == "time_limit" and run.losses.size == 10


def test_least_squares_solvers_are_methods_too():
    """Rosenbrock's valley in residual form: the minimum is (1, 1)."""
    valley = lambda p, scale: jnp.stack([scale * (p[1] - p[0] ** 2), 1 - p[0]])
    method = LeastSquares(valley, optimistix.LevenbergMarquardt(rtol=1e-12, atol=1e-12))
    start = jnp.asarray([-1.2, 1.0])
    run = train(start, method, jnp.asarray(10.0), steps=40, every=20)
    assert np.allclose(run.parameters, 1.0, atol=1e-10)
    assert run.losses[0] == pytest.approx(24.2) and run.validation[-1] < 1e-20
