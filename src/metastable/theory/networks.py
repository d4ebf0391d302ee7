"""Oscillators on a graph: how fast they agree, and the coupling from which they turn as one.

All with masses w_j that sum to 1, as in the fields: θ̇_i = ω_i + K Σ_{j~i} w_j sin(θ_j − θ_i).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]


def graph_laplacian(edges: ArrayLike, weights: ArrayLike) -> Array:
    """L_ii = Σ_{j~i} w_j and L_ij = −w_j for neighbours, (n, n); Σ_i w_iL_ij = 0.

    >>> graph_laplacian([[0, 1]], [0.25, 0.75]).tolist()
    [[0.75, -0.75], [-0.25, 0.25]]
    """
    w, pairs = np.asarray(weights, float), np.asarray(edges, int).reshape(-1, 2)
    matrix = np.zeros((len(w), len(w)))
    for i, j in pairs:
        matrix[i, j], matrix[j, i] = -w[j], -w[i]
    return matrix - np.diag(matrix.sum(axis=1))


def spectral_gap(edges: ArrayLike, weights: ArrayLike) -> float:
    """The second smallest eigenvalue of the Laplacian; 0 where the graph falls apart.

    Near synchrony differences decay like e^{−K gap t} (Dörfler and Bullo, Automatica 50, 2014);
    masses are derived: L is symmetric in the inner product Σ w_i a_i b_i. A ring of n equal tokens
    has 2(1 − cos(2π/n))/n, the complete graph 1.

    >>> ring = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> round(spectral_gap(ring, [0.25] * 4), 12)
    0.5
    """
    w = np.asarray(weights, float)
    if len(w) < 2:
        raise ValueError(f"weights must be two at least; got {len(w)}: one token has no gap.")
    root = np.sqrt(w)
    safe = np.maximum(root, 1e-300)
    symmetric = root[:, None] * graph_laplacian(edges, w) / safe[None, :]
    values = np.sort(np.linalg.eigvalsh((symmetric + symmetric.T) / 2))
    return float(max(values[1], 0.0))


def is_connected(edges: ArrayLike, tokens: int) -> bool:
    """Whether every token can be reached from every other."""
    label = np.arange(tokens)
    for i, j in np.asarray(edges, int).reshape(-1, 2):
        label[label == label[i]] = label[j]
    return bool((label == label[0]).all())


def locking_coupling(frequencies: ArrayLike, weights: ArrayLike) -> float:
    """K_c of the complete graph: oscillators can turn as one if and only if K ≥ K_c.

    K_c = min_{u ≥ max|ω̃|} u / Σ w_i √(1 − (ω̃_i/u)²),  ω̃ = ω − Σwω.

    Source: Aeyels and Rogge, Progress of Theoretical Physics 112 (2004); Mirollo and Strogatz,
    Physica D 205 (2005); masses derived. Exact for finitely many oscillators. For many, Lorentzian
    frequencies of half width γ never lock wholly, and the order parameter leaves 0 at K = 2γ.

    >>> round(locking_coupling([-1.0, 1.0], [0.5, 0.5]), 12)  # sin φ = 2/K
    2.0
    """
    off, w = _centred(frequencies, weights)
    widest = float(np.abs(off).max())
    if widest == 0:
        return 0.0

    def needed(u: float) -> float:
        order = float(w @ np.sqrt(np.maximum(1 - (off / u) ** 2, 0.0)))
        return u / order if order > 0 else math.inf

    # One minimum beyond max|ω̃|, where all roots are real: at max|ω̃| some of them vanish.
    low, high = 0.0, 3.0
    logs = np.linspace(low, high, 301)
    best = int(np.argmin([needed(widest * math.exp(log)) for log in logs]))
    bounds = logs[max(best - 1, 0)], logs[min(best + 1, 300)]
    found: Any = minimize_scalar(
        lambda log: needed(widest * math.exp(log)),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-13},
    )
    return min(float(found.fun), needed(widest))


def locked_order(coupling: float, frequencies: ArrayLike, weights: ArrayLike) -> float | None:
    """|Σ w_j e^{iθ_j}| of the stable state that turns as one on the complete graph, or None.

    The largest r with r = Σ w_i √(1 − (ω̃_i/(Kr))²). Same sources.

    >>> round(locked_order(4.0, [-1.0, 1.0], [0.5, 0.5]), 6)  # φ = π/6: cos(φ/2)
    0.965926
    """
    off, w = _centred(frequencies, weights)
    if coupling <= 0 or coupling < locking_coupling(frequencies, weights) * (1 + 1e-9):
        return None
    order = 1.0
    for _ in range(100_000):  # monotone from above to the largest root
        inside = 1 - (off / (coupling * order)) ** 2
        if (inside < 0).any():
            return None
        new = float(w @ np.sqrt(inside))
        if abs(new - order) < 1e-14:
            return new
        order = new
    return None


def tree_coupling(edges: ArrayLike, frequencies: ArrayLike, weights: ArrayLike) -> float:
    """K_c of a tree: each edge must carry what its branch lacks.

    K_c = max_e |Σ_{i in the branch behind e} w_iω̃_i| / (w_a w_b) over edges e = (a, b).

    Source: Dörfler, Chertkov, Bullo, PNAS 110 (2013), exact for trees; masses derived.

    >>> round(tree_coupling([[0, 1], [1, 2]], [1.0, 0.0, -1.0], [1 / 3] * 3), 9)
    3.0
    """
    off, w = _centred(frequencies, weights)
    pairs = np.asarray(edges, int).reshape(-1, 2)
    if len(pairs) != len(w) - 1 or not is_connected(pairs, len(w)):
        raise ValueError(
            f"edges must make a tree on {len(w)} tokens; got {len(pairs)} edges: a tree has one "
            "fewer than tokens, and no loop."
        )
    rows = np.arange(len(pairs))
    incidence = np.zeros((len(w), len(pairs)))
    incidence[pairs[:, 0], rows], incidence[pairs[:, 1], rows] = 1.0, -1.0
    carried = np.linalg.lstsq(incidence, w * off, rcond=None)[0]
    return float(np.max(np.abs(carried) / (w[pairs[:, 0]] * w[pairs[:, 1]])))


def _centred(frequencies: ArrayLike, weights: ArrayLike) -> tuple[Array, Array]:
    omega, w = np.asarray(frequencies, float), np.asarray(weights, float)
    if omega.shape != w.shape or omega.ndim != 1:
        raise ValueError(
            f"frequencies must be one per weight; got shapes {omega.shape} and {w.shape}."
        )
    return omega - float(w @ omega), w
