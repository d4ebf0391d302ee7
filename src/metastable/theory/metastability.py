"""Long-lived clusters: published time bounds, the energy staircase, and the smooth limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from metastable.theory.bessel import log_reduced_bessel


@dataclass(frozen=True)
class MetastabilityBounds:
    """Window [T_1, T_2] in which tokens sit in their caps, collapsed to ‖x_i−x_j‖² ≤ 2e^{−λβ}.

    `rate` is λ; the two times are logarithms, in the clock asked for.
    """

    rate: float
    log_collapse: float
    log_persistence: float


def cross_alignment(angle: float, epsilon: float) -> float:
    """Largest inner product α(ε) between two caps whose centres are `angle` apart.

    The caps are {x : ⟨x,w⟩ ≥ 1−2ε}, twice the starting ones: α = cos(angle − 2 arccos(1−2ε)), and
    1 when they overlap. Source: definition in [geshkovski2024dynamic, §2].

    >>> round(cross_alignment(math.pi / 2, 0.01), 4)
    0.39
    """
    _check_epsilon(epsilon)
    return math.cos(max(angle - 2 * math.acos(1 - 2 * epsilon), 0.0))


def separation_margin(beta: float, tokens: int, epsilon: float, alpha: float) -> float:
    """1−α−8ε−β^{−1}log(2n²/ε): caps are (β, ε)-separated where it is positive.

    Source: [geshkovski2024dynamic, §2]. α is the largest inner product between points of different
    doubled caps, see `cross_alignment`.

    >>> round(separation_margin(100.0, tokens=10, epsilon=0.01, alpha=0.4), 4)
    0.421
    """
    _check_epsilon(epsilon)
    if tokens < 1 or not beta > 0 or not -1 <= alpha <= 1:
        raise ValueError(
            f"tokens must be ≥ 1, beta positive and alpha in [-1, 1], got {tokens}, {beta} and "
            f"{alpha}; alpha is an inner product."
        )
    return 1 - alpha - 8 * epsilon - math.log(2 * tokens**2 / epsilon) / beta


def metastability_bounds(
    beta: float,
    tokens: int,
    epsilon: float,
    alpha: float,
    *,
    rate: float | None = None,
    normalized: bool = True,
) -> MetastabilityBounds | None:
    """Collapse and persistence times of a (β, ε)-separated start; None where no theorem applies.

    T_1 ≤ 2n e^{8εβ} + e n λβ²/(β−1),   T_2 ≥ (ε/n) e^{(1−α)β}.

    Every token starts in a cap {⟨x,w_q⟩ ≥ 1−ε}. Up to T_2 tokens stay in the doubled caps, and from
    T_1 on those of one cap satisfy ‖x_i−x_j‖² ≤ 2e^{−λβ}. Applies for β > 1, 0 < ε < 1/16 and
    positive margin γ (`separation_margin`); λ = `rate` must lie below both
    1−α−8ε−β^{−1}log(2n²/(1−8ε)) and e^{(1−α)β}(1−e^{−βγ})(β−1)ε/(eβ²n²), by default at half the
    smaller.

    Source: [geshkovski2024dynamic, §2], with the sign in the second limit on λ corrected (the
    printed one does not give T_1 < T_2). The theorem's USA carries weights e^{β(⟨x,y⟩−1)}; for the
    plain USA clock both times are multiplied by e^{−β}. The bounds are not sharp: two equal
    clusters at a right angle last e^β/(2β).

    >>> bounds = metastability_bounds(100.0, tokens=10, epsilon=0.01, alpha=0.4)
    >>> round(bounds.log_collapse, 3), round(bounds.log_persistence, 3)
    (11.006, 53.092)
    """
    n = tokens
    margin = separation_margin(beta, n, epsilon, alpha)
    if beta <= 1 or margin <= 0:
        return None
    first = 1 - alpha - 8 * epsilon - math.log(2 * n * n / (1 - 8 * epsilon)) / beta
    log_second = (
        (1 - alpha) * beta
        + math.log((beta - 1) * epsilon / (math.e * beta**2 * n**2))
        + math.log(-math.expm1(-beta * margin))
    )
    largest = min(first, math.exp(min(log_second, 1.0)))  # first ≤ 2 < e
    lam = largest / 2 if rate is None else rate
    if not 0 < lam < largest:
        raise ValueError(
            f"rate must lie in (0, {largest:.6g}), got {lam}; leave it out for half of that."
        )
    cap = math.log(2 * n) + 8 * epsilon * beta
    inner = 1 + math.log(n * lam * beta**2 / (beta - 1))
    log_collapse = max(cap, inner) + math.log1p(math.exp(-abs(cap - inner)))
    log_persistence = math.log(epsilon / n) + (1 - alpha) * beta
    clock = 0.0 if normalized else -beta
    return MetastabilityBounds(lam, log_collapse + clock, log_persistence + clock)


def plateau_level(masses: Sequence[float]) -> float:
    """Level of (2βe^{−β})E_β while clusters of these masses stand still, as β → ∞: Σ_q α_q².

    Source: [geshkovski2024dynamic]; cross terms are e^{−β(1−cos φ)}.

    >>> plateau_level([0.5, 0.25, 0.25])
    0.375
    """
    if any(a < 0 for a in masses):
        raise ValueError(f"masses must be ≥ 0, got {list(masses)}; they are weights of clusters.")
    return math.fsum(a * a for a in masses)


def merger_jump(first: float, second: float) -> float:
    """Jump 2α_iα_j of (2βe^{−β})E_β when clusters of masses α_i and α_j merge, as β → ∞.

    Source: [geshkovski2024dynamic].

    >>> merger_jump(0.25, 0.25)
    0.125
    """
    return plateau_level([first + second]) - plateau_level([first, second])


def smooth_density_rate(beta: float, dim: int, degree: int, *, normalized: bool = True) -> float:
    """Large-β growth rate of a degree-ℓ harmonic on the uniform density.

    SA is the backward heat equation ∂_tμ = −β^{−1}Δμ on times O(β): rate L/β, L = ℓ(ℓ+d−2).
    USA is ∂_tμ = −(c_0/2β)Δ(μ²), density relative to uniform: rate c_0 L/β.
    V = −I changes the sign of both (heat, porous medium).

    Source: [bruno2025multiscale, §3.3]; c_0 from Funk–Hecke. Valid for fixed ℓ as β → ∞. The
    relative correction is O(1/β); the exact rates are smaller by about e^{−L/2β} when ℓ grows.

    >>> smooth_density_rate(900.0, 2, 3)
    0.01
    """
    if degree < 0 or dim < 2 or not beta > 0:
        raise ValueError(
            f"degree must be ≥ 0, dim ≥ 2 and beta positive, got {degree}, {dim} and {beta}; "
            "the limit is β → ∞."
        )
    rate = degree * (degree + dim - 2) / beta
    if normalized:
        return rate
    log_mean = float(log_reduced_bessel(dim / 2 - 1, 0, beta))
    return rate * math.exp(log_mean) if log_mean < 709 else math.inf


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1 / 16:
        raise ValueError(f"epsilon must lie in (0, 1/16), got {epsilon}; caps must be small.")
