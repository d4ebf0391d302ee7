"""Densities: growth, conservation, equivariance, convergence, linearisation, large β."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ive

import metastable as ms
from metastable.flows import Adaptive, Fixed, Resolution
from metastable.flows.solvers.mean_field import mean_field
from metastable.measures import Density
from metastable.measures.spectral import basis_for
from metastable.observe import power
from metastable.theory.noise import critical_kappa
from metastable.theory.spectrum import growth_rates

pytestmark = pytest.mark.claim

TIGHT = Adaptive(1e-13, 1e-13)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_every_mode_grows_at_its_rate(dim, normalized):
    """Degrees 1 to 8 at once, 1e−13 each: log growth over time against λ_ℓ, to 1e−8.

    The smaller the start, the smaller what is not linear: coefficients keep relative accuracy.
    """
    basis = basis_for(dim, 8, dim == 8)
    random = np.random.default_rng(dim)
    c = 1e-13 * random.choice([-1.0, 1.0], len(basis.degrees))
    c = c * np.exp(1j * random.uniform(size=len(c))) if dim == 2 else c
    c[0] = 1.0
    start = Density(c, dim, np.eye(8)[0] if dim == 8 else None)
    rates = growth_rates(5.0, dim, 8, normalized=normalized)
    horizon = 3.0 / rates.max()
    run = ms.flow(start, ms.SelfAttention(5.0, normalized=normalized), horizon, frames=2)
    grown = np.log(power(run.frames[-1], 8) / power(start, 8))[1:] / (2 * horizon)
    print(dim, normalized, "largest gap", np.abs(grown - rates).max())
    assert np.abs(grown - rates).max() < 1e-8


@pytest.mark.parametrize("normalized", [True, False])
def test_the_linear_rates_are_the_derivative_of_the_nonlinear_equation(normalized):
    """The velocity form −div((1+h)v), which knows nothing of the split, has these derivatives."""
    for dim in (2, 3, 8):
        basis = basis_for(dim, 8, dim == 8)
        equation = mean_field(ms.SelfAttention(5.0, normalized=normalized), basis)
        unit = jnp.zeros(len(basis.degrees), complex if dim == 2 else float).at[0].set(1.0)

        def full(c, basis=basis, equation=equation):
            v = sum(v for _, v in equation._velocities(c.at[0].set(0.0)))
            return -basis.divergence(basis.values(c) * v)

        push_forward = jax.jit(lambda t, full=full, unit=unit: jax.jvp(full, (unit,), (t,))[1])
        expected = growth_rates(5.0, dim, 8, normalized=normalized)
        for degree in range(1, 9):
            place = int(np.argmax(basis.degrees == degree))
            slope = push_forward(jnp.zeros_like(unit).at[place].set(1.0))[place]
            assert complex(slope).real == pytest.approx(expected[degree - 1], rel=1e-11, abs=1e-12)


def turned(density, rotation):
    """The density in a turned frame, f(R⁻¹x), by values at turned nodes."""
    basis = density.basis
    return Density(
        basis.coefficients(density.at(jnp.asarray(basis.nodes(None) @ rotation))), density.dim
    )


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dim", [2, 3])
def test_mass_energy_and_rotations(dim, normalized):
    """A flow into the quasi-linear phase: mass 1e−13, E monotone, rotation equivariance 1e−10."""
    field = ms.SelfAttention(4.0, normalized=normalized)
    horizon = 1.5 / growth_rates(4.0, dim, 6, normalized=normalized).max()
    start = Density.from_function(lambda x: 1 + 0.3 * x[:, 0] * x[:, 1] + 0.2 * x[:, -1] ** 3, dim)
    most = 256 if dim == 2 else 64
    how: Any = dict(frames=9, stepper=Resolution(32, most, 1e-12, stepper=TIGHT))
    run = ms.flow(start, field, horizon, **how)
    assert run.outcome.name == "done"
    mass = max(abs(float(frame.mass) - 1) for frame in run.frames)
    assert mass < 1e-13
    energies = np.array([float(ms.energy(frame, 4.0)) for frame in run.frames])
    assert (np.diff(energies) > 0).all()
    assert power(run.frames[-1], 4)[1:].max() > 2 * power(start, 4)[1:].max()  # it did move
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(dim, dim)))[0]
    other = ms.flow(turned(start.resized(16), rotation), field, horizon, **how)
    gap = other.frames[-1].coefficients - turned(run.frames[-1], rotation).coefficients
    print(dim, normalized, "mass", mass, "rotation", np.abs(gap).max())
    assert np.abs(gap).max() < 1e-10


def test_spectral_convergence():
    """Error against N falls faster than any power until 1e−11: the exponent keeps rising."""
    start, field = Density.mode(2, 1, 0.2), ms.SelfAttention(4.0)
    end = lambda degree: np.asarray(
        ms.flow(start, field, 6.0, frames=2, stepper=Resolution(degree, degree, 1.0, stepper=TIGHT))
        .frames[-1]
        .resized(256)
        .coefficients
    )
    exact = end(256)
    degrees = np.array([4, 8, 16, 32, 64, 128])
    errors = np.array([np.abs(end(int(n)) - exact).max() for n in degrees])
    slopes = -np.diff(np.log2(errors))
    print(errors, slopes)
    before = slopes[errors[1:] > 1e-11]
    assert errors.min() < 1e-11
    assert len(before) >= 3 and (np.diff(before) > 0).all() and before[-1] > 10


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_uniform_loses_stability_at_the_critical_noise(dim, normalized):
    """κ where the derivative of the PDE's right-hand side at uniform turns positive; 1e−6."""
    basis = basis_for(dim, 12, dim > 2)
    unit = np.zeros(len(basis.degrees))
    unit[0] = 1.0
    start = basis.to_real(jnp.asarray(unit) + 0j) if dim == 2 else jnp.asarray(unit)

    @eqx.filter_jit
    def jacobian(equation, kappa):
        noisy = eqx.tree_at(lambda e: e.diffusion, equation, 1 / kappa)
        rate = lambda y: basis.to_real(noisy.derivative(basis.from_real(y.reshape(start.shape))))
        return jax.jacfwd(lambda y: rate(y).ravel())(start.ravel())

    for beta in (0.5, 2.0, 6.0):
        equation = mean_field(ms.SelfAttention(beta, normalized=normalized), basis)

        def top(kappa, equation=equation):
            values = np.linalg.eigvals(jacobian(equation, jnp.asarray(kappa))).real
            return float(values[np.abs(values) > 1e-13].max())  # the mass neither grows nor falls

        expected = float(critical_kappa(beta, dim, normalized=normalized))
        found: Any = brentq(top, 0.5 * expected, 2 * expected, xtol=1e-9 * expected)
        print(dim, normalized, beta, "relative gap", found / expected - 1)
        assert found == pytest.approx(expected, rel=1e-6)


