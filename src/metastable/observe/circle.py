"""Energy and potential of many tokens on the circle, by harmonics instead of all pairs.

e^{b cos θ} = Σ_k (2 − δ_k0) I_k(b) cos kθ (Jacobi and Anger), so that with c_k = Σ_j w_j e^{ikθ_j}

Z(θ) = Σ_j w_j e^{b cos(θ − θ_j)} = Σ_k (2 − δ_k0) I_k(b) Re(c̄_k e^{ikθ}),
Σ_i w_i Z(θ_i) = Σ_k (2 − δ_k0) I_k(b) |c_k|².

Time n√b. The second is a sum of squares for b > 0: nothing cancels. In the first Z e^{−|b|}, which
is at least e^{−2|b|}, has an error of some 1e−15: `steady` says where that is good.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Float

from metastable.measures import Points

STEADY = 4.0  # largest |b| for a potential: a relative error of 1e−15 e^{2|b|}, 3e−12


def highest_degree(b: float) -> int:
    """The degree beyond which e^{−|b|}I_k(b) is below 1e−17; it falls like e^{−k²/2|b|} at least.

    Checked against SciPy for b from 1e−3 to 1e5 in tests/observe/test_circle.py.
    """
    return 20 + math.ceil(9 * math.sqrt(abs(b)))


def worth_harmonics(frame: Any, b: float) -> bool:
    """Whether these are tokens on the circle, and so many that harmonics cost less than pairs."""
    if not isinstance(frame, Points) or not frame.on_sphere or frame.dim != 2:
        return False
    return highest_degree(b) <= frame.count / 4


def circle_energy(frame: Points, b: float) -> float:
    """e^{−|b|} Σ_i Σ_j w_i w_j e^{b cos(θ_i − θ_j)}: the scaled energy 2βe^{−β}E_β at b = β."""
    total = 0.0
    for factor, _, moment in _harmonics(frame, b):
        total += factor * abs(moment) ** 2
    return float(total)


def circle_potential(frame: Points, b: float) -> Float[np.ndarray, " n"]:
    """e^{−|b|} Σ_j w_j e^{b cos(θ_i − θ_j)} at every token; for |b| ≤ STEADY."""
    total = np.zeros(frame.count)
    for factor, power, moment in _harmonics(frame, b):
        total += factor * (moment.real * power.real + moment.imag * power.imag)
    return total


def _harmonics(frame: Points, b: float) -> Any:
    """For k = 0, 1, …: (2 − δ_k0) e^{−|b|}I_k(b), e^{ikθ_i} (written over by the next), c_k."""
    from scipy.special import ive

    x, w = np.asarray(frame.points), np.asarray(frame.weights)
    turn, power = x[:, 0] + 1j * x[:, 1], np.ones(frame.count, complex)
    for k, factor in enumerate(ive(np.arange(highest_degree(b) + 1), b)):
        yield (2 if k else 1) * factor, power, w @ power
        power *= turn
