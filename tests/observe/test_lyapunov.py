"""Lyapunov exponents against spectra and exactly solvable flows."""

import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jnp
from metastable.observe.equilibria import equilibrium
from metastable.observe.lyapunov import lyapunov_exponents


def linear(matrix):
    return ms.FeedForward(outer=np.asarray(matrix, float), activation=lambda x: x)


@pytest.mark.parametrize("normalized", [True, False])
def test_consensus(normalized):
    """The spectrum of consensus by hand: 0 (d−1 times) and −1, or −e^β for USA."""
    beta, n = 1.5, 4
    tokens = ms.Points(np.tile([0.0, 0.6, 0.8], (n, 1)))
    field = ms.SelfAttention(beta, normalized=normalized)
    found = lyapunov_exponents(tokens, field, 5.0, count=8, transient=40.0)
    pull = 1.0 if normalized else np.exp(beta)
    assert found == pytest.approx([0.0] * 2 + [-pull] * 6, abs=1e-7)


def test_a_run_that_gathers_has_the_exponents_of_consensus():
    tokens = ms.uniform(tokens=4, dim=3, seed=2)
    found = lyapunov_exponents(tokens, ms.SelfAttention(0.5), 20.0, count=8, transient=100.0)
    assert found == pytest.approx([0.0] * 2 + [-1.0] * 6, abs=1e-6)


def test_linear_flow_in_space():
    """ẋ = Ax: the real parts of the eigenvalues of A, once for each token."""
    a = [[0.5, 1.0, 0.0], [-1.0, 0.5, 0.3], [0.0, 0.0, -0.7]]
    tokens = ms.gaussian_points(tokens=2, dim=3)
    found = lyapunov_exponents(tokens, linear(a), 4 * np.pi, count=6, step=0.01, transient=30.0)
    assert found == pytest.approx([0.5] * 4 + [-0.7] * 2, abs=1e-3)


def test_linear_flow_on_the_sphere():
    """ẋ = P_x Ax tends to the top eigenvector, and then λ_k − λ_1 for the others."""
    a = np.diag([0.5, 0.1, -0.3]) + np.triu(np.ones((3, 3)), 1)
    found = lyapunov_exponents(ms.uniform(1, 3), linear(a), 5.0, count=2, step=0.01, transient=90.0)
    assert found == pytest.approx([-0.4, -0.8], abs=1e-8)


def test_phase_locked_oscillators():
    """φ̇ = Δω − K sin φ at lock: exponents 0 and −K cos φ, while both oscillators turn."""
    field = ms.Kuramoto(1.0, [0.1, 0.6])
    rate = -np.sqrt(1 - 0.5**2)
    tokens = ms.Points([[1.0, 0.0], [0.8, 0.6]])
    found = lyapunov_exponents(tokens, field, 10.0, count=2, step=0.01, transient=40.0)
    assert found == pytest.approx([0.0, rate], abs=1e-7)
    assert equilibrium(tokens, field).rate == pytest.approx(rate, abs=1e-10)


def test_a_field_that_changes_with_time():
    """ẋ = t·x on [0, T] grows by e^{T²/2}: the exponent is T/2, and needs the right clock."""
    field = ms.Schedule(lambda t: ms.FeedForward(outer=t, activation=lambda x: x))
    tokens = ms.Points(jnp.ones((1, 1)), on_sphere=False)
    found = lyapunov_exponents(tokens, field, 3.0, step=0.01)
    assert found == pytest.approx([1.5], abs=1e-8)


def test_refusals():
    tokens = ms.polygon(3)
    with pytest.raises(ValueError, match="count must be at most 3"):
        lyapunov_exponents(tokens, ms.SelfAttention(1.0), 1.0, count=4)
    with pytest.raises(ValueError, match="noise"):
        lyapunov_exponents(tokens, ms.Noise(1.0), 1.0)
    with pytest.raises(ValueError, match=r"step must be below 0\.02"):
        lyapunov_exponents(ms.gaussian_points(1, 1), linear([[-100.0]]), 1.0, step=0.1)
    square = ms.FeedForward(activation=lambda x: x**2)  # ẋ = x² blows up at t = 1
    with pytest.raises(ValueError, match="horizon must end before"):
        lyapunov_exponents(ms.Points([[1.0]], on_sphere=False), square, 3.0)
