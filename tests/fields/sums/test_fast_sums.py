"""Every fast sum against brute force: the error it promises, the places it serves, what it refuses.

The oracle is the full n × n sum in NumPy; a sum promises that e^{−β}Σ is right to its tolerance
times the total mass.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.fields.sums.harmonic import HarmonicSum
from metastable.fields.sums.kernel import Kernel
from metastable.fields.sums.nufft import CircleSum, GaussianSum, SphereSum
from tests import oracles

DIMENSION = {"circle": 2, "harmonic 2": 2, "plane": 2, "sphere": 3, "harmonic 3": 3, "space": 3}

KINDS = [kind for kind in DIMENSION if kind != "space"]  # which differs from the plane in cost only


def build(kind, beta, tolerance):
    return {
        "circle": lambda: CircleSum.reaching(beta, tolerance),
        "sphere": lambda: SphereSum.reaching(beta, tolerance),
        "harmonic 2": lambda: HarmonicSum.reaching(beta, 2, tolerance),
        "harmonic 3": lambda: HarmonicSum.reaching(beta, 3, tolerance),
        "plane": lambda: GaussianSum(np.sqrt(beta), tolerance),
        "space": lambda: GaussianSum(np.sqrt(beta), tolerance),
    }[kind]()


def scene(dim, seed=0):
    """Tokens in clusters and alone, on axes and poles, unequal masses, one of them zero."""
    rng = np.random.default_rng([dim, seed])
    x = rng.normal(size=(300, dim))
    x[:100] = [1.0] + [0.0] * (dim - 1) + 1e-3 * rng.normal(size=(100, dim))
    x[100 : 100 + dim], x[110 : 110 + dim] = np.eye(dim), -np.eye(dim)
    w = rng.uniform(0.1, 1.0, 300)
    w[250] = 0.0
    return oracles.unit(x), w / w.sum()


def brute(x, w, beta, at, values):
    k = np.exp(beta * (at @ x.T - 1)) * w
    return k.sum(1), k @ values


def evaluate(sum, x, w, beta, at, values, own):
    kernel = Kernel(
        jnp.asarray(beta), jnp.asarray(at), jnp.asarray(x), jnp.log(w), zonal=True, own=own
    )
    attend = jax.jit(lambda kernel, values: sum.attend(kernel, values))
    log_mass, mean = map(np.asarray, attend(kernel, jnp.asarray(values)))
    mass = np.exp(log_mass - beta)
    return mass, mass[:, None] * mean


@pytest.mark.parametrize(("beta", "tolerance"), [(0.3, 1e-13), (9.0, 1e-6), (60.0, 1e-12)])
@pytest.mark.parametrize("kind", DIMENSION)
def test_error_stays_below_the_tolerance(kind, beta, tolerance):
    x, w = scene(DIMENSION[kind])
    # Two channels more than the axes, the last one alone in its complex pair.
    values = np.random.default_rng(1).uniform(-1, 1, size=(300, DIMENSION[kind] + 2))
    mass, moment = evaluate(build(kind, beta, tolerance), x, w, beta, x, values, own=True)
    expected_mass, expected_moment = brute(x, w, beta, x, values)
    assert np.max(np.abs(mass - expected_mass)) < tolerance
    assert np.max(np.abs(moment - expected_moment)) < tolerance


@pytest.mark.parametrize(("beta", "tolerance"), [(0.3, 1e-9), (9.0, 1e-6)])
@pytest.mark.parametrize("kind", ["circle", "harmonic 2", "sphere", "harmonic 3"])
def test_no_harmonic_is_lost(kind, beta, tolerance):
    """Tokens in one place see Σ_{ℓ≤K} of the coefficients, here from SciPy's Bessel functions.

    All harmonics add up there, so that the last one shows: half of it is too large an error.
    """
    dim, sum = DIMENSION[kind], build(kind, beta, tolerance)
    degrees = np.arange(sum.degree + 1)
    if dim == 2:
        terms = np.where(degrees > 0, 2, 1) * special.ive(degrees, beta)
    else:
        terms = (2 * degrees + 1) * np.sqrt(np.pi / (2 * beta)) * special.ive(degrees + 0.5, beta)
    x = np.tile(oracles.unit(np.arange(1.0, dim + 1)[None]), (5, 1))
    mass, _ = evaluate(sum, x, np.full(5, 0.2), beta, x, x, own=True)
    assert np.abs(mass - terms.sum()).max() < terms[-1] / 2


@pytest.mark.parametrize("kind", KINDS)
def test_other_places_and_masses_as_multiplicities(kind):
    x, w = scene(DIMENSION[kind])
    at = scene(DIMENSION[kind], seed=1)[0][:17]
    beta, sum = 4.0, build(kind, 4.0, 1e-12)
    mass, moment = evaluate(sum, x, w, beta, at, x, own=False)
    expected_mass, expected_moment = brute(x, w, beta, at, x)
    assert np.max(np.abs(mass - expected_mass)) < 1e-12
    assert np.max(np.abs(moment - expected_moment)) < 1e-12
    half = np.concatenate([[w[0] / 2], w[1:250], [w[0] / 2], w[251:]])  # in place of mass zero
    y = np.concatenate([x[:250], x[:1], x[251:]])
    again, _ = evaluate(sum, y, half, beta, at, y, own=False)
    assert np.max(np.abs(again - mass)) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_velocity_of_a_field(kind):
    x, w = scene(DIMENSION[kind])
    value = np.random.default_rng(2).normal(size=(DIMENSION[kind],) * 2)
    field = ms.SelfAttention(5.0, value=value, normalized=False)
    got = field.velocity(ms.Points(x, w), sum=build(kind, 5.0, 1e-13))
    expected = oracles.project(x, oracles.attention(x, w, 5.0, value=value, normalized=False))
    assert np.max(np.abs(got - expected)) < 1e-10 * np.max(np.abs(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_derivative_in_tokens_and_temperature(kind):
    """Against central differences of the brute-force sum."""
    x, w = scene(DIMENSION[kind])
    x = x[105:125]  # alone and at the poles
    w = w[105:125] / w[105:125].sum()
    test = np.random.default_rng(3).normal(size=x.shape)
    turn = oracles.project(x, np.random.default_rng(4).normal(size=x.shape))
    sum = build(kind, 4.0, 1e-13)

    def functional(s):
        field = ms.SelfAttention(3.0 + s)
        moved = ms.Points(jnp.asarray(x) + s * turn, w, on_sphere=False).directions()
        return jnp.vdot(test, field.velocity(moved, sum=sum))

    def oracle(s):
        y = oracles.unit(x + s * turn)
        return np.vdot(test, oracles.project(y, oracles.attention(y, w, 3.0 + s)))

    h = 1e-4
    central = (8 * (oracle(h) - oracle(-h)) - (oracle(2 * h) - oracle(-2 * h))) / (12 * h)
    assert abs(jax.jit(jax.grad(functional))(0.0) - central) < 1e-9 * abs(central) + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_one_compilation_serves_many_temperatures_and_systems(kind):
    dim = DIMENSION[kind]
    sum = build(kind, 9.0, 1e-12)
    points = np.stack([scene(dim, seed)[0] for seed in range(3)])
    w = scene(dim)[1]
    betas = np.array([0.5, 3.0, 9.0])
    velocity = lambda x, beta: ms.SelfAttention(beta).velocity(ms.Points(x, w), sum=sum)
    got = jax.jit(jax.vmap(velocity))(points, betas)
    for x, beta, v in zip(points, betas, got, strict=True):
        expected = oracles.project(x, oracles.attention(x, w, beta))
        assert np.max(np.abs(v - expected)) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_a_temperature_out_of_reach_is_never_silent(kind):
    x, w = scene(DIMENSION[kind])
    sum = build(kind, 4.0, 1e-10)
    velocity = jax.jit(lambda beta: ms.SelfAttention(beta).velocity(ms.Points(x, w), sum=sum))
    assert np.isfinite(velocity(4.0)).all()
    assert np.isnan(velocity(8.0)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_sees_nothing_is_not_noise(kind):
    dim = DIMENSION[kind]
    x = np.eye(dim)[:1]
    # e^{−2β} = 8e−53 is far below any error: NaN there, exact at the token itself.
    mass, moment = evaluate(
        build(kind, 60.0, 1e-12), x, np.ones(1), 60.0, np.stack([x[0], -x[0]]), x, own=False
    )
    assert abs(mass[0] - 1) < 1e-12 and np.isnan(mass[1]) and np.isnan(moment[1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_stays_single(kind):
    x, w = scene(DIMENSION[kind])
    measure = ms.Points(x, w, dtype=jnp.float32)
    kernel = ms.SelfAttention(9.0).kernel(measure, ms.fields.field.Places(measure.points, None))
    sum = build(kind, 9.0, 1e-5)
    log_mass, mean = jax.jit(lambda kernel, v: sum.attend(kernel, v))(kernel, measure.points)
    assert log_mass.dtype == mean.dtype == jnp.float32
    expected = oracles.attention(x, w, 9.0)
    assert np.max(np.abs(mean - expected)) < 1e-3


def test_refusals():
    plane, space = ms.uniform(tokens=9, dim=2), ms.uniform(tokens=9, dim=3)
    wide = ms.uniform(tokens=9, dim=4)
    field = ms.SelfAttention(2.0)
    for sum, measure in [
        (CircleSum(20), space),
        (SphereSum(20), plane),
        (HarmonicSum(2, 20), wide),
    ]:
        with pytest.raises(ValueError, match="dimension"):
            field.velocity(measure, sum=sum)
    with pytest.raises(ValueError, match="query, key, mask"):
        ms.SelfAttention(2.0, causal=True).velocity(plane, sum=CircleSum(20))
    with pytest.raises(ValueError, match="at most 3 axes"):
        field.velocity(wide, sum=GaussianSum(2.0))
    with pytest.raises(ValueError, match="dim must be from 2 to 8"):
        HarmonicSum(9, 20)
    for wrong in (0, 2.5, 10**6):
        with pytest.raises(ValueError, match="degree"):
            SphereSum(wrong)
