"""Long contexts: what one attention layer does when β grows with the number of tokens."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from metastable.theory.causal import cap_measure


def critical_scaling(correlation: float) -> float:
    """Critical γ = 1/(1−ρ) in β_n = γ log n for tokens of common correlation ρ.

    Source: [chen2025critical, Thm 2.1]. Below it one layer collapses all tokens, above it the
    layer is the identity.

    >>> critical_scaling(0.5)
    2.0
    """
    _check(correlation)
    return 1 / (1 - correlation)


def layer_correlation(correlation: float, gamma: float, tokens: float = math.inf) -> float:
    """Correlation of the tokens after one attention layer with β = γ log n.

    n → ∞: ρ ↦ 1, 4ρ/(1+3ρ), ρ for γ below, at, above 1/(1−ρ).
    Finite n, exact: with p, q the weights on oneself and on each other token,
    a = p−q, σ = 1+(n−1)ρ and m = 2aqσ + q²nσ,  ρ' = (a²ρ+m)/(a²+m).

    Source: [chen2025critical, Thm 2.1] for the limit; the finite-n form is derived here. Valid for
    n unit tokens with all pairwise inner products ρ in (0, 1), Q = K = V = I, no residual branch,
    output normalised. The approach to the limit is slow, like n^{−|γ(1−ρ)−1|}.

    >>> layer_correlation(0.5, gamma=2.0)
    0.8
    >>> round(layer_correlation(0.5, gamma=2.0, tokens=1000), 4)
    0.8003
    """
    _check(correlation)
    rho = correlation
    if not gamma >= 0:
        raise ValueError(f"gamma must be ≥ 0, got {gamma}; it multiplies log n.")
    critical = critical_scaling(rho)
    if math.isinf(tokens):
        if math.isclose(gamma, critical, rel_tol=1e-12):
            return 4 * rho / (1 + 3 * rho)
        return 1.0 if gamma < critical else rho
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}; one token has no correlation.")
    n = tokens
    wall = n ** (-gamma * (1 - rho))  # e^{β(ρ−1)}: attention of another token relative to oneself
    p = 1 / (1 + (n - 1) * wall)
    q = p * wall
    a, sigma = p - q, 1 + (n - 1) * rho
    shared = 2 * a * q * sigma + q * q * n * sigma
    return (a * a * rho + shared) / (a * a + shared)


class WindowLaw(NamedTuple):
    """Expectations over one row of attention weights w: Σw², max w, −Σ w log w."""

    participation: float
    largest: float
    entropy: float


class RowLaw(NamedTuple):
    """Expectations over one row as in `WindowLaw`, and standard deviations of the first two."""

    participation: float
    largest: float
    entropy: float
    participation_spread: float
    largest_spread: float


def critical_beta(dim: int, tokens: float, scale: float = 1.0) -> float:
    """β = λ n^{2/(d−1)}, at which a token attends to finitely many of n on S^{d−1}.

    Source: [bruno2026scaling, abstract] for the exponent; λ = `scale` is the place in the window.

    >>> critical_beta(3, 1000, 0.5)
    500.0
    """
    _check_dim(dim)
    return scale * tokens ** (2 / (dim - 1))


def window_law(scale: float, dim: int, *, own: bool = True) -> WindowLaw:
    """Limit law of one attention row in the critical window β = λ n^{2/(d−1)}.

    Weights ∝ exp(−(λ/2)(Γ_i/K_d)^{2/(d−1)}), Γ_i the arrivals of a unit Poisson process,
    K_d = Γ(d/2)/(2√π Γ((d+1)/2)); with `own` also the weight 1 of the token itself.

    Source: [bruno2026scaling, abstract] says that finitely many nearest keys keep mass; the law is
    derived here from the measure K_d δ^{d−1} of a small cap of radius δ. Valid for n → ∞ uniform
    tokens; the first correction is of order 1/β, and 1/n on S². Without `own` the query is
    no token of the context, as in the paper. On S² that changes nothing: the nearest token takes
    the place of the token itself, and what lies beyond it is a Poisson process again.

    Quadrature, no sampling: with the weight of the nearest token taken for 1, at arrival g, let
    ζ(γ) ≤ 1 be the others and Φ(v) = ∫_g^∞ (1−e^{−vζ})dγ. Then by Campbell's formula
    E max w = ∫_0^∞ e^{−v−Φ}dv, E Σw² = ∫_0^∞ v e^{−v−Φ}(1 + ∫ζ²e^{−vζ}dγ)dv, and the entropy is
    ∫_0^∞ (e^{−v}(1−e^{−Φ})/v − e^{−v−Φ}∫ζ log ζ e^{−vζ}dγ)dv. `own` is g = 0; else g is
    exponential. Relative error below 1e−9 for λ between 1e−6 and 1e6.

    Limits: λ → 0 (below the window): Σw² → (λ/2)^a/(2^a K_d Γ(a+1)), a = (d−1)/2: a local mean over
    ever more tokens. λ → ∞ (above it): all weight on one token, the identity with `own`.

    >>> [round(value, 4) for value in window_law(1.0, dim=3)]
    [0.6353, 0.7295, 0.6688]
    >>> [round(window_law(1.0, dim=4, own=own).participation, 3) for own in (True, False)]
    [0.449, 0.346]
    """
    _check_dim(dim)
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be positive and finite, got {scale}; it is β/n^(2/(d−1)).")
    a = (dim - 1) / 2
    c = scale / 2 * cap_constant(dim) ** (-1 / a)  # exponent of a weight: c Γ^{1/a}
    if own:
        return WindowLaw(*_law_beyond(0.0, c, a))
    # g = e^x by the trapezoid rule, whose error falls exponentially; e^{−g} g dx.
    x = np.arange(-24.0, 3.8, 0.4)
    laws = np.array([_law_beyond(g, c, a) for g in np.exp(x)])
    return WindowLaw(*(0.4 * np.exp(x - np.exp(x)) @ laws).tolist())


def row_law(beta: float, dim: int, tokens: int) -> RowLaw:
    """One attention row among n independent uniform tokens on S^{d−1}, for any n and β: exact.

    With ζ = e^{−β(1−t)}, t the inner product with an independent uniform token, L(v) = E e^{−vζ}
    and N = n−1, Laplace's 1/S² = ∫_0^∞ v e^{−vS}dv gives E max w = ∫ e^{−v}L^N dv and
    E Σw² = ∫ v e^{−v}(L^N + N L^{N−1} E ζ²e^{−vζ})dv; the token itself has ζ = 1, the largest.

    Derived here. Limits: β fixed, n → ∞: nE Σw² → E ζ²/(E ζ)²; β = λn^{2/(d−1)}: `window_law`.
    Quadrature; relative error below 1e−9 (mpmath), spreads to 1e−7.

    >>> [round(row_law(beta, 3, 1000).participation, 4) for beta in (0.0, 10.0, 1e3, 1e5)]
    [0.001, 0.01, 0.6354, 0.995]
    """
    _check_dim(dim)
    if not 0 <= beta < math.inf:
        raise ValueError(f"beta must be finite and ≥ 0; got {beta}: it is an inverse temperature.")
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2; got {tokens}: one token sees itself alone.")
    # (1−t)/2 = s = 1/(1+e^{−x}) has the density (s(1−s))^a dx, narrow for large d.
    a = (dim - 1) / 2
    h = min(0.1, 0.5 * math.sqrt(2 / a))
    x = np.arange(-75.0 - math.log1p(2 * beta), 75.0, h)
    log = -a * (np.logaddexp(0.0, x) + np.logaddexp(0.0, -x))
    density = np.exp(log - log.max())
    kept = density > 1e-40
    y, density = 2 * beta / (1 + np.exp(-x[kept])), density[kept]
    density = (tokens - 1) / density.sum() * density
    first, largest, entropy, second, square = _laplace(y, density, tokens - 1)
    spread = [math.sqrt(max(m - e * e, 0.0)) for m, e in ((second, first), (square, largest))]
    return RowLaw(first, largest, entropy, *spread)


def context_regime(beta: float, dim: int, tokens: int) -> str:
    """How a token looks at n uniform ones on S^{d−1}: "mean field", "critical" or "hard".

    By E Σw² of `row_law`, one over the number of tokens that count: below 1/10 a mean over many,
    above 9/10 one token alone, between them a few. Source: [bruno2026scaling, abstract] for the
    three regimes of n → ∞, β far below n^{2/(d−1)}, of its order, and far above; the levels 1/10
    and 9/10 are a convention. On S² they are λ = β/n = 0.0974 and 4.65.

    >>> [context_regime(beta, 3, 10**6) for beta in (1e3, 1e6, 1e9)]
    ['mean field', 'critical', 'hard']
    """
    share = row_law(beta, dim, tokens).participation
    return "mean field" if share < 0.1 else "hard" if share > 0.9 else "critical"


def _law_beyond(g: float, c: float, a: float) -> tuple[float, float, float]:
    """The three expectations when the nearest token, at arrival g, has weight 1."""
    # y = −log ζ = c(γ^{1/a} − g^{1/a}) = e^x, so that dγ = a c^{−a} (y + c g^{1/a})^{a−1} y dx.
    y = np.exp(np.arange(-75.0, 6.7, 0.1))
    density = 0.1 * a * (y / c + g ** (1 / a)) ** (a - 1) * y / c
    participation, largest, entropy, *_ = _laplace(y, density, math.inf)
    return participation, largest, entropy


def _laplace(y: np.ndarray, density: np.ndarray, others: float) -> tuple[float, ...]:
    """Expectations over a row of the weight 1 and of `others` more, ζ = e^{−y} of total `density`.

    E Σw², E max w, entropy, E (Σw²)², E (max w)². Finitely many others are independent, with one
    law, so that E e^{−vΣζ} is L^N, L = 1 − Φ/N; infinitely many are a Poisson process, e^{−Φ}.
    """
    zeta = np.exp(-y)
    mean = 1 + float(density @ zeta)
    logs = np.arange(-38.0 - math.log(mean), 4.0, 0.1)
    sums = np.empty((5, logs.size))
    for k, v in enumerate(np.exp(logs)):
        damped = np.exp(-v * zeta)
        sums[:, k] = (
            density @ -np.expm1(-v * zeta),
            density @ (zeta**2 * damped),
            density @ (zeta**4 * damped),
            -(density @ (zeta * y * damped)),
            1.0 if others == math.inf else density @ damped / others,
        )
    # L is what each token that is singled out takes away once.
    phi, squares, fourth, logarithms, one = sums
    v = np.exp(logs)
    if others < math.inf:
        # Near L = 1 its logarithm is that of 1 − Φ/N; far from it L itself has the digits.
        near = np.log1p(-np.minimum(phi / others, 0.5))
        phi = -others * np.where(phi < 0.5 * others, near, np.log(one))
    weight = 0.1 * np.exp(-v - phi) * v
    squares, fourth, logarithms = squares / one, fourth / one, logarithms / one
    pairs = (1 - 1 / others) * squares**2
    largest = float(weight.sum())
    participation = float(weight @ (v * (1 + squares)))
    entropy = float(-0.1 * np.exp(-v) @ np.expm1(-phi) - weight @ logarithms)
    second = float(weight @ (v**3 * (1 + 2 * squares + fourth + pairs))) / 6
    return participation, largest, entropy, second, float(weight @ v)


def cap_constant(dim: int) -> float:
    """K_d = Γ(d/2)/(2√π Γ((d+1)/2)): a cap of small radius δ has measure K_d δ^{d−1}.

    >>> round(cap_constant(3), 12)
    0.25
    """
    _check_dim(dim)
    return math.exp(math.lgamma(dim / 2) - math.lgamma((dim + 1) / 2)) / (2 * math.sqrt(math.pi))


def expected_gap_count(gap: float, dim: int, tokens: float) -> float:
    """Expected number of other tokens whose inner product with a given one is 1 − `gap` or more.

    E N_n(g) = (n−1) σ(B_δ), cos δ = 1 − g, and n K_d (2g)^{(d−1)/2} for small gaps.

    Source: the cap measure; N_n is the gap-counting function of [hayase2026unified, abstract], of
    logits divided by β. Exact for uniform tokens on S^{d−1}; on S² it is (n−1)g/2.

    >>> round(expected_gap_count(0.5, 3, 9), 12)
    2.0
    """
    if not 0 <= gap <= 2:
        raise ValueError(f"gap must lie in [0, 2], got {gap}; inner products do.")
    return (tokens - 1) * cap_measure(math.acos(1 - gap), dim)


def accumulation_scale(gaps: Any, counts: Any) -> float:
    """β above which one token outweighs all competitors of a row: max_g log N(g)/g.

    `counts` N(g) of tokens within the increasing positive `gaps` g of the largest logit at β = 1,
    itself counted.

    Source: derived here (N(g) tokens at gap g weigh N e^{−βg} against 1); [hayase2026unified]
    define a scale of this kind by N, in a form that was not read. It gives the laws they name:
    n tokens at one gap 1−ρ: log n/(1−ρ) (`critical_scaling`); Gaussian scores, log N ≈ g√(2 log n)
    − g²/2: (2 log n)^{1/2}; one gap 1/log n: (log n)². On S^{d−1} it is of order n^{2/(d−1)}.

    >>> accumulation_scale([0.5], [math.e**3])
    6.0
    """
    gaps, counts = np.asarray(gaps, float), np.asarray(counts, float)
    if gaps.shape != counts.shape or gaps.size == 0 or not np.all(gaps > 0):
        raise ValueError("gaps must be positive, one for each of counts; got other shapes or zero.")
    return float(np.max(np.log(np.maximum(counts, 1.0)) / gaps))


def _check_dim(dim: int) -> None:
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; S^0 has no caps.")


def _check(correlation: float) -> None:
    if not 0 < correlation < 1:
        raise ValueError(
            f"correlation must lie in (0, 1), got {correlation}; it is a common inner product."
        )
