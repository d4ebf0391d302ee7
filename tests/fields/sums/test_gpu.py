"""The GPU kernels, run as programs on the CPU (interpret mode), against brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import metastable as ms
from metastable.fields.position import Alibi, Window
from metastable.fields.sums.exponentials import symmetric_sums
from metastable.fields.sums.fused import Logits, fused_sums
from metastable.fields.sums.gpu import FusedSum
from metastable.flows.ensemble import Angles, step_weights
from metastable.flows.solvers.angle_kernel import angle_drift, angle_march
from tests import oracles

EMULATED = FusedSum(interpret=True)


def brute(logits, values):
    """log Σ_j e^{l_ij} and the mean, by NumPy in float64."""
    top = logits.max(1, keepdims=True)
    k = np.exp(logits - top)
    return top[:, 0] + np.log(k.sum(1)), (k @ values) / k.sum(1)[:, None]


def case(axes, seed, unit):
    """Neither tokens nor places fill the last tile; one mass is zero."""
    rng = np.random.default_rng([axes, seed])
    x, at = rng.normal(size=(300, axes)), rng.normal(size=(150, axes))
    if unit:
        x, at = oracles.unit(x), oracles.unit(at)
    w = rng.uniform(0.1, 1.0, 300) / 300
    w[7] = 0.0
    with np.errstate(divide="ignore"):
        return at, x, np.log(w), rng.normal(size=(300, axes + 1))


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize(("axes", "half"), [(2, False), (3, False), (20, False), (20, True)])
def test_kernels_sum_all_pairs(axes, half, unit):
    at, x, column, values = case(axes, 0, unit)
    beta = 9.0 if unit else 0.7
    arrays = map(jnp.asarray, (at, x, column))
    got = fused_sums(Logits(beta, *arrays, unit), jnp.asarray(values), half=half, interpret=True)
    logits = beta * at @ x.T + column
    expected = brute(logits, values)
    rounding = 2.0**-8 if half and axes > 4 else 2.0**-23
    limit = rounding * (4 + np.abs(beta * at @ x.T).max()) * np.abs(values).max()
    for a, b in zip(got, expected, strict=True):
        assert a.dtype == np.float64
        assert np.max(np.abs(a - b)) < limit


@pytest.mark.parametrize("beta", [0.0, 1.0, 9.0, 300.0])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_error_is_the_one_stated(beta, clustered):
    rng = np.random.default_rng(int(beta))
    centres = oracles.unit(rng.normal(size=(4, 6)))
    x = rng.normal(size=(200, 6)) if not clustered else np.repeat(centres, 50, axis=0)
    x = oracles.unit(x + (1e-3 * rng.normal(size=x.shape) if clustered else 0.0))
    measure = ms.Points(x, rng.uniform(0.1, 1.0, 200))
    mean = oracles.attention(x, np.asarray(measure.weights), beta)
    got = ms.SelfAttention(beta).velocity(measure, sum=EMULATED)
    error = np.linalg.norm(got - oracles.project(x, mean), axis=1).max()
    assert error <= FusedSum.error(beta)


QUERY = np.random.default_rng(5).normal(size=(6, 6)) / 2
FIELDS = {
    "plain": ms.SelfAttention(4.0),
    "query": ms.SelfAttention(4.0, query=QUERY),
    "causal": ms.SelfAttention(4.0, causal=True),
    "window": ms.SelfAttention(4.0, position=(Window(9.0, sinks=2), Alibi(0.3))),
    "heads": ms.MultiHead([ms.SelfAttention(4.0, key=QUERY), ms.SelfAttention(1.0, causal=True)]),
}


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_served_with_its_derivatives(name):
    """Against the dense sum; the derivative along a direction and the gradient agree with it."""
    field, rng = FIELDS[name], np.random.default_rng(1)
    measure = ms.Points(oracles.unit(rng.normal(size=(70, 6))), rng.uniform(0.1, 1.0, 70))
    velocity = lambda x, how: field.velocity(measure.at(x), sum=how)
    x, along = measure.points, jnp.asarray(rng.normal(size=(70, 6)))
    exact = velocity(x, ms.Dense())
    difference = np.max(np.abs(velocity(x, EMULATED) - exact))
    assert 0 < difference < 1e-6  # float32, so that it cannot be the dense sum itself
    # Projection takes the mean itself into the derivative, with its error; logits are below 20.
    rounding = 2 * FusedSum.error(20.0) * float(jnp.abs(along).max())
    for how, limit in ((EMULATED, rounding), (FusedSum(), 1e-12)):
        change = jax.jvp(lambda x, how=how: velocity(x, how), (x,), (along,))[1]
        expected = jax.jvp(lambda x: velocity(x, ms.Dense()), (x,), (along,))[1]
        assert np.max(np.abs(change - expected)) < limit
        loss = lambda x, how=how: jnp.sum(along * velocity(x, how))
        expected = jax.grad(lambda x: jnp.sum(along * velocity(x, ms.Dense())))(x)
        assert np.max(np.abs(jax.grad(loss)(x) - expected)) < 70 * limit


def test_too_many_axes_are_refused_by_the_kernel_and_served_by_the_sum():
    x = jnp.eye(300)[:4]
    with pytest.raises(ValueError, match="at most 256 axes"):
        fused_sums(Logits(1.0, x, x, jnp.zeros(4)), x, interpret=True)
    measure = ms.Points(x)
    field = ms.SelfAttention(1.0)
    assert np.array_equal(field.velocity(measure, sum=EMULATED), field.velocity(measure))


@pytest.mark.parametrize("block", [64, 100, 300])
def test_float64_blocks_serve_each_pair_once(block):
    """Seventy axes take two passes of the product; neither tile nor block is filled."""
    rng = np.random.default_rng(block)
    x, w, v = (
        oracles.unit(rng.normal(size=(200, 70))),
        rng.uniform(0, 1, 200),
        rng.normal(size=(200, 3)),
    )
    k = np.exp(9 * (x @ x.T - 1))
    mass, total = symmetric_sums(9.0, *map(jnp.asarray, (x, w, v)), block, True)
    assert np.max(np.abs(mass - k @ w)) < 1e-13
    assert np.max(np.abs(total - k @ (w[:, None] * v))) < 1e-13


def test_float64_blocks_have_the_derivatives_of_their_formula():
    rng = np.random.default_rng(0)
    x, w, v = (
        oracles.unit(rng.normal(size=(90, 5))),
        rng.uniform(0, 1, 90),
        rng.normal(size=(90, 2)),
    )

    def by_blocks(beta, x, w, v):
        mass, total = symmetric_sums(beta, x, w, v, 64, True)
        return jnp.sum(mass**2) + jnp.sum(total**2)

    def by_formula(beta, x, w, v):
        k = jnp.exp(beta * (x @ x.T - 1))
        return jnp.sum((k @ w) ** 2) + jnp.sum((k @ (w[:, None] * v)) ** 2)

    at = 9.0, *map(jnp.asarray, (x, w, v))
    for a, b in zip(
        jax.grad(by_blocks, (0, 1, 2, 3))(*at), jax.grad(by_formula, (0, 1, 2, 3))(*at), strict=True
    ):
        assert np.max(np.abs(a - b)) < 1e-12 * (1 + np.max(np.abs(b)))


@pytest.mark.parametrize("count", [5, 70])
@pytest.mark.parametrize("shared", [True, False])
def test_angles_move_as_the_sum_over_pairs_says(shared, count):
    """Each system with its own β, or all with one; no tile is filled."""
    rng = np.random.default_rng(2)
    angles, betas = (
        rng.uniform(-9, 9, (count, 41)),
        np.full(41, 3.0) if shared else np.linspace(0, 50, 41),
    )
    gap = angles[None] - angles[:, None]
    k = np.exp(betas * (np.cos(gap) - 1))
    expected = (k * np.sin(gap)).sum(1) / k.sum(1)
    beta = 3.0 if shared else betas
    got = angle_drift(beta, jnp.asarray(angles, jnp.float32), interpret=True)
    # Angles to 9 are rounded at 2^−21, and their cosines enter an exponential with factor β.
    assert np.max(np.abs(got - expected)) < 2.0**-21 * (4 + 2 * betas.max())


@pytest.mark.parametrize(("count", "steps", "inside"), [(5, 1, 3), (32, 1, 2), (70, 2, 1)])
def test_steps_of_angles_in_a_kernel_are_those_of_arrays(count, steps, inside):
    """Several strides, each β its own, no tile filled; in float32 against float64."""
    rng = np.random.default_rng(4)
    form = Angles(jnp.linspace(0.1, 9.0, 21))
    y, *past = rng.uniform(-3, 3, (form.memory, count, 21))
    past = [0.1 * each for each in past]
    weights = step_weights(form, 0.3, inside)
    expected, state = [], (jnp.asarray(y), tuple(map(jnp.asarray, past)))
    for _ in range(3):
        seen, *state = form.march(*state, weights, steps, 1)
        expected.append(seen)
    single = lambda a: jnp.asarray(a, jnp.float32)
    how = {"rate": form.rate, "strides": 3, "steps": steps, "interpret": True}
    seen, last, history = angle_march(
        form.beta, single(y), tuple(map(single, past)), *map(single, weights), **how
    )
    np.testing.assert_allclose(seen, np.concatenate(expected), atol=2e-5)
    np.testing.assert_allclose(last, state[0], atol=2e-5)
    np.testing.assert_allclose(np.array(history), np.array(state[1]), atol=1e-4)
