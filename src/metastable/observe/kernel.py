"""Clusters as maxima of the kernel density that attention itself sees."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from scipy.special import ive, logsumexp

from metastable.core import checks
from metastable.fields.sums.zonal import MAX_DEGREE
from metastable.geometry.harmonics import convolve, sphere_derivatives, values_on_circle
from metastable.geometry.maxima import find_maxima, sphere_basins
from metastable.measures import Points
from metastable.observe.clusters import Clusters, components, from_labels
from metastable.observe.modes import SphereWaves, angles, harmonics_of
from metastable.observe.pairs import BLOCK, carrying

# Few tokens climb faster than a series is summed, and their exponentially small interactions lie
# under its rounding floor.
FEW_TOKENS = 200
ROUNDS, CYCLES = 60, 10  # of the mean shift


def kernel_modes(measure: Points, beta: float) -> Clusters:
    """Clusters as the maxima of the potential, with the tokens of each one's basin.

    Maxima over the sphere of Z(x) = Σ_j w_j e^{β⟨x,x_j⟩}, which is the von Mises–Fisher kernel
    density of bandwidth β^{−1/2}; in R^d of Σ_j w_j e^{−β‖x−x_j‖²/2}. Needs no threshold and holds
    at every time, also before tokens have gathered; number of modes of iid tokens:
    arXiv:2412.09080.

    The centre of a cluster is its maximum. Many tokens on the circle or S²: all maxima, from the
    harmonic series of Z; otherwise those that mean shift reaches from the tokens, which misses
    only maxima with no token in their basin. Maxima joined by a level ridge (tokens evenly spread
    on a circle) are one. Basins, and so masses, are exact for many tokens on the circle, good to a
    percent of the mass otherwise. β > 0. Mean shift costs O(n²d) a step, some hundred steps.

    >>> from metastable.measures import polygon
    >>> int(kernel_modes(polygon(3), beta=9.0)), int(kernel_modes(polygon(300), beta=0.1))
    (3, 1)
    """
    checks.defined_for("kernel_modes", measure, Points)
    beta = float(checks.positive("beta", beta))
    points, weights, index = carrying(measure)
    degree = int(np.sqrt(60 * beta)) + 10
    # On S² the series has (degree + 1)² terms; measured, it is the faster one above n = degree²/16.
    enough = {2: FEW_TOKENS, 3: max(FEW_TOKENS, degree**2 // 16)}.get(measure.dim, np.inf)
    if measure.on_sphere and len(points) > enough:
        centres, basins = _by_series(points, weights, beta, degree)
    else:
        centres, basins = _mean_shift(points, weights, beta, measure.on_sphere)
    ridge = _ridges(centres, points, weights, beta, measure.on_sphere)
    labels = np.full(measure.count, -1)
    labels[index] = ridge[basins]
    return from_labels(measure, labels, centres[np.unique(ridge, return_index=True)[1]])


def _ridges(
    centres: np.ndarray, points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> np.ndarray:
    """One label for maxima that a level ridge joins: on it each place is a maximum by rounding."""
    pairs = KDTree(centres).query_pairs(beta**-0.5, output_type="ndarray")
    if not len(pairs):
        return np.arange(len(centres))
    middles = centres[pairs].mean(axis=1)
    if on_sphere:
        middles /= np.linalg.norm(middles, axis=1, keepdims=True)

    def height(places: np.ndarray) -> np.ndarray:
        exponents = -0.5 * beta * cdist(places, points, "sqeuclidean") + np.log(weights)
        return np.asarray(logsumexp(exponents, axis=1))

    tops = height(centres)[pairs]
    level = np.ptp(np.column_stack([tops, height(middles)]), axis=1) <= 1e-13 * (beta + 10)
    links = np.ones(level.sum(), bool), tuple(pairs[level].T)
    return connected_components(coo_array(links, (len(centres),) * 2), directed=False)[1]


def _by_series(
    points: np.ndarray, weights: np.ndarray, beta: float, degree: int
) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of the harmonic series of Z, and the one that each token's way up leads to."""
    dim = points.shape[1]
    order = np.arange(degree + 1) + dim / 2 - 1
    kernel = ive(order, beta) / ive(order[0], beta)
    fast = dim == 3 and degree <= MAX_DEGREE[3]
    moments = (
        SphereWaves(points, degree).moments(weights)
        if fast
        else harmonics_of(points, weights, degree)
    )
    potential = convolve(moments, kernel, dim)
    if np.abs(potential[1:]).sum() <= 1e-12:  # constant to rounding: no maximum, one cluster
        return points[:1], np.zeros(len(points), int)
    # On a level ridge Newton's method divides by a vanishing curvature.
    with np.errstate(over="ignore"):
        centres = find_maxima(potential, dim).points
    if dim == 3 and _level(potential, centres):
        return _mean_shift(points, weights, beta, True)
    if dim == 2:
        return centres, _arcs(potential, centres, points)
    return centres, sphere_basins(potential, centres, points)


