"""Parameters that change with depth: smooth, piecewise, drawn afresh in every layer."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import metastable as ms
from tests import oracles
from tests.fields.cases import arrays, error, weighted

TIGHT = ms.Adaptive(rtol=1e-11, atol=1e-11)


def ramp(t):
    return ms.SelfAttention(beta=1.0 + 2.0 * t)


def piecewise():
    v = np.random.default_rng(1).normal(size=(3, 3, 3))
    betas, switches = [1.0, 6.0, 2.0], [0.5, 1.25]
    return betas, v, switches, [ms.SelfAttention(b, value=a) for b, a in zip(betas, v, strict=True)]


def test_smooth_schedule_reads_the_time():
    m = weighted(6, 3)
    x, w = arrays(m)
    for t in (0.0, 0.7):
        expected = oracles.project(x, oracles.attention(x, w, 1 + 2 * t))
        assert error(ms.Schedule(ramp).velocity(m, t=t), expected) < 1e-12


def test_smooth_schedule_flows_like_the_time_dependent_ode():
    m = weighted(6, 3)
    x, w = arrays(m)
    run = ms.flow(m, ms.Schedule(ramp), horizon=2.0, frames=5, stepper=TIGHT)

    def rhs(t, y):
        y = oracles.unit(y)
        return oracles.project(y, oracles.attention(y, w, 1 + 2 * t))

    assert np.abs(run.points - oracles.integrate(rhs, x, run.times)).max() < 1e-9


def test_piecewise_schedule_holds_each_field_until_its_switch():
    betas, v, switches, fields = piecewise()
    field = ms.Schedule.piecewise(fields, switches)
    m = weighted(6, 3)
    x, w = arrays(m)
    for t, layer in [(0.0, 0), (0.4999, 0), (0.5, 1), (1.2499, 1), (1.25, 2), (99.0, 2)]:
        expected = oracles.project(x, oracles.attention(x, w, betas[layer], value=v[layer]))
        assert error(field.velocity(m, t=t), expected) < 1e-12


@pytest.fixture(scope="module")
def pieces():
    """The exact end of the piecewise flow: three SciPy integrations, one after the other."""
    betas, v, switches, fields = piecewise()
    m = weighted(6, 3)
    x, w = arrays(m)
    edges = [0.0, *switches, 2.0]
    for b, a, t0, t1 in zip(betas, v, edges[:-1], edges[1:], strict=True):

        def rhs(t, y, b=b, a=a):
            y = oracles.unit(y)
            return oracles.project(y, oracles.attention(y, w, b, value=a))

        x = oracles.integrate(rhs, x, np.array([t0, t1]))[-1]
    return m, ms.Schedule.piecewise(fields, switches), x


def test_piecewise_flow_composes_the_flows_of_its_pieces(pieces):
    m, field, expected = pieces
    run = ms.flow(m, field, horizon=2.0, frames=4, stepper=TIGHT)
    assert np.abs(run.points[-1] - expected).max() < 1e-9
    assert np.array_equal(run.times, np.linspace(0, 2, 4))
    assert run.statistics["rejected"] <= 0.2 * run.statistics["steps"]


def test_fixed_steps_keep_their_order_across_switches(pieces):
    # Both switches are multiples of the step. If a stage at the end of a step saw the next field,
    # the order would fall from 5 to 1 and the error to about 1e−1.
    m, field, expected = pieces
    coarse, fine = (
        np.abs(ms.flow(m, field, 2.0, frames=2, stepper=ms.Fixed(h)).points[-1] - expected).max()
        for h in (0.05, 0.025)
    )
    assert coarse < 1e-6
    assert np.log2(coarse / fine) == pytest.approx(5, abs=0.7)


def test_resampled_layers_are_independent_and_repeatable():
    draw = lambda key: ms.SelfAttention(jax.random.uniform(key))
    a, b, c = (ms.Schedule.resampled(draw, layers=6, horizon=3.0, seed=s) for s in (0, 0, 1))
    beta = lambda schedule, t: float(schedule.at_time(t).beta)
    layers = [beta(a, 0.25 + 0.5 * k) for k in range(6)]
    assert len(set(layers)) == 6
    assert [beta(b, 0.5 * k) for k in range(6)] == layers  # each held from its own start
    assert [beta(c, 0.5 * k) for k in range(6)] != layers
    assert np.allclose(a.switches, [0.5, 1.0, 1.5, 2.0, 2.5])


def test_one_layer_of_depth_uses_one_draw():
    # depth = layers: layer k must see draw k, with no double or skipped draw from rounding.
    layers, horizon = 49, 2.3
    draw = lambda key: ms.SelfAttention(1.0, value=jax.random.uniform(key, minval=-1.0))
    field = ms.Schedule.resampled(draw, layers, horizon, seed=2)
    m = weighted(2, 3)
    run = ms.flow(m, field, horizon, stepper=ms.Layers(horizon / layers))
    keys = jax.random.split(jax.random.key(2), layers)
    x, w = arrays(m)
    for key in keys:
        a = oracles.attention(x, w, 1.0, value=float(jax.random.uniform(key, minval=-1.0)))
        x = oracles.unit(x + horizon / layers * a)
    assert np.abs(run.points[-1] - x).max() < 1e-12


def test_mixed_placement_is_integrated_without_stepping_over_its_switch():
    m = ms.orthogonal(3, 3).euclidean()
    attention, until = ms.SelfAttention(1.0), 0.5
    solver = ms.Fixed(0.1)
    mixed = ms.flow(m, ms.Block(attention, ms.Mix(until=until)), 1.0, frames=2, stepper=solver)
    half = ms.flow(m, ms.Block(attention, ms.PostNorm()), until, frames=2, stepper=solver)
    rest = ms.flow(
        half.frames[-1], ms.Block(attention, ms.PreNorm()), 1.0 - until, frames=2, stepper=solver
    )
    assert np.abs(mixed.points[-1] - rest.points[-1]).max() < 1e-6