BETAS = np.array([50.0, 100.0, 200.0, 400.0, 800.0, 1600.0])


def slope(errors):
    return np.polyfit(np.log(BETAS), np.log(errors), 1)[0]


@pytest.mark.parametrize("value", [1.0, -1.0])
@pytest.mark.parametrize("dim", [2, 3])
def test_softmax_at_large_beta_is_the_heat_equation(dim, value):
    """A mode at t = βs is e^{±Ls} times its start, with error O(1/β); s short: backward heat."""
    s, degree = 0.01, 2
    errors = []
    for beta in BETAS:
        start = Density.mode(dim, degree, 0.05)
        run = ms.flow(start, ms.SelfAttention(beta, value=value), beta * s, frames=2)
        assert run.outcome.name == "done"
        grown = np.sqrt(power(run.frames[-1], degree)[degree] / power(start, degree)[degree])
        errors.append(abs(grown / np.exp(value * degree * (degree + dim - 2) * s) - 1))
    print(dim, value, slope(errors), errors)
    assert slope(errors) == pytest.approx(-1.0, abs=0.1)


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_unnormalised_attention_at_large_beta_is_the_porous_medium_equation(value):
    """∂_tμ = ∓(c_0/2β)Δ(μ²): the same spectral solver with W(s) → δ, so ŵ_ℓ = c_0/β for all ℓ."""
    s, errors = 0.01, []
    start = Density.mode(2, 2, 0.05).resized(32)
    basis = start.basis
    limit = lambda t, c, _: (
        value
        * 0.5
        * basis.to_real(
            basis.laplacian() * basis.coefficients(basis.values(basis.from_real(c)) ** 2)
        )
    )
    solution: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(limit), diffrax.Dopri8(), 0.0, s, 1e-5,
        basis.to_real(start.coefficients), max_steps=100_000,
        stepsize_controller=diffrax.PIDController(1e-12, 1e-12),
    )  # fmt: skip
    exact = np.asarray(basis.from_real(solution.ys[-1]))[:9]
    for beta in BETAS:
        # e^{β(s−1)}/β: the USA clock slowed down by e^{−β}, which overflows otherwise.
        field = ms.MultiHead([ms.Potential(lambda u, b=beta: jnp.exp(b * (u - 1)) / b)], [value])
        run = ms.flow(start, field, beta * s / ive(0, beta), frames=2)
        assert run.outcome.name == "done"
        errors.append(np.abs(np.asarray(run.frames[-1].coefficients)[:9] - exact).max())
    print(value, slope(errors), errors)
    assert slope(errors) == pytest.approx(-1.0, abs=0.1)


def test_fixed_steps_converge_at_their_order():
    start, field = Density.mode(2, 3, 0.1), ms.SelfAttention(5.0)
    end = lambda how: np.asarray(
        ms.flow(start, field, 1.0, frames=2, stepper=how).frames[-1].coefficients
    )
    exact = end(TIGHT)
    errors = [np.abs(end(Fixed(step, diffrax.Heun())) - exact).max() for step in (0.05, 0.025)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.1)
