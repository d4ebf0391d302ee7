"""How smooth attention is as a map of tokens, and how fast n tokens approach the mean field."""

from __future__ import annotations

import math
from dataclasses import dataclass


def token_lipschitz(
    radius: float, beta: float, *, tokens: int, score_norm: float = 1.0, value_norm: float = 1.0
) -> float:
    """Lipschitz constant of softmax attention on n tokens in a ball of radius R, Euclidean norm.

    Lip ≤ ‖V‖(√c (1+b) + b),  b = |β|‖QᵀK‖R²,  c = min(n, e^{2b}).

    Here `score_norm` = ‖QᵀK‖ and `value_norm` = ‖V‖ (spectral). Source: the √n law, its sharpness
    for moderate n and the n-free regime are from [castin2023smooth]. The constant is derived here
    and needs no look-up: the derivative along (h_j) is VΣ_jP_ijh_j + V Cov_i A h_i +
    VΣ_jP_ij(x_j−m_i)⟨Ax_i,h_j⟩ with A = βKᵀQ; softmax covariances are at most R², and column sums
    of P are at most n and at most e^{2b}. Valid for unmasked attention with equal weights (causal
    masks: take c = n). Never below the truth; random tokens lie well under it.

    >>> round(token_lipschitz(1.0, 3.0, tokens=100), 3)
    43.0
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, got {tokens}; attention needs one token.")
    b = _score(radius, beta, score_norm)
    columns = math.exp(min(math.log(tokens), 2 * b))
    return value_norm * (math.sqrt(columns) * (1 + b) + b)


def mean_field_lipschitz(
    radius: float, beta: float, *, score_norm: float = 1.0, value_norm: float = 1.0
) -> float:
    """Lipschitz constant in W_2 of attention as a map of measures on a ball of radius R.

    Lip ≤ ‖V‖(e^b (1+b) + b),  b = |β|‖QᵀK‖R²: independent of the number of tokens.

    Source: existence and the exponential growth in b are from [castin2023smooth]; the constant is
    the limit n → ∞ of `token_lipschitz`, derived here along a displacement interpolation.

    >>> round(mean_field_lipschitz(radius=1.0, beta=1.0), 3)
    6.437
    """
    b = _score(radius, beta, score_norm)
    return value_norm * ((math.exp(b) if b < 709 else math.inf) * (1 + b) + b)


@dataclass(frozen=True)
class ChaosRate:
    """Rates n^{exponent} at which n random tokens approach the mean-field flow on [0, T]."""

    token_exponent: float
    wasserstein_exponent: float
    logarithm: bool
    statement: str


def propagation_of_chaos(dim: int) -> ChaosRate:
    """How fast n independent random tokens on S^{d−1} follow the mean-field equation.

    - tokens: E sup_{t≤T} ‖x_i(t) − x̄_i(t)‖ ≤ C(T,β) n^{−1/2}, x̄_i independent mean-field tokens
      with the same starts; the same rate holds for averages of smooth functions of the tokens.
    - measures: E W_1(μ^n_t, μ_t) ≤ C(T,β) n^{−1/2} for d = 2, n^{−1/2} log n for d = 3 and
      n^{−1/(d−1)} for d ≥ 4: the sampling rate of the start, carried by the flow.

    Source: [sznitman1991topics] for the coupling, [fournier2015rate] for W_1 sampling rates on a
    space of dimension d−1, [chen2026propagation] for attention. C grows like e^{L_f T}, so the
    rates say nothing past T of order log n/(2L_f), the time to leave uniform.

    >>> propagation_of_chaos(8).wasserstein_exponent == -1 / 7
    True
    """
    if dim < 2:
        raise ValueError(f"dim must be at least 2, got {dim}; tokens move on S^(dim-1).")
    exponent = -1 / max(2, dim - 1)
    log = dim == 3
    statement = (
        "Each token stays within C(T) n^(-1/2) of its independent mean-field copy in expectation; "
        f"the empirical measure within C(T) n^({exponent:.4g}){' log n' if log else ''} in W_1."
    )
    return ChaosRate(-0.5, exponent, log, statement)


def _score(radius: float, beta: float, score_norm: float) -> float:
    if not radius > 0:
        raise ValueError(f"radius must be positive, got {radius}; on the sphere it is 1.")
    return abs(beta) * score_norm * radius * radius
