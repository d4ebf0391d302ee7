"""The way to one cluster, and what is long-lived before it; the claims run the same at full size.

Sources: arXiv:2312.10794 (hemisphere, d ≥ n, d ≥ 3), arXiv:2405.18273 (d ≥ 3, every β ≥ 0),
arXiv:2507.22857 (d = 2, β ≥ −0.16), arXiv:2411.04990 (causal attention, Rényi centres),
arXiv:2410.06833 (caps: T_1, T_2), arXiv:2510.05554 (long contexts).
"""

from __future__ import annotations

import math

import diffrax
import numpy as np
import pytest

import metastable as ms
from metastable.core.numerics import jax
from metastable.theory.causal import (
    greedy_centres,
    log_persistence_time,
    separation,
    strong_centres,
)
from metastable.theory.configurations import regular_simplex
from metastable.theory.context import critical_scaling, layer_correlation
from metastable.theory.metastability import cross_alignment, metastability_bounds
from metastable.theory.regimes import single_cluster_theorem

# name of the theorem: tokens, dimension, whether Q and K are random matrices, horizon
CASES = {
    "high dimension": (6, 8, True, 400.0),
    "hemisphere": (12, 3, True, 400.0),
    "sphere": (12, 3, False, 400.0),
    "circle": (8, 2, False, 1000.0),
    "causal": (8, 3, True, 400.0),
}
AT_REST = 1e-9  # far below the speed of any metastable state at β ≤ 3


def verdicts(name: str, runs: int, normalized: bool = True) -> dict[str, int]:
    """Random runs inside the hypotheses of a theorem: one cluster, still moving, or contradiction.

    β is uniform on [0, 3], on the circle on [−0.16, 3] (a negative β is its modulus with Q = −I).
    A contradiction stands still in another state, or (causal) away from the first token's start.
    """
    tokens, dim, matrices, horizon = CASES[name]
    causal = name == "causal"
    random = np.random.default_rng(sorted(CASES).index(name))
    x = random.normal(size=(runs, tokens, dim))
    if name == "hemisphere":
        x[..., 0] = np.abs(x[..., 0])
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    beta = random.uniform(-0.16 if name == "circle" else 0.0, 3.0, size=runs)
    query, key = np.sign(beta), np.ones(runs)
    if matrices:
        query, key = random.normal(size=(2, runs, dim, dim)) / math.sqrt(dim)
    for k in range(runs):
        found = single_cluster_theorem(
            beta[k],
            dim,
            tokens=tokens,
            query=query[k] if matrices else None,
            key=key[k] if matrices else None,
            causal=causal,
            normalized=normalized,
            hemisphere=True if name == "hemisphere" else None,
        )
        assert found is not None and found.name == name

    def end(x, beta, query, key):
        field = ms.SelfAttention(beta, query, key, normalized=normalized, causal=causal)
        stepper = ms.Adaptive(rtol=1e-7, atol=1e-9, solver=diffrax.Tsit5())
        last = ms.flow(ms.Points(x), field, horizon, frames=2, stepper=stepper).frames[-1]
        return last.points, field.velocity(last)

    last, velocity = jax.jit(jax.vmap(end))(x, np.abs(beta), query, key)
    speed = np.linalg.norm(velocity, axis=-1).max(axis=1)
    goal = x[:, :1] if causal else last[:, :1]
    together = np.linalg.norm(last - goal, axis=-1).max(axis=1) < 1e-5
    seen = {
        "one cluster": int(together.sum()),
        "still moving": int((~together & (speed > AT_REST)).sum()),
        "contradiction": int((~together & (speed <= AT_REST)).sum()),
    }
    print(f"{name} ({'SA' if normalized else 'USA'}): {seen}")
    return seen


def arc(a, b):
    return np.abs((a - b + np.pi) % (2 * np.pi) - np.pi)


def find_strong_centres(angles: np.ndarray, distance: float) -> np.ndarray:
    """Indices of tokens farther than `distance` from every earlier one."""
    earlier = np.tri(len(angles), k=-1, dtype=bool)
    gaps = np.where(earlier, arc(angles[:, None], angles[None]), np.inf)
    return np.flatnonzero(gaps.min(axis=1) > distance)


def count_greedy_centres(angles: np.ndarray, distance: float) -> int:
    kept: list[float] = []
    for angle in angles:
        if np.all(arc(angle, np.array(kept)) > distance):
            kept.append(angle)
    return len(kept)


def check_centre_counts(draws: int) -> None:
    tokens, distance = 200, separation(64.0)
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, size=(draws, tokens))
    for label, counts, expected in [
        (
            "strong",
            [find_strong_centres(row, distance).size for row in angles],
            strong_centres(distance, 2, tokens),
        ),
        (
            "greedy",
            [count_greedy_centres(row, distance) for row in angles],
            greedy_centres(distance, tokens),
        ),
    ]:
        error = np.std(counts, ddof=1) / math.sqrt(draws)
        print(f"{label} centres: {np.mean(counts):.3f} ± {error:.3f} ({expected:.3f})")
        assert abs(np.mean(counts) - expected) < 3.3 * error


