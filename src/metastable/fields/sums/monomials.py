"""Features of S^{d−1} for d ≥ 4: the monomials of degrees K and K − 1, by matrix products.

On the sphere the homogeneous polynomials of these two degrees are all polynomials of degree ≤ K,
that is all harmonics up to K. They have no poles and need no recursion: with x = (u, v) split into
halves a monomial is one of u times one of v, so that moments are matrix products between the two.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

from metastable.core.numerics import jnp

Moments = tuple[Float[Array, "u c v"], ...]


def features(dim: int, degree: int) -> tuple[Callable, Callable, Callable]:
    """`gather(x, charges)`, `smooth(moments, a)` and `scatter(x, series)`, see `harmonic.features`.

    Moments are a tuple over groups of degrees in u, each of shape (monomials of u, channels,
    monomials of v). Monomials are normalised, √(k!/α!) x^α, hence at most 1.
    """
    half, groups = dim // 2, _groups(dim, degree)

    def halves(x: Array) -> tuple[Array, Array]:
        axes = x.T
        return _monomials(axes[:half], degree), _monomials(axes[half:], degree)

    def gather(x: Array, charges: Array) -> Moments:
        u, v = halves(x)
        charged = lambda rows: (u[rows, None] * charges.T).reshape(-1, x.shape[0])
        return tuple(
            (charged(rows) @ v[columns].T).reshape(
                -1, charges.shape[1], columns.stop - columns.start
            )
            for rows, columns in groups
        )

    def smooth(moments: Moments, a: Array) -> Moments:
        flat = jnp.concatenate([m.swapaxes(1, 2).reshape(-1, m.shape[1]) for m in moments])
        series = _smooth(flat, a, dim, degree)
        cuts = np.cumsum([m.shape[0] * m.shape[2] for m in moments])[:-1]
        parts = jnp.split(series, cuts)
        return tuple(
            part.reshape(m.shape[0], m.shape[2], -1).swapaxes(1, 2)
            for part, m in zip(parts, moments, strict=True)
        )

    def scatter(x: Array, series: Moments) -> Array:
        u, v = halves(x)
        total = jnp.zeros((series[0].shape[1], x.shape[0]), x.dtype)
        for (rows, columns), part in zip(groups, series, strict=True):
            by_row = part.reshape(-1, part.shape[2]) @ v[columns]
            total += jnp.sum(by_row.reshape(*part.shape[:2], -1) * u[rows, None], axis=0)
        return total.T

    return gather, smooth, scatter


def _monomials(axes: Float[Array, "p b"], degree: int) -> Float[Array, "f b"]:
    """√(k!/α!) x^α for |α| = k = 0..degree, in the order of `_exponents`."""
    powers = jnp.ones_like(axes)[None]
    while powers.shape[0] <= degree:
        more = powers[: degree + 1 - powers.shape[0]] * axes
        axes, powers = axes * axes, jnp.concatenate([powers, more])
    every = np.concatenate([_exponents(powers.shape[1], k) for k in range(degree + 1)])
    result = jnp.asarray(np.sqrt(_multinomials(every))[:, None], axes.dtype)
    for axis, exponent in enumerate(every.T):
        result *= powers[exponent, axis]
    return result


def _groups(dim: int, degree: int) -> list[tuple[slice, slice]]:
    """Rows of u and of v that are multiplied with each other, group by group.

    A group takes some degrees k of u, and those of v that complete them to K or K − 1. With few
    axes the products of a single degree are too small to be fast: in d = 4 three degrees together
    do twice the operations in half the time.
    """
    size = {4: 3, 5: 2}.get(dim, 1)
    until = lambda axes, k: math.comb(k + axes - 1, axes)  # monomials of degree below k
    half, result = dim // 2, []
    for k in range(0, degree + 1, size):
        stop = min(k + size, degree + 1)
        low, high = max(degree - stop, 0), degree - k + 1
        rows = slice(until(half, k), until(half, stop))
        result.append((rows, slice(until(dim - half, low), until(dim - half, high))))
    return result


def _smooth(flat: Float[Array, "f c"], a: Array, dim: int, degree: int) -> Float[Array, "f c"]:
    """Σ_k a_k ⟨x,y⟩^k as an operator between the monomials of degrees K and K − 1.

    Because |x| = 1, moments of degree k are sums of those of degree k + 2, Σ_i x_i² x^α = x^α, and
    a polynomial of degree k is one of degree k + 2. So moments go down by twos, meet a_k k!/α!,
    and come up again. All terms of ⟨x,y⟩^k = Σ_α (k!/α!) x^α y^α together are at most 1 in size.
    """
    layout, none = _layout(dim, degree), jnp.zeros((1, flat.shape[1]), flat.dtype)
    sizes = jnp.asarray(layout.sizes[:, None], flat.dtype)
    moments = {degree: _sum_of_rows(flat / sizes, layout.rows[None])}  # of degrees k and k − 1
    for k in range(degree - 2, -1, -2):
        moments[k] = _sum_of_rows(moments[k + 2], _raised(dim, k))
    total = none
    for k in reversed(moments):
        counts, weights = _weights(dim, k)
        levels = jnp.concatenate([jnp.broadcast_to(a[k - i], (n,)) for i, n in enumerate(counts)])
        here = (levels * jnp.asarray(weights, flat.dtype))[:, None] * moments[k]
        if k > 1:
            here += _sum_of_rows(total, _lowered(dim, k))
        total = jnp.concatenate([here, none])  # the last row, where there is no such monomial
    return _sum_of_rows(total, layout.back[None]) / sizes


def _sum_of_rows(array: Array, rows: Int[np.ndarray, "p f"]) -> Array:
    # One gather per axis: the CPU is forty times slower at a sum over the axis of one large gather.
    # Rows are in bounds, and saying so spares the compiler half of its work.
    take = lambda row: array.at[row].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return functools.reduce(jnp.add, [take(row) for row in rows])


class _Layout(NamedTuple):
    """Where the monomials x^α of degrees K and K − 1 lie among the products of u and v.

    `sizes`: the factor of each product before x^α. `rows`: the product that is each monomial, those
    of degree K first. `back`: the monomial that each product is, or one more than there are.
    """

    sizes: Float[np.ndarray, " f"]
    rows: Int[np.ndarray, " a"]
    back: Int[np.ndarray, " f"]


@lru_cache(maxsize=16)
def _layout(dim: int, degree: int) -> _Layout:
    half = dim // 2
    u, v = (
        np.concatenate([_exponents(axes, k) for k in range(degree + 1)])
        for axes in (half, dim - half)
    )
    pairs = [
        np.concatenate(
            [
                np.repeat(u[rows], columns.stop - columns.start, axis=0),
                np.tile(v[columns], (rows.stop - rows.start, 1)),
            ],
            axis=1,
        )
        for rows, columns in _groups(dim, degree)
    ]
    products = np.concatenate(pairs)
    sizes = np.sqrt(_multinomials(products[:, :half]) * _multinomials(products[:, half:]))
    total, rank = products.sum(1), _rank(products)
    first, second = (math.comb(k + dim - 1, dim - 1) for k in (degree, degree - 1))
    back = np.where(total == degree, rank, first + rank)
    back = np.where(total < degree - 1, first + second, back)
    back[total > degree] = first + second
    rows = np.empty(first + second, np.int32)
    kept = np.flatnonzero(back < first + second)
    rows[back[kept]] = kept
    return _Layout(sizes, rows, back.astype(np.int32))


@lru_cache(maxsize=512)
def _exponents(axes: int, degree: int) -> Int[np.ndarray, "f p"]:
    """All α ≥ 0 of `axes` entries with |α| = degree, the first entry falling from degree to 0."""
    if axes == 1:
        return np.array([[degree]])
    parts = [
        np.pad(_exponents(axes - 1, degree - first), ((0, 0), (1, 0)), constant_values=first)
        for first in range(degree, -1, -1)
    ]
    return np.concatenate(parts)


def _rank(exponents: Int[np.ndarray, "f p"]) -> Int[np.ndarray, " f"]:
    """The row of each α among `_exponents` of its degree."""
    axes = exponents.shape[1]
    later = np.cumsum(exponents[:, :0:-1], axis=1)[:, ::-1]  # degree in the axes behind each one
    counts = np.array(
        [
            [math.comb(rest + behind - 1, behind) if rest else 0 for rest in range(later.max() + 1)]
            for behind in range(axes - 1, 0, -1)
        ]
    )
    return np.sum(counts[np.arange(axes - 1), later], axis=1)


@lru_cache(maxsize=256)
def _raised(dim: int, degree: int) -> Int[np.ndarray, "p f"]:
    """The row of α + 2e_i for each axis i and α of this degree and the one below."""
    above = _exponents(dim, degree + 2).shape[0]
    parts = [
        np.stack([_rank(_exponents(dim, k) + shift) for shift in 2 * np.eye(dim, dtype=int)])
        for k in _pair(degree)
    ]
    offsets = [0, above]
    return np.concatenate(
        [part + offset for part, offset in zip(parts, offsets, strict=False)], axis=1
    ).astype(np.int32)


@lru_cache(maxsize=256)
def _lowered(dim: int, degree: int) -> Int[np.ndarray, "p f"]:
    """The row of α − 2e_i for each axis i and α of this degree and the one below; or the last."""
    sizes = [_exponents(dim, k).shape[0] for k in _pair(degree - 2)]
    parts, offset = [], 0
    for k in _pair(degree):
        moved = _exponents(dim, k) - 2 * np.eye(dim, dtype=int)[:, None]
        rows = [np.where(m.min(1) < 0, -1, offset + _rank(np.maximum(m, 0))) for m in moved]
        parts.append(np.stack(rows))
        offset = sizes[0]
    result = np.concatenate(parts, axis=1)
    return np.where(result < 0, sum(sizes), result).astype(np.int32)


def _weights(dim: int, degree: int) -> tuple[list[int], Float[np.ndarray, " f"]]:
    """How many monomials there are of this degree and the one below, and k!/α! for each."""
    parts = [_multinomials(_exponents(dim, k)) for k in _pair(degree)]
    return [len(part) for part in parts], np.concatenate(parts)


def _pair(degree: int) -> tuple[int, ...]:
    return (degree, degree - 1) if degree else (0,)


def _multinomials(exponents: Int[np.ndarray, "f p"]) -> Float[np.ndarray, " f"]:
    """k!/α! for each row α, k = |α|."""
    factorials = np.array([float(math.factorial(k)) for k in range(exponents.sum(1).max() + 1)])
    return factorials[exponents.sum(1)] / np.prod(factorials[exponents], axis=1)
