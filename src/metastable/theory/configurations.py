"""Point sets that minimise the energy for every β (V = −I), and how to recognise designs.

A configuration is sharp when it has m inner products and is a spherical (2m−1)-design. Every sharp
configuration, and the 600-cell, minimises E_β among sets of its size for every β > 0
[cohn2007universally]; not every minimiser is sharp.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.theory.bessel import log_reduced_bessel

Array = NDArray[np.float64]
_GOLDEN = (1 + math.sqrt(5)) / 2


@dataclass(frozen=True, eq=False)
class Configuration:
    """Unit vectors seen alike from each of them.

    points          (n, d) unit vectors
    inner_products  ((t, multiplicity), …) seen from any one point, itself (1, 1) first
    strength        largest t for which it is a spherical t-design
    universal       minimises E_β over n points for every β > 0
    """

    name: str
    points: Array
    inner_products: tuple[tuple[float, int], ...]
    strength: int
    universal: bool


def regular_polygon(tokens: int) -> Configuration:
    """Regular N-gon on the circle: an (N−1)-design. Source: [cohn2007universally, Table 1]."""
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}; a polygon needs vertices.")
    angles = 2 * np.pi * np.arange(tokens) / tokens
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    seen = Counter(min(q, tokens - q) for q in range(tokens))
    pairs = tuple((math.cos(2 * math.pi * q / tokens), m) for q, m in sorted(seen.items()))
    return Configuration(f"{tokens}-gon", points, pairs, tokens - 1, True)


def regular_simplex(dim: int) -> Configuration:
    """d+1 points with all inner products −1/d. Source: [cohn2007universally, Table 1]."""
    _check_dim(dim)
    centred = np.eye(dim + 1) - 1 / (dim + 1)
    points = _in_hyperplane(centred / np.linalg.norm(centred, axis=1, keepdims=True))
    return Configuration("simplex", points, ((1.0, 1), (-1 / dim, dim)), 2, True)


def cross_polytope(dim: int) -> Configuration:
    """The 2d points ±e_i. Source: [cohn2007universally, Table 1]."""
    _check_dim(dim)
    points = np.vstack([np.eye(dim), -np.eye(dim)])
    pairs = ((1.0, 1), (0.0, 2 * dim - 2), (-1.0, 1))
    return Configuration("cross-polytope", points, pairs, 3, True)


def icosahedron() -> Configuration:
    """12 points on S². Source: [cohn2007universally, Table 1]."""
    flat = [(0.0, a, b * _GOLDEN) for a, b in product((1, -1), repeat=2)]
    points = _unit([np.roll(p, shift) for p in flat for shift in range(3)])
    s = 1 / math.sqrt(5)
    return Configuration("icosahedron", points, ((1.0, 1), (s, 5), (-s, 5), (-1.0, 1)), 5, True)


def cell24() -> Configuration:
    """24 points on S³, a 5-design that other sets beat for some β (β = 6, for one).

    Source: [cohn2007d4].
    """
    halves = list(product((0.5, -0.5), repeat=4))
    points = np.vstack([np.eye(4), -np.eye(4), halves])
    pairs = ((1.0, 1), (0.5, 8), (0.0, 6), (-0.5, 8), (-1.0, 1))
    return Configuration("24-cell", points, pairs, 5, False)


def cell600() -> Configuration:
    """120 points on S³: not sharp (8 inner products, only an 11-design), yet universally optimal.

    Source: [cohn2007universally, Thm 1.2].
    """
    even = [p for p in permutations(range(4)) if _is_even(p)]
    rest = []
    for a, b, c in product((1, -1), repeat=3):
        base = np.array([a * _GOLDEN, b, c / _GOLDEN, 0.0]) / 2
        rest += [base[list(p)] for p in even]
    points = np.vstack([cell24().points, rest])
    g = _GOLDEN / 2
    pairs = (
        *((1.0, 1), (g, 12), (0.5, 20), (1 / (4 * g), 12), (0.0, 30)),
        *((-1 / (4 * g), 12), (-0.5, 20), (-g, 12), (-1.0, 1)),
    )
    return Configuration("600-cell", points, pairs, 11, True)


def e8_roots() -> Configuration:
    """240 points on S⁷: the roots of E_8. Source: [cohn2007universally, Table 1]."""
    integer = []
    for i, j in combinations(range(8), 2):
        for a, b in product((1, -1), repeat=2):
            root = np.zeros(8)
            root[[i, j]] = a, b
            integer.append(root)
    halves = [s for s in product((0.5, -0.5), repeat=8) if sum(x < 0 for x in s) % 2 == 0]
    pairs = ((1.0, 1), (0.5, 56), (0.0, 126), (-0.5, 56), (-1.0, 1))
    return Configuration("E8 roots", _unit(integer + halves), pairs, 7, True)


def e7_points() -> Configuration:
    """56 points on S⁶: the shortest vectors of the dual of E_7.

    Built as ±(3, 3, −1, …, −1)/4 and its permutations, in the hyperplane Σx = 0 of R⁸. Source:
    [cohn2007universally, Table 1].
    """
    vectors = []
    for pair in combinations(range(8), 2):
        v = np.full(8, -1.0)
        v[list(pair)] = 3.0
        vectors += [v, -v]
    pairs = ((1.0, 1), (1 / 3, 27), (-1 / 3, 27), (-1.0, 1))
    return Configuration("E7 dual", _in_hyperplane(_unit(vectors)), pairs, 5, True)


def schlafli() -> Configuration:
    """27 points on S⁵: the neighbours of one of the 56 points (27 lines on a cubic surface).

    Source: [cohn2007universally, Table 1].
    """
    points = _derived(e7_points().points, 1 / 3)
    return Configuration("Schläfli 27", points, ((1.0, 1), (0.25, 16), (-0.5, 10)), 4, True)


def clebsch() -> Configuration:
    """16 points on S⁴: the neighbours of one of the 27 points.

    Source: [cohn2007universally, Table 1].
    """
    points = _derived(schlafli().points, 0.25)
    return Configuration("Clebsch 16", points, ((1.0, 1), (0.2, 10), (-0.6, 5)), 3, True)


def cube() -> Configuration:
    """8 points on S²: a 3-design that the square antiprism beats at every β tried here."""
    points = _unit(list(product((1.0, -1.0), repeat=3)))
    pairs = ((1.0, 1), (1 / 3, 3), (-1 / 3, 3), (-1.0, 1))
    return Configuration("cube", points, pairs, 3, False)


def sharp_configuration(dim: int, tokens: int) -> Configuration | None:
    """The known universally optimal set of `tokens` points on S^{dim−1}, if there is one here.

    >>> sharp_configuration(3, 12).name
    'icosahedron'
    """
    if dim == 2:
        return regular_polygon(tokens) if tokens >= 2 else None
    if tokens == dim + 1:
        return regular_simplex(dim)
    if tokens == 2 * dim:
        return cross_polytope(dim)
    others = {
        (3, 12): icosahedron,
        (4, 120): cell600,
        (5, 16): clebsch,
        (6, 27): schlafli,
        (7, 56): e7_points,
        (8, 240): e8_roots,
    }
    return others[dim, tokens]() if (dim, tokens) in others else None


def scaled_energy(configuration: Configuration, beta: ArrayLike) -> Array:
    """(2βe^{−β})E_β = (1/n) Σ_k m_k e^{β(t_k−1)}, between 1/n and 1; equal to 1 at β = 0.

    Exact, from the inner products t_k and multiplicities m_k; never overflows. `beta` ≥ 0 has any
    shape.

    >>> round(float(scaled_energy(regular_polygon(7), 1e6)), 12) == round(1 / 7, 12)
    True
    """
    b = np.asarray(beta, dtype=float)
    if not np.all(b >= 0):
        raise ValueError(f"beta must be ≥ 0, got {b.min()}; the energy is repulsive at β > 0.")
    values, counts = np.array(configuration.inner_products).T
    return np.exp(b[..., None] * (values - 1)) @ (counts / counts.sum())


def configuration_energy(configuration: Configuration, beta: ArrayLike) -> Array:
    """Exact E_β = (1/2βn²) Σ_{i,j} e^{β⟨x_i,x_j⟩} of a configuration.

    Has a pole 1/(2β) at β = 0 and overflows past β ≈ 709: `scaled_energy` has neither.

    >>> round(float(configuration_energy(icosahedron(), 3.0)), 7)
    0.5634581
    """
    b = np.asarray(beta, dtype=float)
    if not np.all(b > 0):
        raise ValueError(f"beta must be positive, got {b.min()}; at 0 use scaled_energy.")
    with np.errstate(over="ignore"):
        return scaled_energy(configuration, b) * np.exp(b) / (2 * b)


def scaled_energy_lower_bound(beta: ArrayLike, dim: int) -> Array:
    """e^{−β}c_0(β): lower bound of (2βe^{−β})E_β over all measures, reached by the uniform one.

    Source: [geshkovski2023mathematical, §3] (uniform is the only minimiser); the value is the
    degree-0 Funk–Hecke coefficient c_0 = Γ(d/2)(2/β)^{d/2−1} I_{d/2−1}(β).
    """
    _check_dim(dim)
    b = np.asarray(beta, dtype=float)
    return np.exp(log_reduced_bessel(dim / 2 - 1, 0, b) - b)


def energy_lower_bound(beta: ArrayLike, dim: int) -> Array:
    """c_0(β)/(2β): no set of tokens on S^{d−1} has less energy, whatever their number.

    >>> round(float(energy_lower_bound(3.0, 2)), 7)
    0.8134654
    """
    b = np.asarray(beta, dtype=float)
    if not np.all(b > 0):
        raise ValueError(f"beta must be positive, got {b.min()}; at 0 use the scaled bound.")
    with np.errstate(over="ignore"):
        return scaled_energy_lower_bound(b, dim) * np.exp(b) / (2 * b)


def design_strength(
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    up_to: int = 20,
    tolerance: float = 1e-10,
) -> int:
    """Largest t ≤ `up_to` for which the weighted points are a spherical t-design.

    Points form a t-design iff Σ_ij w_i w_j P_k(⟨x_i,x_j⟩) = 0 for k = 1..t, with P_k the Gegenbauer
    polynomial of degree k on S^{d−1}, P_k(1) = 1. Each sum is a square, so rounding leaves about
    1e−16; `tolerance` is the largest value read as zero.

    Source: [delsarte1977spherical]. `points` (n, d), unit rows, d ≥ 2; `weights` (n,) are
    normalised. Cost: n²·up_to.

    >>> design_strength(icosahedron().points)
    5
    """
    x = np.asarray(points, dtype=float)
    if x.ndim != 2 or x.shape[1] < 2 or not np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-8):
        raise ValueError(
            f"points must be unit vectors of shape (n, d) with d ≥ 2, got shape {x.shape}; "
            "divide each row by its norm."
        )
    n, d = x.shape
    w = np.full(n, 1 / n) if weights is None else np.asarray(weights, dtype=float)
    w = w / w.sum()
    t = x @ x.T
    previous, current = np.ones_like(t), t
    for k in range(1, up_to + 1):
        if abs(w @ current @ w) > tolerance:
            return k - 1
        following = ((2 * k + d - 2) * t * current - k * previous) / (k + d - 2)
        previous, current = current, following
    return up_to


def _check_dim(dim: int) -> None:
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; points lie on S^(dim-1).")


def _unit(vectors: ArrayLike) -> Array:
    v = np.asarray(vectors, dtype=float)
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def _in_hyperplane(vectors: Array) -> Array:
    """Coordinates in R^{d−1} of vectors of R^d whose entries sum to zero."""
    d = vectors.shape[1]
    steps = np.tril(np.ones((d - 1, d))) - np.diag(np.arange(1.0, d), 1)[:-1]
    return vectors @ _unit(steps).T


def _derived(points: Array, cosine: float) -> Array:
    """Points at a given inner product from the first one, seen from it on the smaller sphere."""
    pole = points[0]
    ring = points[np.abs(points @ pole - cosine) < 1e-9]
    basis = np.linalg.svd(pole[None])[2][1:]
    return _unit(ring @ basis.T)


def _is_even(permutation: tuple[int, ...]) -> bool:
    inversions = sum(a > b for a, b in combinations(permutation, 2))
    return inversions % 2 == 0
