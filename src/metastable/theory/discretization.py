"""How far a stack of L layers of step ε may be from the continuous flow."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


def velocity_bound(
    beta: float,
    *,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    value: ArrayLike | None = None,
    normalized: bool = True,
) -> float:
    """Bound M on the speed of any token on the sphere.

    M = ‖V‖ for SA and ‖V‖e^b for USA, b = |β|‖QᵀK‖ (spectral norms).

    Derived here: attention averages vectors Vx_j of norm at most ‖V‖, with weights that sum to one
    (SA) or to at most e^b (USA), and the projection does not lengthen them.

    >>> velocity_bound(9.0)
    1.0
    """
    b, v = _norms(beta, query, key, value)
    return v if normalized else v * _exp(b)


def velocity_lipschitz(
    beta: float,
    *,
    query: ArrayLike | None = None,
    key: ArrayLike | None = None,
    value: ArrayLike | None = None,
    normalized: bool = True,
) -> float:
    """Lipschitz constant L_f of the velocity field on the sphere, in the norm max_i‖x_i‖.

    L_f = ‖V‖(3 + 2b) for SA, times e^b for USA; b = |β|‖QᵀK‖ (spectral norms).

    Derived here, for any number of tokens and any weights. Moving token i and the others by at
    most h changes the attention output a_i by at most ‖V‖h (values) + ‖V‖bh (query) + ‖V‖bh
    (keys): a softmax mean of points of the unit ball has covariance at most 1. The projection
    a − ⟨x,a⟩x adds 2‖a‖h. Holds on the whole unit ball, so chords may be used.

    >>> velocity_lipschitz(5.0)
    13.0
    """
    b, v = _norms(beta, query, key, value)
    return v * (3 + 2 * b) * (1.0 if normalized else _exp(b))


def euler_error_bound(step: float, horizon: float, lipschitz: float, speed: float) -> float:
    """Largest distance between the layers and the flow, over all tokens and times up to T.

    max_k max_i ‖x_i^{(k)} − x_i(kε)‖ ≤ (ε/2) M L_f (e^{L_f T}−1)/L_f.

    Source: the classical Euler estimate. Valid for layers x ↦ (x+εf)/‖x+εf‖ started on the sphere:
    f is tangent, so ‖x+εf‖ ≥ 1 and the renormalisation is the projection onto the unit ball, which
    brings a point no farther from the exact one. A value of 2 or more (the diameter) says nothing;
    overflow gives `inf`. Expected: measured errors are also first order in ε but far smaller, as
    the flow contracts.

    >>> round(euler_error_bound(1e-3, 1.0, lipschitz=5.0, speed=1.0), 4)
    0.0737
    """
    if not (step > 0 and horizon >= 0):
        raise ValueError(
            f"step must be positive and horizon ≥ 0, got {step} and {horizon}; time runs forward."
        )
    if not (lipschitz >= 0 and speed >= 0):
        raise ValueError(
            f"lipschitz and speed must be ≥ 0, got {lipschitz} and {speed}; see "
            "velocity_lipschitz and velocity_bound."
        )
    growth = lipschitz * horizon
    return step / 2 * speed * (math.expm1(growth) if growth < 709 else math.inf)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _norms(
    beta: float, query: ArrayLike | None, key: ArrayLike | None, value: ArrayLike | None
) -> tuple[float, float]:
    q, k, v = (None if m is None else np.asarray(m, dtype=float) for m in (query, key, value))
    if q is not None and k is not None:
        qk = q.T @ k
    else:
        qk = k if q is None else q.T
    norm = lambda m: 1.0 if m is None else float(np.linalg.norm(m, 2))
    return abs(beta) * norm(qk), norm(v)
