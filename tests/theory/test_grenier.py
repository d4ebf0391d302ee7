"""Grenier's expansion against closed forms, the full PDE, and the PDE's residual on S²."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import iv, ive

from metastable.geometry.harmonics import circle_derivatives, gegenbauer, sphere_derivatives
from metastable.theory.grenier import expand
from metastable.theory.interaction import attention_interaction, zonal_harmonics, zonal_potential
from metastable.theory.spectrum import growth_rates
from tests.theory.densities import Circle, Zonal

ORDERS = [1, 2, 3, 4]


def slopes(errors: list[float]) -> np.ndarray:
    """Powers of the amplitude between errors at δ, 2δ, 4δ, …"""
    return np.diff(np.log2(errors))


@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize(("beta", "k"), [(5.0, 3), (2.0, 1)])
def test_second_order_on_the_circle_by_hand(beta, k, normalized):
    # u_1 = cos kθ gives u_2 = a cos 2kθ, a = λ_k(1 − r)/(2λ_k − λ_2k); r = I_k/I_0, or 0 for USA.
    rates = growth_rates(beta, 2, 2 * k, normalized=normalized)
    rate, double = rates[k - 1], rates[2 * k - 1]
    r = iv(k, beta) / iv(0, beta) if normalized else 0.0
    found = expand(attention_interaction(beta, 2, normalized=normalized), 2, mode=k)
    expected = np.zeros(2 * k + 1)
    expected[2 * k] = rate * (1 - r) / (2 * rate - double) / math.sqrt(2)
    np.testing.assert_allclose(found.orders[2], expected, rtol=1e-12, atol=1e-14)
    assert found.rate == pytest.approx(rate, rel=1e-14)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("beta", "normalized", "kappa"),
    [(5.0, True, math.inf), (5.0, False, math.inf), (5.0, False, 0.5)],
    ids=["SA", "USA", "USA with noise"],
)
def test_error_against_the_circle_pde(beta, normalized, kappa, order):
    pde = Circle(beta, normalized, kappa)
    way_out = expand(attention_interaction(beta, 2, normalized=normalized), order, kappa=kappa)
    basis = zonal_harmonics(np.cos(pde.theta), 2, way_out.mode * order)
    time, errors = math.log(10) / way_out.rate, []
    for delta in (0.002, 0.004, 0.008):  # tenfold at the end
        end = pde.flow(way_out.at(delta) @ basis, time)
        errors.append(np.sqrt(np.mean((end - way_out.at(delta, time) @ basis) ** 2)))
    np.testing.assert_allclose(slopes(errors), order + 1, atol=0.01)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("beta", "dim", "normalized"), [(5.0, 3, True), (8.0, 8, False)])
def test_error_against_the_zonal_pde(beta, dim, normalized, order):
    pde = Zonal(beta, dim, normalized)
    way_out = expand(attention_interaction(beta, dim, normalized=normalized), order)
    padded = lambda c: np.pad(c, (0, len(pde.table) - len(c)))
    time, errors = math.log(10) / way_out.rate, []
    for delta in (0.002, 0.004, 0.008):
        end = pde.flow(padded(way_out.at(delta)), time)
        errors.append(np.linalg.norm(end - padded(way_out.at(delta, time))))
    np.testing.assert_allclose(slopes(errors), order + 1, atol=0.02)


def residual(coefficients, change, dim, beta, normalized, x):
    """∂_t f + ∇f·∇ψ + fΔψ at the points x, each derivative taken by `geometry.harmonics`."""
    degree = len(coefficients) - 1 if dim == 2 else math.isqrt(len(coefficients)) - 1
    ell = np.arange(degree + 1)
    kernel = ive(ell + dim / 2 - 1, beta) / ive(dim / 2 - 1, beta)
    if dim == 3:
        ell = np.repeat(ell, 2 * ell + 1)
    derivatives = circle_derivatives if dim == 2 else sphere_derivatives
    jet = lambda c: derivatives(np.tile(c, (len(x), 1)), x)
    (f, f_grad, _), (z, z_grad, z_hess) = jet(coefficients), jet(kernel[ell] * coefficients)
    z_lap = np.trace(z_hess, axis1=1, axis2=2)
    if normalized:
        grad = z_grad / z[:, None] / beta
        lap = (z_lap / z - np.sum(z_grad**2, 1) / z**2) / beta
    else:  # in time units of c_0, which leave the powers of δ alone
        grad, lap = z_grad / beta, z_lap / beta
    return jet(change)[0] + np.sum(f_grad * grad, 1) + f * lap


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("normalized", [True, False], ids=["SA", "USA"])
@pytest.mark.parametrize(("dim", "beta"), [(2, 5.0), (3, 3.0)])
def test_residual_of_any_pattern(dim, beta, normalized, order):
    # f = Σ z^j u_j moves by ∂_t f = Σ jλ z^j u_j; what the PDE leaves is of order z^{N+1}.
    rng = np.random.default_rng(1)
    flow = attention_interaction(beta, dim, normalized=normalized)
    mode = expand(flow, 1).mode
    pattern = 0.3 - 0.4j if dim == 2 else rng.standard_normal(2 * mode + 1) / 4
    found = expand(flow, order, pattern=pattern)
    x = rng.standard_normal((40, dim))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    clock = 1.0 if normalized else found.rate / growth_rates(beta, dim, mode)[-1]
    errors = []
    for z in (0.02, 0.04, 0.08):
        powers = z ** np.arange(order + 1)
        change = (np.arange(order + 1) * found.rate / clock * powers) @ found.orders
        left = residual(powers @ found.orders, change, dim, beta, normalized, x)
        errors.append(np.max(np.abs(left)))
    np.testing.assert_allclose(slopes(errors), order + 1, atol=0.1)


@pytest.mark.parametrize("dim", [2, 3])
def test_a_zonal_pattern_is_the_zonal_expansion(dim):
    flow = attention_interaction(3.0, dim)
    zonal = expand(flow, 3)
    own = (
        0.5 if dim == 2 else np.eye(2 * zonal.mode + 1)[zonal.mode] / math.sqrt(2 * zonal.mode + 1)
    )
    full = expand(flow, 3, pattern=own).orders
    if dim == 2:  # e^{±ikθ} against √2 cos kθ
        full = full * np.where(np.arange(full.shape[1]) > 0, math.sqrt(2), 1)
        np.testing.assert_allclose(full, zonal.orders, atol=1e-14)
    else:
        ell = np.arange(zonal.orders.shape[1])
        np.testing.assert_allclose(full[:, ell**2 + ell], zonal.orders, atol=1e-13)
        assert np.linalg.norm(full) == pytest.approx(np.linalg.norm(zonal.orders), rel=1e-13)


def test_any_potential_includes_attention():
    plain = expand(attention_interaction(2.0, 4, normalized=False), 3, mode=1)
    potential = zonal_potential(lambda s: np.exp(2 * s) / 2, 4, 12)
    np.testing.assert_allclose(expand(potential, 3, mode=1).orders, plain.orders, atol=1e-11)


def test_shape_of_the_first_order_and_times():
    found = expand(attention_interaction(5.0, 8), 2)
    s = np.linspace(-1, 1, 7)
    own = found.orders[1] @ zonal_harmonics(s, 8, found.orders.shape[1] - 1)
    np.testing.assert_allclose(own, gegenbauer(s, 8, found.mode)[-1], atol=1e-13)
    later = found.at(1e-3, [0.0, 2.0])
    assert later.shape == (2, found.orders.shape[1])
    np.testing.assert_allclose(later[1], found.at(1e-3 * math.exp(2 * found.rate)), rtol=1e-13)
    np.testing.assert_allclose(found.at(0.1, order=1), found.orders[0] + 0.1 * found.orders[1])


def test_bad_arguments_are_named():
    flow = attention_interaction(5.0, 2)
    with pytest.raises(ValueError, match="order"):
        expand(flow, 0)
    with pytest.raises(ValueError, match="pattern"):
        expand(attention_interaction(5.0, 8), 2, pattern=[1.0])
    with pytest.raises(ValueError, match="pattern"):
        expand(attention_interaction(5.0, 3), 2, pattern=[1.0])
    with pytest.raises(ValueError, match="resonate"):
        # W = cos θ + a cos 2θ with 2λ_1 = λ_2: 2·½ = 4·(a/2).
        expand(zonal_potential(lambda s: s + 0.5 * (2 * s**2 - 1), 2, 4), 2, mode=1)
    with pytest.raises(ValueError, match="beta"):
        attention_interaction(-1.0, 2)
    with pytest.raises(ValueError, match="normalized"):
        attention_interaction(800.0, 2, normalized=False)
