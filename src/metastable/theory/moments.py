"""Linear attention and state-space layers: flows that one small matrix or one angle solves."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

from metastable.core import checks

Array = NDArray[np.float64]

MOST_RATIOS = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


def axial_order(time: ArrayLike, start: float) -> Array:
    """|Σ w e^{2iθ}| under plain linear attention on the circle, of a mean field near uniform.

    s(t) = tanh(r/2), sinh(r/2) = e^{t/2} sinh(r_0/2): the solution of ṡ = s(1 − s²)/2.

    Derived: θ̇_i = −½Σ w_j sin 2(θ_i − θ_j) is Kuramoto of the doubled angles, whose linear images
    of the uniform measure are those of Ott and Antonsen (Chaos 18, 2008). Valid for a start that is
    such an image (x = Ay/‖Ay‖ with y uniform), in the linear clock with QKV = 1.

    >>> axial_order([0.0, 4.0, 20.0], 0.1).round(4).tolist()
    [0.1, 0.5962, 1.0]
    """
    if not 0 <= start < 1:
        raise ValueError(f"start must lie in [0, 1); got {start}: it is |Σ w e^(2iθ)|.")
    t = np.asarray(time, float)
    grown = np.exp(np.minimum(t / 2, 300.0)) * start / math.sqrt(1 - start**2)
    return grown / np.sqrt(1 + grown**2)


def image_moments(axes: ArrayLike) -> Array:
    """Eigenvalues of E xxᵀ for x = Ay/‖Ay‖, y uniform on the sphere and AAᵀ of eigenvalues `axes`.

    m_i = ∫_0^∞ λ_i/(1 + 2λ_is) Π_k (1 + 2λ_ks)^{−1/2} ds (angular central Gaussian, Tyler 1987), by
    Gauss and Legendre in s = u/(1 − u) of the mean axis; the error is below 1e−9 for ratios ≤ 1e4.

    >>> image_moments([1.0, 4.0]).round(6).tolist()  # √λ_i/Σ√λ on the circle
    [0.333333, 0.666667]
    """
    lam = np.asarray(axes, float)
    if lam.ndim != 1 or len(lam) < 2 or not (lam > 0).all():
        raise ValueError(f"axes must be two or more positive numbers; got {axes}.")
    # s = e^v covers all scales: the integrand is analytic in v and falls off on both sides.
    low, high = -math.log(2 * lam.max()) - 36, -math.log(2 * lam.min()) + 72 / len(lam) + 8
    edges = np.linspace(low, high, 13)
    half = np.diff(edges)[:, None] / 2
    v = (edges[:-1, None] + half + half * _NODES).ravel()
    weight = (half * _WEIGHTS).ravel()
    grown = 1 + 2 * lam[:, None] * np.exp(v)
    shared = np.exp(v - 0.5 * np.log(grown).sum(axis=0))
    return (lam[:, None] / grown * shared) @ weight


def image_flow(time: ArrayLike, axes: ArrayLike) -> Array:
    """Second moments of a mean field under plain linear attention: eigenvalues, (times, d).

    λ̇_i = 2 m_i(λ) λ_i for the image x = Ay/‖Ay‖ of the uniform measure, AAᵀ = Σ λ_i e_ie_iᵀ:
    every token feels the one matrix M, so that A moves by Ȧ = MA. Derived; solved by SciPy.
    Expected: the longest axis takes all, m → e_1, and the tokens end at both ends of one line.

    >>> image_flow([0.0, 30.0], [1.0, 1.0, 1.2]).round(3).tolist()
    [[0.321, 0.321, 0.358], [0.0, 0.0, 1.0]]
    """
    t, first = np.atleast_1d(np.asarray(time, float)), np.log(np.asarray(axes, float))

    def move(_: float, logs: Array) -> Array:
        # Only ratios matter; beyond e^{40} the moments are those of the longest axis alone.
        return 2 * image_moments(np.exp(np.maximum(logs - logs.max(), -40.0)))

    span = (0.0, max(float(t.max()), 1e-300))
    way = solve_ivp(move, span, first, rtol=1e-9, atol=1e-11, dense_output=True)
    solution = way.sol
    assert solution is not None
    logs = np.array([solution(s) for s in t])
    fitting = np.maximum(logs - logs.max(axis=1, keepdims=True), -40.0)
    return np.array([image_moments(np.exp(row)) for row in fitting])


def projective_ratios(points: ArrayLike, most: int = MOST_RATIOS) -> Array:
    """log|cross-ratios| of d + 2 tokens at a time: what a common linear map leaves alone.

    |[S,a][T,b]| / |[S,b][T,a]| with brackets det(x_s, …, x_a), S and T sets of d − 1 tokens that
    share d − 2. Invariant under x_i → c_i A x_i with c_i > 0. At most `most` of them, of neighbours
    in the list. Shape (…, ratios) for points (…, n, d).

    >>> x = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.8, 0.6]])
    >>> bent = x @ np.array([[2.0, 0.3], [0.1, 1.0]])
    >>> bool(np.allclose(projective_ratios(x), projective_ratios(bent)))
    True
    """
    x = np.asarray(points, float)
    n, d = x.shape[-2:]
    if n < d + 2:
        raise ValueError(f"points must be {d + 2} at least in dimension {d}; got {n}.")
    rows = []
    for k in itertools.islice(range(n), most):
        chosen = [(k + j) % n for j in range(d + 2)]
        common, s, t, a, b = chosen[: d - 2], *chosen[d - 2 :]
        bracket = lambda *ends, shared=tuple(common): np.linalg.det(x[..., [*shared, *ends], :])
        with np.errstate(divide="ignore"):
            logs = [np.log(np.abs(bracket(*e))) for e in ((s, a), (t, b), (s, b), (t, a))]
        rows.append(logs[0] + logs[1] - logs[2] - logs[3])
    return np.stack(rows, axis=-1)


def follower_angle(
    time: ArrayLike,
    angle: float,
    decay: float,
    *,
    masses: tuple[float, float] = (0.5, 0.5),
    step: float = 1.0,
) -> Array:
    """Angle of the second token of a state-space layer to the first, which rests.

    tan φ(t) = tan φ(0) e^{−κt}, κ = w_1Δ e^{−a w_2Δ}: φ̇ = −κ sin φ cos φ.

    Derived, for C = B = I, V = I and a constant step Δ; in the state-space clock. The second token
    ends at the first, or opposite to it if it starts farther than a right angle.

    >>> follower_angle([0.0, 4.0, 40.0], 1.0, decay=0.0).round(4).tolist()
    [1.0, 0.2077, 0.0]
    """
    checks.nonnegative("decay", decay)
    first, second = masses
    rate = first * step * math.exp(-decay * second * step)
    shrunk = np.exp(-rate * np.asarray(time, float))
    return np.arctan2(math.sin(angle) * shrunk, math.cos(angle))
