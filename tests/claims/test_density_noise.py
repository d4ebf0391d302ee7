"""What falls along a density with noise: a free energy for USA, the entropy for SA up to κ_#.

USA is the Wasserstein gradient flow of F = H/κ − E. SA is not: no functional is known to fall at
every κ, and the one whose critical points are SA's stationary densities may rise. Derived here: the
entropy changes at the rate dH/dt = (1/β)∫∇f·∇log Z − (1/κ)∫‖∇f‖²/f, Z = ∫e^{β⟨x,y⟩}df. Around
uniform the ratio of the two integrals is at most ρ = I_{d/2}/I_ν, that of degree 1, and κ_# = β/ρ.
Found here, not proved: no density exceeds ρ, so the entropy falls from every start iff κ ≤ κ_#.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import metastable as ms
from metastable.flows import Resolution
from metastable.measures import Density
from metastable.observe import entropy, free_energy
from metastable.theory.interaction import attention_interaction, zonal_grid, zonal_slopes
from metastable.theory.noise import critical_kappa

pytestmark = pytest.mark.claim

LEAST = {2: Resolution(64), 3: Resolution(24), 8: Resolution(64)}


def starts(dim):
    """Nearly uniform, concentrated, and two unequal bumps (one and a ring in dim 8)."""
    axis = np.eye(dim)[0]
    two = lambda x: jnp.exp(2.5 * x[:, 0]) + 0.8 * jnp.exp(-3.0 * x[:, 0])
    yield Density.von_mises_fisher(np.ones(dim), 0.3)
    yield Density.von_mises_fisher(axis, 3.0)
    yield Density.from_function(two, dim, axis if dim > 3 else None)


@pytest.mark.parametrize("factor", [0.8, 1.5])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_the_free_energy_falls_without_normalisation(dim, factor):
    """To 1e−10 between any two of 21 frames, disorder winning or losing."""
    kappa = factor * float(critical_kappa(2.0, dim, normalized=False))
    field = ms.SelfAttention(2.0, normalized=False) + ms.Noise(kappa)
    for start in starts(dim):
        run = ms.flow(start, field, 6.0, frames=21, stepper=LEAST[dim])
        assert run.outcome.name == "done"
        series = np.array([free_energy(frame, field) for frame in run.frames])
        print(dim, factor, "largest rise", np.diff(series).max(), series[[0, -1]])
        assert np.diff(series).max() < 1e-10 and series[-1] < series[0] - 1e-4
        assert ms.compare(run).agrees


@pytest.mark.parametrize("factor", [0.7, 1.0])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_the_entropy_falls_under_softmax_up_to_the_critical_noise(dim, factor):
    kappa = factor * float(critical_kappa(5.0, dim))
    field = ms.SelfAttention(5.0) + ms.Noise(kappa)
    for start in starts(dim):
        run = ms.flow(start, field, 10.0, frames=21, stepper=LEAST[dim])
        assert run.outcome.name == "done"
        series = np.array([entropy(frame) for frame in run.frames])
        print(dim, factor, "largest rise", np.diff(series).max(), series[[0, -1]])
        assert np.diff(series).max() < 1e-10 and series[-1] < series[0] - 1e-4


@pytest.mark.parametrize("beta", [0.5, 2.0, 5.0, 12.0])
@pytest.mark.parametrize("dim", [2, 3, 8])
def test_no_density_makes_entropy_faster_than_the_uniform_one(dim, beta):
    """Ascent of ∫∇f·∇log Z / ∫‖∇f‖²/f over zonal f = e^{Σ a_ℓ P_ℓ}, ℓ ≤ 8, ends at ρ."""
    grid, degree = zonal_grid(dim, 96), 63
    s, weights, table = (jnp.asarray(a) for a in (grid.s, grid.weights, grid.table[: degree + 1]))
    slopes = jnp.asarray(zonal_slopes(grid.s, dim, degree))
    kernel = beta * np.asarray(attention_interaction(beta, dim, degree=degree).weights)  # c_ℓ/c_0
    kernel[0] = 1.0

    def ratio(a):
        exponent = a @ table[1:9]
        f = jnp.exp(exponent - exponent.max())
        c = kernel * (table @ (weights * f))
        slope = a @ slopes[1:9]
        area = (1 - s**2) * weights * f * slope
        return jnp.sum(area * (c @ slopes) / (c @ table)) / jnp.sum(area * slope)

    climb = jax.jit(jax.value_and_grad(lambda a: -ratio(a)))
    ends = []
    for seed in range(6):
        start = np.random.default_rng(seed).normal(size=8) / np.arange(1, 9) * (0.4, 1.5)[seed % 2]
        assert ratio(start) < 0.9 * kernel[1]
        found = minimize(
            lambda a: tuple(np.asarray(x, float) for x in climb(a)), start, jac=True,
            method="L-BFGS-B", options={"maxiter": 200},
        )  # fmt: skip
        ends.append(-found.fun)
    print(dim, beta, "ρ", kernel[1], "ends", ends)
    assert beta / kernel[1] == pytest.approx(float(critical_kappa(beta, dim)), rel=1e-12)
    assert max(ends) == pytest.approx(kernel[1], rel=1e-6) and max(ends) < kernel[1] * (1 + 1e-10)


def test_the_functional_of_softmax_states_may_rise():
    """Two unequal clumps on the circle, β = 5, κ = 3κ_#: F of `Stationary.free_energy` rises."""
    beta = 5.0
    kappa = 3 * float(critical_kappa(beta, 2))
    wave = np.array([-0.5, 4.2, -0.1, -0.4])
    cosines = lambda x: jnp.stack([jnp.cos(k * jnp.arctan2(x[:, 1], x[:, 0])) for k in range(1, 5)])
    start = Density.from_function(lambda x: jnp.exp(wave @ cosines(x)), 2)
    field = ms.SelfAttention(beta) + ms.Noise(kappa)
    run = ms.flow(start, field, 0.2, frames=5)
    kernel = beta * np.asarray(
        attention_interaction(beta, 2, degree=128).weights
    )  # β ŵ_k = I_k/I_0
    q = 1 + beta / kappa

    def functional(density):
        c = np.asarray(density.resized(128).coefficients)
        f = np.fft.irfft(c, 1024) * 1024
        assert f.min() > 0
        pairs = 1 + 2 * kernel[1:] @ np.abs(c[1:]) ** 2
        return (np.log(np.mean(f**q)) * 2 / q - np.log(pairs)) / (2 * beta)

    series = np.array([functional(frame) for frame in run.frames])
    print("rises by", np.diff(series))
    assert (np.diff(series)[:2] > 1e-6).all()
