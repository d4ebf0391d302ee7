"""Runs of pure attention in R^d: the matrices they start from, and what is read off their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from metastable.fields import Rescaled, SelfAttention
from metastable.flows import Trajectory, flow
from metastable.flows.steppers import Adaptive
from metastable.measures import Points
from metastable.observe import attention, clusters, hull, hull_contains
from metastable.theory.limits import polytope_residual

from .._slopes import fitted_slope

__all__ = [
    "dominated_value",
    "last_attention",
    "level_distance",
    "limit_corners",
    "log_rest",
    "occupied",
    "positive_query",
    "pure_run",
    "residual_rate",
    "skew_value",
]


def pure_run(
    start: Points, horizon: float, *, value: Any = None, query: Any = None, frames: int = 33
) -> Trajectory:
    """z = e^{−tV}x of pure attention with β = 1 and Q = K, from `start` in R^d."""
    field = Rescaled(SelfAttention(1.0, query, query, value))
    return flow(start, field, horizon, frames=frames, stepper=Adaptive(max_steps=30_000))


def limit_corners(measure: Points, tolerance: float = 1e-3) -> np.ndarray:
    """Vertices of the limit polytope: merged tokens outside the hull of the other ones."""
    places = clusters(measure, angle=tolerance).centres
    if len(places) < 2:
        return places
    outside = []
    for i, place in enumerate(places):
        others = hull(Points(np.delete(places, i, 0), on_sphere=False))
        outside.append(not hull_contains(others, place[None], tolerance / 10)[0])
    return places[np.array(outside)]


def residual_rate(times: np.ndarray, points: np.ndarray, root: Any, after: float = 6.0) -> float:
    """Rate r in max_i |‖Az_i‖² − max_j⟨Az_i,Av_j⟩| ~ e^{−rt}, v_j the corners of the last hull."""
    corners = hull(Points(points[-1], on_sphere=False)).points
    worst = np.array([polytope_residual(z, corners, root).max() for z in points])
    late = times >= after
    return -fitted_slope(times[late], np.log(worst[late]))


def last_attention(run: Trajectory, index: int = -1) -> np.ndarray:
    """The attention matrix P(t) of one frame of a run of `pure_run`."""
    field: Any = run.field
    a = field.attention
    tokens = field.tokens(run.frames[index], run.times[index])
    return np.asarray(attention(tokens, a.beta, a.query, a.key))


def log_rest(x: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """log(1 − P_{i,k(i)}) of the slowest decided row at each time; P itself rounds to 1 soon."""
    decided = np.flatnonzero(limit >= 0)
    logits = x[:, decided, None] * x[:, None, :]
    led = np.arange(x.shape[1]) == limit[decided, None]
    others = np.asarray(logsumexp(logits, axis=2, b=~led))
    return (others - np.asarray(logsumexp(logits, axis=2))).max(axis=1)


def skew_value(eigenvalues: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """V with these real eigenvalues in a random skew basis (columns of the second result)."""
    size = len(eigenvalues)
    random = np.random.default_rng(seed)
    basis = np.eye(size) + 0.35 * random.normal(size=(size, size))
    basis /= np.linalg.norm(basis, axis=0)
    return basis @ np.diag(eigenvalues) @ np.linalg.inv(basis), basis


def positive_query(dim: int, seed: int) -> np.ndarray:
    """A random rotation for even seeds (QᵀK = I with K = Q), else a random Q: QᵀK > 0."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(dim, dim))
    return np.eye(dim) + 0.3 * noise if seed % 2 else np.linalg.qr(noise)[0]


def dominated_value(dim: int, seed: int, ratio: float) -> np.ndarray:
    """Gaussian V, drawn until λ_1 is real, positive, simple and |λ_2| ≤ ratio λ_1."""
    random = np.random.default_rng([seed, dim])
    while True:
        value = random.normal(size=(dim, dim))
        first, second = sorted(np.linalg.eigvals(value), key=abs, reverse=True)[:2]
        if abs(first.imag) < 1e-9 and first.real > 0 and abs(second) <= ratio * first.real:
            return value / first.real


def level_distance(values: np.ndarray) -> float:
    """Largest distance of φ_1*(z_i) from {0, a, b}, in units of b − a."""
    # Without a token on one side of 0 that hyperplane is missing, and its level is 0.
    a, b = min(values.min(), 0.0), max(values.max(), 0.0)
    return float(np.abs(values[:, None] - np.array([0.0, a, b])).min(axis=1).max() / (b - a))


def occupied(values: np.ndarray) -> int:
    """How many different levels the tokens lie on, to a hundredth of the largest."""
    ranked = np.sort(values)
    return 1 + int(np.sum(np.diff(ranked) > 0.01 * np.abs(ranked).max()))
