"""Densities: harmonics against closed forms and SciPy, sampling, quadrature, storage."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import metastable as ms
from metastable.geometry.harmonics import multiplicity, spherical_harmonics
from metastable.measures import Density
from metastable.measures import density as density_module
from metastable.measures.spectral import basis_for
from metastable.measures.spectral.kernels import (
    attention_kernel,
    log_mean_exponential,
    potential_kernel,
)
from metastable.theory.spectrum import growth_rates, potential_rates

GEOMETRIES = [(2, False), (3, False), (2, True), (8, True)]


def random_coefficients(dim, degree, zonal, seed=0):
    basis = basis_for(dim, degree, zonal)
    random = np.random.default_rng(seed)
    c = random.normal(size=len(basis.degrees)) / (1.0 + basis.degrees) ** 2
    if dim == 2 and not zonal:
        c = c + 1j * random.normal(size=len(c)) / (1.0 + basis.degrees) ** 2
        c[0] = c[0].real
    return basis, jnp.asarray(c)


@pytest.mark.parametrize(("dim", "zonal"), GEOMETRIES)
def test_transforms_invert_each_other_and_divergence_is_the_laplacian(dim, zonal):
    basis, c = random_coefficients(dim, 17, zonal)
    axis = np.eye(dim)[0]
    values, gradient = eqx.filter_jit(basis.values)(c), eqx.filter_jit(basis.gradient)(c)
    assert np.abs(eqx.filter_jit(basis.coefficients)(values) - c).max() < 1e-13
    minus_laplacian = -eqx.filter_jit(basis.divergence)(gradient)
    assert np.abs(minus_laplacian - basis.laplacian() * c).max() < 1e-11
    # Parseval, and ∫|∇f|² = Σ L|f̂|²
    norm = float(np.sum(basis.weights * np.abs(c) ** 2))
    assert float(basis.mean(values**2)) == pytest.approx(norm, rel=1e-12)
    slope = float(np.sum(basis.weights * basis.laplacian() * np.abs(c) ** 2))
    squares = jnp.sum(gradient**2, axis=0)
    assert float(basis.mean(squares)) == pytest.approx(slope, rel=1e-12)
    # Scattered evaluation on the nodes agrees with the grid.
    scattered, gradients = eqx.filter_jit(basis.evaluate)(c, jnp.asarray(basis.nodes(axis)), axis)
    assert np.abs(scattered - values).max() < 1e-12
    assert np.abs(jnp.sum(gradients**2, axis=1) - squares).max() < 1e-10


@pytest.mark.parametrize(("dim", "zonal"), [(2, False), (3, False), (8, True)])
def test_products_of_three_are_integrated_exactly(dim, zonal):
    """The dealiasing promise: ∫fgh for three functions of the full degree, on a finer grid too."""
    degree = 11
    c = [random_coefficients(dim, degree, zonal, seed)[1] for seed in range(3)]
    means = []
    for size in (degree, 3 * degree):
        basis = basis_for(dim, size, zonal)
        room = len(basis.degrees) - len(c[0])
        product = lambda *c: basis.mean(jnp.prod(jnp.stack([basis.values(one) for one in c]), 0))  # noqa: B023
        means.append(float(jax.jit(product)(*(jnp.pad(one, (0, room)) for one in c))))
    assert means[0] == pytest.approx(means[1], rel=1e-12)


def test_gradients_match_finite_differences():
    for dim, zonal in [(2, False), (3, False), (8, True)]:
        basis, c = random_coefficients(dim, 9, zonal)
        random = np.random.default_rng(1)
        x = random.normal(size=(5, dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        step = random.normal(size=(5, dim))
        step -= np.sum(step * x, axis=1, keepdims=True) * x
        axis = np.eye(dim)[0]
        evaluate = jax.jit(lambda x: basis.evaluate(c, x, axis))  # noqa: B023
        value = lambda t: np.asarray(evaluate(_unit(x + t * step))[0])  # noqa: B023
        slope = np.sum(np.asarray(evaluate(x)[1]) * step, axis=1)
        assert (value(1e-5) - value(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-6, abs=1e-8)


def _unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_zonal_coefficients_are_those_of_the_full_harmonics():
    """√N P_ℓ(⟨x,e⟩) has, for e at the pole, the coefficient of Y_{ℓ0} on S²."""
    full = Density.von_mises_fisher([0.0, 0.0, 1.0], 3.0)
    zonal = Density.von_mises_fisher([0.0, 0.0, 1.0], 3.0, zonal=True)
    assert zonal.coefficients.size == zonal.degree + 1 and zonal.zonal and not full.zonal
    ell = np.arange(zonal.degree + 1)
    assert np.abs(full.coefficients[ell * ell + ell] - zonal.coefficients).max() < 1e-14
    assert np.abs(full.at(np.eye(3)) - zonal.at(np.eye(3))).max() < 1e-13


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("beta", [0.5, 5.0, 100.0])
def test_attention_kernels_give_the_rates_of_linear_theory(dim, beta):
    """theory.spectrum is the independent witness; all degrees to full relative accuracy."""
    ell = np.arange(1, 21)
    kernel = attention_kernel(beta, dim, 20)[1:] * ell * (ell + dim - 2)
    assert kernel == pytest.approx(growth_rates(beta, dim, 20), rel=1e-12)
    plain = np.exp(log_mean_exponential(beta, dim)) * kernel
    assert plain == pytest.approx(growth_rates(beta, dim, 20, normalized=False), rel=1e-11)
    flipped = attention_kernel(-beta, dim, 20)[1:] * ell * (ell + dim - 2)
    assert flipped == pytest.approx(growth_rates(-beta, dim, 20), rel=1e-12)


def test_kernels_at_zero_and_of_potentials():
    assert attention_kernel(0.0, 5, 3).tolist() == [0.0, 0.2, 0.0, 0.0]
    ell = np.arange(1, 13)
    potential = lambda s: jnp.exp(2 * s) + s**3
    found = potential_kernel(potential, 4, 12)[1:] * ell * (ell + 2)
    assert found == pytest.approx(potential_rates(lambda s: np.exp(2 * s) + s**3, 4, 12), abs=1e-12)
    with pytest.raises(ValueError, match=r"potential must be finite and smooth.*smooth it"):
        potential_kernel(lambda s: jnp.abs(s), 2, 40)


def test_von_mises_fisher_is_scipys():
    circle = Density.von_mises_fisher([0.6, 0.8], 4.0)
    theta = np.linspace(0, 6, 7)
    expected = 2 * np.pi * stats.vonmises(4.0, loc=np.arctan2(0.8, 0.6)).pdf(theta)
    places = np.stack([np.cos(theta), np.sin(theta)], 1)
    assert np.asarray(circle.at(places)) == pytest.approx(expected, rel=1e-12)
    x = _unit(np.random.default_rng(0).normal(size=(6, 8)))
    centre = _unit(np.ones((1, 8)))[0]
    expected = stats.vonmises_fisher(centre, 4.0).pdf(x) * 2 * np.pi**4 / special.gamma(4)
    assert np.asarray(Density.von_mises_fisher(centre, 4.0).at(x)) == pytest.approx(
        expected, rel=1e-11
    )


def test_from_function_finds_the_degree_and_normalises(monkeypatch):
    wave = Density.from_function(lambda x: 3.0 + 2.0 * x[:, 0] * x[:, 1], dim=3)
    assert wave.degree == 2 and float(wave.mass) == pytest.approx(1.0, abs=1e-15)
    xy = np.sqrt(15)  # Y_{2,−2} = √15 xy
    assert float(wave.coefficients[4]) == pytest.approx(2 / 3 / xy, abs=1e-15)
    ring = Density.from_function(lambda x: x[:, 0] ** 4, dim=6, axis=np.eye(6)[0])
    assert ring.degree == 4
    with pytest.raises(ValueError, match=r"function must be finite and >= 0"):
        Density.from_function(lambda x: x[:, 0], dim=2)
    monkeypatch.setattr(density_module, "MOST_ZONAL", 32)
    with pytest.raises(ValueError, match=r"function must be smooth enough.*degree 32.*tokens"):
        Density.from_function(lambda x: 2.0 + jnp.sign(x[:, 0]), dim=8, axis=np.eye(8)[0])


def test_modes_and_moments():
    assert float(Density.mode(2, 3, 0.1, phase=0.4).at(_circle(0.4))[0]) == pytest.approx(1.2)
    bump = Density.mode(3, 2, 0.1, order=-1)
    x = _unit(np.ones((1, 3)))
    assert float(bump.at(x)[0]) == pytest.approx(1 + 0.1 * spherical_harmonics(x, 2)[0, 5])
    zonal = Density.mode(8, 3, 0.1)
    assert float(zonal.at(np.eye(8)[:1])[0]) == pytest.approx(1 + 0.1 * multiplicity(3, 8) ** 0.5)
    # ∫⟨x,e⟩ dμ of a von Mises–Fisher density is I_{d/2}(κ)/I_{d/2−1}(κ).
    for dim in (2, 3, 8):
        density = Density.von_mises_fisher(np.eye(dim)[0], 3.0)
        mean = float(density.integrate(lambda x: x[:, 0]))
        assert mean == pytest.approx(
            special.ive(dim / 2, 3) / special.ive(dim / 2 - 1, 3), rel=1e-12
        )


def _circle(angle):
    return np.array([[np.cos(angle), np.sin(angle)]])


@pytest.mark.parametrize(
    ("centre", "zonal"),
    [
        ([0.6, 0.8], None),
        ([0.0, 0.6, 0.8], None),
        ([0.0, 0.6, 0.8], True),
        ([0.6, 0.8, 0.0, 0.0, 0.0], None),
    ],
)
def test_tokens_have_the_harmonics_of_their_density(centre, zonal):
    """Independent tokens to n^{−1/2}, quiet ones far better."""
    density = Density.von_mises_fisher(centre, 1.0, zonal=zonal)
    wanted = density.resized(4).coefficients
    gap = lambda points: float(
        np.abs(Density.from_points(points, 4, density.axis).coefficients - wanted).max()
    )
    n = 4000
    assert 0.1 / n**0.5 < gap(density.sample(n, seed=2)) < 5 / n**0.5
    assert gap(density.to_points(n)) < 0.02 / n**0.5
    assert np.array_equal(density.sample(50, 3).points, density.sample(50, 3).points)
    assert not np.array_equal(density.sample(50, 3).points, density.sample(50, 4).points)


def test_quiet_tokens_of_a_smooth_density_on_the_circle_are_exact():
    """Quantiles of a positive band-limited density are a trapezoidal rule: exact to rounding."""
    density = Density.mode(2, 3, 0.2)
    quiet = Density.from_points(density.to_points(400), 12)
    assert np.abs(quiet.coefficients - density.resized(12).coefficients).max() < 1e-13


def test_heights_follow_the_distribution_function():
    """A Kolmogorov–Smirnov test against the closed form of the von Mises–Fisher marginal on S²."""
    z = np.asarray(Density.von_mises_fisher([0.0, 0.0, 1.0], 2.0).sample(3000, 1).points)[:, 2]
    cdf = lambda s: (np.exp(2 * s) - np.exp(-2.0)) / (np.exp(2.0) - np.exp(-2.0))
    assert stats.kstest(z, cdf).pvalue > 0.01


def test_resizing_and_jit():
    density = Density.mode(3, 2, 0.1, order=1)
    bigger = density.resized(9)
    assert bigger.degree == 9 and np.array_equal(
        bigger.resized(2).coefficients, density.coefficients
    )
    x = jnp.eye(3)
    traced = jax.jit(lambda d, x: (d.at(x), d.mass))(bigger, x)
    assert np.abs(traced[0] - density.at(x)).max() < 1e-15 and abs(traced[1] - 1) < 1e-14


@pytest.mark.parametrize(("dim", "zonal"), [(2, None), (3, None), (5, None)])
def test_frames_of_several_degrees_are_saved_and_read_back(dim, zonal, tmp_path):
    first = Density.mode(dim, 2, 0.1, zonal=zonal)
    frames = (first, first.resized(7), ms.uniform(4, dim))
    run = ms.Trajectory(np.arange(3.0), frames, "SA", ms.Outcome.unresolved(1.0, 7), {"steps": 1})
    back = ms.Trajectory.load(run.save(tmp_path / "run.zarr"))
    assert [type(frame) for frame in back.frames] == [Density, Density, ms.Points]
    for old, new in zip(frames[:2], back.frames[:2], strict=True):
        assert np.array_equal(old.coefficients, new.coefficients) and new.dim == dim
    assert np.allclose(back.frames[2].points, frames[2].points, atol=1e-15)
    assert str(back.outcome).startswith(
        "unresolved: tokens concentrate faster than resolution 7; continue with particles"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Density([0.5, 0.1], 2), r"mass f̂_0 = 1; got"),
        (lambda: Density([1.0, np.nan], 2), r"finite"),
        (lambda: Density([1.0, 0.0, 0.0], 3), r"\(L\+1\)² entries.*in full"),
        (lambda: Density([1.0, 0.0], 5), r"axis must be given in dim 5"),
        (lambda: Density([1.0, 0.0], 5, axis=[1.0, 0.0]), r"axis.*dimension 5"),
        (lambda: Density.uniform(5, zonal=False), r"zonal must be True in dim 5"),
        (lambda: Density.mode(3, 2, 0.1, order=3), r"order must lie between"),
        (lambda: Density.from_points(ms.gaussian_points(4, 2), 3), r"on the sphere.*directions"),
        (lambda: Density.uniform(3).at([[1.0, 0.0]]), r"points must have dimension 3"),
    ],
)  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
