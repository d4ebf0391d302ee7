"""Smoothness of attention, and how fast random tokens follow their limits; claims: same, larger.

Sources: Castin, Ablin, Peyré, arXiv:2312.14820 (Lipschitz constants); Sznitman (1991), Fournier and
Guillin (2015) (propagation of chaos); arXiv:2312.10794, Theorem 6.9 (deviation from γ_β).
"""

from __future__ import annotations

import diffrax
import numpy as np
from scipy.stats import vonmises

import metastable as ms
from metastable.core.numerics import jax, jnp
from metastable.observe import sobolev_distance
from metastable.theory.equiangular import equiangular_cosine
from metastable.theory.smoothness import (
    mean_field_lipschitz,
    propagation_of_chaos,
    token_lipschitz,
)

STEPPER = ms.Adaptive(rtol=1e-7, atol=1e-7, solver=diffrax.Tsit5())


def power(x, y) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


@jax.jit
def _derivative(points, beta):
    attend = lambda x: ms.SelfAttention(beta).velocity(ms.Points(x, on_sphere=False))
    return jax.jacfwd(attend)(points)


def local_lipschitz(points: np.ndarray, beta: float) -> float:
    """Spectral norm of the derivative of (x_i) ↦ (Σ_j P_ij x_j) at these tokens of R^d."""
    return float(np.linalg.norm(np.reshape(_derivative(points, beta), (points.size,) * 2), 2))


def one_leader(tokens: int, beta: float, half: bool) -> np.ndarray:
    """A token at 1 and the others at a in [0, 1), which look at it: all (a = ½), or half of each.

    Half a look, βa(1−a) = log(n−1), adds the derivative of the weights to that of the leader.
    """
    a = 0.5 - np.sqrt(0.25 - np.log(tokens - 1) / beta) if half else 0.5
    return np.append(1.0, np.full(tokens - 1, a))[:, None]


def ball(tokens: int, dim: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    direction = random.normal(size=(tokens, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return direction * random.uniform(size=(tokens, 1)) ** (1 / dim)


def check_lipschitz(sizes: list[int]) -> None:
    beta = 60.0
    measured = []
    for tokens in sizes:
        bound = token_lipschitz(1.0, beta, tokens=tokens)
        full, half = (local_lipschitz(one_leader(tokens, beta, h), beta) for h in (False, True))
        print(f"n={tokens}: {full:.2f}, {half:.2f} ≤ {bound:.1f}")
        assert full < half < bound
        measured.append(full)
    assert abs(power(sizes, measured) - 0.5) < 0.01
    for tokens in sizes:
        for beta in (1.0, 3.0, 10.0):
            norm = local_lipschitz(ball(tokens // 2, 2, seed=tokens), beta)
            assert norm < token_lipschitz(1.0, beta, tokens=tokens // 2)
    # Where b = βR² is small, no number of tokens can do harm.
    free = [local_lipschitz(one_leader(tokens, 1.0, half=False), 1.0) for tokens in sizes]
    print(f"β = 1: {free} ≤ {mean_field_lipschitz(1.0, 1.0):.2f}")
    assert max(free) < min(mean_field_lipschitz(radius=1.0, beta=1.0), np.sqrt(sizes[0]))


def check_chaos(sizes: list[int], seeds: int, tolerance: float) -> None:
    """Random tokens of a von Mises density, against the flow of its quantiles, at t = 1.

    The mean-field copy x̄_i of each token rides on the quantiles without mass. A token's own mass
    bends the power law by e^β/n, so β is small.
    """
    field, horizon, fine = ms.SelfAttention(2.0), 1.0, 200
    place = lambda angles: np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    quiet = place(vonmises.ppf((np.arange(fine) + 0.5) / fine, 1.0))

    def end(measure):
        return ms.flow(measure, field, horizon, frames=2, stepper=STEPPER).frames[-1].points

    measures, copies = [], []
    for tokens in sizes:
        start = place(np.random.default_rng(tokens).vonmises(0.0, 1.0, size=(seeds, tokens)))
        masses = np.repeat([1.0, 0.0], [fine, tokens])
        carried = lambda x, w=masses: end(ms.Points(jnp.concatenate([quiet, x]), w))
        limit = np.asarray(jax.jit(jax.vmap(carried))(start))
        moved = np.asarray(jax.jit(jax.vmap(lambda x: end(ms.Points(x))))(start))
        reference = ms.Points(limit[0, :fine])
        apart = [sobolev_distance(ms.Points(x), s=1.0, other=reference) for x in moved]
        measures.append(np.sqrt(np.mean(np.square(apart))))
        copies.append(np.sqrt(np.mean(np.sum((moved - limit[:, fine:]) ** 2, axis=-1))))
    rates = power(sizes, measures), power(sizes, copies)
    print(f"H^(-1) power {rates[0]:.3f}, tokens {rates[1]:.3f}")
    for rate in rates:
        assert abs(rate - propagation_of_chaos(2).token_exponent) < tolerance


def check_equiangular_deviation(dims: list[int], pairs_per_dim: int) -> tuple[float, float]:
    """Powers of |⟨x_i,x_j⟩ − γ_β(t)| for 32 uniform tokens at t = 1, β = 1.

    Root mean square against d; and the level passed with probability 1/d against √(log d/d). At
    fixed n the typical deviation has no logarithm: that one is the price of certainty.
    """
    tokens, beta, horizon = 32, 1.0, 1.0
    gamma = float(equiangular_cosine(horizon, beta, tokens))
    above = np.triu_indices(tokens, 1)
    field = ms.SelfAttention(beta)
    typical, rare = [], []
    for dim in dims:
        seeds = max(8, pairs_per_dim * dim // above[0].size)
        errors = []
        for seed in range(seeds):
            start = ms.uniform(tokens, dim, seed=seed)
            last = ms.flow(start, field, horizon, frames=2, stepper=STEPPER).points[-1]
            errors.append(np.abs(last @ last.T - gamma)[above])
        typical.append(np.sqrt(np.mean(np.square(errors))))
        rare.append(np.quantile(errors, 1 - 1 / dim))
    d = np.array(dims, float)
    powers = power(d, typical), power(np.sqrt(np.log(d) / d), rare)
    print(f"typical {powers[0]:.3f} in d, rare {powers[1]:.3f} in √(log d/d)")
    return powers


def test_derivative_stays_below_the_bounds_and_grows_like_the_root_of_n():
    check_lipschitz([32, 64, 128])


def test_random_tokens_follow_the_mean_field():
    check_chaos([100, 400], seeds=128, tolerance=0.1)


def test_deviation_from_the_equiangular_curve():
    typical, _ = check_equiangular_deviation([64, 512], pairs_per_dim=10)
    assert abs(typical + 0.5) < 0.05
