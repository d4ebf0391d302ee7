"""Which tokens a low-rank sum goes through."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from metastable.core.numerics import jax, jnp

SIZES = (
    16,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    4096,
)  # ranks among which is chosen
# Those that are compiled: a GPU has done four times as many pivots before it has compiled one more.
COMPILED = {"cpu": SIZES, "gpu": (64, 256, 1024, SIZES[-1])}
TRIED, CLOSE = 32, 0.25  # candidates of one round, and the part of the best they must reach
MANY_TRIED = 64  # the same on a CPU, where there are many tokens: one for every 128 of them
_EPS = float(np.finfo(float).eps)


class Pivots(NamedTuple):
    """Tokens in the order in which they were chosen, and what they leave."""

    indices: np.ndarray
    residuals: dict[int, np.ndarray]  # R_ii of all tokens, with the first 16, 32, … of them and all
    traces: list[tuple[int, float]]  # pivots so far and the mean of R_ii, after each round
    columns: np.ndarray | None  # G_Si, a row for each pivot; a GPU does not keep them


def find_pivots(
    points: np.ndarray, beta: float, weights: np.ndarray, most: int, enough: float = 0.0,
    hopeless: float = np.inf, real: int | None = None,
) -> Pivots:  # fmt: skip
    """The last of `search_pivots`."""
    *_, last = search_pivots(points, beta, weights, most, enough, hopeless, real)
    return last


def search_pivots(
    points: np.ndarray, beta: float, weights: np.ndarray, most: int, enough: float = 0.0,
    hopeless: float = np.inf, real: int | None = None, stages: tuple[int, ...] = (),
) -> Iterator[Pivots]:  # fmt: skip
    """Partial Cholesky of G by the largest residual, in blocks: n·r exponentials, n·r² products.

    Each round takes the tokens with the largest R_ii (counted more where they are heavy), and of
    these, one after the other, those that still have a quarter of the largest when the ones before
    them are known; it ends at one of `SIZES`. A round is one product of matrices, five times as
    fast as one pivot after the other and as good; cf. the accelerated random pivots of
    arXiv:2410.03969. No choice is random: lone tokens wait long for random pivots
    (arXiv:2207.06503), and the largest error in d = 64 is three times as large.

    Gives what there is at each of the numbers in `stages`, and in the end: when the mean of R_ii is
    below `enough`, or would miss `hopeless` at `most` pivots by a straight line through the last
    half of its logarithm, which flattens. The first `real` are tokens, others are padding of their
    array.
    """
    count = len(points) if real is None else real
    mass = np.where(np.arange(len(points)) < count, weights, 0.0)
    mass /= np.sum(mass)
    counted = np.where(np.arange(len(points)) < count, 0.5 * (1 + mass * count), 0.0)
    kind, size = (_OnHost, count) if jax.default_backend() == "cpu" else (_OnDevice, len(points))
    factor = kind(points[:size], float(beta), counted[:size], mass[:size], most)
    chosen: list[int] = []
    residuals: dict[int, np.ndarray] = {}
    traces = [(0, 1.0)]

    def so_far() -> Pivots:
        left = residuals | {len(chosen): factor.residual()[:count]}
        return Pivots(np.array(chosen, int), left, list(traces), factor.columns())

    while len(chosen) < min(most, count):
        stage = next((s for s in SIZES if len(chosen) < s < most), most)
        tried, score, inner = factor.candidates()
        kept, corner = _accept(inner, factor.counted[tried], CLOSE * score[0], stage - len(chosen))
        if not kept:
            break
        trace = factor.add(tried, kept, corner)
        chosen += tried[kept].tolist()
        traces.append((len(chosen), trace))
        if trace <= enough or _misses(traces, most, hopeless):
            break
        if len(chosen) == stage < most:
            residuals[stage] = factor.residual()[:count]
            if stage in stages:
                yield so_far()
    yield so_far()


def compiled_size(rank: int) -> int:
    """The rank that is compiled for so many pivots, on the device at hand."""
    sizes = COMPILED.get(jax.default_backend(), SIZES)
    return next(size for size in sizes if size >= rank)


class _OnHost:
    """The rows of the factor so far, and R_ii, in NumPy."""

    def __init__(self, x: Any, beta: float, counted: Any, mass: Any, most: int):
        x, self.counted, self.mass = np.asarray(x, float), counted, mass
        half, ones = -0.5 * beta * np.sum(x**2, axis=1, keepdims=True), np.ones((len(x), 1))
        # The product of a row of one with one of the other is −β‖x−y‖²/2.
        self.left = np.concatenate([beta * x, half, ones], axis=1)
        self.right = np.concatenate([x, ones, half], axis=1)
        # Pages of memory that are never written take no time.
        self.near, self.rows = np.empty((most, len(x))), np.empty((most, len(x)))
        self.rest, self.done = np.ones(len(x)), 0

    def candidates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tokens with the largest scores, these, and their residual matrix."""
        score = self.rest * self.counted
        most = min(max(TRIED, len(score) // 128), MANY_TRIED)  # wide products are faster
        tried = np.argpartition(-score, min(most, len(score) - 1))[:most]
        tried = tried[np.lexsort((tried, -score[tried]))]
        self.known = self.rows[: self.done, tried]
        inner = np.exp(self.left[tried] @ self.right[tried].T) - self.known.T @ self.known
        return tried, score[tried], inner

    def add(self, tried: np.ndarray, kept: list[int], corner: np.ndarray) -> float:
        """Enter those of the candidates that were kept; gives the mean of R_ii."""
        new, end = tried[kept], self.done + len(kept)
        near, rows = self.near[self.done : end], self.rows[self.done : end]
        np.exp(np.matmul(self.left[new], self.right.T, out=near), out=near)
        fresh = near - self.known[:, kept].T @ self.rows[: self.done]
        # No diagonal element is below half of another: the inverse of the corner is harmless. The
        # solver of SciPy would fight with the threads of NumPy over the cores.
        np.matmul(np.linalg.inv(corner), fresh, out=rows)
        self.rest = np.maximum(self.rest - np.einsum("ij,ij->j", rows, rows), 0.0)
        self.rest[new] = 0.0
        self.done = end
        return float(self.mass @ self.rest)

    def residual(self) -> np.ndarray:
        return self.rest

    def columns(self) -> np.ndarray:
        return self.near[: self.done]


class _OnDevice:
    """The same in JAX: the shapes are those of the whole factor, so that a round compiles once."""

    def __init__(self, x: Any, beta: float, counted: Any, mass: Any, most: int):
        self.counted = counted
        self.given = tuple(jnp.asarray(each, float) for each in (x, beta, counted, mass))
        room = next(size for size in COMPILED["gpu"] if size >= most)
        self.rest, self.rows = jnp.ones(len(x)), jnp.zeros((room + TRIED, len(x)))
        self.done = 0

    def candidates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tried, score, inner = _best(self.rows, self.rest, *self.given[:3])
        return np.asarray(tried), np.asarray(score), np.asarray(inner)

    def add(self, tried: np.ndarray, kept: list[int], corner: np.ndarray) -> float:
        free = TRIED - len(kept)  # rows that stay zero
        new = np.pad(tried[kept], (0, free))
        padded = np.eye(TRIED)
        padded[: len(kept), : len(kept)] = corner
        used = np.arange(TRIED) < len(kept)
        self.rows, self.rest, trace = _extend(
            self.rows, self.rest, *self.given, new, used, padded, np.asarray(self.done)
        )
        self.done += len(kept)
        return float(trace)

    def residual(self) -> np.ndarray:
        return np.asarray(self.rest)

    def columns(self) -> None:
        return None


@jax.jit
def _best(rows: Array, rest: Array, x: Array, beta: Array, counted: Array) -> Any:
    score, tried = jax.lax.top_k(rest * counted, min(TRIED, len(rest)))
    known = rows[:, tried]
    return tried, score, _gaussian(x[tried], x[tried], beta) - known.T @ known


@partial(jax.jit, donate_argnums=(0, 1))
def _extend(
    rows: Array, rest: Array, x: Array, beta: Array, counted: Array, mass: Array, new: Array,
    used: Array, corner: Array, done: Array,
) -> Any:  # fmt: skip
    fresh = _gaussian(x[new], x, beta) - rows[:, new].T @ rows
    block = jax.scipy.linalg.solve_triangular(
        corner, jnp.where(used[:, None], fresh, 0), lower=True
    )
    rows = jax.lax.dynamic_update_slice(rows, block, (done, 0))
    rest = jnp.maximum(rest - jnp.sum(block**2, axis=0), 0.0)
    rest = rest.at[jnp.where(used, new, len(rest))].set(0.0, mode="drop")
    return rows, rest, mass @ rest


def _gaussian(x: Array, y: Array, beta: Array) -> Array:
    half = lambda z: 0.5 * jnp.sum(z * z, axis=1)
    return jnp.exp(beta * (x @ y.T - half(x)[:, None] - half(y)))


def _accept(
    inner: np.ndarray, counted: np.ndarray, least: float, most: int
) -> tuple[list[int], np.ndarray]:
    """Pivots of a small residual matrix, the largest first, and their Cholesky factor."""
    left, kept, rows = np.diag(inner).copy(), [], []
    while len(kept) < min(most, len(left)):
        i = int(np.argmax(left * counted))
        if left[i] * counted[i] < least or left[i] < 4 * _EPS:
            break
        row = inner[i] - sum((r * r[i] for r in rows), np.zeros(len(left)))
        if row[i] <= 0:
            break
        row = row / np.sqrt(row[i])
        rows.append(row)
        left = left - row**2
        left[i] = 0.0
        kept.append(i)
    return kept, np.tril(np.array(rows)[:, kept].T) if kept else np.empty((0, 0))


def _misses(traces: list[tuple[int, float]], most: int, hopeless: float) -> bool:
    last, now = traces[-1]
    if last < TRIED // 2 or now <= hopeless:
        return False
    first, before = next((k, t) for k, t in reversed(traces[:-1]) if k <= last // 2)
    slope = (np.log(now) - np.log(before)) / (last - first)
    return np.log(now) + slope * (most - last) > np.log(hopeless)