def check_centres_stay(seeds: int) -> None:
    """Strong centres at c(1+2ε)β^{−1/2} stay within εcβ^{−1/2} up to their own time T_s."""
    beta, tokens, drift = 64.0, 200, 0.1
    reach = drift * separation(beta)
    for seed in range(seeds):
        angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, tokens)
        centres = find_strong_centres(angles, (1 + 2 * drift) * separation(beta))
        until = np.exp([log_persistence_time(beta, int(s) + 1, drift=drift) for s in centres])
        run = ms.flow(
            ms.Points(np.column_stack([np.cos(angles), np.sin(angles)])),
            ms.SelfAttention(beta, causal=True),
            horizon=float(until.max()),
            frames=401,
        )
        moved = arc(np.arctan2(run.points[..., 1], run.points[..., 0]), angles)  # (time, token)
        worst = np.where(run.times[:, None] <= until, moved[:, centres], 0.0).max()
        others = np.delete(moved[-1], centres)
        print(f"{centres.size} centres moved ≤ {worst:.1e}; median other {np.median(others):.2f}")
        assert worst < reach
        assert np.median(others) > reach  # the bound says something


def check_caps(dim: int, normalized: bool, seed: int) -> None:
    """Three tokens in each of d+1 caps: collapsed from T_1 on, in the doubled caps up to T_2."""
    beta, epsilon, each = 16.0, 0.01, 3
    centres = regular_simplex(dim).points
    home = np.repeat(np.arange(dim + 1), each)
    alpha = cross_alignment(math.acos(-1 / dim), epsilon)
    bounds = metastability_bounds(beta, home.size, epsilon, alpha, normalized=normalized)
    assert bounds is not None
    first, last = math.exp(bounds.log_collapse), math.exp(bounds.log_persistence)
    run = ms.flow(
        ms.caps(each, centres, math.acos(1 - epsilon), seed=seed),
        ms.SelfAttention(beta, normalized=normalized),
        horizon=last,
        frames=np.geomspace(first, last, 21),
    )
    x = run.points
    inside = np.einsum("tnd,nd->tn", x, centres[home]).min()
    apart = np.sum((x[:, :, None] - x[:, None]) ** 2, axis=-1)
    apart = np.where(home[:, None] == home, apart, 0.0).max(axis=(1, 2))
    allowed = 2 * math.exp(-bounds.rate * beta)
    print(
        f"d={dim} {run.clock}: T_1 = {first:.3g}, T_2 = {last:.3g}; ‖x_i−x_j‖² from {apart[0]:.2g} "
        f"to {apart[1:].max():.1e} ≤ {allowed:.2g}; ⟨x,w⟩ ≥ {inside:.4f} (bound {1 - 2 * epsilon})"
    )
    assert run.outcome.name == "done"
    assert apart[1:].max() <= allowed < apart[0]
    assert inside >= 1 - 2 * epsilon


def check_long_context(sizes: list[int]) -> None:
    """One layer without residual branch on n tokens of common correlation ρ, β = γ log n.

    γ(1−ρ) below, at and above 1: the limits 1, 4ρ/(1+3ρ) and ρ, approached as n grows.
    """
    rho = 0.5
    for gamma in np.array([0.5, 1.0, 2.0]) * critical_scaling(rho):
        errors = []
        for tokens in sizes:
            start = np.linalg.cholesky((1 - rho) * np.eye(tokens) + rho)
            attention = ms.SelfAttention(gamma * math.log(tokens))
            output = ms.from_array(attention.velocity(ms.Points(start, on_sphere=False))).points
            seen = np.asarray(output @ output.T)[np.triu_indices(tokens, 1)]
            assert np.abs(seen - layer_correlation(rho, gamma, tokens)).max() < 1e-12
            errors.append(abs(seen.mean() - layer_correlation(rho, gamma)))
        print(f"γ = {gamma:g}: limit {layer_correlation(rho, gamma):.3f}, errors {errors}")
        assert all(np.diff(errors) < 0) and errors[-1] < 1 / math.sqrt(sizes[-1])


@pytest.mark.parametrize("name", ["high dimension", "circle", "causal"])
def test_random_runs_end_in_one_cluster(name):
    seen = verdicts(name, runs=20)
    assert seen["contradiction"] == 0
    assert seen["one cluster"] >= 0.95 * 20


def test_counts_of_renyi_centres():
    check_centre_counts(draws=200)


def test_strong_centres_stay():
    check_centres_stay(seeds=1)


def test_caps_collapse_and_persist():
    check_caps(3, normalized=True, seed=0)


def test_one_layer_of_a_long_context():
    check_long_context([64, 256])
