"""A feed-forward layer against attention: growth rates beside a weak potential on the circle.

Attention moves tokens of the circle up its own potential, a feed-forward layer w σ(ax + b) with
w = aᵀ up another one, U. Here U = ε cos(mθ): m wells of strength ε, contracting at the rate εm².
Where both pull at once the uniform measure is no longer at rest; what takes its place is the
*balanced* density, in which each token is pulled equally hard by both.

Unnormalised attention (USA) is solved to the end: W∗ρ + U is constant for

    ρ = 1 − s cos(mθ),  s = ε/ε_c,  ε_c = λ_m/m²,

a density while s ≤ 1. Around it ḣ = −∂(ρ ∂(W∗h)), in Fourier coefficients
ḣ_j = λ_j h_j − (s/2) Σ_± j (j∓m) ŵ_{j∓m} h_{j∓m}, with ŵ_k = λ_k/k². The balance is as unstable
as the uniform measure was: it tells how fast clusters form, and the side on which a start lies of
it tells where. Derived here; the tests hold it against the flow of tokens.
"""

from __future__ import annotations

import math

import numpy as np

from metastable.theory.bessel import bessel_ratio
from metastable.theory.spectrum import growth_rates


def balanced_strength(beta: float, wells: int, *, normalized: bool = True) -> float:
    """ε_c = λ_m/m²: from here on the wells alone decide, and no density balances both.

    SA: I_m(β)/(β I_0(β)), to first order in ε; USA: I_m(β)/β, exactly. Below it attention's growth
    of mode m outruns the contraction εm² of the wells.

    >>> round(balanced_strength(5.0, 3), 6)  # 0.682678/9
    0.075853
    """
    _check(beta, wells)
    rate = growth_rates(beta, 2, wells, normalized=normalized)[wells - 1]
    return float(rate) / wells**2


def pinning_strength(beta: float, wells: int, tokens: int, *, normalized: bool = True) -> float:
    """2ε_c/√n: from here on the wells, and not the chance of the start, say where clusters form.

    Mode m of n independent tokens starts at |μ̂_m| ≈ 1/√n, and the wells feed it with εm²/2 at all
    times: after a while that counts as a start at εm²/(2λ_m), see `forced_growth`. Derived here.

    >>> round(pinning_strength(5.0, 3, 400) / balanced_strength(5.0, 3), 12)
    0.1
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}; there is nothing to pin.")
    return 2 * balanced_strength(beta, wells, normalized=normalized) / math.sqrt(tokens)


def tearing_strength(wells: int) -> float:
    """1/m² (SA clock): from here on the layer tears a finished cluster apart.

    Tokens of one cluster approach each other at rate 1, whatever β; at the top of a hill between
    two wells the layer drives them apart at rate εm². Below it a cluster moves as a whole.
    Derived here.
    """
    if wells < 1:
        raise ValueError(f"wells must be at least 1, got {wells}; one well is the least.")
    return 1.0 / wells**2


def perturbed_rates(beta: float, share: float, wells: int, modes: int) -> np.ndarray:
    """The `modes` largest growth rates around the balanced density (USA clock), largest first.

    `share` is s = ε/ε_c in [0, 1]. Every rate of the uniform measure is there twice (sine and
    cosine); they are real, since −∂ρ∂ and W are both positive. Galerkin in waves up to where
    ŵ_k/ŵ_0 < 1e−18, which is exact to rounding.

    >>> perturbed_rates(3.0, 0.0, 2, 4).round(4).tolist()  # λ_2 and λ_3, twice
    [2.9936, 2.9936, 2.8793, 2.8793]
    """
    _check(beta, wells)
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1], got {share}; beyond, no density balances.")
    top = max(modes, wells, 8)
    while bessel_ratio(0.0, np.array([top]), beta)[0] > 1e-18:
        top += 4
    k = np.r_[-top:0, 1 : top + 1]
    rates = growth_rates(beta, 2, top, normalized=False)[np.abs(k) - 1]
    weight = rates / k**2
    hop = np.abs(k[:, None] - k[None, :]) == wells
    # In the metric of W the matrix is symmetric, so its eigenvalues come out real.
    root = np.sqrt(weight) * k
    matrix = np.diag(rates) - (share / 2) * hop * root[:, None] * root[None, :]
    return np.linalg.eigvalsh(matrix)[::-1][:modes]


def rate_shift(beta: float, share: float, wells: int, mode: int) -> tuple[float, float]:
    """λ_k(s) to leading order in s, lower and upper branch (USA clock).

    m = 2k, where the layer couples the waves k and −k: λ_k (1 ± s/2).
    Otherwise λ_k + (s²/4) Σ_± λ_k λ_{k±m}/(λ_k − λ_{k±m}), with λ_0 = 0, both branches alike. So
    rates repel each other, and the largest one can only grow: a layer too weak to balance
    attention makes clusters form sooner, not later. Derived here. Valid while sλ_k is small against
    the gaps λ_k − λ_{k±m}.

    >>> lower, upper = rate_shift(3.0, 0.1, 4, 2)
    >>> round(upper / lower, 6)
    1.105263
    """
    _check(beta, wells)
    rates = np.r_[0.0, growth_rates(beta, 2, mode + wells, normalized=False)]
    own = rates[mode]
    if wells == 2 * mode:
        return float(own * (1 - share / 2)), float(own * (1 + share / 2))
    near = rates[[mode + wells, abs(mode - wells)]]
    shifted = own + share**2 / 4 * np.sum(own * near / (own - near))
    return float(shifted), float(shifted)


def forced_growth(rate: float, strength: float, wells: int, start: complex, t: float) -> complex:
    """μ̂_m(t) = (μ̂_m(0) + εm²/(2λ_m)) e^{λ_m t} − εm²/(2λ_m): mode m near the uniform measure.

    `rate` is λ_m on either clock, `start` μ̂_m(0). Valid while |μ̂_m| is small against 1.
    """
    forced = strength * wells**2 / (2 * rate)
    return (start + forced) * math.exp(rate * t) - forced


def _check(beta: float, wells: int) -> None:
    if not 0 < beta < math.inf:
        raise ValueError(f"beta must be finite and > 0, got {beta}; at 0 one mode alone grows.")
    if wells != int(wells) or wells < 1:
        raise ValueError(f"wells must be an integer >= 1, got {wells}; one well is the least.")
