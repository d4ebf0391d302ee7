"""Causal (masked) attention: how many centres a sequence leaves, and how long they stay.

Token i sees only tokens j ≤ i. A token is a *strong* Rényi centre when it is farther than δ from
every earlier token, and a *greedy* centre when it is farther than δ from every earlier centre.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc, exp1


def separation(beta: float, factor: float = 4.0) -> float:
    """Angle δ = cβ^{−1/2} below which tokens attract each other at order one.

    Source: [karagodin2024clustering, §5], which takes c = 4 in its experiments.

    >>> separation(64.0)
    0.5
    """
    if not beta > 0:
        raise ValueError(f"beta must be positive, got {beta}; at β = 0 every token attracts all.")
    return factor / math.sqrt(beta)


def cap_measure(angle: float, dim: int) -> float:
    """Uniform probability σ(B_δ) of the geodesic ball of radius δ on S^{d−1}.

    σ(B_δ) = ½ I_{sin²δ}((d−1)/2, ½) for δ ≤ π/2, and 1 − σ(B_{π−δ}) beyond; I is the regularised
    incomplete beta function. δ/π on the circle, sin²(δ/2) on S². Source: classical.

    >>> round(cap_measure(0.5, 3), 6)
    0.061209
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; S^0 has no caps.")
    if not 0 <= angle <= math.pi:
        raise ValueError(f"angle must lie in [0, π], got {angle}; it is a geodesic radius.")
    if angle > math.pi / 2:
        return 1 - cap_measure(math.pi - angle, dim)
    return 0.5 * float(betainc((dim - 1) / 2, 0.5, math.sin(angle) ** 2))


def strong_centres(angle: float, dim: int, tokens: float = math.inf) -> float:
    """Expected number of strong Rényi centres among n uniform tokens at separation δ.

    E = Σ_{i<n} (1−p)^i = (1−(1−p)^n)/p,  p = σ(B_δ);  1/p as n → ∞.

    Source: [karagodin2024clustering, App. C] for the limit; finite n derived here. Exact, for
    uniform independent tokens. π/δ on the circle, 1/sin²(δ/2) on S²; order β^{(d−1)/2} in general.

    >>> round(strong_centres(separation(64.0), dim=2), 3)
    6.283
    """
    p = cap_measure(angle, dim)
    if p == 0:
        return float(tokens)
    if p == 1:
        return 1.0
    return -math.expm1(tokens * math.log1p(-p)) / p


def parking_density(arrivals: float) -> float:
    """Fraction of a long street covered by unit cars after `arrivals` attempts per unit length.

    θ(t) = ∫_0^t exp(−2∫_0^s (1−e^{−v})/v dv) ds.

    Source: [renyi1958space] for t = ∞; the finite-time law is classical (random sequential
    adsorption). Relative error below 1e−12.

    >>> round(parking_density(1.0), 6)
    0.471425
    """
    if not arrivals >= 0:
        raise ValueError(f"arrivals must be ≥ 0, got {arrivals}; it is tokens per unit length.")
    # Ein(s) = γ + log s + E_1(s). Past s = 1 the substitution s = 1/u turns the slow tail s^{−2}
    # into a smooth integrand on a bounded interval.
    early = lambda s: math.exp(-2 * (np.euler_gamma + math.log(s) + exp1(s))) if s > 1e-12 else 1.0
    late = lambda u: math.exp(-2 * (np.euler_gamma + exp1(1 / u))) if u > 0 else 0.0
    total = quad(early, 0, min(arrivals, 1.0), epsabs=1e-15, epsrel=1e-13)[0]
    if arrivals > 1:
        total += quad(late, 1 / arrivals, 1, epsabs=1e-15, epsrel=1e-13)[0]
    return float(total)


@cache
def renyi_constant() -> float:
    """Rényi's parking constant: the jammed density of unit cars on a long street.

    >>> round(renyi_constant(), 10)
    0.7475979203
    """
    return parking_density(math.inf)


def greedy_centres(angle: float, tokens: float = math.inf) -> float:
    """Expected number of greedy Rényi centres on the circle at separation δ.

    E ≈ θ(nδ/2π)·2π/δ, and 0.7476·2π/δ as n → ∞.

    Source: [karagodin2024clustering, App. C] through [renyi1958space]; the finite-n form is
    derived here and checked by simulation. The jammed value is exact up to terms smaller than any
    exponential of 2π/δ; at finite n the number of tokens is treated as Poisson, an error of order
    one part in n. Circle only: no closed form is known on S^{d−1}, d ≥ 3.

    >>> round(greedy_centres(separation(64.0)), 2)
    9.39
    """
    if not 0 < angle <= math.pi:
        raise ValueError(f"angle must lie in (0, π], got {angle}; use separation(beta).")
    street = 2 * math.pi / angle
    density = renyi_constant() if math.isinf(tokens) else parking_density(tokens / street)
    return density * street


def log_persistence_time(
    beta: float, index: int, *, factor: float = 4.0, drift: float = 0.1
) -> float:
    """Logarithm of a time up to which a strong centre has hardly moved, on the circle.

    If every token before the s-th is farther than c(1+2ε)β^{−1/2} from it, then
    |x_s(t) − x_s(0)| < εcβ^{−1/2} for all t ≤ T with T s h(cβ^{−1/2}) < εcβ^{−1/2},
    h(x) = e^{β(cos x−1)} sin x.

    Here `factor` is c, `drift` is ε, `index` is s ≥ 1, and the result is log T (SA clock).
    Roughly T ≈ (ε/s) e^{c²/2}. Source: [karagodin2024clustering, Lem. 5.1]. Valid for d = 2,
    Q = K = V = I, and c past the maximum of h, which is checked.

    >>> round(log_persistence_time(64.0, index=10), 3)
    3.272
    """
    x = separation(beta, factor)
    peak = math.acos((math.sqrt(4 * beta * beta + 1) - 1) / (2 * beta))
    if not peak < x < math.pi:
        raise ValueError(
            f"factor must put cβ^(-1/2) between {peak:.4g} (the range of attraction) and π, got "
            f"{x:.4g} from factor {factor}; raise factor, or beta."
        )
    if index < 1 or not drift > 0:
        raise ValueError(
            f"index must be ≥ 1 and drift positive, got {index} and {drift}; count tokens from 1."
        )
    log_pull = -2 * beta * math.sin(x / 2) ** 2 + math.log(math.sin(x))
    return math.log(drift * x / index) - log_pull
