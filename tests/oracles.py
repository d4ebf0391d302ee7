"""Independent velocities and exact solutions, by brute force in NumPy, SciPy and PyTorch.

Nothing here imports metastable: these are the second witness. All arrays are float64, all sums are
full n × n arrays, and every formula is written out from its definition.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ive


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def project(x, a):
    """P_x a = a − ⟨x,a⟩x."""
    return a - np.einsum("id,id->i", x, a)[:, None] * x


def apply(operator, x):
    """Rows of x through None (identity), a number or a matrix."""
    if operator is None:
        return x
    return operator * x if np.ndim(operator) == 0 else np.einsum("pd,nd->np", operator, x)


def weighted_softmax(logits, weights):
    """Rows p_ij ∝ w_j e^{logits_ij}, and log Σ_j w_j e^{logits_ij}."""
    shift = logits.max(axis=1, where=weights > 0, initial=-np.inf)[:, None]
    k = np.where(weights > 0, np.exp(np.minimum(logits - shift, 0)), 0.0) * weights
    return k / k.sum(1)[:, None], (shift + np.log(k.sum(1))[:, None])[:, 0]


def attention(
    x, weights, beta, query=None, key=None, value=None, normalized=True, at=None, bias=None
):
    """The unprojected attention vector; `bias` is added to the logits."""
    at = x if at is None else at
    logits = beta * np.einsum("ip,jp->ij", apply(query, at), apply(key, x))
    p, log_mass = weighted_softmax(logits if bias is None else logits + bias, weights)
    mean = p @ apply(value, x)
    return mean if normalized else np.exp(log_mass)[:, None] * mean


def causal_bias(row_times, column_times):
    return np.where(column_times[None, :] <= row_times[:, None], 0.0, -np.inf)


def sinkhorn_coupling(logits, weights, sweeps=20_000):
    """π_ij = w_i w_j a_i b_j e^{logits_ij} with row sums w_i and column sums w_j; plain domain."""
    k = weights[:, None] * np.exp(logits - logits.max()) * weights
    live = weights > 0
    a, b = np.ones(len(weights)), np.ones(len(weights))
    for _ in range(sweeps):
        before = b
        a = np.where(live, weights / np.where(live, k @ b, 1), 0)
        b = np.where(live, weights / np.where(live, k.T @ a, 1), 0)
        if np.max(np.abs(b - before)) <= 1e-15 * np.max(b):
            break
    return a[:, None] * k * b


def rope_matrix(time, dim, base):
    """Block diagonal rotation by time/base^{2k/dim} in the plane (2k, 2k+1)."""
    r = np.zeros((dim, dim))
    for k in range(dim // 2):
        a = time / base ** (2 * k / dim)
        r[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
    return r


def sinusoids(count, dim, base=10000.0):
    p = np.zeros((count, dim))
    for i in range(count):
        for c in range(dim):
            a = i / base ** (2 * (c // 2) / dim)
            p[i, c] = np.sin(a) if c % 2 == 0 else np.cos(a)
    return p


def perceptron(x, outer, inner, bias, activation):
    """w σ(a x + b) by PyTorch in float64; a test that asks is skipped where PyTorch is not."""
    torch = pytest.importorskip("torch")
    gelu = lambda z: torch.nn.functional.gelu(z, approximate="tanh")
    sigma = gelu if activation == "gelu" else getattr(torch, activation)
    t = lambda a: torch.as_tensor(np.array(a), dtype=torch.float64)
    hidden = torch.nn.functional.linear(t(x), t(inner), t(bias))
    return torch.nn.functional.linear(sigma(hidden), t(outer)).numpy()


def energy(x, weights, beta, matrix=None):
    """(1/2β) ΣΣ w_i w_j e^{β⟨M x_i, x_j⟩}."""
    return weights @ np.exp(beta * apply(matrix, x) @ x.T) @ weights / (2 * beta)


def integrate(rhs, start, times, rtol=1e-12, atol=1e-14):
    """Frames of ẏ = rhs(t, y) at the given times by SciPy's DOP853, shape (T, *start.shape)."""
    shape = np.shape(start)
    flat = lambda t, y: np.ravel(rhs(t, y.reshape(shape)))
    out = solve_ivp(
        flat, (times[0], times[-1]), np.ravel(start), "DOP853", times, rtol=rtol, atol=atol
    )
    return out.y.T.reshape(-1, *shape)


def equiangular(times, n, beta, normalized=True):
    """γ(t) of n tokens that start orthogonal (arXiv:2312.10794, eq. for γ_β)."""

    def rhs(_, g):
        speed = 2 * np.exp(beta * g) * (1 - g) * ((n - 1) * g + 1)
        return speed / (np.exp(beta) + (n - 1) * np.exp(beta * g) if normalized else n)

    return integrate(rhs, np.zeros(1), times, rtol=1e-13, atol=1e-15)[:, 0]


def two_clusters(times, beta, masses, angle, normalized=True):
    """The angle between two clusters: φ̇ = −θ̇_1 − θ̇_2 with their softmax masses."""
    a, b = masses

    def rhs(_, phi):
        pull = np.exp(beta * np.cos(phi)) * np.sin(phi)
        z1 = a * np.exp(beta) + b * np.exp(beta * np.cos(phi)) if normalized else 1.0
        z2 = b * np.exp(beta) + a * np.exp(beta * np.cos(phi)) if normalized else 1.0
        return -b * pull / z1 - a * pull / z2

    return integrate(rhs, np.array([angle]), times, rtol=1e-13, atol=1e-15)[:, 0]


def placed_equiangular(times, n, beta, scale, growth):
    """(γ, r) of n orthogonal tokens under θ̇ = PA/s, ṙ = growth, in SA.

    `scale(r, size, t)` is s and `growth(along, size)` is ṙ, with along = ⟨θ,A⟩ and size = ‖A‖.
    """

    def rhs(t, y):
        g, r = y
        e, f = np.exp(beta), np.exp(beta * g)
        z = e + (n - 1) * f
        along = (e + (n - 1) * f * g) / z
        square = e**2 + 2 * e * f * (n - 1) * g + f**2 * ((n - 1) + (n - 1) * (n - 2) * g)
        size = np.sqrt(square) / z
        post = 2 * f * (1 - g) * ((n - 1) * g + 1) / z
        return np.array([post / scale(r, size, t), growth(along, size)])

    return integrate(rhs, np.array([0.0, 1.0]), times)


def resultant_length(dim, kappa):
    """A_d(κ) = I_{d/2}(κ)/I_{d/2−1}(κ), the mean of ⟨x,centre⟩ under von Mises–Fisher."""
    return ive(dim / 2, kappa) / ive(dim / 2 - 1, kappa)