def _level(potential: np.ndarray, centres: np.ndarray) -> bool:
    """Whether some maximum on S² is flat in one direction: on a ridge, placed by rounding alone."""
    rows = np.broadcast_to(potential, (len(centres), len(potential)))
    # The eigenvalue 0 of the normal direction comes last, the flattest tangent one before it.
    return bool((np.linalg.eigvalsh(sphere_derivatives(rows, centres)[2])[:, 1] > -1e-10).any())


def _arcs(potential: np.ndarray, centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    """On the circle: basins end at the lowest place between two maxima."""
    values = values_on_circle(potential, 64 * len(potential))
    node = 2 * np.pi / len(values)
    peaks = angles(centres) % (2 * np.pi)
    order = np.argsort(peaks)
    starts = (peaks[order] / node).astype(int)
    ends = np.append(starts[1:], starts[0] + len(values))
    lowest = [
        a + np.argmin(values[np.arange(a, b + 1) % len(values)])
        for a, b in zip(starts, ends, strict=True)
    ]
    borders = np.sort(np.array(lowest) * node % (2 * np.pi))
    # The arc that begins at border i holds the maximum found there.
    owner = order[np.searchsorted(peaks[order], borders) % len(order)]
    return owner[np.searchsorted(borders, angles(points) % (2 * np.pi)) - 1]


def _mean_shift(
    points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Maxima (k, d) of x ↦ Σ_j w_j e^{−β‖x−x_j‖²/2} reached from the tokens, and basins (n,).

    Mean shift x ← Σ_j p_j x_j (retracted on the sphere), p the softmax of the exponents, is an
    ascent for every β; it slows down where the landscape is flat, so two steps at a time are
    extrapolated (Varadhan and Roland, Scand. J. Stat. 35, 2008) and the result kept if higher.
    """
    width = beta**-0.5
    # A token exactly on a saddle would stay there.
    random = np.random.default_rng(0)
    kick = random.standard_normal(points.shape)
    seeds = points + 1e-3 * width * kick / np.linalg.norm(kick, axis=1, keepdims=True)
    # Tokens of one cell, a tenth of the kernel's width, share a start.
    seeds, basin = _thin(seeds, 0.1 * width, np.zeros(points.shape[1]))
    for _ in range(ROUNDS):
        moved, seeds = _rounds(seeds, points, weights, beta, on_sphere)
        if moved.max() < 1e-8 * width:
            break
        seeds, merged = _thin(seeds, 1e-3 * width, random.uniform(size=points.shape[1]))
        basin = merged[basin]
    # Only now: while tokens still move, a chain of neighbours would join separate maxima.
    labels = components(seeds, 1e-2 * width)
    first = np.unique(labels, return_index=True)[1]
    return seeds[first], labels[basin]


def _thin(seeds: np.ndarray, side: float, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One seed per grid cell, and the cell of each seed; a moving grid leaves no lasting border."""
    cells = np.floor(seeds / side + shift)
    _, first, inverse = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    return seeds[first], inverse.reshape(-1)


def _rounds(
    seeds: np.ndarray, points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    """How far each seed moved in its last step of ten cycles at most, and where it is."""
    step = max(1, BLOCK // len(points))
    blocks = [seeds[i : i + step] for i in range(0, len(seeds), step)]
    done = [_cycles(block, points, weights, beta, on_sphere) for block in blocks]
    return np.concatenate([moved for moved, _ in done]), np.concatenate([x for _, x in done])


def _cycles(
    x: np.ndarray, points: np.ndarray, weights: np.ndarray, beta: float, on_sphere: bool
) -> tuple[np.ndarray, np.ndarray]:
    bias = np.log(weights) - 0.5 * beta * np.sum(points**2, axis=1)
    length = lambda v: np.linalg.norm(v, axis=1, keepdims=True)
    place = (lambda v: v / length(v)) if on_sphere else (lambda v: v)

    def shift(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heights log Σ w e^{−β‖v−x_j‖²/2}, and the next places."""
        exponents = beta * (v @ points.T) + bias
        top = exponents.max(axis=1, keepdims=True)
        near = np.exp(exponents - top)
        total = near.sum(axis=1, keepdims=True)
        height = top + np.log(total) - 0.5 * beta * np.sum(v * v, axis=1, keepdims=True)
        return height, place((near / total) @ points)

    step = np.full_like(x, np.inf)
    for _ in range(CYCLES):
        _, one = shift(x)
        height, two = shift(one)
        step, bend = one - x, two - 2 * one + x
        ratio = length(step) / np.maximum(length(bend), 1e-100)
        leap = 2 * ratio * step + ratio**2 * bend
        # Longer leaps than a few hundredths of the kernel's width pass over shallow maxima.
        far = length(leap) / (0.03 * beta**-0.5)
        best, after = shift(place(x + leap / np.maximum(far, 1.0)))
        x = np.where(best > height, after, two)
        if np.abs(step).max() < 1e-9 * beta**-0.5:
            break
    return length(step)[:, 0], x
